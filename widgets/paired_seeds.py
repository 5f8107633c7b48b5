"""Two policies on the identical loads, seed by seed: p50 beside p99, and what is only noise."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

COMPARISON_VERSION = 1
_FIELDS = ("version", "scenario", "baseline", "other", "modelled", "rows")
_ROW_FIELDS = ("metric", "label", "unit", "better", "pairs", "mean", "low", "high")


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

    _esm = assets.esm("paired_seeds")
    _css = assets.css("paired_seeds")
    comparison = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        comparison: Mapping[str, Any],
        title: str = "",
        *,
        metrics: Sequence[str] | None = None,
        **face: Unpack[Face],
    ) -> None:
        super().__init__(
            comparison=_checked_comparison(comparison, metrics),
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_comparison(value: object, metrics: Sequence[str] | None) -> dict[str, Any]:
    found = checking.record(value, "the comparison", _FIELDS)
    if found["version"] != COMPARISON_VERSION:
        raise ValueError(
            f"the comparison has version {found['version']!r}; "
            f"this widget reads version {COMPARISON_VERSION}"
        )
    rows = [
        _checked_row(each, f"row {index}")
        for index, each in enumerate(
            checking.items(found["rows"], "the rows of the comparison", at_least=1)
        )
    ]
    seeds = [pair["seed"] for pair in rows[0]["pairs"]]
    for row in rows:
        own = [pair["seed"] for pair in row["pairs"]]
        if own != seeds:
            raise ValueError(f"{row['metric']!r} has seeds {own}; the first row has {seeds}")
    return {
        **{
            name: checking.text(found[name], f"the {name} of the comparison", empty=False)
            for name in ("scenario", "baseline", "other")
        },
        "modelled": signed.flag(found["modelled"], "modelled of the comparison"),
        "rows": _chosen(rows, metrics),
    }


def _chosen(rows: list[dict[str, Any]], metrics: Sequence[str] | None) -> list[dict[str, Any]]:
    if metrics is None:
        families = [_family(row) for row in rows]
        return sorted(rows, key=lambda row: families.count(_family(row)) < 2)
    by_name = {row["metric"]: row for row in rows}
    for name in checking.items(metrics, "metrics", at_least=1):
        signed.one_of(name, "a metric", tuple(by_name))
    return [by_name[name] for name in metrics]


def _family(row: dict[str, Any]) -> str:
    """What a metric shares its scale with: the first part of its name."""
    return row["metric"].split("_")[0]


def _checked_row(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _ROW_FIELDS)
    mean = signed.number(found["mean"], f"the mean of {what}")
    low, high = found["low"], found["high"]
    if low is None or high is None:
        low = high = None
    else:
        signed.number(low, f"the low end of {what}")
        signed.number(high, f"the high end of {what}")
        if not low <= mean <= high:
            raise ValueError(f"the mean of {what} is {mean}, outside its interval {low} to {high}")
    return {
        **{name: checking.text(found[name], f"the {name} of {what}", empty=False)
           for name in ("metric", "label")},
        "unit": checking.text(found["unit"], f"the unit of {what}"),
        "better": signed.one_of(found["better"], f"better of {what}", ("lower", "higher")),
        "pairs": [
            _checked_pair(each, f"pair {index} of {what}")
            for index, each in enumerate(
                checking.items(found["pairs"], f"the pairs of {what}", at_least=1)
            )
        ],
        "mean": mean, "low": low, "high": high,
    }  # fmt: skip


def _checked_pair(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("seed", "baseline", "other"))
    return {
        "seed": checking.whole(found["seed"], f"the seed of {what}"),
        "baseline": checking.amount(found["baseline"], f"the baseline of {what}"),
        "other": checking.amount(found["other"], f"other of {what}"),
    }
