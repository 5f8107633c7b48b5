"""What a step costs against how many tokens it computes, with the fitted line."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture


class StepCost(Picture):
    """Measured steps as points, and the line fixed + the larger of floor and tokens x per token.

    Each series is {"name": str, "modelled": bool, "fixed_us": number, "token_us": number} with
    optional "floor_us" and "points", a list of {"tokens": int, "us": number}. `max_tokens` is the
    right end of the axis; by default the most tokens of any point, 64 when there is none.
    Units: microseconds in, milliseconds on the axis.
    Raises: ValueError for no series or numbers below 0.
    """

    _esm = assets.esm("step_cost")
    _css = assets.css("step_cost")
    series = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    max_tokens = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        series: Sequence[Mapping[str, Any]],
        title: str = "",
        max_tokens: int | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = [_checked_series(each) for each in checking.items(series, "series", at_least=1)]
        most = max((point["tokens"] for each in found for point in each["points"]), default=64)
        super().__init__(
            series=found,
            title=checking.text(title, "the title"),
            max_tokens=checking.whole(most if max_tokens is None else max_tokens, "max_tokens", 1),
            **face,
        )


def _checked_series(value: object) -> dict[str, Any]:
    found = checking.record(value, "a series", ("name", "modelled", "fixed_us", "token_us"))
    name = checking.text(found["name"], "the name of a series", empty=False)
    points = [
        checking.record(point, f"a point of {name!r}", ("tokens", "us"))
        for point in checking.items(found.get("points", []), f"the points of {name!r}")
    ]
    return {
        "name": name,
        "modelled": bool(found["modelled"]),
        "fixed_us": checking.amount(found["fixed_us"], f"fixed_us of {name!r}"),
        "token_us": checking.amount(found["token_us"], f"token_us of {name!r}"),
        "floor_us": checking.amount(found.get("floor_us", 0), f"floor_us of {name!r}"),
        "points": [
            {
                "tokens": checking.whole(point["tokens"], f"tokens of a point of {name!r}", 1),
                "us": checking.amount(point["us"], f"us of a point of {name!r}"),
            }
            for point in points
        ],
    }
