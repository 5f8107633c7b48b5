"""One answer, or one exhibit, in a notebook: found by its name, checked, saved, shown.

Whatever the learner wrote, a lesson goes on below it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from course import progress
from course.calling.policies import Policy
from course.calling.processes import own_starter
from course.files import explain
from course.launcher.failure import learn_command
from course.registry import exercise
from course.report import Report

if TYPE_CHECKING:
    from course.exercise import Exercise  # which imports torch
    from course.saved_answers import Source

_UNUSABLE = ("timeout", "crashed", "memory", "protocol")  # what happens again in every run


if progress.enabled():
    own_starter()  # imports torch in its process while the lesson opens


@dataclass(frozen=True, slots=True)
class Attempt:
    """A checked answer; `function` is None when there is none that the notebook can go on with.

    That is so when no function has the name, and when the check had to stop it or lost its process.
    `note` says what else the learner should know, such as that progress could not be saved.
    """

    report: Report
    function: Callable[..., Any] | None
    note: str = ""

    @property
    def started(self) -> bool:
        """Whether there is an answer that the lesson can go on with, right or wrong."""
        return self.function is not None and self.report.status != "not_started"

    def or_reference(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """The learner's function as a policy, right or wrong; `reference` while it cannot run."""
        return Policy(self.function) if self.function is not None and self.started else reference

    def _repr_html_(self) -> str:
        note = f'<p class="sng-report-note">{escape(self.note)}</p>' if self.note else ""
        return self.report._repr_html_() + note  # pyright: ignore[reportPrivateUsage]


def attempt(exercise_id: str, resolve: Callable[[], Callable[..., Any]]) -> Attempt:
    """Checks the function that `resolve` finds: `attempt("l01.plan_step", lambda: plan_step)`.

    A lambda, because the name itself may be gone after a syntax error or a rename. The function
    runs in a child process, whatever it does. Saves progress and the answer where
    `progress.enabled()`. Raises: KeyError for an unknown exercise.
    """
    item = exercise(exercise_id)
    report, function = _judged(item, resolve, item.name)
    notes = [_save(report, function) if progress.enabled() else ""]
    if report.status in _UNUSABLE:
        function = None
        notes.append(f"Below, the reference stands in for your `{item.name}`.")
    if report.status == "not_started" and _is_app():
        report = replace(report, idea=f"Open the lesson with `{learn_command()}` to write it.")
    return Attempt(report, function, " ".join(filter(None, notes)))


def exhibit(letter: str, exercise_id: str, resolve: Callable[[], Callable[..., Any]]) -> Report:
    """The verdict of an exercise's check on an exhibit: `exhibit("A", "l02.admit", lambda: f)`.

    Nothing is saved. Raises: KeyError for an unknown exercise.
    """
    report, _ = _judged(exercise(exercise_id), resolve)
    return replace(report, exhibit=letter)


def piece(resolve: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """An exhibit's function; while its cell is broken, one that says so when it is called."""
    try:
        return resolve()
    except NameError:

        def gone(*_: Any) -> Any:
            raise NameError("fix the error in the exhibit's cell and keep its name")

        return gone


def _judged(
    item: Exercise, resolve: Callable[[], Callable[..., Any]], name: str = ""
) -> tuple[Report, Callable[..., Any] | None]:
    try:
        function = resolve()
    except NameError as error:
        return _missing(item, f"Keep the name `{name or error.name}`; fix its cell."), None
    if not callable(function):
        what = f"`{name}`" if name else "The exhibit"
        return _missing(item, f"{what} is {_kind(function)} here, and not a function."), None
    return item.check(function), function


def _kind(value: object) -> str:
    from course.calling.plain_values import kind_of
    from course.calling.results import with_article

    return with_article(kind_of(value))


def _missing(item: Exercise, idea: str) -> Report:
    return Report(item.id, "missing", (), 0, idea)


def _is_app() -> bool:
    marimo = sys.modules.get("marimo")
    return marimo is not None and marimo.app_meta().mode == "run"


def _save(report: Report, function: Callable[..., Any] | None) -> str:
    from course import saved_answers as answers  # which imports torch

    source = None
    if function is not None and report.status != "not_started":
        source = answers.source_of(function, report.exercise.rpartition(".")[2])
    return save_attempt(report, source, is_function=function is not None)


def save_attempt(report: Report, source: Source | None, *, is_function: bool = True) -> str:
    """Save progress and the answer's source; returns what the learner should know, or ""."""
    from course import saved_answers as answers

    notes: list[str] = []
    new_attempt = False
    if is_function and report.status != "not_started":
        passed = report.status == "passed"
        new_attempt = True
        if source is not None:
            notes += source.lacks if passed else []
            try:
                new_attempt = answers.save(report.exercise, source.text, passed=passed)
            except OSError as error:
                notes.append(f"Your answer could not be saved: {explain(error)}")
    try:
        progress.record(report, new_attempt=new_attempt)
    except OSError as error:
        notes.append(f"Your progress could not be saved: {explain(error)}")
    return " ".join(notes)
