"""Checks of lesson 2b, who waits."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.checks.queueing import (
    AGED_KEY,
    any_aged,
    draw_ranks,
    uneven_ages,
)
from course.checks.requests import make_request
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import show
from course.task import Task


def _same_rank_again(ask: Ask, rng: random.Random) -> Failure | None:
    """Asked again, also after the request has got on, the rank is the one that is in the heap."""
    new = make_request(0, priority=2, arrival_time=3)
    later = replace(new, admitted_at=9, generated_tokens=(70, 71), kv_tokens=5)
    first, problem = ask(new, 4), AGED_KEY.judge(ask, [[(new, 4)]])
    if problem:
        return problem
    for request, when in ((new, "asked again"), (later, "asked when it has run for a while")):
        again = ask(request, 4)
        if again != first:
            idea = (
                "The rank of a request that stays in the heap must not change, or the heap is in "
                "order for ranks that are no longer true: use neither a clock nor its progress."
            )
            rows: Rows = (
                ("input", draw_ranks(ask.name, ask.args)),
                ("expected", f"{show(first)}, as before"),
                ("got", f"{show(again)}, {when}"),
            )
            return Failure(idea, rows, "changes")
    return None


def _arrived_together(ask: Ask, rng: random.Random) -> Failure | None:
    requests = [
        make_request(i, priority=priority, arrival_time=5) for i, priority in enumerate((0, 2))
    ]
    return AGED_KEY.judge(ask, [[(request, 4) for request in requests]])


def _waited_long_enough(ask: Ask, rng: random.Random) -> Failure | None:
    old = make_request(0, priority=2, arrival_time=0)
    cases = [make_request(i, priority=0, arrival_time=arrival) for i, arrival in ((1, 7), (2, 9))]
    return AGED_KEY.judge(ask, [[(old, 4), (case, 4)] for case in cases])


def _no_whole_numbers(ask: Ask, rng: random.Random) -> Failure | None:
    return AGED_KEY.judge(ask, uneven_ages())


def _any_ages(ask: Ask, rng: random.Random) -> Failure | None:
    return AGED_KEY.judge(ask, any_aged(rng, (1, 2, 0.5, 4, 2.5, 10, 7, 16)))


_AGED_KEY_CHECKS: tuple[tuple[str, Check], ...] = (
    ("the same rank again", _same_rank_again),
    ("two that arrive together", _arrived_together),
    ("one that has waited", _waited_long_enough),
    ("rates that are no whole numbers", _no_whole_numbers),
    ("any rate", _any_ages),
)


def check_aged_key(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l02.aged_key."""
    return run_checks("l02.aged_key", function, _AGED_KEY_CHECKS, seed=seed)


EXERCISES = (
    Exercise(
        id="l02.aged_key",
        lesson="l02b_waiting",
        name="aged_key",
        title="A priority that ages",
        minutes=8,
        points=2,
        part=None,
        hints=(
            "priority - (now - arrival_time) / rate changes at every step. By how much, and for "
            "whom?",
            "What changes by the same amount for everybody changes no order. Which part of the "
            "formula is that?",
            "Write the formula as a sum of three terms and strike the one that is the same for "
            "all. Multiplying what is left by `rate` changes no order either.",
        ),
        check=check_aged_key,
        task=Task(
            signature="aged_key(request: RequestView, rate: float) -> tuple[float, ...]",
            rules=(
                "Return a rank for `request`: a tuple of numbers, the smallest goes first.",
                "At any step `now`, requests go in the order of `priority - (now - arrival_time) / "
                "rate`: every `rate` steps of waiting are worth one level. `rate` is above 0 and "
                "need not be a whole number. Where that is equal, either may go first.",
                "The rank is asked for once, when the request is pushed on the heap, and stays "
                "there. So it must not change as time passes: nothing tells you `now`.",
                "Any rank will do that gives this order.",
            ),
            args=(make_request(0, priority=0, arrival_time=6), 4),
            result=(6,),
        ),
    ),
)
