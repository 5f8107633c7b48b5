"""Charts of simulated fleets: one load's latencies and throughput, and many seeds in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nanogpt.figures.chart import Chart, Line, Panel, cumulative

if TYPE_CHECKING:
    from nanogpt.experiments.fleet_comparison import Comparison
    from nanogpt.fleet.fleet_record import FleetRun

PAIRED = ("ttft_p50_ms", "ttft_p99_ms", "slo_violations")


def fleet_run(runs: Sequence[tuple[str, FleetRun]], title: str) -> Chart:
    """How TTFT is distributed, and tokens per second over time, for each named fleet.

    Raises: ValueError when no fleet gave a request a token.
    """
    ttfts = {name: ttfts_ms(run) for name, run in runs}
    if not any(ttfts.values()):
        raise ValueError("no request got a token in these runs, so there is nothing to draw")
    rolling = {
        name: tuple(
            (each.at_us / 1e6, each.rolling.throughput_tokens_per_s) for each in run.samples
        )
        for name, run in runs
    }
    first = Panel(
        ("TTFT", "ms"),
        ("requests with at most that", "%"),
        tuple(cumulative(name, ms) for name, ms in ttfts.items() if ms),
    )
    lines = tuple(Line(name, points) for name, points in rolling.items() if points)
    if not lines:  # over before its first second was
        return Chart(title, (first,), "modelled")
    over_time = Panel(("time", "s"), ("throughput, last 10 s", "tokens/s"), lines)
    return Chart(title, (first, over_time), "modelled")


def ttfts_ms(run: FleetRun) -> list[float]:
    """The TTFT of each request that got a token, in milliseconds."""
    return [
        (outcome.first_token_us - request.arrival_us) / 1000
        for request, outcome in zip(run.workload.requests, run.outcomes, strict=True)
        if outcome.first_token_us is not None
    ]


def seeds_in_pairs(compared: Comparison, title: str) -> Chart:
    """What each seed's load gave the baseline and the other fleet, a panel for each metric.

    Raises: ValueError when no metric has a value in every run.
    """
    rows = [row for row in compared.rows if row.measure.metric in PAIRED]
    if not rows:
        raise ValueError("no metric has a value in every run, so there is nothing to draw")
    panels = [
        Panel(
            ("seed", ""),
            (row.measure.label, row.measure.unit),
            (
                Line(compared.baseline, tuple((p.seed, p.baseline) for p in row.pairs), "points"),
                Line(compared.other, tuple((p.seed, p.other) for p in row.pairs), "points"),
            ),
        )
        for row in rows
    ]
    return Chart(title, tuple(panels), "modelled" if compared.modelled else "")
