"""What an answer takes along from one notebook into another, and how it is written there."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from course.source.cells import Notebook, Statement
from course.source.indentation import indent, split_lines
from course.source.names import is_local


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Statements of one cell: what binds something public, after what the cell keeps to itself.

    `stub` is what it stands in for, if it is an answer.
    """

    statements: tuple[Statement, ...]
    stub: Statement | None

    @property
    def binds(self) -> set[str]:
        """The names that it binds for other cells."""
        return {n for item in self.statements for n in item.binds if not is_local(n)}

    @property
    def needs(self) -> set[str]:
        """The names that it takes from other cells, or from Python."""
        return {n for item in self.statements for n in item.needs | item.annotations} - self.binds


class Luggage:
    """Collects answers for a new notebook, `fresh`, with all that they use and it lacks."""

    def __init__(self, fresh: Notebook) -> None:
        self.fresh = fresh
        self.units: list[Unit] = []
        self.setup: list[str] = []  # statements for the setup cell
        self.along: dict[str, str] = {}  # name -> source
        self.notes: list[str] = []
        self._theirs = {n for item in fresh.statements for n in item.binds if not is_local(n)}

    def add(self, name: str, stub: Statement, source: Notebook) -> None:
        """Take the answer `name` of `source` for its stub, and what it uses before it."""
        answer = source.binding(name)
        needed, unknown = source.needed_by(answer, lambda used: used not in self._theirs)
        used = {n for item in needed for n in item.needs | item.annotations} - self._theirs
        for item in sorted(needed, key=lambda item: item.line):
            for each in sorted(item.binds & used - {name}):
                if not is_local(each):
                    self._add_along(each, source.binding(each, item.cell), source)
        self.units.append(Unit(_with_companions(answer, source), stub))
        self.notes += [f"`{n}`, which `{user}` uses, was not found." for n, user in unknown]
        for item in needed:
            for each in sorted((item.needs | item.annotations) & self._theirs):
                if _differ(each, source.binding(each, item.cell), self.fresh.binding(each)):
                    words = (
                        f"`{each}`, which `{min(item.binds)}` uses, is the new lesson's own now."
                    )
                    self.notes.append(words)

    def _add_along(self, name: str, group: tuple[Statement, ...], source: Notebook) -> None:
        text = "\n".join(item.only(name) for item in group)
        if self.along.setdefault(name, text) != text:
            self.notes.append(f"`{name}` was found twice; the first one was taken.")
        elif group[0].module(name) or group[0].place == "setup":
            self.setup += [text] if text not in self.setup else []
        elif not any(name in unit.binds for unit in self.units):
            self.units.append(Unit(_with_companions(group, source), None))

    def written_into(self, text: str) -> str:
        """The text of `fresh` with every answer in its stub's place."""
        lines = split_lines(text)
        names_of_cells = self._names_of_cells()
        edits: list[tuple[int, int, list[str]]] = []
        before: list[str] = []
        for unit in self.units:
            mark = ["@app.function"]
            if unit.stub is not None:
                mark = lines[unit.stub.lines[0] - 1 : unit.stub.line - 1]
            made = _written(unit, mark, names_of_cells)
            if unit.stub is None:
                before += [*made, "", ""]
            else:
                edits.append((unit.stub.lines[0] - 1, unit.stub.lines[1], [*before, *made]))
                before = []
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
        """The names that cells bind: what needs one of them stands in a cell itself."""
        names = {n for item in self.fresh.statements if item.place == "cell" for n in item.binds}
        waiting = list(self.units)
        while found := [unit for unit in waiting if not _is_definition(unit) or unit.needs & names]:
            names |= {name for unit in found for name in unit.binds}
            waiting = [unit for unit in waiting if unit not in found]
        return names


def _with_companions(group: tuple[Statement, ...], source: Notebook) -> tuple[Statement, ...]:
    """The statements after those that their cell keeps to itself and that they need."""
    return tuple(source.needed_by(group, is_local)[0])


def _is_definition(unit: Unit) -> bool:
    kinds = ast.FunctionDef | ast.ClassDef
    return len(unit.statements) == 1 and isinstance(unit.statements[0].node, kinds)


def _written(unit: Unit, mark: list[str], names_of_cells: set[str]) -> list[str]:
    """The unit as marimo writes it: a cell, or a function or class at the top of the file."""
    source = "\n".join(item.source for item in unit.statements)
    if unit.binds & names_of_cells:
        taken = ", ".join(sorted(unit.needs & names_of_cells))
        given = sorted(unit.binds)
        last = unit.statements[-1].node
        gap = [""] if isinstance(last, ast.FunctionDef | ast.ClassDef) else []
        shown = f"return ({given[0]},)" if len(given) == 1 else f"return {', '.join(given)}"
        mark = [line.replace("@app.function", "@app.cell") for line in mark]
        return [*mark, f"def _({taken}):", *split_lines(indent(source)), *gap, f"    {shown}"]
    if isinstance(unit.statements[0].node, ast.ClassDef):
        mark = [line.replace("@app.function", "@app.class_definition") for line in mark]
    return [*mark, *split_lines(source)]


def _differ(name: str, old: tuple[Statement, ...], new: tuple[Statement, ...]) -> bool:
    """Whether a name that both notebooks bind stands for different things; a stub is no thing."""
    if not old or any(item.is_stub for item in (*old, *new)):
        return False
    return [_dump(item, name) for item in old] != [_dump(item, name) for item in new]


def _dump(item: Statement, name: str) -> str:
    return ast.dump(ast.parse(item.only(name)))
