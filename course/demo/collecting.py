"""What a lesson shows, collected once: the pristine notebook, run with the reference answers.

Nothing that the presenter has done is read or written: the run has an empty folder of its own.
"""

import importlib
from typing import Any

from course.lesson_map import Lesson
from course.newcomer import newcomer
from course.registry import lesson_exercises


def collect(lesson: Lesson) -> list[Any]:
    """The outputs of the lesson's cells, in the order of the page, None for one without."""
    notebook = importlib.import_module(f"lessons.{lesson.stem}")
    answers = {item.name: item.right[0] for item in lesson_exercises(lesson.stem)}
    with newcomer():
        outputs, _ = notebook.app.run(defs=answers)
    return list(outputs)
