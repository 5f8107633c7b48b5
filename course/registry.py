"""Every exercise of the course, found through the check modules that define them."""

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from course.callees import naming_callees
from course.report import Report
from course.task import Task


class CheckFunction(Protocol):
    """A whole check: the same call serves the notebook, the terminal and the class grader."""

    def __call__(self, function: Callable[..., Any], *, seed: int = 0) -> Report:
        """Judges `function`; the same seed asks the same cases."""
        ...


@dataclass(frozen=True, slots=True)
class Exercise:
    """One function to write.

    `id` is "l01.plan_step", `lesson` the stem "l01_chunked_prefill", `name` the function's own;
    `part` is the field of `nanogpt.parts.Parts` that a passed answer fills, if any; `hints` are
    three rungs, from a nudge to the last step before the answer; `task` is what the page says.
    """

    id: str
    lesson: str
    name: str
    title: str
    minutes: int
    points: int
    part: str | None
    hints: tuple[str, str, str]
    check: CheckFunction
    task: Task | None = None


@functools.cache
def exercises() -> tuple[Exercise, ...]:
    """All exercises in the course's order: the `EXERCISES` of each module in `course.checks`.

    Their checks also name the function of the same lesson that fails beneath an answer.
    """
    package = importlib.import_module("course.checks")
    stems = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"course.checks.{stem}") for stem in stems]
    found: list[Exercise] = [e for module in modules for e in getattr(module, "EXERCISES", ())]
    named: list[Exercise] = []
    for item in found:
        others = [e for e in found if e.lesson == item.lesson and e is not item]
        named.append(dataclasses.replace(item, check=naming_callees(item, others)))
    return tuple(named)


def exercise(exercise_id: str) -> Exercise:
    """The exercise with this id. Raises: KeyError naming the id and the known ones."""
    for item in exercises():
        if item.id == exercise_id:
            return item
    known = ", ".join(item.id for item in exercises())
    raise KeyError(f"no exercise {exercise_id!r}; there are {known}")


def lesson_exercises(stem: str) -> tuple[Exercise, ...]:
    """The exercises of the lesson with this stem, in the order of the lesson."""
    return tuple(item for item in exercises() if item.lesson == stem)
