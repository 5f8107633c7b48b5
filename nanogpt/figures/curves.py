"""Charts of what engines do: latencies, step cost, throughput, KV over time, attainment.

Each is a pure function of records that the runs leave behind. A modelled clock is named as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from nanogpt.experiments.trace_metrics import all_request_metrics
from nanogpt.figures.chart import Chart, Line, Mark, Panel, cumulative

if TYPE_CHECKING:
    from nanogpt.clock import CostModel
    from nanogpt.experiments.slo_table import Cell
    from nanogpt.experiments.trace_metrics import Summary
    from nanogpt.trace import Trace


def source_of(traces: Iterable[Trace]) -> str:
    """Whose clocks the traces have, with the word "modelled" where no machine was timed."""
    clocks = dict.fromkeys(trace.clock for trace in traces)
    return "; ".join(f"modelled: {each.name}" if each.modelled else each.name for each in clocks)


def latencies(traces: Mapping[str, Trace], title: str) -> Chart:
    """How TTFT and ITL are distributed, a curve for each named run.

    Raises: ValueError when no request of any run got a token.
    """
    found = {name: all_request_metrics(trace) for name, trace in traces.items()}
    if not any(found.values()):
        raise ValueError("no request got a token in these runs, so there is nothing to draw")
    ttfts = {name: [each.ttft_us / 1000 for each in of] for name, of in found.items()}
    itls = {name: [gap / 1000 for each in of for gap in each.itls_us] for name, of in found.items()}
    panels = [
        Panel(
            (what, "ms"),
            (f"{whose} with at most that", "%"),
            tuple(cumulative(name, ms) for name, ms in of.items() if ms),
        )
        for what, whose, of in (("TTFT", "requests", ttfts), ("ITL", "tokens", itls))
        if any(of.values())
    ]
    return Chart(title, tuple(panels), source_of(traces.values()))


def step_cost(
    measured: Sequence[tuple[float, float]],
    fitted: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    source: str = "",
) -> Chart:
    """What a step costs against its tokens: (tokens, µs) as measured, and by each fitted curve."""

    def line(name: str, points: Sequence[tuple[float, float]], measured: bool = False) -> Line:
        in_ms = tuple((tokens, us / 1000) for tokens, us in points)
        return Line(name, in_ms, "points" if measured else "curve")

    lines = [line("measured", measured, True), *(line(*each) for each in fitted.items())]
    return Chart(
        title, (Panel(("tokens in the step", ""), ("a step", "ms"), tuple(lines)),), source
    )


def throughput_against_latency(
    machines: Mapping[str, Mapping[str, Mapping[str, Summary]]], title: str, source: str = ""
) -> Chart:
    """Tokens per second against the longest ITL: a panel per machine, a curve per kind of run.

    A kind's points are its settings, each with its name; one without an ITL has no point.
    """

    def line(name: str, of: Mapping[str, Summary]) -> Line:
        found = {
            setting: (each.worst_itl_us / 1000, each.tokens_per_s)
            for setting, each in of.items()
            if each.worst_itl_us is not None
        }
        return Line(name, tuple(found.values()), labels=tuple(found))

    panels = [
        Panel(
            ("longest ITL", "ms"),
            (f"throughput, {machine}", "tokens/s"),
            tuple(line(*each) for each in kinds.items()),
            log_x=True,
        )
        for machine, kinds in machines.items()
    ]
    return Chart(title, tuple(panels), source)


def kv_over_time(traces: Mapping[str, Trace], title: str) -> Chart:
    """KV tokens held by all requests after each step, a curve for each named run, and the budget.

    Raises: ValueError for a run without a step.
    """
    lines = [
        Line(name, tuple((step.step, step.kv_after) for step in trace.steps), "steps")
        for name, trace in traces.items()
    ]
    budgets = dict.fromkeys(trace.max_kv_tokens for trace in traces.values())
    marks = [Mark("y", budget, "KV budget") for budget in budgets if budget is not None]
    panel = Panel(("step", ""), ("KV tokens held", ""), tuple(lines), tuple(marks))
    return Chart(title, (panel,))


def attainment_by_load(
    cells: Iterable[Cell],
    title: str,
    source: str,
    tiers: Sequence[Literal["urgent", "generous"]] = ("urgent", "generous"),
) -> Chart:
    """Percent of the requests in time against the load, with 95 % intervals: a panel per tier.

    Raises: ValueError for more variants than a panel can tell apart.
    """
    by_variant: dict[str, list[Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell.title, []).append(cell)

    def line(name: str, of: Sequence[Cell], tier: str) -> Line | None:
        known = [(each.requests_per_s, getattr(each, tier)) for each in of]
        points = tuple((rate, found.mean) for rate, found in known if found)
        halves = tuple(found.half_width or 0.0 for _, found in known if found)
        return Line(name, points, halves=halves) if points else None

    panels = [
        Panel(
            ("load", "requests/s"),
            (f"{tier} requests in time", "%"),
            tuple(each for name, of in by_variant.items() if (each := line(name, of, tier))),
        )
        for tier in tiers
    ]
    return Chart(title, tuple(panels), source)


def speedup_by_drafts(
    runs: Mapping[str, Mapping[int, Trace]], cost: CostModel, title: str
) -> Chart:
    """How many times as fast texts of the same lengths come with K drafts as with none, by name.

    Every forward of the traces is charged what it costs by `cost`, whatever clock the runs had; a
    draft costs nothing. Raises: KeyError for a name without a run of 0 drafts.
    """

    def took_us(trace: Trace) -> int:
        return sum(cost.forward_us(each) for step in trace.steps for each in step.forwards)

    lines = tuple(
        Line(name, tuple((k, took_us(of[0]) / took_us(trace)) for k, trace in sorted(of.items())))
        for name, of in runs.items()
    )
    panel = Panel(("drafts, K", ""), ("speed-up", "times"), lines, (Mark("y", 1, "no drafts"),))
    return Chart(title, (panel,), f"modelled: {cost.name}")
