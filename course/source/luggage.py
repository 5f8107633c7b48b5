"""What an answer takes along from one notebook into another, and how it is written there."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from course.source.cells import Notebook, Statement
from course.source.indentation import indent, split_lines
from course.source.names import is_local
from course.source.surroundings import Unit, surroundings


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A unit that becomes a cell; `stubs` are what it stands in for, if it holds answers."""

    unit: Unit
    stubs: tuple[Statement, ...]

    @property
    def binds(self) -> set[str]:
        """The names that it binds for other cells."""
        return {n for item in self.unit for n in item.binds if not is_local(n)}

    @property
    def needs(self) -> set[str]:
        """The names that it takes from other cells, or from Python."""
        return {n for item in self.unit for n in item.uses} - self.binds


class Luggage:
    """Collects answers for a new notebook, `fresh`, with all that they use and it lacks."""

    def __init__(self, fresh: Notebook) -> None:
        self.fresh = fresh
        self.pieces: list[Piece] = []
        self.setup: list[str] = []  # statements for the setup cell
        self.along: dict[str, str] = {}  # name -> source
        self.notes: list[str] = []
        self._brought: set[str] = set()  # sources of statements
        self.theirs = {n for item in fresh.statements for n in item.binds if not is_local(n)}

    def add(self, answers: Mapping[str, Statement], source: Notebook) -> None:
        """Take answers of `source`, by name with the stubs they replace, and what they use."""
        bound = [item for name in answers for item in source.binding(name)]
        around = surroundings(source, bound, self.theirs.difference(answers))
        for imported, item in around.imports:
            if self._is_new([imported], item.only(imported)):
                self.setup.append(item.only(imported))
        used = {n for item in around.statements for n in item.uses}
        units = [self._left_of(unit) for unit in around.units]
        for unit in units:
            binds = {name for item in unit for name in item.binds}
            piece = Piece(unit, tuple(stub for name, stub in answers.items() if name in binds))
            text = "\n".join(item.source for item in unit)
            if not piece.stubs and not (
                unit and self._is_new(sorted(piece.binds & used) or [text], text)
            ):
                continue
            if unit[0].place == "setup" and not piece.stubs:
                self.setup.append(text)
            else:
                self.pieces.append(piece)
        self._brought |= {item.source for unit in units for item in unit}
        self.notes += [f"`{n}`, which `{user}` uses, was not found." for n, user in around.unknown]
        self.notes += [
            f"`{item.title}` was left out, because the new lesson has "
            f"`{min(item.binds & self.theirs)}` too."
            for item in around.clashing
        ]
        for item in around.statements:
            for each in sorted(item.uses & self.theirs):
                if _differ(each, source.binding(each, item.cell), self.fresh.binding(each)):
                    words = f"`{each}`, which `{item.title}` uses, is the new lesson's own now."
                    self.notes.append(words)

    def names_along(self) -> list[str]:
        """Return the names of what answers use and the lesson lacks."""
        answers = {name for piece in self.pieces if piece.stubs for name in piece.binds}
        return sorted(name for name in self.along if name.isidentifier() and name not in answers)

    def _left_of(self, unit: Unit) -> Unit:
        """What of the unit no other text has brought; what is its cell's own comes each time."""
        known = {item for item in unit if item.source in self._brought}
        left = [item for item in unit if item not in known or _is_private(item)]
        return tuple(left) if any(item not in known for item in unit) else ()

    def _is_new(self, names: list[str], text: str) -> bool:
        """Whether the text is new; notes its names."""
        known = [name for name in names if name in self.along]
        for name in known:
            if self.along[name] != text:
                self.notes.append(f"`{name}` was found twice; the first one was taken.")
        self.along |= {name: text for name in names if name not in known}
        return not known

    def written_into(self, text: str) -> str:
        """The text of `fresh` with every answer in its stub's place."""
        lines = split_lines(text)
        names_of_cells = self._names_of_cells()
        edits: list[tuple[int, int, list[str]]] = []
        for before, answer in self._by_answers():
            for number, stub in enumerate(answer.stubs):
                made: list[str] = []
                if number == 0:
                    for piece in before:
                        made += [*_written(piece, ["@app.function"], names_of_cells), "", ""]
                    mark = lines[stub.lines[0] - 1 : stub.line - 1]
                    made += _written(answer, mark, names_of_cells)
                edits.append((stub.lines[0] - 1, stub.lines[1], made))
        if self.setup:
            edits.append(self._setup_cell(lines))
        for start, end, made in sorted(edits, reverse=True):
            lines[start:end] = made
        return "\n".join(lines)

    def _by_answers(self) -> list[tuple[list[Piece], Piece]]:
        """Each answer's piece, in the lesson's order, after those that no answer before it needs.

        A piece of which no name is used, such as a call, goes with what it may change.
        """
        answers = [piece for piece in self.pieces if piece.stubs]
        answers.sort(key=lambda piece: piece.stubs[0].line)
        used = {name for piece in self.pieces for name in piece.needs}
        made: list[tuple[list[Piece], Piece]] = []
        left = [piece for piece in self.pieces if not piece.stubs]
        for answer in answers:
            needed, before = set(answer.needs), list[Piece]()
            while found := [
                piece
                for piece in left
                if answer is answers[-1] or (piece.binds & used or piece.needs) & needed
            ]:
                before += found
                needed |= {name for piece in found for name in piece.needs}
                left = [piece for piece in left if piece not in found]
            made.append((sorted(before, key=self.pieces.index), answer))
        return made

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
        """The names that cells bind: a piece that needs one of them must be a cell itself."""
        names = {n for item in self.fresh.statements if item.place == "cell" for n in item.binds}
        waiting = list(self.pieces)
        while found := [each for each in waiting if not _is_definition(each) or each.needs & names]:
            names |= {name for piece in found for name in piece.binds}
            waiting = [piece for piece in waiting if piece not in found]
        return names


