"""A notebook as the statements of its cells, with the names that they bind and need."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from course.source.names import is_local

Place = Literal["setup", "top", "cell"]

_BUILTIN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement at the top of a cell.

    `source` is dedented, has its comments and lacks marimo's own decorator; `lines` are its first
    and last in the file, decorators included, and `line` is where `source` begins. `cell` tells
    cells apart; `place` is "top" for what stands at the top of the file. `needs` are names from
    outside it, `annotations` those that stand in annotations alone.
    """

    source: str
    node: ast.stmt
    line: int
    lines: tuple[int, int]
    cell: int
    place: Place
    binds: frozenset[str]
    needs: frozenset[str]
    annotations: frozenset[str]

    @property
    def is_stub(self) -> bool:
        """Whether it is a function of at most a docstring and `raise NotImplementedError`."""
        if not isinstance(self.node, ast.FunctionDef):
            return False
        body = self.node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        return len(body) == 1 and ast.unparse(body[0]).startswith("raise NotImplementedError")

    def module(self, name: str) -> str | None:
        """Return the package that an import takes `name` from; None if this is no import of it."""
        match self.node:
            case ast.Import(names):
                found = [alias.name for alias in names if _bound(alias) == name]
            case ast.ImportFrom("course.lazy", names):  # torch, only imported later
                found = [alias.name for alias in names if _bound(alias) == name]
            case ast.ImportFrom(module, names, level):
                found = [level * "." + (module or "") for alias in names if _bound(alias) == name]
            case _:
                found = []
        return found[0].partition(".")[0] or "." if found else None

    def only(self, name: str) -> str:
        """Return the source, and of an import only what binds `name`."""
        match self.node:
            case ast.Import(names):
                return ast.unparse(ast.Import([each for each in names if _bound(each) == name]))
            case ast.ImportFrom("course.lazy", names):
                return ast.unparse(ast.Import([each for each in names if _bound(each) == name]))
            case ast.ImportFrom(module, names, level):
                found = [each for each in names if _bound(each) == name]
                return ast.unparse(ast.ImportFrom(module, found, level))
            case _:
                return self.source


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Broken:
    """A cell that Python cannot read: its text, its first line in the file, and why."""

    text: str
    line: int
    why: str

    def names(self) -> list[str]:
        """Return the names of functions and classes that the cell seems to define."""
        found = re.findall(r"^\s*(?:def|class) (\w+)", self.text, re.MULTILINE)
        return [name for name in found if name != "_"]

    def __str__(self) -> str:
        """Say which cell it is: "the cell of `f` at line 12 cannot be read (invalid syntax)"."""
        named = "".join(f" of `{name}`" for name in self.names()[:1])
        return f"the cell{named} at line {self.line} cannot be read ({self.why})"


@dataclass(frozen=True, slots=True)
class Notebook:
    """The statements of a notebook in their order, and the cells that cannot be read."""

    statements: tuple[Statement, ...]
    broken: tuple[Broken, ...] = ()

    def binding(self, name: str, cell: int | None = None) -> tuple[Statement, ...]:
        """Return the statements that bind `name` as a reader in `cell` sees it; () if none do.

        A name with a leading underscore is its cell's own. A function at the top of the file wins
        over a namesake within a cell; else the last cell wins.
        """
        found = [item for item in self.statements if name in item.binds]
        if is_local(name):
            found = [item for item in found if item.cell == cell or item.place == "top"]
        if not found:
            return ()
        winner = max(found, key=lambda item: (item.place == "top", item.cell)).cell
        return tuple(item for item in found if item.cell == winner)

    def needed_by(
        self,
        statements: Iterable[Statement],
        follow: Callable[[str], bool] = lambda _: True,
        *,
        annotations: bool = True,
    ) -> tuple[list[Statement], list[tuple[str, str]]]:
        """Follow names from `statements` to all that they need, directly or not.

        Returns these statements with the given ones, each after what it needs, and (name, user)
        for each name that neither the notebook nor Python binds; not for those in annotations.
        """
        taken: list[Statement] = []
        seen: set[Statement] = set()
        unknown: dict[tuple[str, str], None] = {}

        def visit(item: Statement) -> None:
            if item in seen:
                return
            seen.add(item)
            names = item.needs | item.annotations if annotations else item.needs
            for name in filter(follow, sorted(names)):
                found = self.binding(name, item.cell)
                for other in found:
                    visit(other)
                if not found and name in item.needs - _BUILTIN:
                    unknown[name, min(item.binds)] = None
            taken.append(item)

        for item in statements:
            visit(item)
        return taken, list(unknown)
