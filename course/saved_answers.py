"""Answers kept as source files under work/answers/, and loaded again as policies of the engine.

Saving knows text only. Loading believes no file: each one is checked again before it serves.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from course.calling.loading import LocalAnswer
from course.files import explain, read_bytes, write_atomically
from course.progress import load, record, work_folder
from course.registry import exercise, exercises
from course.running_text import (
    text_in_file as source_of,  # noqa: F401  # pyright: ignore[reportUnusedImport] for scripts
)
from course.source.answer import Answer, answer_in
from course.source.cells import ALLOWED, Notebook
from course.source.cutting import read_notebook

if TYPE_CHECKING:
    from course.exercise import Exercise
    from course.report import Report
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


def save(exercise_id: str, source: str, *, passed: bool) -> bool:
    """Keeps an answer; returns whether it differs from the newest one kept. Raises: OSError."""
    kept = answer_path(exercise_id) if passed else try_path(exercise_id)
    newest = _newest(exercise_id)
    differs = _read(newest) != source
    if differs or newest != kept:
        write_atomically(kept, source.encode())
    return differs


def save_attempt(report: Report, answer: Answer | None) -> str:
    """Save progress and the answer; returns what the learner should know, or ""."""
    notes: list[str] = []
    new_attempt = False
    if answer is not None and report.status not in ("not_started", "missing"):
        passed = report.status == "passed"
        new_attempt = True
        try:
            new_attempt = save(report.exercise, answer.text, passed=passed)
        except OSError as error:
            notes.append(f"Your answer could not be saved: {explain(error)}")
    try:
        record(report, new_attempt=new_attempt)
    except OSError as error:
        notes.append(f"Your progress could not be saved: {explain(error)}")
    return " ".join(notes)


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


def newest_answers(*exercise_ids: str) -> dict[str, LocalAnswer]:
    """The newest saved answers to these exercises, by function name; right or wrong, unchecked."""
    found: dict[str, LocalAnswer] = {}
    for item in map(exercise, exercise_ids):
        path = _newest(item.id)
        if _read(path) is not None:
            found[item.name] = LocalAnswer(_with_others(item, path).text, item.name)
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


def _load(exercise: Exercise) -> tuple[LocalAnswer | None, str | None]:
    """The saved answer if it still passes; else None, with a sentence if there was a file."""
    if not os.path.lexists(answer_path(exercise.id)):
        return None, None
    try:
        read_bytes(answer_path(exercise.id)).decode()
    except OSError as error:
        return None, f"Your saved `{exercise.name}` was left out: {explain(error)}"
    except ValueError:
        return None, f"Your saved `{exercise.name}` was left out: its file is not UTF-8 text."
    answer = _with_others(exercise, answer_path(exercise.id))
    report = exercise.check_answer(answer)
    if report.status == "passed":
        return LocalAnswer(answer.text, answer.name), None
    why = report.idea or "its file does not define it."
    if report.status != "missing":
        why = f"it does not pass its check any more: {why}"
    what = f"Your saved `{exercise.name}` was left out, because {why}"
    return None, f"{what} It stays recorded as passed; check it again."


def _with_others(exercise: Exercise, path: Path) -> Answer:
    """The answer kept there, after the other saved answers of its lesson, which it may call."""
    alike = [e for e in exercises() if e.lesson[:3] == exercise.lesson[:3] and e is not exercise]
    texts = [_read(each) or "" for each in (*(answer_path(e.id) for e in alike), path)]
    notebooks = [read_notebook(text) for text in texts]
    statements = [
        replace(item, cell=(number << 32) + item.cell)  # each file's cells are its own
        for number, notebook in enumerate(notebooks)
        for item in notebook.statements
        if not item.is_import or any(item.module(name) in ALLOWED for name in item.binds)
    ]
    whole = Notebook(tuple(statements), notebooks[-1].broken)
    if not whole.binding(exercise.name):
        return Answer(texts[-1], exercise.name)  # whose cells that cannot be read a check names
    return answer_in(whole, exercise.name)


def _read(path: Path) -> str | None:
    try:
        return read_bytes(path).decode()
    except (OSError, ValueError):
        return None
