"""Exercise 2b.1: a rank that waiting makes up for."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import sleep
from typing import Any

from course.calling.plain_values import as_items, as_number
from course.checks.comparing import Args
from course.checks.ranking import Ranking, draw_ranked
from course.checks.requests import make_request
from course.exercise import Exercise, Misconception
from course.format_values import show
from course.harness import Ask, Failure, Rows
from course.task import Task
from nanogpt.policy_views import RequestView

# --- right answers ------------------------------------------------------------------------------


def aged_key(request: RequestView, rate: float) -> tuple[float, ...]:
    """Return a rank that waiting makes up for: a tuple of numbers, the smallest goes first."""
    # Times rate: rate * priority + arrival_time - now. The last term is the same for all, so it
    # moves all ranks alike and changes no order: leave it out, and the rest stands still.
    return (request.arrival_time + rate * request.priority,)


def in_levels(request: RequestView, rate: float) -> tuple[float, ...]:
    return (request.priority + request.arrival_time / rate, request.arrival_time)


def as_a_later_arrival(request: RequestView, rate: float) -> tuple[float, ...]:
    handicap = request.priority * rate
    return (request.arrival_time + handicap, request.id)


# --- wrong ideas --------------------------------------------------------------------------------


def waited_until(now: Callable[[RequestView], float]) -> Callable[[RequestView, float], Any]:
    return lambda r, rate: (r.priority - (now(r) - r.arrival_time) / rate,)


def worth(steps: float) -> Callable[[RequestView, float], Any]:
    """A level is always worth so many steps."""
    return lambda r, rate: (r.arrival_time + steps * r.priority,)


CHANGES = Misconception(
    "changes",
    "The rank is worked out with the time it is now.",
    "The rank of a request that stays in the heap must not change, or the heap is in order for "
    "ranks that are no longer true: use neither a clock nor its progress.",
    examples=((waited_until(lambda r: time.perf_counter())),),
)
MISCONCEPTIONS = (
    CHANGES,
    Misconception(
        "not_a_tuple",
        "A rank is a number.",
        examples=(lambda r, rate: r.arrival_time + rate * r.priority,),
    ),
    Misconception(
        "sign",
        "Waiting lowers the rank, so minus.",
        "A larger number is a less important priority, which has to push the rank back: add it, do "
        "not take it away.",
        lambda r, rate: (r.arrival_time - rate * r.priority,),
    ),
    Misconception(
        "waiting_hurts",
        "Priority minus arrival.",
        "What arrived earlier has waited longer, and waiting has to help: the rank grows with the "
        "arrival.",
        lambda r, rate: (rate * r.priority - r.arrival_time,),
    ),
    Misconception(
        "rate_upside_down",
        "rate levels for every step of waiting.",
        "`rate` steps of waiting make up for one level of priority, not one step for `rate` "
        "levels.",
        lambda r, rate: (r.priority + rate * r.arrival_time,),
    ),
    Misconception(
        "no_ageing",
        "Priority, then arrival.",
        "Here priority always wins, however long a request has waited: one number has to hold "
        "both, so that they can make up for each other.",
        lambda r, rate: (r.priority, r.arrival_time),
    ),
    Misconception(
        "ignores_rate",
        "One step is one level.",
        "A level is worth `rate` steps of waiting: here it is worth the same at every rate.",
        worth(1),
        same_result=(worth(10),),
    ),
    Misconception(
        "whole_levels",
        "Only whole levels count.",
        "Every step of waiting counts, not only when a whole level is full: do not round.",
        lambda r, rate: (r.priority + r.arrival_time // rate,),
        same_result=(lambda r, rate: (r.priority + r.arrival_time // rate, r.arrival_time),),
    ),
    Misconception(
        "rounds",
        "Ranks are whole numbers.",
        "The rate need not be a whole number, and neither need the rank: do not round.",
        lambda r, rate: (r.arrival_time + round(rate * r.priority),),
        same_result=(
            lambda r, rate: (r.arrival_time + int(rate * r.priority),),
            lambda r, rate: (r.arrival_time + int(rate) * r.priority,),
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_aged(rng: random.Random, rates: Sequence[float]) -> list[list[Args]]:
    """A queue for each rate, some of them long ago."""
    queues: list[list[Args]] = []
    for rate in rates:
        longest = rng.choice((6, 40, 40, 2000))
        queues.append(
            [
                (
                    make_request(i, priority=rng.randrange(5), arrival_time=rng.randrange(longest)),
                    rate,
                )
                for i in rng.sample(range(60), 6)
            ]
        )
    return queues


def at_rate(rate: float, *told: tuple[int, int]) -> list[Args]:
    """Requests by (priority, arrival time), with this rate."""
    return [
        (make_request(i, priority=priority, arrival_time=arrival), rate)
        for i, (priority, arrival) in enumerate(told)
    ]


# Rates that are no whole numbers, high levels, slow ageing: where rounding shows for certain.
UNEVEN = (
    at_rate(2.5, (2, 0), (0, 4), (0, 6), (12, 0)),
    at_rate(0.5, (4, 0), (0, 1), (0, 3)),
    at_rate(0.125, (9, 0), (1, 1), (0, 2), (100, 0), (0, 12)),
    at_rate(1 / 3, (4, 0), (0, 1), (0, 2), (30, 0)),
    at_rate(7.25, (1, 0), (0, 7), (0, 8), (11, 3)),
    at_rate(4, (9, 0), (8, 3)),
    # In the same level, the later arrival goes first; and two that are a thousandth apart.
    at_rate(4, (0, 4), (1, 3)),
    at_rate(1000, (2, 1), (2, 2)),
    # Very slow and very fast ageing, where a few digits are not enough.
    at_rate(10**7, (2, 1), (2, 2), (1, 10**7)),
    at_rate(0.0001, (2, 3), (1, 3)),
)


def same_rank_again(ask: Ask, rng: random.Random) -> Failure | None:
    """Asked again, also after the request has got on, the rank is the one that is in the heap.

    A rank made of the time in whole seconds is a large number and may take a second to change.
    """
    new = make_request(0, priority=2, arrival_time=3)
    later = replace(new, admitted_at=9, generated_tokens=(70, 71), kv_tokens=5)
    first, problem = ask(new, 4), JUDGE.judge(ask, [[(new, 4)]])
    if problem:
        return problem
    asked = [(new, "asked again", 0.0), (later, "asked when it has run for a while", 0.0)]
    if any(abs(as_number(number) or 0) >= 10**4 for number in as_items(first) or ()):
        asked.append((new, "asked a second later", 1.1))
    for request, when, wait_s in asked:
        sleep(wait_s)
        again = ask(request, 4)
        if again != first:
            rows: Rows = (
                ("input", draw_ranked(ask.name, ask.args)),
                ("expected", f"{show(first)}, as before"),
                ("got", f"{show(again)}, {when}"),
            )
            return CHANGES.failure(rows)
    return None


JUDGE = Ranking(
    aged_key,
    MISCONCEPTIONS,
    "At every step the order is that of `priority - (now - arrival_time) / rate`, and the rank has "
    "to give the same order without `now`.",
    evidence=[*any_aged(random.Random(0), (4, 3, 10)), *UNEVEN],
)

EXERCISE = Exercise(
    number=1,
    title="A priority that ages",
    minutes=8,
    points=2,
    task=Task(
        signature="aged_key(request: RequestView, rate: float) -> tuple[float, ...]",
        rules=(
            "Returns a rank for `request`: a tuple of numbers, the smallest goes first.",
            "At any step `now`, requests go in the order of `priority - (now - arrival_time) / "
            "rate`: every `rate` steps of waiting are worth one level. `rate` is above 0 and need "
            "not be a whole number. Where that is equal, either may go first.",
            "The rank is asked for once, when the request is pushed on the heap, and stays there. "
            "So it must not change as time passes: nothing tells you `now`.",
            "Any rank will do that gives this order.",
        ),
        args=(make_request(0, priority=0, arrival_time=6), 4),
        result=(6,),
    ),
    hints=(
        "priority - (now - arrival_time) / rate changes at every step. By how much, and for which "
        "requests?",
        "What changes by the same amount for all changes no order. Which part of the formula is "
        "that?",
        "Write the formula as a sum of three terms and strike the one that is the same for all. "
        "Multiplying what is left by `rate` changes no order either.",
    ),
    right=(aged_key, in_levels, as_a_later_arrival),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the same rank again", same_rank_again),
        ("two that arrive together", JUDGE.on(at_rate(4, (0, 5), (2, 5)))),
        (
            "one that has waited",
            JUDGE.on(
                at_rate(4, (2, 0), (0, 7)),
                [(make_request(0, priority=2), 4), (make_request(2, arrival_time=9), 4)],
            ),
        ),
        ("rates that are no whole numbers", JUDGE.on(*UNEVEN)),
        ("any rate", JUDGE.on_drawn(lambda rng: any_aged(rng, (1, 2, 0.5, 4, 2.5, 10, 7, 16)))),
    ),
    draw_call=draw_ranked,
    equivalent_mutants={"result: only the first": "the rank is one number"},
)
