"""What a step costs against how many tokens it computes, with the fitted line."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Amount, OneOrMore, Positive, Words, read


class _Point(Struct):
    tokens: Positive
    us: Amount


class _Series(Struct):
    name: Words
    modelled: bool
    fixed_us: Amount
    token_us: Amount
    floor_us: Amount = 0
    points: list[_Point] = []


class StepCost(Picture):
    """Measured steps as points, and the line fixed + the larger of floor and tokens x per token.

    `max_tokens` is the right end of the axis; by default the most tokens of any point, 64 when
    there is none. Units: microseconds in, milliseconds on the axis.
    Raises: ValueError for no series or numbers below 0.
    """

    series = traitlets.List(traitlets.Dict()).tag(sync=True)
    max_tokens = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        series: Sequence[Mapping[str, Any]],
        title: str = "",
        max_tokens: int | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = read(series, OneOrMore[_Series], "the series")
        most = max((point["tokens"] for each in found for point in each["points"]), default=64)
        super().__init__(
            series=found,
            title=title,
            max_tokens=read(most if max_tokens is None else max_tokens, Positive, "max_tokens"),
            **face,
        )
