"""Tokens that go through the model for each generated token, with running totals."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture


class WorkBars(Picture):
    """Bars of work per step, one panel per series on one scale, added one step at a time.

    Each series is {"name": str, "tokens": [tokens computed in each step]}.
    Raises: ValueError for no series, an empty one, or token counts below 0.
    """

    _esm = assets.esm("work_bars")
    _css = assets.css("work_bars")
    series = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, series: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            series=[_checked_series(each) for each in checking.items(series, "series", at_least=1)],
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_series(value: object) -> dict[str, Any]:
    found = checking.record(value, "a series", ("name", "tokens"))
    name = checking.text(found["name"], "the name of a series", empty=False)
    tokens = checking.items(found["tokens"], f"the tokens of {name!r}", at_least=1)
    counts = [checking.whole(each, f"a token count of {name!r}") for each in tokens]
    return {"name": name, "tokens": counts}
