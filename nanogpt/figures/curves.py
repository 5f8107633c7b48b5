"""A function for each figure that several lessons or commands draw of runs' records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from nanogpt.experiments.trace_metrics import all_request_metrics
from nanogpt.figures.drawing import course_style, curve, distribution, label_axes, mark, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nanogpt.contest.scoring import Round
    from nanogpt.experiments.fleet_comparison import Comparison
    from nanogpt.experiments.paired_statistics import Estimate
    from nanogpt.experiments.slo_table import Cell
    from nanogpt.fleet.fleet_record import FleetRun
    from nanogpt.trace import Trace

PAIRED_METRICS = ("ttft_p50_ms", "ttft_p99_ms", "slo_violations")


@course_style()
def line_chart(
    panels: Mapping[str, Mapping[str, Iterable[tuple[float, float]]]],
    x: str,
    title: str,
    source: str = "",
    *,
    marks: Mapping[str, float] = {},
    log_x: bool = False,
    from_0: bool = True,
) -> Figure:
    """Named curves of (x, y) points, a panel for each name of a vertical axis; `marks` are ys."""
    figure = new_figure(title, len(panels), source)
    for axes, (y, named) in zip(figure.axes, panels.items(), strict=True):
        for name, points in named.items():
            curve(axes, name, points)
        for name, at in marks.items():
            mark(axes, name, y=at)
        label_axes(axes, x, y, log_x=log_x, from_0=from_0)
    return figure


@course_style()
def distributions(
    panels: Mapping[tuple[str, str], Mapping[str, Sequence[float]]], title: str, source: str = ""
) -> Figure:
    """A panel of distributions by (name of the values, name of what has them); empty ones go.

    Raises: ValueError when all of them are empty.
    """
    kept = {axes: {name: v for name, v in of.items() if v} for axes, of in panels.items()}
    kept = {axes: of for axes, of in kept.items() if of}
    if not kept:
        raise ValueError("no request got a token in these runs, so there is nothing to draw")
    figure = new_figure(title, len(kept), source)
    for axes, ((what, whose), of) in zip(figure.axes, kept.items(), strict=True):
        for name, values in of.items():
            distribution(axes, name, values)
        label_axes(axes, what, f"{whose} with at most that (%)")
    return figure


def latencies(traces: Mapping[str, Trace], title: str) -> Figure:
    """Distributions of TTFT and ITL, a curve for each named run.

    Raises: ValueError when no request of any run got a token.
    """
    found = {name: all_request_metrics(trace) for name, trace in traces.items()}
    ttfts = {name: [each.ttft_us / 1000 for each in of] for name, of in found.items()}
    itls = {name: [gap / 1000 for each in of for gap in each.itls_us] for name, of in found.items()}
    clocks = dict.fromkeys(trace.clock for trace in traces.values())
    source = "; ".join(f"modelled: {each.name}" if each.modelled else each.name for each in clocks)
    return distributions(
        {("TTFT (ms)", "requests"): ttfts, ("ITL (ms)", "tokens"): itls}, title, source
    )


@course_style()
def step_cost(
    measured: Sequence[tuple[float, float]],
    fitted: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    source: str = "",
) -> Figure:
    """A step's cost against its tokens: (tokens, µs) as measured, and by each fitted curve."""
    figure = new_figure(title, 1, source)
    [axes] = figure.axes
    curve(axes, "measured", [(n, us / 1000) for n, us in measured], linestyle="none")
    for name, points in fitted.items():
        curve(axes, name, [(n, us / 1000) for n, us in points], marker="none")
    label_axes(axes, "tokens in the step", "a step (ms)")
    return figure


@course_style()
def kv_over_time(traces: Mapping[str, Trace], title: str) -> Figure:
    """KV tokens of all requests after each step, a curve for each named run, and the budget.

    Raises: ValueError for a run without a step.
    """
    figure = new_figure(title)
    [axes] = figure.axes
    for name, trace in traces.items():
        points = [(step.step, step.kv_after) for step in trace.steps]
        curve(axes, name, points, drawstyle="steps-post")
    for budget in dict.fromkeys(trace.max_kv_tokens for trace in traces.values()):
        if budget is not None:
            mark(axes, "KV budget", y=budget)
    label_axes(axes, "step", "KV tokens held")
    return figure


