"""Turns an answer's text into functions, in the process that calls them.

The statements run as on the page, in a module of their own: each cell's private names are its own,
and an answer may call another. What fails is skipped, and a sentence says so.
"""

import __future__

import ast
import copy
import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from course.calling.errors import describe_error
from course.calling.policies import Policy
from course.source.answer import Answer, Needed, missing, needed
from course.source.cells import ALLOWED, BUILTIN, Notebook, Statement
from course.source.cutting import read_notebook
from course.source.names import is_local
from course.source.private_names import rename

_AWAITING = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@dataclass(frozen=True, slots=True)
class Loaded:
    """Functions by name; and by the same names, sentences on what they need and did not get."""

    functions: dict[str, Callable[..., Any]]
    problems: dict[str, list[str]]


class LocalAnswer(Answer):
    """An answer that is called in the process that has it.

    Lessons hand it to a job, which unpickles it as a `Policy`.
    """

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        """Call it here; in a terminal that is the learner's own script."""
        return _policy_once(self.text, self.name)(*args)

    def __reduce__(self) -> tuple[Callable[[str, str], Policy], tuple[str, str]]:
        return _policy, (self.text, self.name)


def _policy(text: str, name: str) -> Policy:
    return Policy(load(text, file_of(name), [name]).functions[name])


_policy_once = functools.cache(_policy)


def file_of(name: str) -> str:
    """The file that errors of a local answer name."""
    return f"{name}.py"


def load(text: str, file: str, names: Iterable[str]) -> Loaded:
    """Those of `names` that the text binds to a callable; `file` is what errors name."""
    linecache.cache[file] = len(text), None, [f"{line}\n" for line in text.split("\n")], file
    notebook = _read(text)
    running = _Running(notebook, file)
    loaded = Loaded({}, {})
    for name in names:
        needs = needed(notebook, [name])
        failed = running.run(needs)
        function = running.module.__dict__.get(name)
        if needs.statements and callable(function):
            loaded.functions[name] = function
        said = missing(notebook, needs) | needs.refused() | failed
        used = (said[each] for each in said if each in needs.names)
        loaded.problems[name] = list(dict.fromkeys(used))
    return loaded


_read = functools.lru_cache(1)(read_notebook)  # once for all of a lesson's exercises


class _Running:
    """Runs statements once each, in a module that can be found by its name, as a page's can."""

    def __init__(self, notebook: Notebook, file: str) -> None:
        self.module = ModuleType(f"<{file.removesuffix('.py')}>")  # no other module's name
        sys.modules[self.module.__name__] = self.module
        self._notebook, self._file = notebook, file
        homes: dict[str, set[int]] = {}
        for item in notebook.statements:
            for name in filter(is_local, item.binds):
                homes.setdefault(name, set()).add(item.cell)
        self._reused = {name for name, cells in homes.items() if len(cells) > 1}
        features = {n for item in notebook.statements if item.is_future for n in item.binds}
        self._flags = sum(getattr(__future__, name).compiler_flag for name in features)
        self._done: dict[tuple[str, Statement], str | None] = {}  # with what went wrong

    def run(self, needs: Needed) -> dict[str, str]:
        """Run what has not run yet; return a sentence for each statement that failed, by name."""
        said: dict[str, str] = {}
        for name, item in needs.imports:
            if item.module(name) in ALLOWED:
                self._once(name, item, item.only(name), said)
        for item in (each for cell in needs.cells for each in cell):
            if item.is_import and not all(item.module(name) in ALLOWED for name in item.binds):
                continue
            self._once(item.title, item, None, said)
        return said

    def _once(self, title: str, item: Statement, source: str | None, said: dict[str, str]) -> None:
        if (title, item) not in self._done:
            self._done[title, item] = self._run(item, source)
        why = self._done[title, item]
        if why is not None:
            said |= dict.fromkeys(item.binds | item.names.changes, f"`{title}` {why}.")

    def _run(self, item: Statement, source: str | None) -> str | None:
        """Run a statement; returns what went wrong as the end of a sentence."""
        space = self.module.__dict__
        try:
            code = self._compiled(item) if source is None else source
            made = eval(code, space) if isinstance(code, CodeType) else exec(code, space)
            if inspect.iscoroutine(made):  # a cell may `await` at its top
                import asyncio  # which takes as long as all other imports here

                asyncio.run(made)
        except BaseException as error:  # SystemExit too
            return describe_error(error, exec)
        return None

    def _compiled(self, item: Statement) -> CodeType:
        """Code with the file's line numbers and `__name__` as on the page."""
        node = ast.increment_lineno(copy.deepcopy(item.node), item.line - 1)
        private = (item.uses | item.binds) & self._reused
        homes = {name: self._notebook.binding(name, item.cell)[0].cell for name in private}
        own = {name: f"_cell_{cell}{name}" for name, cell in homes.items()}
        tree = _OnThePage().visit(rename(ast.Module([node], []), own))
        there = BUILTIN | self.module.__dict__.keys() | item.binds
        as_text = bool(item.names.annotations - there - own.keys())
        flags = self._flags | (__future__.annotations.compiler_flag if as_text else 0)
        return compile(tree, self._file, "exec", flags | _AWAITING, True)


class _OnThePage(ast.NodeTransformer):
    """Lets `if __name__ == "__main__":` hold, which classes take their module's name from."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != "__name__" or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Constant("__main__"), node)
