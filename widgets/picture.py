"""What every picture takes besides its records: the question above it, and where it opens."""

from typing import Any, TypedDict

import traitlets

from widgets import checking
from widgets.base import Widget


class Face(TypedDict, total=False):
    """The keyword arguments that every picture takes.

    `question` is the one thing that the picture answers, set above it; it may hold `code` and
    **bold**. `start` is the step that it opens at, counted from 0; without one, a picture opens
    where something happens.
    """

    question: str
    start: int | None


class Picture(Widget):
    """A widget that draws records step by step, below its question.

    Raises: ValueError for a question that is no text, or a start that is no step.
    """

    question = traitlets.Unicode().tag(sync=True)
    start = traitlets.Int(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, *, question: str = "", start: int | None = None, **records: Any) -> None:
        super().__init__(
            question=checking.text(question, "the question"),
            start=None if start is None else checking.whole(start, "the start"),
            **records,
        )
