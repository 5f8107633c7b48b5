"""Exercise 6.4: what becomes of a suspended pass."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.harness import Ask, Failure
from course.task import Task

Enough: TypeAlias = Callable[[int, int, float], bool]

# --- right answers ------------------------------------------------------------------------------


def resume_or_abort(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    """Return what becomes of a suspended pass now: "sleep", "resume" or "abort"."""
    # The bound comes first: without it, one urgent request after the other lets the pass sleep for
    # ever, or throws it away for ever. In proportion to the pass, a short one waits a short time.
    if not urgent_waits or suspended_us >= bound * pass_us:
        return "resume"
    return "abort" if memory_is_short else "sleep"


def by_words(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    may_sleep = urgent_waits and suspended_us < bound * pass_us
    if may_sleep and memory_is_short:
        return "abort"
    if may_sleep:
        return "sleep"
    return "resume"


def by_what_is_left(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    left_us = bound * pass_us - suspended_us
    if left_us > 0 and urgent_waits:
        return ("sleep", "abort")[memory_is_short]
    return "resume"


def by_passes(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    passes_slept = suspended_us / pass_us
    match (urgent_waits and passes_slept < bound, memory_is_short):
        case (False, _):
            return "resume"
        case (True, True):
            return "abort"
        case _:
            return "sleep"


def from_a_table(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    is_over = suspended_us >= bound * pass_us
    ways = {(True, False, False): "sleep", (True, False, True): "abort"}
    return ways.get((urgent_waits, is_over, memory_is_short), "resume")


# --- wrong ideas --------------------------------------------------------------------------------


def deciding(
    enough: Enough = lambda slept, whole, bound: slept >= bound * whole,
    *,
    calm: str = "resume",
    over: str = "resume",
    short: str = "abort",
    room: str = "sleep",
) -> Callable[..., str]:
    """The rules but for the bound or the words that are given."""

    def answer(
        slept: int, whole: int, urgent_waits: bool, memory_is_short: bool, bound: float
    ) -> str:
        if not urgent_waits:
            return calm
        if enough(slept, whole, bound):
            return over
        return short if memory_is_short else room

    return answer


def sleeping(key: str, belief: str, idea: str, *enough: Enough) -> Misconception:
    """A wrong idea of when a pass has slept enough, and the ways to write it down."""
    answer, *alike = map(deciding, enough)
    return Misconception(key, belief, idea, answer, alike=alike)


def longer_than(fixed_us: int) -> Enough:
    return lambda slept, whole, bound: slept >= fixed_us


def memory_first(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if short else resume_or_abort(slept, whole, urgent, short, bound)


def memory_before_time(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if urgent and short else resume_or_abort(slept, whole, urgent, short, bound)


def sleeps_it_out(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    if slept >= bound * whole:
        return "resume"
    return "abort" if short and urgent else "sleep"


MISCONCEPTIONS = (
    Misconception(
        "not_a_way",
        "It resumes or it does not.",
        'There are three answers, "sleep", "resume" and "abort".',
        form=lambda value: not isinstance(value, str) or value not in ("sleep", "resume", "abort"),
        also=(lambda *args: resume_or_abort(*args) == "resume",),
    ),
    sleeping(
        "sleeps_for_ever",
        "It sleeps as long as an urgent request waits.",
        "An urgent request may always wait, and then the pass never comes back: once it has slept "
        "`bound` times its own length, it goes on, whatever waits.",
        lambda slept, whole, bound: False,
    ),
    Misconception(
        "aborts_when_time_is_up",
        "What has slept too long has lost.",
        "Once it has slept long enough it is its turn to compute, and what it has computed already "
        "still counts: resume it.",
        deciding(over="abort"),
    ),
    Misconception(
        "memory_first",
        "Short memory comes before all.",
        "Short memory alone is no reason to throw work away: when no urgent request waits, the "
        "pass goes on and uses what it holds.",
        memory_first,
    ),
    Misconception(
        "memory_before_time",
        "As long as an urgent request has no room, the pass must go.",
        "Look at the time first: a pass that has slept its share goes on even if memory is short, "
        "or it could be aborted again and again and never end.",
        memory_before_time,
    ),
    Misconception(
        "keeps_its_memory",
        "Work that has been done is kept at any price.",
        "As long as it holds its K/V there is no room for the request that waits: asleep, it would "
        "keep that waiting as if it ran, so abort it.",
        deciding(short="sleep"),
    ),
    Misconception(
        "resumes_in_the_way",
        "If the other one cannot run, at least this one can.",
        "Computing on makes no room and takes the time as well: what stands in the way of an "
        "urgent request, and has not slept its share, is aborted.",
        deciding(short="resume"),
    ),
    Misconception(
        "always_aborts",
        "To be preempted is to start over.",
        "There is room for both, so its work need not be lost: let it sleep.",
        deciding(room="abort"),
    ),
    Misconception(
        "never_sleeps",
        "Room for both: both run.",
        "It was suspended to let an urgent request through, which still waits: let it sleep a "
        "little longer.",
        deciding(room="resume"),
    ),
    Misconception(
        "sleeps_it_out",
        "Its time is not over yet.",
        "The one it slept for is served, so there is nothing to wait for: resume at once.",
        sleeps_it_out,
    ),
    Misconception(
        "aborts_at_last",
        "Without a need for it the pass is given up.",
        "No urgent request waits any more, so it can go on with what it has computed: that is what "
        "it was suspended for.",
        deciding(calm="abort"),
    ),
    Misconception(
        "urgent_upside_down",
        "It sleeps while it is quiet.",
        "It sleeps while an urgent request waits, and goes on when none does.",
        lambda slept, whole, urgent, short, bound: resume_or_abort(
            slept, whole, not urgent, short, bound
        ),
    ),
    sleeping(
        "one_moment_late",
        "The bound may be reached.",
        "When it has slept exactly `bound` times its own length, that is enough.",
        lambda slept, whole, bound: slept > bound * whole,
    ),
    sleeping(
        "bound_upside_down",
        "It may go on as long as it has not slept too long.",
        "It is the time that it has slept which must not reach the bound: what has just fallen "
        "asleep has not slept enough.",
        lambda slept, whole, bound: slept <= bound * whole,
    ),
    sleeping(
        "bound_is_no_constant",
        "Three times is the rule.",
        "3 is one bound of many: take the one that comes in as `bound`.",
        lambda slept, whole, bound: slept >= 3 * whole,
        lambda slept, whole, bound: slept > 3 * whole,
    ),
    sleeping(
        "rounded",
        "Times are whole.",
        "A bound need not be whole, nor how often the pass has slept its own length: compare "
        "without rounding.",
        lambda slept, whole, bound: slept // whole >= bound,
        lambda slept, whole, bound: round(slept / whole) >= bound,
        lambda slept, whole, bound: slept >= int(bound) * whole,
        lambda slept, whole, bound: slept >= round(bound) * whole,
        lambda slept, whole, bound: -(-slept // whole) >= bound,
    ),
    sleeping(
        "counts_the_pass",
        "Its own time counts too.",
        "What counts is how long it has slept, `suspended_us`: the length of the pass is what that "
        "is measured by, and is not added to it.",
        lambda slept, whole, bound: slept + whole >= bound * whole,
        lambda slept, whole, bound: slept >= (bound + 1) * whole,
    ),
    sleeping(
        "ignores_bound",
        "As long as it takes itself.",
        "The pass may sleep `bound` times its own length, not just once.",
        lambda slept, whole, bound: slept >= whole,
    ),
    sleeping(
        "bound_divides",
        "A share of its length.",
        "The pass may sleep `bound` times its own length: multiply, do not divide.",
        lambda slept, whole, bound: slept >= whole / bound,
    ),
    sleeping(
        "bound_is_a_time",
        "The bound is how long it may sleep.",
        "`bound` is no time but a number of passes: multiply it by the length of this one.",
        lambda slept, whole, bound: slept >= bound,
    ),
    sleeping(
        "fixed_bound",
        "No pass should sleep for more than a second.",
        "How long a pass may sleep goes with its own length, so that a short one comes back soon "
        "and a long one makes way for long.",
        *map(longer_than, (1_000_000, 100_000, 1_000, 10_000, 10_000_000)),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_passes(rng: random.Random, count: int) -> list[Args]:
    """Around the bound, and far from it; passes short and long."""
    cases: list[Args] = []
    for _ in range(count):
        whole = rng.choice((rng.randint(2, 90), rng.randint(500, 9_000), rng.randint(1, 9) * 10**6))
        bound = rng.choice((3.0, 3.0, 1.0, 0.5, 2.5, 2.125, 10.0))
        edge = math.ceil(bound * whole)
        slept = rng.choice((0, whole, 3 * whole, edge - 1, edge, edge + 1, 2 * edge, 30 * edge))
        cases.append((slept, whole, rng.random() < 0.8, rng.random() < 0.5, bound))
    return cases


JUDGE = Comparison(
    resume_or_abort,
    MISCONCEPTIONS,
    "Ask of each way when it is the right one: what does a pass sleep for, how long may that last, "
    "and what is won by an abort?",
    evidence=any_passes(random.Random(0), 40),
)


def one_after_the_other(ask: Ask, rng: random.Random) -> Failure | None:
    """Urgent requests come for ever, and every 300 us the question is asked anew."""
    whole, bound, every, most = 900, 3.0, 300, 30
    for slept in range(0, round(bound * whole) + 1, every):
        failure = JUDGE.judge(ask, [(slept, whole, True, False, bound)])
        if failure is None:
            continue
        ways: list[Any] = [ask(every * asked, whole, True, False, bound) for asked in range(most)]
        if ways != ["sleep"] * most:
            return failure
        then = f"asked {most} times, every {every} us, it has slept {most} times"
        return replace(failure, example=(*failure.example, ("then", then)))
    return None


TIMES = (
    (2_699, 900, 3.0), (2_701, 900, 3.0), (2_700, 900, 3.0), (40, 40, 1.0), (20, 40, 0.5),
    (19, 40, 0.5), (9_000, 500, 3.0), (900_000, 2_000_000, 1.0), (7_000_000, 2_500_000, 3.0),
    (2_250, 900, 2.5), (2_249, 900, 2.5), (1_800, 900, 3.0), (4_000, 900, 10.0), (1, 1, 1.75),
    (0, 1, 0.5), (1_700, 800, 2.125), (1_699, 800, 2.125),
)  # fmt: skip

EXERCISE = Exercise(
    number=4,
    title="No pass sleeps for ever",
    minutes=6,
    points=2,
    task=Task(
        signature="resume_or_abort(suspended_us: int, pass_us: int, urgent_waits: bool, "
        "memory_is_short: bool, bound: float) -> str",
        rules=(
            'The result is what becomes of a suspended pass now: `"sleep"`, until the question is '
            'asked again; `"resume"`, it computes on; or `"abort"`, its K/V is released and its '
            "work is lost.",
            "It has slept for `suspended_us`, and the whole pass takes `pass_us` to compute, both "
            "in microseconds.",
            "`urgent_waits`: whether a request that is urgent is still without a first token. That "
            "is what the pass was suspended for.",
            "`memory_is_short`: whether there is no room for that request as long as the pass "
            "holds its K/V. Work is lost for nothing less.",
            "`bound`: a pass that has slept this many times its own length, or longer, has slept "
            "enough, whatever waits, since urgent requests may come for ever.",
        ),
        args=(100, 900, True, False, 3.0),
        result="sleep",
    ),
    hints=(
        "Urgent requests come one after the other, without end. What becomes of the pass that "
        "sleeps? When is its work worth throwing away?",
        "First ask whether it may compute on: no urgent request waits, or it has slept `bound` "
        "times its length. Only if neither is so does memory decide between the other two.",
        "Two reasons to resume make one condition with `or`. In the second reason `bound` is "
        "multiplied by `pass_us`, and equal is enough. Two answers are left for what comes below "
        "it.",
    ),
    right=(resume_or_abort, by_words, by_what_is_left, by_passes, from_a_table),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "just asleep",
            JUDGE.on(
                (100, 900, True, False, 3.0),
                (100, 900, False, False, 3.0),
                (100, 900, True, True, 3.0),
                (100, 900, False, True, 3.0),
            ),
        ),
        ("one urgent request after the other", one_after_the_other),
        (
            "to the moment",
            JUDGE.on(
                *(
                    (slept, whole, True, short, bound)
                    for slept, whole, bound in TIMES
                    for short in (False, True)
                )
            ),
        ),
        ("any question", JUDGE.on_drawn(lambda rng: any_passes(rng, 50))),
    ),
    draw_call=named("suspended_us", "pass_us", "urgent_waits", "memory_is_short", "bound"),
    still_right={"pass_us at least 1": "a pass takes time"},
)
