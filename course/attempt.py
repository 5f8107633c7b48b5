"""One answer, or one exhibit, in a notebook: found by its name, checked, saved, shown.

Whatever the learner wrote, a lesson goes on below it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from course import progress
from course.calling.loading import LocalAnswer
from course.calling.processes import own_starter
from course.launcher.failure import learn_command
from course.registry import exercise
from course.report import Report
from course.running_text import text_of
from course.saved_answers import save_attempt
from course.source.answer import Answer

if TYPE_CHECKING:
    from course.exercise import Exercise
    from nanogpt.policies import Policies
    from nanogpt.server import ServerPolicies

AnyPolicies = TypeVar("AnyPolicies", "Policies", "ServerPolicies")
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
    function: LocalAnswer | None
    note: str = ""

    @property
    def started(self) -> bool:
        """Whether there is an answer that the lesson can go on with, right or wrong."""
        return self.function is not None and self.report.status != "not_started"

    def or_reference(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """The learner's function as a policy, right or wrong; `reference` while it cannot run."""
        return self.function if self.function is not None and self.started else reference

    def _repr_html_(self) -> str:
        note = f'<p class="sng-report-note">{escape(self.note)}</p>' if self.note else ""
        return self.report._repr_html_() + note  # pyright: ignore[reportPrivateUsage]


def attempt(exercise_id: str, resolve: Callable[[], Callable[..., Any]]) -> Attempt:
    """Checks the function that `resolve` finds: `attempt("l01.plan_step", lambda: plan_step)`.

    A lambda, because the name itself may be gone after a syntax error or a rename. Its text runs in
    a child process, whatever it does. Saves progress and the answer where `progress.enabled()`.
    Raises: KeyError for an unknown exercise.
    """
    item = exercise(exercise_id)
    report, answer = _judged(item, resolve, item.name)
    notes = [save_attempt(report, answer) if progress.enabled() else ""]
    if report.status in _UNUSABLE:
        answer = None
        notes.append(f"Below, the reference stands in for your `{item.name}`.")
    if report.status == "not_started" and _is_app():
        report = replace(report, idea=f"Open the lesson with `{learn_command()}` to write it.")
    function = LocalAnswer(answer.text, answer.name) if answer is not None else None
    return Attempt(report, function, " ".join(filter(None, notes)))


def with_attempts(policies: AnyPolicies, attempts: Mapping[str, Attempt]) -> AnyPolicies:
    """The policies with those of the page's functions that can run."""
    mine = {name: each.or_reference(getattr(policies, name)) for name, each in attempts.items()}
    return replace(policies, **mine)


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
) -> tuple[Report, Answer | None]:
    """The verdict on a function's text, and the text; None where there is no function.

    An exhibit has a name of its own, under which its text stands.
    """
    try:
        function = resolve()
    except NameError as error:
        return _missing(item, f"Keep the name `{name or error.name}`; fix its cell."), None
    if not callable(function):
        what = f"`{name}`" if name else "The exhibit"
        return _missing(item, f"{what} is {_kind(function)} here, and not a function."), None
    own = name or resolve.__code__.co_names[0]
    answer = text_of(function, own)
    if answer is None:
        return _missing(item, f"`{own}` stands in no cell: write it into one."), None
    if not name:
        answer = Answer(f"{answer.text}\n\n{item.name} = {own}\n", item.name)
    return item.check_answer(answer), answer


def _kind(value: object) -> str:
    from course.calling.plain_values import kind_of
    from course.calling.results import with_article

    return with_article(kind_of(value))


def _missing(item: Exercise, idea: str) -> Report:
    return Report(item.id, "missing", (), 0, idea)


def _is_app() -> bool:
    marimo = sys.modules.get("marimo")
    return marimo is not None and marimo.app_meta().mode == "run"
