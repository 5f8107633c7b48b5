"""Behind lesson 9's queue: the rush and its classes, urgency and ageing as curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data.l09_lazy_heap import heap_story, told
from nanogpt.figures.curves import distributions, ttfts_ms
from nanogpt.fleet import decisions
from nanogpt.fleet.fleet_config import ADAPTIVE
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import make_workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = dict[str, Any]

A_MORNING = (
    ("push", 3, (6, 500)),  # (priority, deadline)
    ("push", 5, (2, 900)),
    ("push", 7, (4, 700)),
    ("push", 3, (4, 500)),  # request 3 has become urgent
    ("remove", 5),  # request 5 was withdrawn
    ("push", 5, (6, 999)),  # and comes back, no longer important
    ("pop",),
    ("pop",),
    ("pop",),
    ("pop",),
)


def morning(apply_event: Attempt) -> dict[str, Any]:
    """The queue of A_MORNING, kept by the learner's function or the reference."""
    return told(
        lambda kept_by: heap_story(kept_by, A_MORNING),
        apply_event.or_reference(decisions.apply_event),
    )


def ms(value: float | None) -> str:
    """Milliseconds as they are read: 8.4, 75, 1,299."""
    if value is None:
        return "none"
    return f"{value:.1f}" if abs(value) < 20 else f"{value:,.0f}"


# --- the rush -----------------------------------------------------------------------------------


def rush() -> dict[str, FleetRun]:
    """300 requests per second for 4 s, more than four workers can take, in three orders."""
    load = make_workload("steady", 300, 4, seed=42)
    unaged = replace(ADAPTIVE, name="by priority", order="priority", ageing_us=None)
    by_arrival = replace(unaged, name="by arrival", order="fifo")
    aged = replace(ADAPTIVE, name="by priority, with ageing")
    traced = simulate(by_arrival, load, trace=True)
    return {run.config.name: run for run in (traced, simulate(unaged, load), simulate(aged, load))}


def rush_facts(runs: Mapping[str, FleetRun]) -> str:
    """What priority does to the two figures and to the deadlines, as two sentences."""
    one, other = runs["by priority"].totals, runs["by arrival"].totals
    return (
        f"The median falls from {ms(other.ttft_p50_ms)} ms to **{ms(one.ttft_p50_ms)} ms**, the "
        f"99th percentile rises from {ms(other.ttft_p99_ms)} ms to **{ms(one.ttft_p99_ms)} ms**. "
        f"{one.violations} of {one.arrived:,} deadlines are missed instead of {other.violations}. "
    )


def classes_table(runs: Mapping[str, FleetRun]) -> str:
    """TTFT by class of priority, median and longest, for each order; Markdown."""
    classes = {"0 to 2": range(3), "3 to 5": range(3, 6), "6 to 9": range(6, 10)}

    def waits(run: FleetRun, levels: range) -> str:
        found = [
            (outcome.first_token_us - request.arrival_us) / 1000
            for request, outcome in zip(run.workload.requests, run.outcomes, strict=True)
            if request.priority in levels and outcome.first_token_us is not None
        ]
        return f"{ms(median(found))} / {ms(max(found))}"

    rows = [
        f"| {name} | {' | '.join(waits(run, levels) for levels in classes.values())} |"
        for name, run in runs.items()
    ]
    head = " | ".join(f"priority {name}" for name in classes)
    return f"| TTFT in ms, median / longest | {head} |\n|:--|{'--:|' * 3}\n" + "\n".join(rows)


def rush_chart(runs: Mapping[str, FleetRun]) -> Figure:
    """How TTFT is spread in the rush, for each order of the queue."""
    ttfts = {name: ttfts_ms(run) for name, run in runs.items()}
    title = "300 requests per second, in three orders"
    return distributions({("TTFT (ms)", "requests"): ttfts}, title, "modelled")


# --- urgency and ageing -------------------------------------------------------------------------


def lifted(boosted_priority: Attempt) -> list[Series]:
    """A request of priority 8, 200 ms to its deadline and 80 ms of work, by two rules: curves."""

    def source(at_ms: int) -> int:
        level = 8
        for _ in range(max(0, at_ms - 150 + 1)):  # at every millisecond again
            level = decisions.bump_source(level, at_ms * 1000, 200_000)
        return level

    curves = [_steps("the source", [source(at_ms) for at_ms in range(301)])]
    name = "yours" if boosted_priority.started else "the reference"
    try:
        levels = run(_levels, boosted_priority.or_reference(decisions.boosted_priority))
    except RunError:  # the check has said why
        return curves
    return [*curves, _steps(name, [each if type(each) is int else 8 for each in levels])]


def _levels(boosted_priority: Callable[..., Any]) -> list[Any]:
    return [boosted_priority(8, at_ms * 1000, 200_000, 80_000) for at_ms in range(301)]


def _steps(name: str, values: Sequence[int]) -> Series:
    """A curve of whole numbers, one for each millisecond, by its corners."""
    end = len(values) - 1
    corners = {0, end}
    for at in range(1, end + 1):
        if values[at] != values[at - 1]:
            corners |= {at - 1, at}
    return {"name": name, "points": [[at, values[at]] for at in sorted(corners)]}


AGEING_US = 250_000
"""So much waiting makes up for one level."""


def two_that_age() -> list[Series]:
    """The ranks of two waiting requests over time, ageing at one rate or at two: curves."""
    rates = {"the same rate": 1.0, "A twice as fast": 2.0}
    waiting = {"A: came at 0, priority 6": (0, 6), "B: came at 200 ms, priority 3": (200, 3)}

    def rank(at_ms: int, name: str, rate: float) -> float:
        came_ms, priority = waiting[name]
        speed = rate if name.startswith("A") else 1.0
        return priority - speed * (at_ms - came_ms) * 1000 / AGEING_US

    return [
        {
            "name": name,
            "points": [
                [at, rank(at, name, rate)] for at in (0, 200, 400, 600, 800, 1000) if at >= came_ms
            ],
            "when": {"both age at": words},
        }
        for words, rate in rates.items()
        for name, (came_ms, _) in waiting.items()
    ]
