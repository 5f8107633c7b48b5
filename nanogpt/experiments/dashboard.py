"""The fleets' metrics as Rich tables: of one run, also while it goes on, and over many seeds."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TextIO

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from nanogpt.experiments.fleet_comparison import Comparison, Row, Summary
from nanogpt.fleet.costs import SOURCE_COST

PIPE_WIDTH = 100
"""Columns of output that goes to no terminal."""
LABELS = (
    "Throughput (tok/s)", "TTFT P50 (ms)", "TTFT P99 (ms)", "ITL mean (ms)", "ITL P99 (ms)",
    "SLO violations", "KV hit rate", "Preemptions", "Completed", "Queue depth, most",
    "Workers busy, mean", "Ended at (s)",
)  # fmt: skip


def make_console(stream: TextIO) -> Console:
    """A console on the stream, as wide as its terminal, that colours no numbers."""
    return Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False)


def make_screen(console: Console) -> Live | None:
    """A place to redraw a table in, erased at the end; None unless the console is a terminal."""
    if not console.file.isatty() or console.is_dumb_terminal:
        return None
    return Live(console=console, auto_refresh=False, transient=True)


def metrics_table(heading: str, summaries: Sequence[Summary], num_workers: int, of: str) -> Group:
    """One column per fleet; `of` says which time the figures are of."""
    columns = [_cells(each, num_workers) for each in summaries]
    names = [summary.policy for summary in summaries]
    table = _table(names, zip(LABELS, *columns, strict=True))
    return Group(heading, table, f"modelled; {of}")


def remarks(summaries: Sequence[Summary], cost: str) -> list[str]:
    """Sentences on what a run's figures do not say by themselves."""
    totals = summaries[0].totals
    if not totals.arrived:
        return ["No request arrived: give it more time (--duration) or a higher rate (--rps)."]
    said: list[str] = []
    if cost == SOURCE_COST.name:
        said.append(
            "These are the source's costs: a step of B requests takes 0.05 + 0.1 B ms, and a "
            "draft's tokens come out together. So ITL is far below any real model's; for one, "
            "--cost calibrated."
        )
    if totals.refused:
        said.append(
            f"{totals.refused:,} of {totals.arrived:,} requests need more KV tokens than a worker "
            "has (--kv-slots), and were refused."
        )
    if not any(e.stopped or e.totals.violations or e.totals.preemptions for e in summaries):
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
    rows = [
        (
            f"{row.label} ({row.unit})" if row.unit else row.label,
            _number(fmean(pair.baseline for pair in row.pairs)),
            _number(fmean(pair.other for pair in row.pairs)),
            _difference(row),
            row.verdict,
        )
        for row in comparison.rows
    ]
    names = (comparison.baseline, comparison.other, "difference", "verdict")
    return Group(heading, _table(names, rows), caption)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.ROUNDED)
    table.add_column("Metric", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _cells(summary: Summary, num_workers: int) -> list[str]:
    """A fleet's column, in the order of `LABELS`."""
    metrics, depth, busy = summary.totals, summary.queue_depth_most, summary.workers_busy_mean
    times = (metrics.ttft_p50_ms, metrics.ttft_p99_ms, metrics.itl_mean_ms, metrics.itl_p99_ms)
    shares = (metrics.slo_violation_share, metrics.kv_hit_share)
    return [
        f"{metrics.throughput_tokens_per_s:,.0f}",
        *map(_number, times),
        *("-" if share is None else f"{100 * share:.1f} %" for share in shares),
        f"{metrics.preemptions:,}",
        f"{metrics.completed:,} of {metrics.arrived:,}",
        "-" if depth is None else f"{depth:,}",
        "-" if busy is None else f"{busy:.1f}/{num_workers}",
        f"{summary.end_s:,.1f}",
    ]


def _difference(row: Row) -> str:
    if row.low is None or row.high is None:
        return f"{_number(row.mean, '+')} (no interval)"
    return f"{_number(row.mean, '+')} [{_number(row.low, '+')}, {_number(row.high, '+')}]"


def _number(value: float | None, sign: str = "") -> str:
    """At least three digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:{sign},.{0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2}f}"
