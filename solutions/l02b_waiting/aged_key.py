"""Exercise 2b.1: a key in which waiting counts."""

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
from course.exercise import Exercise, Misconception, Task
from course.format_values import show
from course.harness import Ask, Failure, Rows
from nanogpt.views.request_view import RequestView

# --- right answers ------------------------------------------------------------------------------


def aged_key(request: RequestView, rate: float) -> tuple[float, ...]:
    """Return a key in which waiting counts, a tuple of numbers; the smallest key goes first."""
    # Times rate, the formula is rate * priority + arrival_time - now. The last term is the same for
    # all requests, so it changes no order. Without it the key never changes.
    return (request.arrival_time + rate * request.priority,)


def in_levels(request: RequestView, rate: float) -> tuple[float, ...]:
    return (request.priority + request.arrival_time / rate, request.arrival_time)


# --- wrong ideas --------------------------------------------------------------------------------


def waited_until(now: Callable[[RequestView], float]) -> Callable[[RequestView, float], Any]:
    return lambda r, rate: (r.priority - (now(r) - r.arrival_time) / rate,)


def worth(steps: float) -> Callable[[RequestView, float], Any]:
    """Ranks in which a level is always worth this many steps."""
    return lambda r, rate: (r.arrival_time + steps * r.priority,)


