"""Curves: named series of points on labelled axes, with sliders that choose among computed ones."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture


class Curves(Picture):
    """Series over one axis, each named where it ends, and their numbers as a table.

    Each series is {"name", "points": [[x, y], ...]} with an optional "style", "line" or "points",
    and an optional "when": {slider: value}. A name has one colour, and may come once for every
    value of the sliders. `x` and `y` are what the axes count and its unit ("" for none). Each
    slider is {"name", "values": at least two numbers or texts, "shown": the index of the one shown
    at first}; a series is shown while its "when" holds. `source` is said as a chip ("modelled: a
    large GPU"); `log_x` doubles x from tick to tick. `start` has no meaning here.
    Raises: ValueError for a series without points, an unknown style, slider or value, an x of at
    most 0 beside `log_x`.
    """

    series = traitlets.List(traitlets.Dict()).tag(sync=True)
    x = traitlets.List(traitlets.Unicode()).tag(sync=True)
    y = traitlets.List(traitlets.Unicode()).tag(sync=True)
    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)
    log_x = traitlets.Bool().tag(sync=True)

    def __init__(
        self,
        series: Sequence[Mapping[str, Any]],
        x: tuple[str, str],
        y: tuple[str, str],
        title: str = "",
        *,
        sliders: Sequence[Mapping[str, Any]] = (),
        source: str = "",
        log_x: bool = False,
        **face: Unpack[Face],
    ) -> None:
        chosen = checking.list_of(_checked_slider)(sliders, "sliders")
        known = {slider["name"]: slider["values"] for slider in chosen}
        found = [_checked_series(each, known) for each in checking.items(series, "series", 1)]
        if log_x and any(point[0] <= 0 for each in found for point in each["points"]):
            raise ValueError("an x is 0 or less; on a logarithmic axis it must be above 0")
        super().__init__(
            series=found,
            x=_checked_axis(x, "the axis x"),
            y=_checked_axis(y, "the axis y"),
            title=title,
            sliders=chosen,
            source=checking.text(source, "the source"),
            log_x=log_x,
            **face,
        )


def _checked_axis(value: object, what: str) -> list[str]:
    found = checking.list_of(checking.text)(value, what)
    if len(found) != 2:
        raise ValueError(f"{what} has {len(found)} words; it needs a name and a unit")
    return [checking.words(found[0], f"the name of {what}"), found[1]]


def _checked_slider(value: object, what: str) -> dict[str, Any]:
    found = _SLIDER(value, what)
    if found["shown"] >= len(found["values"]):
        raise ValueError(
            f"slider {found['name']!r} shows value {found['shown']}, but it has "
            f"{len(found['values'])}"
        )
    return found


def _slider_value(value: object, what: str) -> float | str:
    return value if checking.is_number(value) else checking.words(value, what)


_SLIDER = checking.shape(
    name=checking.words,
    values=checking.list_of(_slider_value, at_least=2),
    shown=checking.Optional(checking.whole, 0),
)


def _checked_series(value: object, sliders: Mapping[str, list[Any]]) -> dict[str, Any]:
    found = checking.record(value, "a series", ("name", "points"))
    name = checking.words(found["name"], "the name of a series")
    points = checking.list_of(_checked_point, at_least=1)(found["points"], f"points of {name!r}")
    style = checking.one_of("line", "points")(found.get("style", "line"), f"the style of {name!r}")
    when = checking.record(found.get("when", {}), f"when of {name!r}")
    for slider, wanted in when.items():
        if slider not in sliders:
            raise ValueError(f"{name!r} is shown by slider {slider!r}, which there is not")
        if wanted not in sliders[slider]:
            raise ValueError(f"{name!r} is shown at {slider} = {wanted!r}, which it never is")
    return {"name": name, "points": sorted(points), "style": style, "when": when}


def _checked_point(value: object, what: str) -> list[float]:
    found = checking.items(value, what)
    if len(found) != 2 or not all(checking.is_number(each) for each in found):
        raise ValueError(f"{what} is {value!r}; it must be two numbers, x and y")
    return found
