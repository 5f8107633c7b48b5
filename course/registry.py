"""Every exercise of the course, found through the modules that define them.

A lesson's module is imported when one of its exercises is asked for, and no other lesson's.
"""

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from course.callees import name_callee
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
    if (_SOLUTIONS / stem).is_dir():
        return _whole(stem)
    found: tuple[Exercise, ...] = importlib.import_module(f"course.checks.{stem}").EXERCISES
    return tuple(
        dataclasses.replace(item, check=_naming(item, [e for e in found if e is not item]))
        for item in found
    )


def _whole(stem: str) -> tuple[Any, ...]:
    """The exercises that have a module each in solutions/, but for those with an underscore."""
    names = [each.name for each in pkgutil.iter_modules([str(_SOLUTIONS / stem)])]
    modules = [
        importlib.import_module(f"solutions.{stem}.{name}")
        for name in names
        if not name.startswith("_")
    ]
    found = sorted((module.EXERCISE for module in modules), key=lambda item: item.number)
    return tuple(
        dataclasses.replace(item, others=[e for e in found if e is not item]) for item in found
    )


def _naming(item: Exercise, others: Sequence[Exercise]) -> CheckFunction:
    def check(function: Callable[..., Any], *, seed: int = 0) -> Report:
        return name_callee(item.check(function, seed=seed), function, others, seed=seed)

    return check


@functools.cache
def _stems() -> tuple[str, ...]:
    """The lessons with exercises, in order, none of them imported."""
    names = {each.name for each in pkgutil.iter_modules([str(_CHECKS), str(_SOLUTIONS)])}
    return tuple(sorted(name for name in names if re.match(r"l\d\d[a-z]?_", name)))


_CHECKS = Path(__file__).parent / "checks"
_SOLUTIONS = Path(__file__).parents[1] / "solutions"