@course_style()
def attainment_by_load(cells: Iterable[Cell], title: str, source: str) -> Figure:
    """Percent of the requests in time against the load, with 95 % intervals: a panel per tier."""
    by_variant: dict[str, list[Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell.title, []).append(cell)
    figure = new_figure(title, 2, source)
    tiers = (("urgent", "urgent"), ("generous", "relaxed"))
    for axes, (tier, words) in zip(figure.axes, tiers, strict=True):
        for name, of in by_variant.items():
            known = [(each.requests_per_s, found) for each in of if (found := getattr(each, tier))]
            if not known:
                continue
            _means(axes, name, known)
        label_axes(axes, "load (requests/s)", f"{words} requests in time (%)")
    return figure


@course_style()
def attainment_by_row(rows: Mapping[int, Cell], title: str, source: str) -> Figure:
    """Percent of the requests in time, with 95 % intervals, and of the time thrown away, by row."""
    figure = new_figure(title, 2, source)
    in_time, wasted = figure.axes
    for tier, words in (("urgent", "urgent"), ("generous", "relaxed")):
        _means(in_time, words, [(row, getattr(cell, tier)) for row, cell in rows.items()])
    curve(wasted, "aborted passes", [(row, cell.wasted_percent) for row, cell in rows.items()])
    label_axes(in_time, "row", "requests in time (%)")
    label_axes(wasted, "row", "computing time thrown away (%)")
    return figure


def _means(axes: Axes, name: str, estimates: Sequence[tuple[float, Estimate]]) -> None:
    """Plot means with their intervals."""
    line = curve(axes, name, [(x, found.mean) for x, found in estimates])
    halves = [found.half_width or 0.0 for _, found in estimates]
    axes.errorbar(
        line.get_xdata(), line.get_ydata(), halves, fmt="none", ecolor=line.get_color(), capsize=3
    )


@course_style()
def fleet_run(runs: Sequence[tuple[str, FleetRun]], title: str) -> Figure:
    """The distribution of TTFT, and tokens per second over time, for each named fleet.

    Raises: ValueError when no fleet gave a request a token.
    """
    ttfts = {name: ms for name, run in runs if (ms := ttfts_ms(run))}
    if not ttfts:
        raise ValueError("no request got a token in these runs, so there is nothing to draw")
    rolling = {name: run.samples for name, run in runs if run.samples}
    figure = new_figure(title, 2 if rolling else 1, "modelled")
    for name, ms in ttfts.items():
        distribution(figure.axes[0], name, ms)
    label_axes(figure.axes[0], "TTFT (ms)", "requests with at most that (%)")
    for name, samples in rolling.items():
        rates = [each.throughput_tokens_per_s for each in samples]
        curve(figure.axes[1], name, enumerate(rates, start=1))
    if rolling:
        label_axes(figure.axes[1], "time (s)", "throughput, last 10 s (tokens/s)")
    return figure


def ttfts_ms(run: FleetRun) -> list[float]:
    """The TTFT of each request that got a token, in milliseconds."""
    return [
        (outcome.first_token_us - request.arrival_us) / 1000
        for request, outcome in zip(run.workload.requests, run.outcomes, strict=True)
        if outcome.first_token_us is not None
    ]


@course_style()
def seeds_in_pairs(compared: Comparison, title: str) -> Figure:
    """Each seed's value for the baseline and for the other fleet, a panel for each metric.

    Raises: ValueError when no metric has a value in every run.
    """
    rows = [row for row in compared.rows if row.metric in PAIRED_METRICS]
    if not rows:
        raise ValueError("no metric has a value in every run, so there is nothing to draw")
    figure = new_figure(title, len(rows), "modelled")
    for axes, row in zip(figure.axes, rows, strict=True):
        baseline = [(pair.seed, pair.baseline) for pair in row.pairs]
        curve(axes, compared.baseline, baseline, linestyle="none")
        curve(axes, compared.other, [(p.seed, p.other) for p in row.pairs], linestyle="none")
        label_axes(axes, "seed", f"{row.label} ({row.unit})")
    return figure


@course_style()
def contest_scores(rounds: Sequence[Round], title: str) -> Figure:
    """SLOs met by each entry, by the number of requests, and the bound: a panel for each workload.

    A panel shows the workload's first round. Raises: ValueError when none was played.
    """
    if not rounds:
        raise ValueError("no round was played, so there is nothing to draw")
    firsts = {each.workload: each for each in reversed(rounds)}
    names = list(dict.fromkeys(each.workload for each in rounds))
    figure = new_figure(title, len(names), "modelled; the first seed")
    for axes, name in zip(figure.axes, names, strict=True):
        played = firsts[name]
        for entry, score in played.scores:
            kept = [request_id in score.kept for request_id in range(score.num_calls)]
            curve(axes, entry, enumerate(accumulate(kept, initial=0)), drawstyle="steps-post")
        mark(axes, f"no schedule meets more than {played.most}", y=played.most)
        label_axes(axes, "requests, in order of arrival", f"{name}: SLOs met")
    return figure