CHANGES = Misconception(
    "changes",
    "The key may use the current time.",
    "The key of a request in the heap must not change, because the heap is ordered by the old "
    "keys. Use neither a clock nor the progress of the request.",
    examples=((waited_until(lambda r: time.perf_counter())),),
)
MISCONCEPTIONS = (
    CHANGES,
    Misconception(
        "not_a_tuple",
        "A key is a number.",
        examples=(lambda r, rate: r.arrival_time + rate * r.priority,),
    ),
    Misconception(
        "sign",
        "Waiting lowers the key, so I subtract the priority.",
        "A larger number is a less important priority, so it must increase the key: add it, do "
        "not subtract it.",
        lambda r, rate: (r.arrival_time - rate * r.priority,),
    ),
    Misconception(
        "waiting_hurts",
        "The key is priority minus arrival.",
        "A request that arrived earlier has waited longer and must go first, so the key grows "
        "with the arrival.",
        lambda r, rate: (rate * r.priority - r.arrival_time,),
    ),
    Misconception(
        "rate_upside_down",
        "Each step of waiting is worth rate levels.",
        "`rate` steps of waiting are worth one level of priority. Here one step is worth `rate` "
        "levels.",
        lambda r, rate: (r.priority + rate * r.arrival_time,),
    ),
    Misconception(
        "no_ageing",
        "Priority first, then arrival.",
        "Here priority always wins, however long a request has waited. Combine both in one number, "
        "so that waiting can make up for priority.",
        lambda r, rate: (r.priority, r.arrival_time),
    ),
    Misconception(
        "ignores_rate",
        "One step of waiting is worth one level.",
        "A level is worth `rate` steps of waiting. Here it is worth the same at every rate.",
        worth(1),
        same_result=(worth(10),),
    ),
    Misconception(
        "whole_levels",
        "Only whole levels of waiting count.",
        "Every step of waiting counts, not only whole levels: do not round.",
        lambda r, rate: (r.priority + r.arrival_time // rate,),
        same_result=(lambda r, rate: (r.priority + r.arrival_time // rate, r.arrival_time),),
    ),
    Misconception(
        "rounds",
        "A key is a whole number.",
        "The rate need not be a whole number, and neither need the key: do not round.",
        lambda r, rate: (r.arrival_time + round(rate * r.priority),),
        same_result=(
            lambda r, rate: (r.arrival_time + int(rate * r.priority),),
            lambda r, rate: (r.arrival_time + int(rate) * r.priority,),
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_aged(rng: random.Random, rates: Sequence[float]) -> list[list[Args]]:
    """One queue for each rate, with arrivals over short and long times."""
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


# Fractional rates, high levels, slow ageing: rounding shows here for certain.
UNEVEN = (
    at_rate(2.5, (2, 0), (0, 4), (0, 6), (12, 0)),
    at_rate(0.5, (4, 0), (0, 1), (0, 3)),
    at_rate(0.125, (9, 0), (1, 1), (0, 2), (100, 0), (0, 12)),
    at_rate(1 / 3, (4, 0), (0, 1), (0, 2), (30, 0)),
    at_rate(7.25, (1, 0), (0, 7), (0, 8), (11, 3)),
    at_rate(4, (9, 0), (8, 3)),
    # The later arrival goes first within a level; and two keys that are a thousandth apart.
    at_rate(4, (0, 4), (1, 3)),
    at_rate(1000, (2, 1), (2, 2)),
    # Very slow and very fast ageing, for which a few digits are not enough.
    at_rate(10**7, (2, 1), (2, 2), (1, 10**7)),
    at_rate(0.0001, (2, 3), (1, 3)),
)


def same_key_again(ask: Ask, rng: random.Random) -> Failure | None:
    """Asked again, also after the request has made progress, the key is the same.

    A key made of whole seconds of a clock is a large number and may take a second to change.
    """
    new = make_request(0, priority=2, arrival_time=3)
    later = replace(new, admitted_at=9, generated_tokens=(70, 71), kv_tokens=5)
    first, problem = ask(new, 4), JUDGE.judge(ask, [[(new, 4)]])
    if problem:
        return problem
    asked = [(new, "asked again", 0.0), (later, "asked after it has run for a while", 0.0)]
    if any(abs(as_number(number) or 0) >= 10**4 for number in as_items(first) or ()):
        asked.append((new, "asked a second later", 1.1))
    for request, when, wait_s in asked:
        sleep(wait_s)
        again = ask(request, 4)
        if again != first:
            rows: Rows = (
                ("input", ask.draw_call(ask.name, ask.args)),
                ("expected", f"{show(first)}, as before"),
                ("got", f"{show(again)}, {when}"),
            )
            return CHANGES.failure(rows)
    return None


JUDGE = Ranking(
    aged_key,
    MISCONCEPTIONS,
    "At every step the order must be that of `priority - (now - arrival_time) / rate`. Your "
    "key must give the same order without `now`.",
    evidence=[*any_aged(random.Random(0), (4, 3, 10)), *UNEVEN],
)

EXERCISE = Exercise(
    number=1,
    title="A key in which waiting counts",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "`request.priority` is 0 for the most important requests, and `request.arrival_time` "
            "is a step. Returns the key of `request`, a tuple of numbers; the smallest key goes "
            "first.",
            "At every step `now`, requests go in the order of `priority - (now - arrival_time) / "
            "rate`: `rate` steps of waiting are worth one level. `rate` is above 0 and need not be "
            "a whole number. If two requests are equal, either may go first.",
            "The function is called once, when the request is pushed on the heap, and is not told "
            "`now`. So the key must not change as time passes.",
            "Every key that gives this order is right.",
        ),
        args=(make_request(0, priority=0, arrival_time=6), 4),
        call="aged_key(RequestView(priority=0, arrival_time=6, ...), 4)",
        result=(6,),
        steps=(
            "At step 10 the formula gives 0 - (10 - 6) / 4 = -1, at step 14 it gives -2.",
            "For a request of priority 1 that arrived at step 2 it gives -1 and -2 at these steps. "
            "The two are equal at every step, so they may have the same key.",
        ),
    ),
    hints=(
        "`priority - (now - arrival_time) / rate` changes at every step. By how much, and is that "
        "the same for all requests?",
        "A change by the same amount for all requests changes no order. Which part of the formula "
        "causes it?",
        "Write the formula as a sum of three terms and delete the one that is the same for all "
        "requests. Multiplying the rest by `rate` changes no order either.",
    ),
    right=(aged_key, in_levels),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the same key again", same_key_again),
        ("two requests that arrive together", JUDGE.on(at_rate(4, (0, 5), (2, 5)))),
        (
            "a request that has waited",
            JUDGE.on(
                at_rate(4, (2, 0), (0, 7)),
                [(make_request(0, priority=2), 4), (make_request(2, arrival_time=9), 4)],
            ),
        ),
        ("fractional rates", JUDGE.on(*UNEVEN)),
        ("any rate", JUDGE.on_drawn(lambda rng: any_aged(rng, (1, 2, 0.5, 4, 2.5, 10, 7, 16)))),
    ),
    draw_call=draw_ranked,
    equivalent_mutants={"result: only the first": "the key is one number"},
)
