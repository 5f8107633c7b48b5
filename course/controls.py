"""A slider or a chooser beside a figure: marimo's own in marimo, ipywidgets' in Jupyter.

One declaration, in two cells: the first makes the control and shows it, the second says what to
draw for a value.

    window = slider("Window W", (8, 16, 32), 16)
    window

    beside(window, lambda value: Figure(kv_over_time(runs[value])))

marimo runs the second cell again when the control is moved, since it names it. Jupyter runs no cell
by itself: there the drawing watches the control. A page of the site has the drawings of all values.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

_WHOLE_LABEL = {"description_width": "initial"}


class Sampled(Protocol):
    """A value that a notebook shows as HTML."""

    def _repr_html_(self) -> str: ...


class Declared(NamedTuple):
    """The arguments of a control's declaration, which marimo's own does not keep."""

    label: str
    values: tuple[Any, ...]


def slider(label: str, values: Sequence[float], start: float) -> Any:
    """A control named `label` that steps through the numbers `values`; its `value` is one of them.

    Raises: ValueError for fewer than two values, two alike, or a start that is none of them.
    """
    return _made(
        label, values, start, "SelectionSlider",
        lambda ui: ui.slider(steps=list(values), value=start, label=label, show_value=True),
    )  # fmt: skip


def chooser(label: str, values: Sequence[str], start: str) -> Any:
    """A control named `label` that shows one of the texts `values` at a time, its `value`.

    Raises: ValueError for fewer than two values, two alike, or a start that is none of them.
    """
    return _made(
        label, values, start, "Dropdown",
        lambda ui: ui.dropdown(list(values), value=start, label=label),
    )  # fmt: skip


def _made(
    label: str,
    values: Sequence[Any],
    start: object,
    ipywidget: str,
    in_marimo: Callable[[Any], Any],
) -> Any:
    """The control: ipywidgets' of this name, or what `in_marimo` makes with marimo's `ui`."""
    if len(set(values)) < max(2, len(values)):
        raise ValueError(f"{label!r} has the values {list(values)}; it needs two or more, all new")
    if start not in values:
        raise ValueError(f"{label!r} starts at {start!r}, which is none of {list(values)}")
    if in_jupyter():
        make = getattr(_ipywidgets(), ipywidget)
        return make(options=list(values), value=start, description=label, style=_WHOLE_LABEL)
    import marimo as mo

    control = in_marimo(mo.ui)
    control.declared = Declared(label, tuple(values))
    return control


def _ipywidgets() -> Any:
    import ipywidgets  # pyright: ignore[reportMissingTypeStubs]

    return ipywidgets


@dataclass(frozen=True, slots=True)
class Beside:
    """The picture beside a control: `content`, drawn by `draw` from the control's value."""

    control: Any
    draw: Callable[[Any], Sampled]
    content: Sampled

    def _repr_html_(self) -> str:
        return self.content._repr_html_()  # pyright: ignore[reportPrivateUsage]


def beside(control: Any, draw: Callable[[Any], Sampled]) -> Any:
    """The picture that `draw` makes of the control's value, drawn anew whenever that changes."""
    if not in_jupyter():
        return Beside(control, draw, draw(control.value))
    drawn = _ipywidgets().HTML(_html(draw, control.value))

    def redraw(change: Any) -> None:
        drawn.value = _html(draw, change["new"])

    control.observe(redraw, names="value")
    return drawn


def is_control(shown: object) -> bool:
    """Whether what a marimo cell shows is a control of ours, which does nothing by itself."""
    return isinstance(getattr(shown, "declared", None), Declared)


def _html(draw: Callable[[Any], Sampled], value: Any) -> str:
    return draw(value)._repr_html_()  # pyright: ignore[reportPrivateUsage]


def in_jupyter() -> bool:
    """Whether this process is a Jupyter kernel; marimo's may have loaded IPython too."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
