"""What a lesson shows, collected once: the pristine notebook, run with the reference answers.

Nothing that the presenter has done is read or written: the run has an empty folder of its own.
"""

import importlib
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from course.lesson_map import Lesson
from course.registry import lesson_exercises


def collect(lesson: Lesson) -> list[Any]:
    """The outputs of the lesson's cells, in the order of the page, None for one without."""
    notebook = importlib.import_module(f"lessons.{lesson.stem}")
    answers = {item.name: item.right[0] for item in lesson_exercises(lesson.stem)}
    with _nobodys_work():
        outputs, _ = notebook.app.run(defs=answers)
    return list(outputs)


@contextmanager
def _nobodys_work() -> Generator[None]:
    """For this long, the learner's folder is one that is empty, and gone afterwards."""
    name = "SERVING_NANOGPT_WORK"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as empty:
        os.environ[name] = empty
        try:
            yield
        finally:
            del os.environ[name]
            if before is not None:
                os.environ[name] = before
