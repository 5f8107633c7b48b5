"""What a step costs against how many tokens it computes, with the fitted line."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_SERIES = checking.shape(
    name=checking.words,
    modelled=checking.flag,
    fixed_us=checking.amount,
    token_us=checking.amount,
    floor_us=checking.Optional(checking.amount, 0),
    points=checking.Optional(
        checking.list_of(checking.shape(tokens=checking.positive, us=checking.amount)), ()
    ),
)


class StepCost(Picture):
    """Measured steps as points, and the line fixed + the larger of floor and tokens x per token.

    Each series is {"name": str, "modelled": bool, "fixed_us": number, "token_us": number} with
    optional "floor_us" and "points", a list of {"tokens": int, "us": number}. `max_tokens` is the
    right end of the axis; by default the most tokens of any point, 64 when there is none.
    Units: microseconds in, milliseconds on the axis.
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
        found = checking.list_of(_SERIES, at_least=1)(series, "series")
        most = max((point["tokens"] for each in found for point in each["points"]), default=64)
        super().__init__(
            series=found,
            title=title,
            max_tokens=checking.whole(most if max_tokens is None else max_tokens, "max_tokens", 1),
            **face,
        )
