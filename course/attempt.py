"""One answer, or one exhibit, in a notebook: found by its name, checked, saved, shown.

Whatever the learner wrote, a lesson goes on below it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from course import progress
from course.files import explain
from course.forking import Checked, check_apart
from course.launcher.failure import learn_command
from course.registry import exercise
from course.report import Report

if TYPE_CHECKING:
    from course.exercise import Exercise  # which brings torch along

_CUT_OFF = (
    "Its last check never came to an end, and Python had to be ended with it. It is not checked "
    "again by itself: change it, or run this cell again."
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A checked answer; `function` is None when there is none that the notebook can go on with.

    That is so when no function has the name, and when the check had to stop it or lost the process
    that it ran in. `note` says what else the learner should know, such as that progress could not
    be saved.
    """

    report: Report
    function: Callable[..., Any] | None
    note: str = ""

    @property
    def started(self) -> bool:
        """Whether there is an answer that the lesson can go on with, right or wrong."""
        return self.function is not None and self.report.status != "not_started"

    def or_reference(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """The learner's function once it can be run, right or wrong; until then `reference`."""
        return self.function if self.function is not None and self.started else reference

    def _repr_html_(self) -> str:
        note = f'<p class="sng-report-note">{escape(self.note)}</p>' if self.note else ""
        return self.report._repr_html_() + note  # pyright: ignore[reportPrivateUsage]


def attempt(exercise_id: str, resolve: Callable[[], Callable[..., Any]]) -> Attempt:
    """Checks the function that `resolve` finds: `attempt("l01.plan_step", lambda: plan_step)`.

    A lambda, because the name itself may be gone after a syntax error or a rename. The check runs
    in a process of its own where that is safe, since a function may never come back; elsewhere, an
    answer that took the notebook with it waits to be run again. Saves progress and the answer where
    `progress.enabled()`. Raises: KeyError for an unknown exercise.
    """
    item = exercise(exercise_id)
    stand_in = f"Below, the reference stands in for your `{item.name}`."
    with _may_check(exercise_id) as may_check:
        if not may_check:
            return Attempt(Report(item.id, "timeout", (), 0, _CUT_OFF), None, stand_in)
        checked, function = _judged(item, item.name, resolve)
    report = checked.report
    notes = [save_attempt(report, function) if progress.enabled() else ""]
    if not checked.runs_here:
        notes.append(stand_in)
    if report.status == "not_started" and _is_app():
        report = replace(report, idea=f"Open the lesson with `{learn_command()}` to write it.")
    usable = function if checked.runs_here else None
    return Attempt(report, usable, " ".join(filter(None, notes)))


def _may_check(exercise_id: str) -> AbstractContextManager[bool]:
    if sys.platform == "linux" or not progress.enabled():
        return nullcontext(True)
    return progress.checking(exercise_id)


def exhibit(letter: str, exercise_id: str, resolve: Callable[[], Callable[..., Any]]) -> Report:
    """The verdict of an exercise's check on an exhibit: `exhibit("A", "l02.admit", lambda: ...)`.

    Nothing is saved. Raises: KeyError for an unknown exercise.
    """
    checked, _ = _judged(exercise(exercise_id), f"exhibit_{letter.lower()}", resolve)
    return replace(checked.report, exhibit=letter)


def piece(resolve: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """An exhibit's function; while its cell is broken, one that says so when it is called."""
    try:
        return resolve()
    except NameError:

        def gone(*_: Any) -> Any:
            raise NameError("fix the error in the exhibit's cell and keep its name")

        return gone


def _judged(
    item: Exercise, name: str, resolve: Callable[[], Callable[..., Any]]
) -> tuple[Checked, Callable[..., Any] | None]:
    try:
        function = resolve()
    except NameError:
        return _missing(item, f"Keep the name `{name}`; fix its cell."), None
    if not callable(function):
        return _missing(item, f"`{name}` is {_kind(function)} here, and not a function."), None
    return check_apart(item, function), function


def _kind(value: object) -> str:
    from course.called import with_article
    from nanogpt.parts.plain_values import kind_of

    return with_article(kind_of(value))


def _missing(item: Exercise, idea: str) -> Checked:
    return Checked(Report(item.id, "missing", (), 0, idea), True)


def _is_app() -> bool:
    """Whether this is a page of marimo's app mode, which shows no cells."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and marimo.app_meta().mode == "run"


def save_attempt(report: Report, function: Callable[..., Any] | None) -> str:
    """Saves progress and the answer's source; returns what the learner should know, or ""."""
    from course import answers  # which needs the engine's guard, and so torch

    notes: list[str] = []
    new_attempt = False
    if function is not None and report.status != "not_started":
        source = answers.source_of(function, report.exercise.rpartition(".")[2])
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
