"""One answer in a notebook: found by its name, checked, saved, shown.

Whatever the learner wrote, a lesson goes on below it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from course import answers, progress
from course.calling import with_article
from course.forking import check_apart
from course.registry import Exercise, exercise
from course.report import Report
from nanogpt.plain_values import kind_of


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
    in a process of its own where that is safe, since a function may never come back. Saves progress
    and the answer where `progress.enabled()`. Raises: KeyError for an unknown exercise.
    """
    item = exercise(exercise_id)
    try:
        function = resolve()
    except NameError:
        report = _missing(item, f"Keep the name `{item.name}`; fix the error above.")
        return Attempt(report, None, _saved(report, None))
    if not callable(function):
        kind = with_article(kind_of(function))
        report = _missing(item, f"`{item.name}` is {kind} here, and not a function.")
        return Attempt(report, None, _saved(report, None))
    checked = check_apart(item, function)
    note = _saved(checked.report, function)
    if checked.runs_here:
        return Attempt(checked.report, function, note)
    stands_in = f"Below, the reference stands in for your `{item.name}`."
    return Attempt(checked.report, None, " ".join(filter(None, (note, stands_in))))


def _missing(item: Exercise, idea: str) -> Report:
    return Report(item.id, "missing", (), 0, idea)


def _saved(report: Report, function: Callable[..., Any] | None) -> str:
    return save_attempt(report, function) if progress.enabled() else ""


def save_attempt(report: Report, function: Callable[..., Any] | None) -> str:
    """Saves progress and the answer's source; returns a sentence if that could not be done."""
    try:
        new_attempt = False
        if function is not None and report.status != "not_started":
            source = answers.source_of(function)
            passed = report.status == "passed"
            new_attempt = source is None or answers.save(report.exercise, source, passed=passed)
        progress.record(report, new_attempt=new_attempt)
    except OSError as error:
        return f"Your progress could not be saved: {error.strerror or error}."
    return ""
