"""Cuts a notebook's text into the statements of its cells.

Uses only `ast`: nothing is run, and a broken cell does not hide the others.
"""

import ast
import bisect
import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from course.moves import with_todays_modules
from course.source.cells import Broken, Notebook, Place, Statement
from course.source.indentation import dedent, split_lines
from course.source.magics import UNREADABLE, as_python
from course.source.names import names_of

CELL_MARK = "# %%"
"""The line at which a cell begins in a plain file, as Jupytext and editors have it."""
_LONGEST_PART = 4  # cells' beginnings in one cell


def read_notebook(text: str) -> Notebook:
    """Cut a notebook's file. What stands there without marimo's decorators is one cell.

    Lines that begin with CELL_MARK cut it into several. Imports of modules that have moved since
    the text was written get their names of today.
    """
    lines = split_lines(with_todays_modules(text))
    nodes: list[ast.stmt] = []
    broken: list[Broken] = []
    for start, found in _parts(lines):
        if isinstance(found, Broken):
            broken.append(found)
        else:
            nodes += ast.increment_lineno(found, start).body
    statements: list[Statement] = []
    inside = {n for node in nodes for n in range(node.lineno, (node.end_lineno or 0) + 1)}
    marks = [
        number
        for number, line in enumerate(lines, 1)
        if line.startswith(CELL_MARK) and number not in inside
    ]
    for node in nodes:
        cell = max([0, *marks[: bisect.bisect(marks, node.lineno)][-1:]])
        try:
            statements += _statements(node, lines, cell)
        except UNREADABLE as error:
            source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            kept, _ = _unparsable(node) or (source, 0)
            broken.append(Broken(kept, node.lineno, _why(error)))
    return Notebook(tuple(statements), tuple(broken))


def read_cells(sources: Iterable[str]) -> Notebook:
    """Cut the sources of a running notebook's cells."""
    cells = enumerate(sources)
    return Notebook(tuple(item for number, source in cells for item in _cell(source, number)))


@functools.lru_cache(1024)  # a check reads the whole notebook, of which one cell has changed
def _cell(source: str, number: int) -> list[Statement]:
    source = as_python(source)
    try:
        return _cut(ast.parse(source).body, split_lines(source), number, "cell")
    except UNREADABLE:
        return []


def _parts(lines: list[str]) -> Iterator[tuple[int, ast.Module | Broken]]:
    """The whole file, or each of its cells where the whole cannot be parsed, by its first line.

    A file without cells is cut at its functions. What looks like a beginning may stand in a text of
    the part before: both are one part.
    """
    whole = _parsed(lines, 0, len(lines))
    if isinstance(whole, ast.Module):
        yield 0, whole
        return
    marks = ("@app.", "with app.", "app._", "if __name__", CELL_MARK)
    if not any(line.startswith(marks[:3]) for line in lines):
        marks += ("def ", "async def ", "class ", "@")
    starts = sorted({0} | {n for n, line in enumerate(lines) if line.startswith(marks)})
    ends = [*starts[1:], len(lines)]
    while starts:
        tries = [_parsed(lines, starts[0], end) for end in ends[:_LONGEST_PART]]
        sound = next((n for n, made in enumerate(tries) if isinstance(made, ast.Module)), 0)
        yield starts[0], tries[sound]
        del starts[: sound + 1], ends[: sound + 1]


def _parsed(lines: list[str], start: int, end: int) -> ast.Module | Broken:
    part = "\n".join(lines[start:end])
    try:
        return ast.parse(part)
    except UNREADABLE as error:
        return Broken(part, start + 1, _why(error))


def _statements(node: ast.stmt, lines: list[str], cell: int) -> list[Statement]:
    """The statements of the cell that a node at the top of the file is, or of `cell`."""
    if isinstance(node, ast.With) and ast.unparse(node.items[0]).startswith("app.setup"):
        return _cut(node.body, lines, node.lineno, "setup")
    mark = ast.unparse(_app_mark(node) or ast.Pass())
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and mark.startswith("app.cell"):
        body = node.body[:-1] if isinstance(node.body[-1], ast.Return) else node.body
        return _cut(body, lines, node.lineno, "cell")
    kept = _unparsable(node)
    if kept is not None:
        source = as_python(kept[0])
        made = _cut(ast.parse(source).body, split_lines(source), node.lineno, "cell")
        return [replace(item, line=item.line + kept[1]) for item in made]
    if _is_marimos(ast.unparse(node)):
        return []
    if _app_mark(node):
        return _cut([node], lines, node.lineno, "top")
    return _cut([node], lines, cell, "cell" if cell else "loose")


def _app_mark(node: ast.stmt) -> ast.expr | None:
    marks = getattr(node, "decorator_list", [])
    return next((mark for mark in marks if ast.unparse(mark).startswith("app.")), None)


def _is_marimos(text: str) -> bool:
    around = (
        "app = marimo.App(",
        "__generated_with = ",
        "if __name__ == '__main__':\n    app.run(",
    )
    return text == "import marimo" or text.startswith(around)


def _unparsable(node: ast.stmt) -> tuple[str, int] | None:
    """The source of a cell that marimo could not read, and keeps as a text; None for another.

    With it, how many lines of the file are above it.
    """
    match node:
        case ast.Expr(
            ast.Call(ast.Attribute(attr="_unparsable_cell"), [ast.Constant(str(text)) as kept, *_])
        ):
            empty = len(text) - len(text.lstrip("\n"))
            return dedent(text).strip("\n"), kept.lineno + empty - 1
        case _:
            return None


def _why(error: BaseException) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "a byte that is not UTF-8"
    return error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__


def _cut(body: list[ast.stmt], lines: list[str], cell: int, place: Place) -> list[Statement]:
    """Cut a cell's statements out of the file, each with its comments."""
    made: list[Statement] = []
    floor = 0  # the last line of the statement before
    for node in body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(mark.lineno for mark in decorators)])
        last = _last_line(node, lines)
        mark = _app_mark(node)
        start = first if mark is None else (mark.end_lineno or mark.lineno) + 1
        while mark is None and start - 1 > floor and _is_comment(lines[start - 2]):
            start -= 1
        source = dedent("\n".join(lines[start - 1 : last]))
        if _is_shared(node, lines, source):
            source = ast.unparse(node)
        twin = ast.parse(source).body[0]
        names = names_of(source, twin)
        made.append(Statement(source, twin, start, (first, last), cell, place, names))
        floor = last
    return made


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") and not line.startswith(CELL_MARK)


def _last_line(node: ast.stmt, lines: list[str]) -> int:
    """The number of its last line, with the comments that close its body."""
    last = until = node.end_lineno or node.lineno
    if not hasattr(node, "body"):
        return last
    for number, line in enumerate(lines[until:], until + 1):
        if line.strip() and len(line) - len(line.lstrip()) <= node.col_offset:
            break
        if line.lstrip().startswith("#"):
            last = number
    return last


def _is_shared(node: ast.stmt, lines: list[str], source: str) -> bool:
    """Whether something else stands on its lines: `a = 1; b = 2`, or a cell's `def` itself."""
    if lines[node.lineno - 1].encode(errors="replace")[: node.col_offset].strip():
        return True
    try:
        return len(ast.parse(source).body) != 1
    except UNREADABLE:
        return True
