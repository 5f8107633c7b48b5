"""The fleets' metrics as text: of one run, and over many seeds."""

from collections.abc import Sequence
from statistics import fmean

from nanogpt.experiments.fleet_comparison import Comparison, Row, Summary
from nanogpt.experiments.text_tables import short_number, text_table
from nanogpt.fleet.costs import SOURCE_COST

LABELS = (
    "Throughput (tok/s)", "TTFT P50 (ms)", "TTFT P99 (ms)", "ITL mean (ms)", "ITL P99 (ms)",
    "SLO violations", "KV hit rate", "Preemptions", "Completed", "Queue depth, most",
    "Workers busy, mean", "Ended at (s)",
)  # fmt: skip


def metrics_table(heading: str, summaries: Sequence[Summary], num_workers: int) -> str:
    """One column per fleet."""
    columns = [_cells(each, num_workers) for each in summaries]
    names = ["modelled", *(summary.policy for summary in summaries)]
    return f"{heading}\n\n{text_table([names, *zip(LABELS, *columns, strict=True)])}\n"


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
    if not any(each.totals.violations or each.totals.preemptions for each in summaries):
        said.append(
            "Every deadline was kept and nothing had to give way: the workers keep up, and the "
            "rules have little to decide. They do in --scenario burst --cost calibrated "
            "--compare-fifo."
        )
    return said


def differences_table(heading: str, comparison: Comparison) -> str:
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
            short_number(fmean(pair.baseline for pair in row.pairs)),
            short_number(fmean(pair.other for pair in row.pairs)),
            _difference(row),
            row.verdict,
        )
        for row in comparison.rows
    ]
    names = ("", comparison.baseline, comparison.other, "difference", "verdict")
    return f"{heading}\n\n{text_table([names, *rows])}\n\n{caption}\n"


def _cells(summary: Summary, num_workers: int) -> list[str]:
    """A fleet's column, in the order of `LABELS`."""
    metrics, depth, busy = summary.totals, summary.queue_depth_most, summary.workers_busy_mean
    times = (metrics.ttft_p50_ms, metrics.ttft_p99_ms, metrics.itl_mean_ms, metrics.itl_p99_ms)
    shares = (metrics.slo_violation_share, metrics.kv_hit_share)
    return [
        f"{metrics.throughput_tokens_per_s:,.0f}",
        *map(short_number, times),
        *("-" if share is None else f"{100 * share:.1f} %" for share in shares),
        f"{metrics.preemptions:,}",
        f"{metrics.completed:,} of {metrics.arrived:,}",
        "-" if depth is None else f"{depth:,}",
        "-" if busy is None else f"{busy:.1f}/{num_workers}",
        f"{summary.end_s:,.1f}",
    ]


def _difference(row: Row) -> str:
    mean, low, high = (short_number(value, "+") for value in (row.mean, row.low, row.high))
    return f"{mean} (no interval)" if row.low is None else f"{mean} [{low}, {high}]"
