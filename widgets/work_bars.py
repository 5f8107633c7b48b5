"""Tokens that go through the model for each generated token, with running totals."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_SERIES = checking.shape(name=checking.words, tokens=checking.list_of(checking.whole, at_least=1))


class WorkBars(Picture):
    """Bars of work per step, one panel per series on one scale, added one step at a time.

    Each series is {"name": str, "tokens": [tokens computed in each step]}.
    Raises: ValueError for no series, an empty one, or token counts below 0.
    """

    series = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, series: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            series=checking.list_of(_SERIES, at_least=1)(series, "series"), title=title, **face
        )
