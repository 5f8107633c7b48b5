"""The learner's functions out of a notebook file, even when another cell of it is broken.

Only they and what they need are run, in one namespace: an answer may call another.
"""

import __future__

import ast
import copy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from course.files import read_bytes
from course.source.cells import Notebook, Statement
from course.source.cutting import read_notebook
from nanogpt.parts.guard import describe_error
from nanogpt.parts.limits import describe_timeout, run_limited

_LIMIT_S = 2.0
_IMPORT_LIMIT_S = 60.0
_ALLOWED = sys.stdlib_module_names | {"torch", "numpy"}  # nanogpt would give answers away


@dataclass(frozen=True, slots=True)
class Loaded:
    """Functions by name; and by the same names, sentences on what they need and did not get."""

    functions: dict[str, Callable[..., Any]]
    problems: dict[str, list[str]]


def load_functions(path: Path, names: Iterable[str]) -> Loaded:
    """Those of `names` that the notebook, marimo's or Jupyter's, binds to a callable.

    Raises: OSError when the file cannot be read, ValueError with the end of a sentence when it
    holds no text.
    """
    from course.grading.handed_in.texts import text_of

    suffix = ".ipynb" if path.suffix.lower() == ".ipynb" else ".py"
    return load(read_notebook(text_of(suffix, read_bytes(path))), path, names)


def load(notebook: Notebook, path: Path, names: Iterable[str]) -> Loaded:
    """The same of a notebook that is cut already; `path` is what errors name."""
    space: dict[str, Any] = {"__name__": path.stem}
    failed: dict[Statement, str | None] = {}  # what has run, with what went wrong
    loaded = Loaded({}, {})
    for name in names:
        needed, _ = notebook.needed_by(notebook.binding(name), annotations=False)
        for item in needed:
            if item not in failed:
                failed[item] = _run(item, path, space)
        if needed and callable(space.get(name)):
            loaded.functions[name] = space[name]
        reasons = [f"{_named(item)} {failed[item]}." for item in needed if failed[item]]
        loaded.problems[name] = [*lacks(notebook, name), *reasons]
    return loaded


def lacks(notebook: Notebook, name: str) -> list[str]:
    """A sentence for each thing that the function needs, directly or not, and cannot have."""
    bound = notebook.binding(name)
    needed, unknown = notebook.needed_by(bound, annotations=False)
    said: list[str] = []
    for what, user in [*([] if bound else [(name, None)]), *unknown]:
        who = f"`{what}`" if user is None else f"`{what}`, which `{user}` uses,"
        broken = [cell for cell in notebook.broken if what in cell.names()]
        if user is None:  # the answer itself: any cell that cannot be read may hold it
            broken = broken or [cell for cell in notebook.broken if not cell.names()]
        if broken or user is not None:
            said.append(f"{who} was not found{f': {broken[0]}' if broken else ''}.")
    for item in needed:
        for used in sorted(item.needs):
            homes = {other.module(used) for other in notebook.binding(used, item.cell)} - {None}
            said += [
                f"`{used}`, which {_named(item)} uses, comes from {home}: an answer may import the "
                "standard library, torch and numpy alone."
                for home in homes - _ALLOWED
            ]
    return said


def self_contained(notebook: Notebook, statements: Iterable[Statement]) -> str:
    """Statements with what they need and may have, as a text of its own; stubs are left out."""
    needed, _ = notebook.needed_by(statements)
    used = {name for item in needed for name in item.needs | item.annotations}
    imports: list[str] = []
    others: list[str] = []
    for item in needed:
        if not _is_import(item):
            others += [] if item.is_stub else [item.source]
            continue
        allowed = [n for n in sorted(item.binds & used) if item.module(n) in _ALLOWED]
        imports += [line for n in allowed if (line := item.only(n)) not in imports]
    parts = ["\n".join(imports), *others]
    return "\n\n\n".join(part for part in parts if part) + "\n"


def _is_import(item: Statement) -> bool:
    return isinstance(item.node, ast.Import | ast.ImportFrom)


def _named(item: Statement) -> str:
    return f"`{min(item.binds)}`"


def _run(item: Statement, path: Path, space: dict[str, Any]) -> str | None:
    """Runs a statement; returns what went wrong as the end of a sentence. No import is refused."""
    if not _is_import(item):
        run = lambda: exec(_compiled(item, path), space)  # noqa: E731
        outcome = run_limited(run, (), limit_s=_LIMIT_S)
        if outcome.timed_out:
            return describe_timeout(outcome.cpu_s, _LIMIT_S)
        return None if outcome.error is None else describe_error(outcome.error, exec)
    for name in sorted(item.binds):
        if item.module(name) in _ALLOWED:
            outcome = run_limited(exec, (item.only(name), space), limit_s=_IMPORT_LIMIT_S)
            if outcome.error is not None:
                return describe_error(outcome.error, exec)
    return None


def _compiled(item: Statement, path: Path) -> CodeType:
    """Code with the file's line numbers, whose annotations stay text: those need not be known."""
    node = ast.increment_lineno(copy.deepcopy(item.node), item.line - 1)
    flags = __future__.annotations.compiler_flag
    return compile(ast.Module([node], []), str(path), "exec", flags, True)
