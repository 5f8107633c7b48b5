"""Every exercise of the course, found through the modules that define them.

`solutions/LESSON/NAME.py` holds the exercise NAME of a lesson, a record called EXERCISE; modules
with an underscore are shared by the lesson's exercises. An exercise's module is imported when it is
asked for, and no other exercise's: some of them need torch, which takes a second.
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
    for stem in _stems():
        for name in _names(stem):
            if f"{stem[:3]}.{name}" == exercise_id:
                return _exercise(stem, name)
    known = ", ".join(item.id for item in exercises())
    raise KeyError(f"no exercise {exercise_id!r}; there are {known}")


@functools.cache
def lesson_exercises(stem: str) -> tuple[Exercise, ...]:
    """The exercises of the lesson with this stem, in the order of the lesson.

    Where torch is not installed, those that compute with tensors are left out.
    """
    found: list[Exercise] = []
    for name in _names(stem):
        try:
            found.append(_exercise(stem, name))
        except ImportError as error:
            if error.name != "torch":
                raise
    return tuple(sorted(found, key=lambda item: item.number))


@functools.cache
def _exercise(stem: str, name: str) -> Exercise:
    """The exercise, which knows the lesson's others: one of them may fail beneath an answer."""
    others = {other: functools.partial(_record, stem, other) for other in _names(stem)}
    del others[name]
    return dataclasses.replace(_record(stem, name), others=others)


def _record(stem: str, name: str) -> Exercise:
    return importlib.import_module(f"solutions.{stem}.{name}").EXERCISE


@functools.cache
def _names(stem: str) -> tuple[str, ...]:
    """The names of a lesson's exercises; imports none of them."""
    if stem not in _stems():
        return ()
    names = [each.name for each in pkgutil.iter_modules([str(_SOLUTIONS / stem)])]
    return tuple(name for name in names if not name.startswith("_"))


@functools.cache
def _stems() -> tuple[str, ...]:
    """The stems of the lessons with exercises, in order; imports none of them."""
    names = {each.name for each in pkgutil.iter_modules([str(_SOLUTIONS)])}
    return tuple(sorted(name for name in names if re.match(r"l\d\d[a-z]?_", name)))
