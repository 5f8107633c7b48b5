"""Two policies on the identical loads, seed by seed: p50 beside p99, and what is only noise."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

COMPARISON_VERSION = 1
_PAIR = checking.shape(seed=checking.whole, baseline=checking.amount, other=checking.amount)
_ROW = checking.shape(
    metric=checking.words,
    label=checking.words,
    unit=checking.text,
    better=checking.one_of("lower", "higher"),
    pairs=checking.list_of(_PAIR, at_least=1),
    mean=checking.number,
    low=checking.maybe(checking.number),
    high=checking.maybe(checking.number),
)
_COMPARISON = checking.shape(
    **dict.fromkeys(("scenario", "baseline", "other"), checking.words),
    modelled=checking.flag,
    rows=checking.list_of(_ROW, at_least=1),
)


class PairedSeeds(Picture):
    """A panel per metric: each seed a pair joined by a line, the mean difference and its interval.

    `comparison` is a `Comparison.to_json()` dict: {"version": 1, "scenario", "baseline", "other",
    "modelled": bool, "rows": [{"metric", "label", "unit", "better": "lower" | "higher", "pairs":
    [{"seed", "baseline", "other"}], "mean", "low", "high"}]}: the mean of other minus baseline and
    its 95 % interval (both ends None for a single seed). `metrics` names the panels in order, None
    all of them. Metrics whose names begin alike ("ttft_p50_ms", "ttft_p99_ms") share their scale,
    and without `metrics` come first, side by side.
    Raises: ValueError for no row, rows of unequal seeds, a metric that is not there, or a mean
    outside its interval.
    """

    comparison = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        comparison: Mapping[str, Any],
        title: str = "",
        *,
        metrics: Sequence[str] | None = None,
        **face: Unpack[Face],
    ) -> None:
        super().__init__(comparison=_checked_comparison(comparison, metrics), title=title, **face)


def _checked_comparison(value: object, metrics: Sequence[str] | None) -> dict[str, Any]:
    checking.version(value, "the comparison", COMPARISON_VERSION)
    found = _COMPARISON(value, "the comparison")
    rows = found["rows"]
    seeds = [pair["seed"] for pair in rows[0]["pairs"]]
    for index, row in enumerate(rows):
        checking.interval(row["mean"], row["low"], row["high"], f"rows[{index}]")
        if row["low"] is None or row["high"] is None:
            row["low"] = row["high"] = None
        own = [pair["seed"] for pair in row["pairs"]]
        if own != seeds:
            raise ValueError(f"{row['metric']!r} has seeds {own}; the first row has {seeds}")
    if metrics is None:  # families first: metrics whose names begin alike share their scale
        families = [row["metric"].split("_")[0] for row in rows]
        rows.sort(key=lambda row: families.count(row["metric"].split("_")[0]) < 2)
    else:
        by_name = {row["metric"]: row for row in rows}
        wanted = checking.list_of(checking.one_of(*by_name), at_least=1)(metrics, "metrics")
        rows = [by_name[name] for name in wanted]
    return {**found, "rows": rows}
