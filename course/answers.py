"""Answers kept as source files under work/answers/, and loaded again as parts of the engine.

Saving knows text alone. Loading believes no file: each one is checked again before it serves.
"""

import __future__

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from course.forking import check_apart
from course.launcher.workspace import write_atomically
from course.notebook import IMPORTED
from course.progress import work_folder
from course.registry import Exercise, exercises
from nanogpt.guard import describe_error, run_limited

if TYPE_CHECKING:
    from nanogpt.parts import Parts

_LOAD_LIMIT_S = 2.0


class LoadedParts(NamedTuple):
    """The engine's parts, whose each one is ("yours" or "reference"), and that in a sentence."""

    parts: "Parts"
    whose: dict[str, str]
    sentence: str


def answer_path(exercise_id: str) -> Path:
    """Where the newest passed answer is kept."""
    return work_folder() / "answers" / f"{exercise_id}.py"


def try_path(exercise_id: str) -> Path:
    """Where the newest answer is kept that did not pass."""
    return work_folder() / "answers" / f"{exercise_id}.try.py"


def source_of(function: Callable[..., Any]) -> str | None:
    """The function's source from its `def` on, dedented; None where Python cannot find it.

    What the function uses of torch and the standard library by a global name is imported above
    it, so that the text works on its own.
    """
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    definition = text.splitlines()[tree.body[0].lineno - 1 :]
    imports = _imports(tree.body[0], getattr(function, "__globals__", {}))
    lines = [*imports, *(["", ""] if imports else []), *definition]
    return "\n".join(lines).rstrip() + "\n"


def save(exercise_id: str, source: str, *, passed: bool) -> bool:
    """Keeps an answer; returns whether it differs from the newest one kept. Raises: OSError."""
    paths = (answer_path(exercise_id), try_path(exercise_id))
    kept = paths[0] if passed else paths[1]
    newest = max(paths, key=lambda path: path.stat().st_mtime_ns if path.exists() else 0)
    differs = _read(newest) != source
    if differs or newest != kept:
        write_atomically(kept, source.encode())
    return differs


def load_parts(before: str | None = None) -> LoadedParts:
    """The engine's parts with every passed answer of the lessons before the stem `before`.

    An answer that is missing, broken, or no longer passes leaves the reference in place.
    """
    from nanogpt.parts import Parts

    wanted = [e for e in exercises() if e.part and (before is None or e.lesson < before)]
    mine: dict[str, Any] = {}
    problems: list[str] = []
    for exercise in wanted:
        function, problem = _load(exercise)
        if function is not None and exercise.part:
            mine[exercise.part] = function
        elif problem:
            problems.append(problem)
    whose = {e.part: "yours" if e.part in mine else "reference" for e in wanted if e.part}
    return LoadedParts(Parts(**mine), whose, _sentence(len(mine), len(whose), problems))


def _sentence(num_mine: int, num_parts: int, problems: list[str]) -> str:
    if num_parts == 0:
        return "No part of the engine comes from an earlier lesson yet."
    verb = "is" if num_mine == 1 else "are"
    counted = f"{num_mine} of {num_parts} parts {verb} yours"
    rest = "." if num_mine == num_parts else "; the others are the reference."
    return " ".join([counted + rest, *problems])


def _load(exercise: Exercise) -> tuple[Callable[..., Any] | None, str | None]:
    """The saved answer if it still passes; else None, with a sentence if there was a file."""
    if not answer_path(exercise.id).exists():
        return None, None
    what = f"Your saved `{exercise.name}` was left out, because"
    space, problem = _namespace(exercise)
    function = space.get(exercise.name)
    if problem is not None:
        return None, f"{what} it {problem}."
    if not callable(function):
        return None, f"{what} its file does not define it."
    report = check_apart(exercise, function).report
    if report.status != "passed":
        return None, f"{what} it does not pass its check any more: {report.idea}"
    return function, None


def _namespace(exercise: Exercise) -> tuple[dict[str, Any], str | None]:
    """A fresh namespace in which the lesson's saved answers are defined, and what went wrong.

    One answer may call another of its lesson; an error counts only in the one asked for.
    """
    import math

    import torch

    space: dict[str, Any] = {"__name__": exercise.lesson, "math": math, "torch": torch}
    problem: str | None = None
    for other in (e for e in exercises() if e.lesson == exercise.lesson):
        text = _read(answer_path(other.id))
        if text is None:
            continue
        found = _define(text, answer_path(other.id), space)
        if other.id == exercise.id:
            problem = found
    return space, problem


def _define(text: str, path: Path, space: dict[str, Any]) -> str | None:
    """Runs the definitions in `text`; returns what went wrong as the end of a sentence."""
    try:
        code = compile(text, str(path), "exec", __future__.annotations.compiler_flag, True)
    except (SyntaxError, ValueError) as error:
        return f"is not valid Python ({error})"
    outcome = run_limited(exec, (code, space), limit_s=_LOAD_LIMIT_S)
    if outcome.timed_out:
        return "did not come to an end while it was loaded"
    return None if outcome.error is None else describe_error(outcome.error, exec)


def _imports(definition: ast.FunctionDef, space: dict[str, Any]) -> list[str]:
    """An import line for each global name in the definition that stands for something imported."""
    names = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    found = [_import_line(name, space[name]) for name in sorted(names & space.keys())]
    return [line for line in found if line is not None]


def _import_line(name: str, value: object) -> str | None:
    is_module = isinstance(value, ModuleType)
    real = getattr(value, "__name__", None)
    home = real if is_module else getattr(value, "__module__", None)
    if not isinstance(home, str) or home.partition(".")[0] not in IMPORTED:
        return None
    alias = "" if real == name else f" as {name}"
    if is_module:
        return f"import {real}{alias}"
    known = isinstance(real, str) and getattr(sys.modules.get(home), real, None) is value
    return f"from {home} import {real}{alias}" if known else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
