"""Carry a learner's answers from an old copy of a lesson into the new pristine one, cell by cell.

An answer's cell takes the place of the lesson's stub, and the other cells that it needs stand
before the first answer. Works on text only: none of the learner's code is run.
"""

import ast
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from course.source.answer import loose_lines, missing, needed
from course.source.cells import ALLOWED, Notebook, Statement
from course.source.cutting import read_notebook
from course.source.indentation import indent, split_lines
from course.source.names import is_local


@dataclass(frozen=True, slots=True)
class Carried:
    """The new lesson with the learner's answers in it.

    `names` were carried over, and `along` is what they use; `left` holds (name, reason) for
    answers that were not; `notes` are sentences on what could not be taken with them.
    """

    text: str
    names: tuple[str, ...]
    along: tuple[str, ...]
    left: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def sentences(self) -> list[str]:
        """Say what was carried over and what was not."""
        said = [f"Carried over: {', '.join(self.names)}."] if self.names else []
        said += [f"With what they use: {', '.join(self.along)}."] if self.along else []
        said += [f"Not carried over: {name}, because {why}." for name, why in self.left]
        return [*said, *self.notes]


def carry(old: str, new: str, passed: Mapping[str, str] | None = None) -> Carried:
    """Return `new` with the learner's functions of `old` in place of its stubs.

    `passed` maps function names to saved sources of passed answers: they stand in for functions
    that `old` no longer holds in readable form (a cell left with a syntax error, say).
    """
    mine, fresh = read_notebook(old), read_notebook(new)
    saved = {name: read_notebook(source) for name, source in (passed or {}).items()}
    stubs = {min(s.binds): s for s in fresh.statements if s.is_stub and s.place == "top"}
    merge = _Merge(fresh, stubs)
    merge.notes += loose_lines(mine)
    for name, stub in stubs.items():
        source = next((n for n in (mine, saved.get(name)) if n and answers(n, name)), None)
        why = _misfit(source, stub) if source else ""
        if why:
            merge.left.append((name, why))
        elif source is not None:
            merge.chosen[name] = source
    for source in dict.fromkeys(merge.chosen.values()):
        merge.take(source)
    for cell in mine.broken:
        names = dict.fromkeys(cell.names())  # merge markers may leave one twice
        lost = [name for name in names if name in stubs and name not in merge.chosen]
        merge.left += [(name, str(cell)) for name in lost]
        merge.notes += [] if lost or not cell.text.strip() else [f"Left out: {cell}."]
    along = sorted(name for name in merge.along if name not in merge.chosen)
    notes = tuple(dict.fromkeys(merge.notes))
    return Carried(merge.text(new), tuple(merge.chosen), tuple(along), tuple(merge.left), notes)


def answers(notebook: Notebook, name: str) -> bool:
    """Whether the notebook binds `name` to something other than a stub."""
    found = notebook.binding(name)
    return bool(found) and not any(item.is_stub for item in found)


def _misfit(source: Notebook, stub: Statement) -> str:
    """Why the answer cannot take the stub's place, as the end of a sentence; "" if it can."""
    wanted = _num_args(stub.node)[-1]
    if wanted in _num_args(source.binding(min(stub.binds))[-1].node):
        return ""
    return f"the lesson calls it with {wanted} arguments, which yours does not take"


def _num_args(node: ast.stmt) -> range:
    """The numbers of arguments that it can be called with; any number if that is not known."""
    if not isinstance(node, ast.FunctionDef):
        return range(sys.maxsize)
    args = node.args
    most = len(args.posonlyargs) + len(args.args)
    if None in args.kw_defaults:  # one that has to be named, which a lesson does not do
        return range(0)
    return range(most - len(args.defaults), sys.maxsize if args.vararg else most + 1)


