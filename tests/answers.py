"""Right and wrong answers to every exercise, as the tests take them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course.attempt import Attempt
from course.lesson_map import LESSONS, entries
from course.registry import exercise
from course.report import Report


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong answer, and the misconception that its report must name."""

    exercise: str
    name: str
    key: str
    function: Callable[..., Any]


def worked(exercise_id: str) -> Callable[..., Any]:
    """The worked answer."""
    return right(exercise_id)[0]


def right(exercise_id: str) -> Sequence[Callable[..., Any]]:
    """Right answers of several styles, the worked one first."""
    return exercise(exercise_id).right


def wrong(exercise_id: str) -> list[Wrong]:
    """Every way to write every misconception."""
    records = exercise(exercise_id).misconceptions
    found: list[Wrong] = []
    for key, way in [(each.key, way) for each in records for way in each.written]:
        number = 1 + sum(each.key == key for each in found)
        found.append(Wrong(exercise_id, f"{key} {number}" if number > 1 else key, key, way))
    return found


def written(exercise_id: str, name: str) -> Callable[..., Any]:
    """The wrong answer of this name: a misconception's key, "KEY 2" for another way to write it."""
    return next(each.function for each in wrong(exercise_id) if each.name == name)


def attempted(exercise_id: str, function: Callable[..., Any] | None = None) -> Attempt:
    """An attempt that has failed, whatever the function; not started without one."""
    status = "not_started" if function is None else "failed"
    return Attempt(Report(exercise_id, status, (), 0, ""), function)


# Read from the text of the solutions: importing them would take longer than collecting tests.
IDS = [item.id for lesson in LESSONS for item in entries(lesson)]
