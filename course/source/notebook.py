"""Runs a learner's functions out of a notebook's file, even when another cell of it is broken.

They run as the page runs them, in a module of their own: each cell's private names are its own,
and an answer may call another.
"""

import __future__

import ast
import copy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from course.calling.errors import describe_error
from course.files import read_bytes
from course.source.cells import ALLOWED, BUILTIN, Notebook, Statement
from course.source.private_names import rename
from course.source.surroundings import Surroundings, reused_private_names, surroundings


@dataclass(frozen=True, slots=True)
class Loaded:
    """Functions by name; and by the same names, sentences on what they need and did not get."""

    functions: dict[str, Callable[..., Any]]
    problems: dict[str, list[str]]


def notebook_text(path: Path) -> str:
    """The text of a notebook's cells, marimo's or Jupyter's.

    Raises: OSError when the file cannot be read, ValueError with the end of a sentence when it
    holds no text.
    """
    from course.grading.handed_in.texts import text_of

    suffix = ".ipynb" if path.suffix.lower() == ".ipynb" else ".py"
    return text_of(suffix, read_bytes(path))


def load(notebook: Notebook, path: Path, names: Iterable[str]) -> Loaded:
    """Those of `names` that the notebook binds to a callable; `path` is what errors name."""
    running = _Running(notebook, path)
    loaded = Loaded({}, {})
    for name in names:
        around = surroundings(notebook, notebook.binding(name))
        reasons = running.run(around)
        function = running.module.__dict__.get(name)
        if around.statements and callable(function):
            loaded.functions[name] = function
        loaded.problems[name] = [*_lacks(notebook, name, around), *reasons]
    return loaded


def lacks(notebook: Notebook, name: str) -> list[str]:
    """A sentence for each thing that the function needs, directly or not, and cannot have."""
    return _lacks(notebook, name, surroundings(notebook, notebook.binding(name)))


def _lacks(notebook: Notebook, name: str, around: Surroundings) -> list[str]:
    said: list[str] = []
    for what, user in [*([] if around.statements else [(name, None)]), *around.unknown]:
        who = f"`{what}`" if user is None else f"`{what}`, which `{user}` uses,"
        broken = [cell for cell in notebook.broken if what in cell.names()]
        if user is None:  # the answer itself: any cell that cannot be read may hold it
            broken = broken or [cell for cell in notebook.broken if not cell.names()]
        if broken or user is not None:
            said.append(f"{who} was not found{f': {broken[0]}' if broken else ''}.")
    said += [
        f"`{used}`, which `{user.title}` uses, comes from {package}: an answer may import "
        "only the standard library, torch and numpy."
        for used, user, package in around.refused()
    ]
    return said


class _Running:
    """Runs statements once each, in a module that can be found by its name, as a page's can."""

    def __init__(self, notebook: Notebook, path: Path) -> None:
        self.module = ModuleType(f"<{path.stem}>")  # no name that another module could have
        sys.modules[self.module.__name__] = self.module
        self._notebook, self._path = notebook, path
        self._reused = reused_private_names(notebook)
        features = {
            name
            for item in notebook.statements
            if isinstance(item.node, ast.ImportFrom) and item.node.module == "__future__"
            for name in item.binds
        }
        self._flags = sum(getattr(__future__, name).compiler_flag for name in features)
        # What has run, by the name that sentences have for it, with what went wrong.
        self._failed: dict[tuple[str, Statement], str | None] = {}

    def run(self, around: Surroundings) -> list[str]:
        """Run all that has not run yet; return a sentence for each statement that failed."""
        typed = self._without_values(around)
        here = [*around.imports, *((each.title, each) for unit in around.units for each in unit)]
        for name, item in here:
            if (name, item) in self._failed:
                continue
            if (name, item) in around.imports:
                self._failed[name, item] = self._import(name, item)
            else:
                self._failed[name, item] = self._statement(item, item in typed)
        return [f"`{each[0]}` {self._failed[each]}." for each in here if self._failed[each]]

    def _import(self, name: str, item: Statement) -> str | None:
        if item.module(name) not in ALLOWED:
            return None
        return self._run(item.only(name))

    def _statement(self, item: Statement, as_text: bool) -> str | None:
        if item.is_import:  # of names that its cell keeps to itself
            if not all(item.module(name) in ALLOWED for name in item.binds):
                return None
            return self._run(self._compiled(item, False))
        try:
            code = self._compiled(item, as_text)
        except (SyntaxError, ValueError, RecursionError) as error:
            return describe_error(error, exec)
        return self._run(code)

    def _run(self, code: str | CodeType) -> str | None:
        """Run code; returns what went wrong as the end of a sentence."""
        try:
            exec(code, self.module.__dict__)
        except BaseException as error:  # SystemExit too
            return describe_error(error, exec)
        return None

    def _without_values(self, around: Surroundings) -> set[Statement]:
        """The statements whose annotations name something missing, and so must stay text."""
        refused = {name for name, item in around.imports if item.module(name) not in ALLOWED}
        there = BUILTIN | {name for item in around.statements for name in item.binds}
        there |= {name for name, _ in around.imports}
        return {item for item in around.statements if item.names.annotations - (there - refused)}

    def _compiled(self, item: Statement, as_text: bool) -> CodeType:
        """Code with the file's line numbers and `__name__` as on the page."""
        node = ast.increment_lineno(copy.deepcopy(item.node), item.line - 1)
        private = (item.uses | item.binds) & self._reused
        homes = {name: self._notebook.binding(name, item.cell)[0].cell for name in private}
        own = {name: f"_cell_{cell}{name}" for name, cell in homes.items()}
        tree = _OnThePage().visit(rename(ast.Module([node], []), own))
        flags = self._flags | (__future__.annotations.compiler_flag if as_text else 0)
        return compile(tree, str(self._path), "exec", flags, True)


class _OnThePage(ast.NodeTransformer):
    """Lets `if __name__ == "__main__":` hold, which classes take their module's name from."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != "__name__" or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Constant("__main__"), node)
