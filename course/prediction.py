"""Predictions and hints of a lesson as widgets that remember: shown again as they were left."""

import contextlib
from collections.abc import Sequence
from typing import Any

from course import progress
from course.registry import exercise
from widgets import Hints, Prediction


def predict(
    key: str,
    question: str,
    options: Sequence[str] = (),
    answer: float | None = None,
    reveal: str = "",
) -> Prediction:
    """A question whose answer shows once a choice is committed; what was committed is saved.

    `key` is unique in the course ("l01.poisoned_rows"); the rest is the widget's own.
    """
    widget = Prediction(key, question, options, answer, reveal)
    if not progress.enabled():
        return widget
    known = progress.load_prediction(key)
    if known is not None:
        with contextlib.suppress(ValueError):  # the options have changed since: ask again
            widget = Prediction(
                key, question, options, answer, reveal, choice=known.choice, committed=True
            )

    def save(_: Any) -> None:
        if widget.committed and widget.choice is not None:
            with contextlib.suppress(OSError):  # shown all the same, only not remembered
                progress.save_prediction(key, widget.choice)

    widget.observe(save, names="committed")
    return widget


def hints(exercise_id: str) -> Hints:
    """The exercise's three hints, opened one at a time on request; those opened stay open."""
    item = exercise(exercise_id)
    if not progress.enabled():
        return Hints(exercise_id, item.hints)
    widget = Hints(exercise_id, item.hints, shown=progress.load_hints(exercise_id))

    def save(_: Any) -> None:
        with contextlib.suppress(OSError):
            progress.save_hints(exercise_id, widget.shown)

    widget.observe(save, names="shown")
    return widget
