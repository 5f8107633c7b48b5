"""Behind lesson 9's queue: a morning of pushes and pops, and a rush in several orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from course.attempt import Attempt
from course.lesson_data.l09_lazy_heap import heap_story, pop_live, told
from course.lesson_data.texts import table
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import Workload, make_workload

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

PLAIN = FleetConfig(
    cost=CALIBRATED_COST, urgency="off", ageing_us=None, preemption_gap=None, speculation=False
)
"""Four workers with prefix caches, and nothing else that this lesson compares."""
ORDERS = {
    name: replace(PLAIN, name=name, **changes)
    for name, changes in {
        "by arrival": {"order": "fifo"},
        "by arrival, others may pass": {"ageing_us": 1},  # a level is worth a microsecond
        "by priority": {},
        "by priority, ageing 1 s a level": {"ageing_us": 1_000_000},
        "by priority, ageing 250 ms a level": {"ageing_us": 250_000},
    }.items()
}
"""The queue's orders, each with one change from the one before."""


def rush() -> Workload:
    """60 requests per second for 10 s, more than four workers can serve."""
    return make_workload("steady", 60, 10, seed=42)


def orders_table(load: Workload) -> str:
    """TTFT and late requests for each order of the queue; Markdown."""
    classes = range(3), range(3, 6), range(6, 10)
    rows: list[str] = []
    for name, config in ORDERS.items():
        run = simulate(config, load)
        waits = [
            [
                (outcome.first_token_us - request.arrival_us) / 1000
                for request, outcome in zip(load.requests, run.outcomes, strict=True)
                if request.priority in levels and outcome.first_token_us is not None
            ]
            for levels in classes
        ]
        cells = [ms(run.totals.ttft_p50_ms), ms(run.totals.ttft_p99_ms), str(run.totals.violations)]
        cells += [f"{ms(median(each))} / {ms(max(each))}" for each in waits]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    names = " | ".join(f"priority {each[0]} to {each[-1]}" for each in classes)
    head = f"| order of the queue | median TTFT | 99th percentile | late | {names} |"
    return table(head, "lrrrrrr", rows)
