"""Answers kept as source files under work/answers/, and loaded again as policies of the engine.

Saving knows text only. Loading believes no file: each one is checked again before it serves.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from course.calling.policies import SavedPolicy
from course.calling.processes import own_starter
from course.files import explain, read_bytes, write_atomically
from course.progress import load, work_folder
from course.registry import exercise, exercises
from course.source.cells import Notebook, Statement
from course.source.cutting import read_cells, read_notebook
from course.source.notebook import lacks
from course.source.surroundings import surroundings

if TYPE_CHECKING:
    from course.exercise import Exercise
    from nanogpt.policies import Policies


class LoadedPolicies(NamedTuple):
    """The engine's policies, whose each one is ("yours" or "reference"), and that in a sentence."""

    policies: Policies
    whose: dict[str, str]
    sentence: str


def answer_path(exercise_id: str) -> Path:
    """Where the newest passed answer is kept."""
    return work_folder() / "answers" / f"{exercise_id}.py"


def try_path(exercise_id: str) -> Path:
    """Where the newest answer is kept that did not pass."""
    return work_folder() / "answers" / f"{exercise_id}.try.py"


class Source(NamedTuple):
    """An answer's text, which works on its own, and sentences on what it needs and lacks."""

    text: str
    lacks: list[str]


def source_of(function: Callable[..., Any], name: str | None = None) -> Source | None:
    """The function's source with all that it uses; None where Python cannot find it.

    `name` is what the notebook calls it, its own name unless given. Helpers, constants and imports
    come from the notebook's other cells, wherever they stand.
    """
    name = name or str(getattr(function, "__name__", ""))
    own = _own_source(function)
    for notebook in _around(function):
        bound = notebook.binding(name)
        if bound and (own is None or _same(bound, own)):
            return source_in(notebook, name)
    if own is None:
        return None
    alone = read_notebook(own)  # made within another function: its own text is all there is
    return Source(surroundings(alone, alone.statements).text(), lacks(alone, name))


def source_in(notebook: Notebook, name: str) -> Source:
    """The source of a notebook's function with all that it uses."""
    return Source(surroundings(notebook, notebook.binding(name)).text(), lacks(notebook, name))


def save(exercise_id: str, source: str, *, passed: bool) -> bool:
    """Keeps an answer; returns whether it differs from the newest one kept. Raises: OSError."""
    kept = answer_path(exercise_id) if passed else try_path(exercise_id)
    newest = _newest(exercise_id)
    differs = _read(newest) != source
    if differs or newest != kept:
        write_atomically(kept, source.encode())
    return differs


def _newest(exercise_id: str) -> Path:
    """Where the newest answer is kept, passed or not; a file that need not exist."""
    noted = load(exercise_id)
    passed, tried = answer_path(exercise_id), try_path(exercise_id)
    if noted is None or noted.newest_passed is None:
        is_passed = noted is not None and noted.status in ("passed", "not_started", "missing")
    else:
        is_passed = noted.newest_passed
    newest, other = (passed, tried) if is_passed else (tried, passed)
    return newest if os.path.lexists(newest) else other


def newest_answers(*exercise_ids: str) -> dict[str, SavedPolicy]:
    """The newest saved answers to these exercises, by function name; right or wrong, unchecked."""
    found: dict[str, SavedPolicy] = {}
    for item in map(exercise, exercise_ids):
        path = _newest(item.id)
        if _read(path) is not None:
            text = source_in(_with_others(item, path), item.name).text
            found[item.name] = SavedPolicy(text, item.name)
    return found


def load_policies(before: str | None = None) -> LoadedPolicies:
    """The engine's policies with every passed answer of the lessons before the stem `before`.

    An answer that is missing, broken, or no longer passes leaves the reference in place.
    """
    from nanogpt.policies import Policies

    wanted = [e for e in exercises() if e.is_policy and (before is None or e.lesson < before)]
    mine: dict[str, Any] = {}
    problems: list[str] = []
    for item in wanted:
        function, problem = _load(item)
        if function is not None and item.is_policy:
            mine[item.name] = function
        elif problem:
            problems.append(problem)
    whose = {e.name: "yours" if e.name in mine else "reference" for e in wanted}
    return LoadedPolicies(Policies(**mine), whose, _sentence(len(mine), len(whose), problems))


def _sentence(num_mine: int, num_policies: int, problems: list[str]) -> str:
    if num_policies == 0:
        return "No policy of the engine comes from an earlier lesson yet."
    verb = "is" if num_mine == 1 else "are"
    counted = f"{num_mine} of {num_policies} policies {verb} yours"
    rest = "." if num_mine == num_policies else "; the others are the reference."
    return " ".join([counted + rest, *problems])


def _load(exercise: Exercise) -> tuple[SavedPolicy | None, str | None]:
    """The saved answer if it still passes; else None, with a sentence if there was a file."""
    if not os.path.lexists(answer_path(exercise.id)):
        return None, None
    try:
        read_bytes(answer_path(exercise.id)).decode()
    except OSError as error:
        return None, f"Your saved `{exercise.name}` was left out: {explain(error)}"
    except ValueError:
        return None, f"Your saved `{exercise.name}` was left out: its file is not UTF-8 text."
    text, lacking = source_in(_with_others(exercise, answer_path(exercise.id)), exercise.name)
    with own_starter().start() as channel:
        report = exercise.check_text(text, channel)
    if report.status == "passed":
        return SavedPolicy(text, exercise.name), None
    what = f"Your saved `{exercise.name}` was left out, because"
    if report.status == "missing":
        return None, f"{what} {' '.join(lacking) or report.idea or 'its file does not define it.'}"
    return None, f"{what} it does not pass its check any more: {report.idea}"


def _with_others(exercise: Exercise, path: Path) -> Notebook:
    """The answer kept there, after the other saved answers of its lesson, which it may call."""
    alike = [e for e in exercises() if e.lesson[:3] == exercise.lesson[:3] and e is not exercise]
    texts = [_read(each) or "" for each in (*(answer_path(e.id) for e in alike), path)]
    notebooks = [read_notebook(text) for text in texts]
    statements = [
        replace(item, cell=(number << 32) + item.cell)  # each file's cells are its own
        for number, notebook in enumerate(notebooks)
        for item in notebook.statements
    ]
    return Notebook(tuple(statements), notebooks[-1].broken)


def _own_source(function: Callable[..., Any]) -> str | None:
    """The text of its `def`, decorators included; None for a lambda or what has no text."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        body = ast.parse(text).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return text if len(body) == 1 and isinstance(body[0], ast.FunctionDef) else None


def _same(binding: tuple[Statement, ...], source: str) -> bool:
    """Whether a notebook binds the name to this very function."""
    mine = read_notebook(source).statements
    return [ast.dump(item.node) for item in binding[:1]] == [ast.dump(item.node) for item in mine]


def _around(function: Callable[..., Any]) -> Iterator[Notebook]:
    """The notebook that runs here, and the file that the function stands in."""
    if "marimo" in sys.modules:
        from course.marimo_internals import safe_get_context

        running = safe_get_context()
        if running is not None:
            yield read_cells(cell.code for cell in running.graph.cells.values())
    jupyter = sys.modules.get("course.jupyter.reactive")
    if jupyter is not None:
        yield read_cells(jupyter.sources())
    code = getattr(inspect.unwrap(function), "__code__", None)
    text = _read(Path(code.co_filename)) if code else None
    if text is not None:
        yield read_notebook(text)


def _read(path: Path) -> str | None:
    try:
        return read_bytes(path).decode()
    except (OSError, ValueError):
        return None
