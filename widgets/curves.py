"""Curves: named series of points on labelled axes, with sliders that choose among computed ones."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Unpack

import traitlets
from msgspec import Meta, Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, Number, OneOrMore, Words, read


class _Slider(Struct):
    name: Words
    values: Annotated[list[Number | Words], Meta(min_length=2)]
    shown: Natural = 0

    def __post_init__(self) -> None:
        if self.shown >= len(self.values):
            raise ValueError(
                f"slider {self.name!r} shows value {self.shown}, but it has {len(self.values)}"
            )


class _Series(Struct):
    name: Words
    points: OneOrMore[tuple[Number, Number]]
    style: Literal["line", "points"] = "line"
    when: dict[str, float | str] = {}

    def __post_init__(self) -> None:
        self.points.sort()


class Curves(Picture):
    """Series over one axis, each named where it ends, and their numbers as a table.

    A name has one colour, and may come once for every value of the sliders. `x` and `y` are what
    the axes count and its unit ("" for none). `shown` is the index of the value that a slider shows
    at first; a series is shown while its `when` holds, {slider: value}. `source` is said as a chip
    ("modelled: a large GPU"); `log_x` doubles x from tick to tick. `start` has no meaning here.
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
        chosen = read(sliders, list[_Slider], "the sliders")
        known = {slider["name"]: slider["values"] for slider in chosen}
        found = read(series, OneOrMore[_Series], "the series")
        for each in found:
            each["points"] = [list(point) for point in each["points"]]
            _check_shown(each, known)
        if log_x and any(point[0] <= 0 for each in found for point in each["points"]):
            raise ValueError("an x is 0 or less; on a logarithmic axis it must be above 0")
        super().__init__(
            series=found,
            x=list(read(x, tuple[Words, str], "the axis x")),
            y=list(read(y, tuple[Words, str], "the axis y")),
            title=title,
            sliders=chosen,
            source=read(source, str, "the source"),
            log_x=log_x,
            **face,
        )


def _check_shown(found: Mapping[str, Any], sliders: Mapping[str, list[Any]]) -> None:
    for slider, wanted in found["when"].items():
        if slider not in sliders:
            raise ValueError(f"{found['name']!r} is shown by slider {slider!r}, which there is not")
        if wanted not in sliders[slider]:
            raise ValueError(
                f"{found['name']!r} is shown at {slider} = {wanted!r}, which it never is"
            )
