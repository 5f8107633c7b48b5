"""Lesson 2b, who waits: worked answers, other right ones, known wrong ones."""

import itertools
import time
from collections.abc import Callable
from typing import Any

from nanogpt.policies import RequestView
from solutions.wrong import WrongAnswer


def aged_key(request: RequestView, rate: float) -> tuple[float, ...]:
    """Return a rank that waiting makes up for: a tuple of numbers, the smallest goes first.

    At any step `now`, requests go in the order of priority - (now - arrival_time) / rate: every
    `rate` steps of waiting (rate > 0) are worth one level of priority. When that is equal, either
    may go first.
    The rank is asked for once, when the request is pushed on the heap, and stays there as it is.
    So it must not change as time passes: find a number that does not need `now`.
    """
    # Times rate: rate * priority + arrival_time - now. The last term is the same for everybody, so
    # it moves all ranks alike and changes no order: leave it out, and the rest stands still.
    return (request.arrival_time + rate * request.priority,)


def aged_key_in_levels(request: RequestView, rate: float) -> tuple[float, ...]:
    return (request.priority + request.arrival_time / rate, request.arrival_time)


def aged_key_as_a_later_arrival(request: RequestView, rate: float) -> tuple[float, ...]:
    handicap = request.priority * rate
    return (request.arrival_time + handicap, request.id)


def aged_key_at_a_fixed_moment(request: RequestView, rate: float) -> tuple[float, ...]:
    now = 1000
    waited = now - request.arrival_time
    return (request.priority - waited / rate,)


_GLOBAL_CLOCK = itertools.count()


def _aged_by_calls(request: RequestView, rate: float) -> tuple[float, ...]:
    waited = next(_GLOBAL_CLOCK) - request.arrival_time
    return (request.priority - waited / rate,)


def _aged_by_the_clock(request: RequestView, rate: float) -> tuple[float, ...]:
    waited = time.perf_counter() - request.arrival_time
    return (request.priority - waited / rate,)


def _aged_by_admission(request: RequestView, rate: float) -> tuple[float, ...]:
    waited = (request.admitted_at or request.arrival_time) - request.arrival_time
    return (request.priority - waited / rate, request.arrival_time)


RIGHT = {
    "l02.aged_key": (
        aged_key,
        aged_key_in_levels,
        aged_key_as_a_later_arrival,
        aged_key_at_a_fixed_moment,
    ),
}


def _aged_key(
    key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer("l02.aged_key", name or key.replace("_", " "), key, misconception, function)


WRONG = (
    _aged_key(
        "ignores_rate",
        "A level is worth four steps.",
        lambda r, rate: (r.arrival_time + 4 * r.priority,),
        "a rate of its own",
    ),
    _aged_key(
        "rounds",
        "Ranks are whole numbers.",
        lambda r, rate: (r.arrival_time + round(rate * r.priority),),
    ),
    _aged_key(
        "rounds",
        "A rate is a whole number.",
        lambda r, rate: (r.arrival_time / max(1, int(rate)) + r.priority,),
        "a whole rate",
    ),
    _aged_key(
        "changes",
        "The rank is worked out with the time it is now.",
        _aged_by_the_clock,
        "by the clock",
    ),
    _aged_key(
        "changes",
        "Every call is a step.",
        _aged_by_calls,
        "by the number of calls",
    ),
    _aged_key(
        "changes",
        "Waiting ends with the admission.",
        _aged_by_admission,
        "by the admission",
    ),
    _aged_key(
        "sign",
        "Waiting lowers the rank, so minus.",
        lambda r, rate: (r.arrival_time - rate * r.priority,),
    ),
    _aged_key(
        "waiting_hurts",
        "Priority minus arrival.",
        lambda r, rate: (rate * r.priority - r.arrival_time,),
    ),
    _aged_key(
        "rate_upside_down",
        "rate levels for every step of waiting.",
        lambda r, rate: (r.priority + rate * r.arrival_time,),
    ),
    _aged_key(
        "no_ageing",
        "Priority, then arrival.",
        lambda r, rate: (r.priority, r.arrival_time),
    ),
    _aged_key(
        "arrival_alone",
        "The oldest first is fair.",
        lambda r, rate: (r.arrival_time,),
    ),
    _aged_key(
        "ignores_rate",
        "One step is one level.",
        lambda r, rate: (r.arrival_time + r.priority,),
    ),
    _aged_key(
        "whole_levels",
        "Only whole levels count.",
        lambda r, rate: (r.priority + r.arrival_time // rate,),
    ),
    _aged_key(
        "not_a_tuple",
        "A rank is a number.",
        lambda r, rate: r.arrival_time + rate * r.priority,
    ),
)

STILL_RIGHT: dict[str, dict[str, str]] = {
    "l02.aged_key": {"result: only the first": "the rank is one number"},
}
"""Weaker answers that no check can tell from right ones, and why."""
