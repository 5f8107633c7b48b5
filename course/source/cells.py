"""A notebook as the statements of its cells, with the names that they bind and need."""

import ast
import builtins
import functools
import importlib
import re
import sys
from dataclasses import dataclass
from typing import Literal

from course.source.names import Names, is_local

Place = Literal["setup", "top", "cell", "loose"]

BUILTIN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
ALLOWED = sys.stdlib_module_names | {"torch", "numpy"}
"""What an answer may import: nanogpt would give answers away."""


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement at the top of a cell.

    `source` is dedented, has its comments and lacks marimo's own decorator; `lines` are its first
    and last in the file, decorators included, and `line` is where `source` begins. `cell` tells
    cells apart, in their order; `place` is "top" for a function or class that is a cell of its own,
    and "loose" for what stands in no cell.
    """

    source: str
    node: ast.stmt
    line: int
    lines: tuple[int, int]
    cell: int
    place: Place
    names: Names

    @property
    def binds(self) -> frozenset[str]:
        """The names that it binds; "*" for an import of all that a module has."""
        return self.names.binds

    @property
    def uses(self) -> frozenset[str]:
        """The names that it takes from outside, in annotations too."""
        return self.names.needs | self.names.annotations

    @property
    def title(self) -> str:
        """What a sentence calls it: the name that it binds, or its first line."""
        return min(self.binds, default=None) or self.source.lstrip().partition("\n")[0]

    @property
    def is_import(self) -> bool:
        """Whether it is an import."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)

    @property
    def is_future(self) -> bool:
        """Whether it is `from __future__ import`."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"

    @property
    def is_shared_import(self) -> bool:
        """Whether it is an import of names that all cells see."""
        return self.is_import and not any(map(is_local, self.binds))

    @property
    def is_assignment(self) -> bool:
        """Whether it binds names to values."""
        return isinstance(self.node, ast.Assign | ast.AnnAssign | ast.AugAssign)

    @property
    def is_definition(self) -> bool:
        """Whether it defines a function or a class, or assigns."""
        return self.is_assignment or self.is_function or isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        """Whether it defines a function."""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef)

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
                found = [level * "." + (module or "") for alias in names if _brings(alias, name)]
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
                found = [each for each in names if _bound(each) == name] or [ast.alias(name)]
                return ast.unparse(ast.ImportFrom(module, found, level))
            case _:
                return self.source


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _brings(alias: ast.alias, name: str) -> bool:
    return _bound(alias) in (name, "*")


@functools.cache
def _all_of(module: str | None, level: int) -> frozenset[str] | None:
    """The names that a star import brings from an allowed module, else None."""
    if level or (module or "").partition(".")[0] not in ALLOWED:
        return None
    try:
        found = importlib.import_module(module or "")
    except Exception:  # not installed here
        return None
    public = [name for name in dir(found) if not name.startswith("_")]
    return frozenset(getattr(found, "__all__", public))


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

        A name with a leading underscore is its cell's own where the cell binds it. A function at
        the top of the file wins over a namesake within a cell; else the last cell wins.
        """
        found = [item for item in self.statements if name in item.binds]
        if is_local(name):
            found = [item for item in found if item.cell == cell] or found
        if not found:
            return self._starred(name)
        winner = max(found, key=lambda item: (item.place in ("top", "loose"), item.cell)).cell
        return tuple(item for item in found if item.cell == winner)

    def _starred(self, name: str) -> tuple[Statement, ...]:
        """The last star import that brings the name or may bring it; () if none does."""
        for item in reversed(self.statements):
            if "*" in item.binds and isinstance(item.node, ast.ImportFrom):
                known = _all_of(item.node.module, item.node.level)
                if name in known if known is not None else name not in BUILTIN:
                    return (item,)
        return ()
