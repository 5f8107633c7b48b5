"""Tokens that go through the model for each generated token, with running totals."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Words, read


class _Series(Struct):
    name: Words
    tokens: OneOrMore[Natural]


class WorkBars(Picture):
    """Bars of work per step, one panel per series on one scale, added one step at a time.

    Raises: ValueError for no series, an empty one, or token counts below 0.
    """

    series = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, series: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(series=read(series, OneOrMore[_Series], "the series"), title=title, **face)
