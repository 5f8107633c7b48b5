"""Curves: named series of points on labelled axes, with sliders that choose among computed ones."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture

_STYLES = ("line", "points")


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

    _esm = assets.esm("curves")
    _css = assets.css("curves")
    series = traitlets.List(traitlets.Dict()).tag(sync=True)
    x = traitlets.List(traitlets.Unicode()).tag(sync=True)
    y = traitlets.List(traitlets.Unicode()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
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
        chosen = [_checked_slider(each) for each in checking.items(sliders, "sliders")]
        known = {slider["name"]: slider["values"] for slider in chosen}
        found = [
            _checked_series(each, known) for each in checking.items(series, "series", at_least=1)
        ]
        if log_x and any(point[0] <= 0 for each in found for point in each["points"]):
            raise ValueError("an x is 0 or less; on a logarithmic axis it must be above 0")
        super().__init__(
            series=found,
            x=_checked_axis(x, "x"),
            y=_checked_axis(y, "y"),
            title=checking.text(title, "the title"),
            sliders=chosen,
            source=checking.text(source, "the source"),
            log_x=log_x,
            **face,
        )


def _checked_axis(value: object, what: str) -> list[str]:
    found = checking.items(value, f"the axis {what}")
    if len(found) != 2:
        raise ValueError(f"the axis {what} has {len(found)} words; it needs a name and a unit")
    name = checking.text(found[0], f"the name of the axis {what}", empty=False)
    return [name, checking.text(found[1], f"the unit of the axis {what}")]


def _checked_slider(value: object) -> dict[str, Any]:
    found = checking.record(value, "a slider", ("name", "values"))
    name = checking.text(found["name"], "the name of a slider", empty=False)
    values = checking.items(found["values"], f"the values of slider {name!r}", at_least=2)
    for each in values:
        if not checking.is_number(each):
            checking.text(each, f"a value of slider {name!r}", empty=False)
    shown = checking.whole(found.get("shown", 0), f"shown of slider {name!r}")
    if shown >= len(values):
        raise ValueError(f"slider {name!r} shows value {shown}, but it has {len(values)}")
    return {"name": name, "values": values, "shown": shown}


def _checked_series(value: object, sliders: Mapping[str, list[Any]]) -> dict[str, Any]:
    found = checking.record(value, "a series", ("name", "points"))
    name = checking.text(found["name"], "the name of a series", empty=False)
    points = [
        _checked_point(point, name)
        for point in checking.items(found["points"], f"the points of {name!r}", at_least=1)
    ]
    style = found.get("style", "line")
    if style not in _STYLES:
        raise ValueError(f"the style of {name!r} is {style!r}; it must be 'line' or 'points'")
    when = checking.record(found.get("when", {}), f"when of {name!r}", ())
    for slider, wanted in when.items():
        if slider not in sliders:
            raise ValueError(f"{name!r} is shown by slider {slider!r}, which there is not")
        if wanted not in sliders[slider]:
            raise ValueError(f"{name!r} is shown at {slider} = {wanted!r}, which it never is")
    return {"name": name, "points": sorted(points), "style": style, "when": when}


def _checked_point(value: object, name: str) -> list[float]:
    found = checking.items(value, f"a point of {name!r}")
    if len(found) != 2 or not all(checking.is_number(each) for each in found):
        raise ValueError(f"a point of {name!r} is {value!r}; it must be two numbers, x and y")
    return found
