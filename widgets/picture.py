"""The base of the widgets: the prediction that they wait for, a picture's question and opening."""

from typing import Any, TypedDict

import anywidget
import traitlets

from widgets import assets
from widgets.records import Natural, read


class Widget(anywidget.AnyWidget):
    """A widget of the course.

    `after` is the key of a `Prediction` of the same page, or "": until that one is committed or
    shown, the widget says so and draws nothing.
    """

    after = traitlets.Unicode().tag(sync=True)

    def __init_subclass__(cls, styles: tuple[str, ...] = ()) -> None:
        """Give the class the script and the style that are called as its module is.

        `styles` are those of other widgets that it uses too.
        """
        name = cls.__module__.rpartition(".")[2]
        if cls.__module__ != __name__ and not hasattr(cls, "_esm"):  # anywidget makes subclasses
            cls._esm, cls._css = assets.esm(name), assets.css(*styles, name)
        super().__init_subclass__()


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
            title=read(title, str, "the title"),
            question=read(question, str, "the question"),
            start=read(start, Natural | None, "the start"),
            **records,
        )
