"""What the widgets share: the prediction that they wait for, a picture's question and opening."""

from typing import Any, TypedDict

import anywidget
import traitlets

from widgets import checking


class Widget(anywidget.AnyWidget):
    """A widget of the course.

    `after` is the key of a `Prediction` of the same page, or "": until that one is committed or
    shown, the widget says so and draws nothing.
    """

    after = traitlets.Unicode().tag(sync=True)


class Face(TypedDict, total=False):
    """The keyword arguments that every picture takes.

    `question` is the one thing that the picture answers, set above it; it may hold `code` and
    **bold**. `start` is the step that it opens at, counted from 0; without one, a picture opens
    where something happens.
    """

    question: str
    start: int | None


class Picture(Widget):
    """A widget that draws records step by step, below its question. Raises: ValueError."""

    title = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    start = traitlets.Int(default_value=None, allow_none=True).tag(sync=True)

    def __init__(
        self, *, title: str = "", question: str = "", start: int | None = None, **records: Any
    ) -> None:
        super().__init__(
            title=checking.text(title, "the title"),
            question=checking.text(question, "the question"),
            start=checking.maybe(checking.whole)(start, "the start"),
            **records,
        )
