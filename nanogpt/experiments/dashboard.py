"""The fleet's metrics as Rich tables: while it runs, at its end, and over many seeds."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from nanogpt.experiments.fleet_comparison import Comparison, Row, Summary
from nanogpt.fleet.costs import SOURCE_COST
from nanogpt.fleet.metrics import WINDOW_S, Metrics, Sample

PIPE_WIDTH = 100
"""Columns where no terminal says how wide it is."""
LABELS = (
    "Throughput (tok/s)", "TTFT P50 (ms)", "TTFT P99 (ms)", "ITL mean (ms)", "ITL P99 (ms)",
    "SLO violations", "KV hit rate", "Preemptions", "Completed", "Queue depth", "Workers busy",
)  # fmt: skip


def make_console(stream: TextIO) -> Console:
    """A console on the stream, as wide as its terminal, that colours no numbers."""
    return Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False)


@contextmanager
def live(console: Console) -> Generator[Live]:
    """A table that is redrawn in place when it is told to, and gone in the end.

    What the run ends with is printed after it; what only a glance was for does not stay.
    """
    with Live(console=console, auto_refresh=False, transient=True) as screen:
        yield screen


def live_table(
    heading: str, names: Sequence[str], samples: Sequence[Sample], num_workers: int
) -> Group:
    """One column per fleet: the last 10 seconds of the virtual clock, and counts since 0."""
    at_s = max(sample.at_us for sample in samples) / 1e6
    table = _table(names)
    columns = [
        [
            *_timings(sample.rolling),
            f"{sample.preemptions_so_far:,}",
            f"{sample.completed_so_far:,} of {sample.arrived_so_far:,}",
            f"{sample.rolling.queue_depth:,}",
            f"{sample.rolling.workers_busy}/{num_workers}",
        ]
        for sample in samples
    ]
    for label, *cells in zip(LABELS, *columns, strict=True):
        table.add_row(label, *cells)
    return Group(heading, table, f"modelled; the last {WINDOW_S} s, at {at_s:.1f} s")


def totals_table(heading: str, summaries: Sequence[Summary], num_workers: int) -> Group:
    """One column per fleet: the whole run."""
    stopped = any(summary.stopped for summary in summaries)
    what = "stopped early: what there is until then" if stopped else "the whole run"
    table = _table([summary.policy for summary in summaries])
    columns = [_totals(summary, num_workers) for summary in summaries]
    labels = (*LABELS[:-2], "Queue depth, most", "Workers busy, mean", "Ended at (s)")
    for label, *cells in zip(labels, *columns, strict=True):
        table.add_row(label, *cells)
    return Group(heading, table, f"modelled; {what}")


def remarks(summaries: Sequence[Summary], cost: str) -> list[str]:
    """What the figures of a run do not say by themselves, a sentence each."""
    said: list[str] = []
    if cost == SOURCE_COST.name:
        said.append(
            "These are the source's costs: a step of B requests takes 0.05 + 0.1 B ms, and a "
            "draft's tokens come out together. So ITL is far below any real model's; for one, "
            "--cost calibrated."
        )
    totals = summaries[0].totals
    calm = not any(each.totals.violations or each.totals.preemptions for each in summaries)
    if not totals.arrived:
        return ["No request arrived: give it more time (--duration) or a higher rate (--rps)."]
    if totals.refused:
        said.append(
            f"{totals.refused:,} of {totals.arrived:,} requests need more KV tokens than a worker "
            "has (--kv-slots), and were refused."
        )
    if calm and not any(each.stopped for each in summaries):
        said.append(
            "Every deadline was kept and nothing had to give way: the workers keep up, and the "
            "rules have little to decide. They do in --scenario burst --cost calibrated "
            "--compare-fifo."
        )
    return said


def differences_table(heading: str, comparison: Comparison) -> Group:
    """One row per metric: both means over the seeds, and the mean difference with its interval."""
    num_seeds = len(comparison.rows[0].pairs)
    seeds = f"{num_seeds} seed{'s' if num_seeds > 1 else ''}"
    caption = (
        f"modelled; means of {seeds}; difference = {comparison.other} - {comparison.baseline} on "
        "the same load, with its 95 % interval"
    )
    if num_seeds > 1:
        caption += " (each by itself misses once in twenty)"
    headings = (comparison.baseline, comparison.other, "difference", "verdict")
    table = _table(headings)
    for row in comparison.rows:
        label = f"{row.measure.label} ({row.measure.unit})" if row.measure.unit else (
            row.measure.label
        )  # fmt: skip
        means = [
            sum(values) / num_seeds
            for values in (
                [pair.baseline for pair in row.pairs], [pair.other for pair in row.pairs],
            )
        ]  # fmt: skip
        table.add_row(label, *map(_number, means), _difference(row), row.verdict)
    return Group(heading, table, caption)


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=box.ROUNDED)
    table.add_column("Metric", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _timings(metrics: Metrics) -> list[str]:
    return [
        f"{metrics.throughput_tokens_per_s:,.0f}",
        _number(metrics.ttft_p50_ms),
        _number(metrics.ttft_p99_ms),
        _number(metrics.itl_mean_ms),
        _number(metrics.itl_p99_ms),
        _share(metrics.slo_violation_share),
        _share(metrics.kv_hit_share),
    ]


def _totals(summary: Summary, num_workers: int) -> list[str]:
    totals, depth, busy = summary.totals, summary.queue_depth_most, summary.workers_busy_mean
    return [
        *_timings(totals),
        f"{totals.preemptions:,}",
        f"{totals.completed:,} of {totals.arrived:,}",
        "-" if depth is None else f"{depth:,}",
        "-" if busy is None else f"{busy:.1f}/{num_workers}",
        f"{summary.end_s:,.1f}",
    ]


def _difference(row: Row) -> str:
    difference = row.difference
    if difference.low is None or difference.high is None:
        return f"{_signed(difference.mean)} (no interval)"
    interval = f"[{_signed(difference.low)}, {_signed(difference.high)}]"
    return f"{_signed(difference.mean)} {interval}"


def _number(value: float | None) -> str:
    """Three digits or more of it, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.{_decimals(value)}f}"


def _signed(value: float) -> str:
    return f"{value:+,.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    return 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
