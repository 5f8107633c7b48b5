"""Right and wrong answers to every exercise, as the tests take them."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course.exercise import Exercise
from course.registry import exercise, exercises


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong answer, and the misconception that its report must name."""

    exercise: str
    name: str
    key: str
    function: Callable[..., Any]


def _old(exercise_id: str) -> Any:
    return importlib.import_module(f"solutions.{exercise(exercise_id).lesson}")


def worked(exercise_id: str) -> Callable[..., Any]:
    """The worked answer."""
    return right(exercise_id)[0]


def right(exercise_id: str) -> Sequence[Callable[..., Any]]:
    """Right answers of several styles, the worked one first."""
    item: Any = exercise(exercise_id)
    return item.right if isinstance(item, Exercise) else _old(exercise_id).RIGHT[exercise_id]


def wrong(exercise_id: str) -> list[Wrong]:
    """Every way to write every misconception."""
    item: Any = exercise(exercise_id)
    if not isinstance(item, Exercise):
        found = [each for each in _old(exercise_id).WRONG if each.exercise == exercise_id]
        return [Wrong(each.exercise, each.name, each.key, each.function) for each in found]
    found = []
    for key, way in [(each.key, way) for each in item.misconceptions for way in each.written]:
        number = 1 + sum(each.key == key for each in found)
        found.append(Wrong(exercise_id, f"{key} {number}" if number > 1 else key, key, way))
    return found


def still_right(exercise_id: str) -> Mapping[str, str]:
    """Weaker answers that no check can tell from right ones, and why."""
    item: Any = exercise(exercise_id)
    if isinstance(item, Exercise):
        return item.still_right
    known: dict[str, dict[str, str]] = getattr(_old(exercise_id), "STILL_RIGHT", {})
    return known.get(exercise_id, {})


IDS = [item.id for item in exercises()]