def _is_private(item: Statement) -> bool:
    """Whether it only serves names that its cell keeps to itself."""
    return all(map(is_local, item.binds)) and any(map(is_local, item.binds | item.uses))


def _is_definition(piece: Piece) -> bool:
    kinds = ast.FunctionDef | ast.ClassDef
    return len(piece.unit) == 1 and bool(piece.binds) and isinstance(piece.unit[0].node, kinds)


def _written(piece: Piece, mark: list[str], names_of_cells: set[str]) -> list[str]:
    """The unit as marimo writes it: a cell, or a function or class at the top of the file."""
    source = "\n".join(item.source for item in piece.unit)
    if piece.binds & names_of_cells or not _is_definition(piece):
        taken = ", ".join(sorted(piece.needs & names_of_cells))
        given = sorted(piece.binds)
        last = piece.unit[-1].node
        gap = [""] if isinstance(last, ast.FunctionDef | ast.ClassDef) else []
        shown = (
            f"return ({given[0]},)" if len(given) == 1 else f"return {', '.join(given)}".rstrip()
        )
        mark = [line.replace("@app.function", "@app.cell") for line in mark]
        return [
            *mark,
            f"def _({taken}):",
            *split_lines(indent(source)),
            *gap,
            f"    {shown}".rstrip(),
        ]
    if isinstance(piece.unit[0].node, ast.ClassDef):
        mark = [line.replace("@app.function", "@app.class_definition") for line in mark]
    return [*mark, *split_lines(source)]


def _differ(name: str, old: tuple[Statement, ...], new: tuple[Statement, ...]) -> bool:
    """Whether two notebooks bind a name to different things; a stub counts as nothing."""
    if not old or any(item.is_stub for item in (*old, *new)):
        return False
    return [_dump(item, name) for item in old] != [_dump(item, name) for item in new]


def _dump(item: Statement, name: str) -> str:
    return ast.dump(ast.parse(item.only(name)))
