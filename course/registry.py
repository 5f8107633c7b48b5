"""Every exercise of the course, found through the modules that define them.

`solutions/LESSON/NAME.py` holds the exercise NAME of a lesson, a record called EXERCISE; modules
with an underscore are shared by the lesson's exercises. A lesson's modules are imported when one
of its exercises is asked for, and no other lesson's.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.exercise import Exercise


_SOLUTIONS = Path(__file__).parents[1] / "solutions"


def exercises() -> tuple[Exercise, ...]:
    """All exercises in the course's order."""
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

    Each knows the others, so that its check can name one that fails beneath an answer. Where torch
    is not installed, those that compute with tensors are left out.
    """
    if stem not in _stems():
        return ()
    names = [each.name for each in pkgutil.iter_modules([str(_SOLUTIONS / stem)])]
    found: list[Exercise] = []
    for name in names:
        if name.startswith("_"):
            continue
        try:
            found.append(importlib.import_module(f"solutions.{stem}.{name}").EXERCISE)
        except ImportError as error:
            if error.name != "torch":
                raise
    found.sort(key=lambda item: item.number)
    return tuple(
        dataclasses.replace(item, others=[e for e in found if e is not item]) for item in found
    )


@functools.cache
def _stems() -> tuple[str, ...]:
    """The stems of the lessons with exercises, in order; imports none of them."""
    names = {each.name for each in pkgutil.iter_modules([str(_SOLUTIONS)])}
    return tuple(sorted(name for name in names if re.match(r"l\d\d[a-z]?_", name)))
