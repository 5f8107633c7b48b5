"""Behind lesson 9's queue: a rush by class of priority, and urgency as curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data.l09_lazy_heap import heap_story, pop_live, told
from course.lesson_data.texts import table
from nanogpt.figures.curves import line_chart
from nanogpt.fleet import decisions
from nanogpt.fleet.fleet_config import ADAPTIVE
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import make_workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

A_MORNING = (
    ("push", 3, (6, 500)),  # (priority, deadline)
    ("push", 5, (2, 900)),
    ("push", 7, (4, 700)),
    ("push", 3, (4, 500)),  # request 3 has become urgent
    ("remove", 5),  # the client of request 5 disconnects
    ("push", 5, (6, 999)),  # and sends it again, less urgent
    ("pop",),
    ("pop",),
    ("pop",),
    ("pop",),
)


def morning(attempt: Attempt) -> dict[str, Any]:
    """The queue of A_MORNING, with the learner's pop or the reference."""
    pop = attempt.or_reference(pop_live)
    return told(lambda pop: heap_story(A_MORNING, pop), pop)


def second_morning(forget: Callable[..., Any]) -> dict[str, Any]:
    """A queue in which `forget(newest, id)` returns the generations after a removal."""
    events = (*A_MORNING[:3], ("remove", 5), ("push", 5, (6, 999)), *[("pop",)] * 4)
    return told(lambda forget: heap_story(events, remove=forget), forget)


def in_turn(story: Mapping[str, Any]) -> bool:
    """Whether the queue of `second_morning` pops its requests in the right order."""
    popped = [step["popped"] for step in story["steps"] if step["event"][0] == "pop"]
    return popped == [7, 3, 5, None]


def ms(value: float | None) -> str:
    """Milliseconds for a table: 8.4, 75, 1,299."""
    if value is None:
        return "none"
    return f"{value:.1f}" if abs(value) < 20 else f"{value:,.0f}"


# --- the rush -----------------------------------------------------------------------------------


def rush() -> dict[str, FleetRun]:
    """300 requests per second for 4 s, more than four workers can serve, in three orders."""
    load = make_workload("steady", 300, 4, seed=42)
    unaged = replace(ADAPTIVE, name="by priority", order="priority", ageing_us=None)
    by_arrival = replace(unaged, name="by arrival", order="fifo")
    aged = replace(ADAPTIVE, name="by priority, with ageing")
    traced = simulate(by_arrival, load)
    return {run.config.name: run for run in (traced, simulate(unaged, load), simulate(aged, load))}


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
    return table(f"| TTFT in ms, median / longest | {head} |", "lrrr", rows)


# --- urgency -----------------------------------------------------------------------------------


def lifted(boosted_priority: Attempt) -> Figure:
    """The priority over time of one request with 80 ms of work, by two rules."""

    def source(at_ms: int) -> int:
        level = 8
        for _ in range(max(0, at_ms - 150 + 1)):  # at every millisecond again
            level = decisions.bump_source(level, at_ms * 1000, 200_000)
        return level

    curves = {"the source": _corners([source(at_ms) for at_ms in range(301)])}
    name = "yours" if boosted_priority.started else "the reference"

    def levels_of(rule: Callable[..., Any]) -> list[Any]:
        return [rule(8, at_ms * 1000, 200_000, 80_000) for at_ms in range(301)]

    with suppress(RunError):  # the check has said why
        levels = run(levels_of, boosted_priority.or_reference(decisions.boosted_priority))
        curves[name] = _corners([each if type(each) is int else 8 for each in levels])
    title = "Priority 8, deadline at 200 ms, 80 ms of work"
    return line_chart({"priority, 0 the highest": curves}, "time (ms)", title)


def _corners(values: Sequence[int]) -> list[tuple[float, float]]:
    """The points at which a curve of one number per millisecond turns."""
    end = len(values) - 1
    corners = {0, end}
    for at in range(1, end + 1):
        if values[at] != values[at - 1]:
            corners |= {at - 1, at}
    return [(at, values[at]) for at in sorted(corners)]
