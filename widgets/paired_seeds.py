"""Two policies on the identical loads, seed by seed: p50 beside p99, and what is only noise."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Amount, Natural, Number, OneOrMore, Words, read


class _Pair(Struct):
    seed: Natural
    baseline: Amount
    other: Amount


class _Row(Struct):
    metric: Words
    label: Words
    unit: str
    better: Literal["lower", "higher"]
    pairs: OneOrMore[_Pair]
    mean: Number
    low: Number | None
    high: Number | None

    def __post_init__(self) -> None:
        if self.low is None or self.high is None:
            self.low = self.high = None


class _Comparison(Struct):
    version: Literal[1]
    scenario: Words
    baseline: Words
    other: Words
    modelled: bool
    rows: OneOrMore[_Row]

    def __post_init__(self) -> None:
        seeds = [pair.seed for pair in self.rows[0].pairs]
        for row in self.rows:
            own = [pair.seed for pair in row.pairs]
            if own != seeds:
                raise ValueError(f"{row.metric!r} has seeds {own}; the first row has {seeds}")


class PairedSeeds(Picture):
    """A panel per metric: each seed a pair joined by a line, the mean difference and its interval.

    `comparison` is a `Comparison.to_json()` dict: `mean` is that of other minus baseline, with its
    95 % interval (both ends None for a single seed). `metrics` names the panels in order, None all
    of them. Metrics whose names begin alike ("ttft_p50_ms", "ttft_p99_ms") share their scale, and
    without `metrics` come first, side by side.
    Raises: ValueError for no row, rows of unequal seeds, or a metric that is not there.
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
    found = read(value, _Comparison, "the comparison")
    rows = found["rows"]
    if metrics is None:  # families first: metrics whose names begin alike share their scale
        families = [row["metric"].split("_")[0] for row in rows]
        rows.sort(key=lambda row: families.count(row["metric"].split("_")[0]) < 2)
    else:
        by_name = {row["metric"]: row for row in rows}
        missing = [name for name in metrics if name not in by_name]
        if missing or not metrics:
            raise ValueError(f"metrics are {metrics}; they must be among {', '.join(by_name)}")
        rows = [by_name[name] for name in metrics]
    return {**found, "rows": rows}
