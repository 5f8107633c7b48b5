"""Every exercise of the course, found through the check modules that define them.

A lesson's module is imported when one of its exercises is asked for, and no other lesson's.
"""

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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


def exercises() -> tuple[Exercise, ...]:
    """All exercises in the course's order: the `EXERCISES` of each module in `course.checks`."""
    return tuple(item for stem in _stems() for item in lesson_exercises(stem))


def exercise(exercise_id: str) -> Exercise:
    """The exercise with this id. Raises: KeyError naming the id and the known ones."""
    number = re.escape(exercise_id.partition(".")[0])
    for stem in _stems():
        for item in lesson_exercises(stem) if re.match(rf"{number}[a-z]?_", stem) else ():
            if item.id == exercise_id:
                return item
    known = ", ".join(item.id for item in exercises())
    raise KeyError(f"no exercise {exercise_id!r}; there are {known}")


@functools.cache
def lesson_exercises(stem: str) -> tuple[Exercise, ...]:
    """The exercises of the lesson with this stem, in the order of the lesson.

    Their checks also name the function of the same lesson that fails beneath an answer.
    """
    if stem not in _stems():
        return ()
    found: tuple[Exercise, ...] = importlib.import_module(f"course.checks.{stem}").EXERCISES
    return tuple(
        dataclasses.replace(item, check=naming_callees(item, [e for e in found if e is not item]))
        for item in found
    )


@functools.cache
def _stems() -> tuple[str, ...]:
    """The lessons with checks, in order, none of them imported."""
    folder = Path(__file__).parent / "checks"
    names = sorted(module.name for module in pkgutil.iter_modules([str(folder)]))
    return tuple(name for name in names if re.match(r"l\d\d[a-z]?_", name))