class _Merge:
    """Collects the learner's cells for a new lesson, `fresh`. Mutable."""

    def __init__(self, fresh: Notebook, stubs: Mapping[str, Statement]) -> None:
        self.fresh, self.stubs = fresh, stubs
        self.chosen: dict[str, Notebook] = {}
        self.left: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.along: dict[str, str] = {}  # name -> source
        self.homes: dict[str, tuple[int, int]] = {}  # name -> the text and the cell it came from
        self.cells: list[list[Statement]] = []
        self.setup: list[str] = []  # statements for the setup cell

    def take(self, source: Notebook) -> None:
        """Take a text's chosen answers and the cells that they need and the lesson lacks."""
        names = [name for name, home in self.chosen.items() if home is source]
        needs = needed(source, names)
        theirs = _public(self.fresh.statements) - self.chosen.keys()
        self.notes += missing(source, needs).values()
        self.setup += [
            item.only(name)
            for name, item in needs.imports
            if (name in needs.names or item.module(name) in ALLOWED)
            and name not in theirs
            and self._is_new(name, item.only(name), (id(source), item.cell))
        ]
        for cell in needs.cells:
            kept = [each for each in cell if self._is_kept(each, source, theirs)]
            if kept and cell[0].place == "setup":
                self.setup += [each.source for each in kept]
            elif kept:
                self.cells.append(kept)

    def _is_kept(self, item: Statement, source: Notebook, theirs: set[str]) -> bool:
        """Whether the lesson lacks the statement; notes what differs."""
        for name in sorted(item.uses & theirs):
            if _differ(source.binding(name, item.cell), self.fresh.binding(name), name):
                words = f"`{name}`, which `{item.title}` uses, is the new lesson's own now."
                self.notes.append(words)
        if item.is_stub or item.binds & theirs or item.binds & self.left_names:
            return False
        home, public = (id(source), item.cell), [n for n in item.binds if not is_local(n)]
        return all(self._is_new(name, item.source, home) for name in public)

    @property
    def left_names(self) -> set[str]:
        """The answers that are not carried over."""
        return {name for name, _ in self.left}

    def _is_new(self, name: str, text: str, home: tuple[int, int]) -> bool:
        """Whether only this cell has brought the name so far: `A = cache(A)` goes with its def."""
        is_new = self.homes.setdefault(name, home) == home
        if self.along.setdefault(name, text) != text and not is_new:
            self.notes.append(f"`{name}` was found twice; the first one was taken.")
        return is_new

    def text(self, new: str) -> str:
        """The text of `fresh` with the learner's cells in it."""
        lines = split_lines(new)
        places = {name: self.stubs[name] for name in self.chosen}
        in_cells = self._names_of_cells()
        helpers = [cell for cell in self.cells if not _public(cell) & places.keys()]
        edits: list[tuple[int, int, list[str]]] = []
        done: set[str] = set()
        for name, stub in sorted(places.items(), key=lambda pair: pair[1].line):
            made: list[str] = []
            for helper in helpers:
                made += [*_written(helper, ["@app.function"], in_cells), "", ""]
            helpers = []
            cell = next(cell for cell in self.cells if name in _public(cell))
            if name not in done:
                made += _written(cell, lines[stub.lines[0] - 1 : stub.line - 1], in_cells)
            done |= _public(cell)
            edits.append((stub.lines[0] - 1, stub.lines[1], made))
        if self.setup:
            edits.append(self._setup_cell(lines))
        for start, end, made in sorted(edits, reverse=True):
            lines[start:end] = made
        return "\n".join(lines)

    def _setup_cell(self, lines: list[str]) -> tuple[int, int, list[str]]:
        made = [line for text in self.setup for line in split_lines(indent(text))]
        ends = [item.lines[1] for item in self.fresh.statements if item.place == "setup"]
        if ends:
            return max(ends), max(ends), made
        app = next(n for n, line in enumerate(lines) if line.startswith("app = "))
        while not lines[app].rstrip().endswith(")"):
            app += 1
        return app + 1, app + 1, ["", "with app.setup:", *made]

    def _names_of_cells(self) -> set[str]:
        """The names that cells bind: what needs one of them must be a cell itself."""
        names = _public(item for item in self.fresh.statements if item.place == "cell")
        waiting = list(self.cells)
        while found := [c for c in waiting if not _is_definition(c) or _needs(c) & names]:
            names |= {name for cell in found for name in _public(cell)}
            waiting = [cell for cell in waiting if cell not in found]
        return names


def _public(items: Iterable[Statement]) -> set[str]:
    return {name for item in items for name in item.binds if not is_local(name)}


def _needs(cell: Iterable[Statement]) -> set[str]:
    return {name for item in cell for name in item.uses} - _public(cell)


def _is_definition(cell: list[Statement]) -> bool:
    kinds = ast.FunctionDef | ast.ClassDef
    return len(cell) == 1 and bool(_public(cell)) and isinstance(cell[0].node, kinds)


def _written(cell: list[Statement], mark: list[str], in_cells: set[str]) -> list[str]:
    """The cell as marimo writes it: a function or class at the top of the file where it can be."""
    if _is_definition(cell) and not _public(cell) & in_cells:
        if isinstance(cell[0].node, ast.ClassDef):
            mark = [line.replace("@app.function", "@app.class_definition") for line in mark]
        return [*mark, *split_lines(cell[0].source)]
    source = "\n".join(item.source for item in cell)
    given = sorted(_public(cell))
    shown = f"({given[0]},)" if len(given) == 1 else ", ".join(given)
    gap = [""] if isinstance(cell[-1].node, ast.FunctionDef | ast.ClassDef) else []
    head = f"def _({', '.join(sorted(_needs(cell) & in_cells))}):"
    mark = [line.replace("@app.function", "@app.cell") for line in mark]
    return [*mark, head, *split_lines(indent(source)), *gap, f"    return {shown}".rstrip()]


def _differ(old: tuple[Statement, ...], new: tuple[Statement, ...], name: str) -> bool:
    """Whether two notebooks bind a name to different things; a stub counts as nothing."""
    if not old or any(item.is_stub for item in (*old, *new)):
        return False
    dumps = ([ast.dump(ast.parse(item.only(name))) for item in items] for items in (old, new))
    return next(dumps) != next(dumps)
