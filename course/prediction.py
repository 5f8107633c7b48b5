"""Predictions and hints of a lesson as widgets that remember, and what waits for a prediction."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar, overload

from course import progress
from course.controls import Sampled
from course.registry import exercise
from course.style import stylesheet, themed
from widgets import Hints, Prediction
from widgets.picture import Widget

AnyWidget = TypeVar("AnyWidget", bound=Widget)


def predict(
    key: str,
    question: str,
    options: Sequence[str] = (),
    answer: float | None = None,
    reveal: str = "",
) -> Prediction:
    """A question whose answer shows once a choice is committed, or on request; both are saved.

    `key` is unique in the course ("l01.poisoned_rows"); the rest is the widget's own.
    """
    widget = Prediction(key, question, options, answer, reveal)
    if not progress.enabled():
        return widget
    choice = progress.load_prediction(key)
    if choice is not None:
        with contextlib.suppress(ValueError):  # the options have changed since: ask again
            widget = Prediction(
                key, question, options, answer, reveal, choice=choice, committed=True
            )
    widget.shown = progress.was_shown(key) and not widget.committed

    def save(_: Any) -> None:
        with contextlib.suppress(OSError):  # shown all the same, only not remembered
            if widget.committed and widget.choice is not None:
                progress.save_prediction(key, widget.choice)
            elif widget.shown:
                progress.save_shown(key)

    widget.observe(save, names=["committed", "shown"])
    return widget


@overload
def after(key: str, content: AnyWidget) -> AnyWidget: ...
@overload
def after(key: str, content: Sampled) -> "Withheld": ...
def after(key: str, content: Any) -> Any:
    """`content`, hidden until the prediction `key` of the same page is committed or shown.

    A widget of ours comes back itself; anything else that draws itself as HTML comes back wrapped.
    """
    if isinstance(content, Widget):
        content.after = key
        return content
    return Withheld(key, content)


_CSS = themed("sng-waits") + stylesheet("prediction")
_WAITS = "Your prediction above is about this: press Commit there, or Show me."


@dataclass(frozen=True, slots=True)
class Withheld:
    """Something drawn as HTML that the page's style keeps out of sight until `key` is answered.

    The Prediction notes its key on the page's root element, so that no script is needed here and
    it does not matter which of the two is drawn first.
    """

    key: str
    content: Sampled

    def _repr_html_(self) -> str:
        key = escape(self.key)
        mine = f'[data-sn-after="{key}"]'
        inner = self.content._repr_html_()  # pyright: ignore[reportPrivateUsage]
        return (
            f"<style>{_CSS}"
            f'html:not([data-sn-did~="{key}"]) {mine}>.sng-withheld{{display:none}}'
            f'html[data-sn-did~="{key}"] {mine}>.sng-waits{{display:none}}</style>'
            f'<div data-sn-after="{key}"><p class="sng-waits">{_WAITS}</p>'
            f'<div class="sng-withheld">{inner}</div></div>'
        )


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
