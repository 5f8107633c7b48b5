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
    """Return what becomes of a suspended pass now: "stay_suspended", "resume" or "abort"."""
    # The bound comes first: without it, one urgent request after the other lets the pass sleep for
    # ever, or throws it away for ever. In proportion to the pass, a short one waits a short time.
    if not urgent_waits or suspended_us >= bound * pass_us:
        return "resume"
    return "abort" if memory_is_short else "stay_suspended"


def by_words(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    may_sleep = urgent_waits and suspended_us < bound * pass_us
    if may_sleep and memory_is_short:
        return "abort"
    if may_sleep:
        return "stay_suspended"
    return "resume"


def from_a_table(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    is_over = suspended_us >= bound * pass_us
    ways = {(True, False, False): "stay_suspended", (True, False, True): "abort"}
    return ways.get((urgent_waits, is_over, memory_is_short), "resume")


# --- wrong ideas --------------------------------------------------------------------------------


def deciding(
    enough: Enough = lambda slept, whole, bound: slept >= bound * whole,
    *,
    calm: str = "resume",
    over: str = "resume",
    short: str = "abort",
    room: str = "stay_suspended",
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
    answer, *same_result = map(deciding, enough)
    return Misconception(key, belief, idea, answer, same_result=same_result)


def longer_than(fixed_us: int) -> Enough:
    return lambda slept, whole, bound: slept >= fixed_us


def memory_first(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if short else resume_or_abort(slept, whole, urgent, short, bound)


def memory_before_time(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if urgent and short else resume_or_abort(slept, whole, urgent, short, bound)


MISCONCEPTIONS = (
    Misconception(
        "not_a_way",
        "It resumes or it does not.",
        'There are three answers, "stay_suspended", "resume" and "abort".',
        matches=lambda value: (
            not isinstance(value, str) or value not in ("stay_suspended", "resume", "abort")
        ),
        examples=(lambda *args: resume_or_abort(*args) == "resume",),
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
        deciding(short="stay_suspended"),
    ),
    Misconception(
        "always_aborts",
        "To be preempted is to start over.",
        "There is room for both, so its work need not be lost: let it sleep.",
        deciding(room="abort"),
    ),
    sleeping(
        "one_moment_late",
        "The bound may be reached.",
        "When it has slept exactly `bound` times its own length, that is enough.",
        lambda slept, whole, bound: slept > bound * whole,
    ),
    sleeping(
        "rounded",
        "Times are whole.",
        "A bound need not be whole, nor how often the pass has slept its own length: compare "
        "without rounding.",
        lambda slept, whole, bound: slept // whole >= bound,
    ),
    sleeping(
        "ignores_bound",
        "As long as it takes itself.",
        "The pass may sleep `bound` times its own length, not just once.",
        lambda slept, whole, bound: slept >= whole,
    ),
    sleeping(
        "fixed_bound",
        "No pass should sleep for more than a second.",
        "How long a pass may sleep goes with its own length, so that a short one comes back soon "
        "and a long one makes way for long.",
        longer_than(1_000_000),
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
        if ways != ["stay_suspended"] * most:
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
            'Returns what becomes of a suspended pass now: `"stay_suspended"` until the next call, '
            '`"resume"` to compute on, or `"abort"` to release its K/V and lose its work.',
            "The pass has been suspended for `suspended_us` in all, and computing it whole takes "
            "`pass_us`, both in microseconds.",
            "`urgent_waits`: whether an urgent request still waits for its first token. The pass "
            "was suspended for such a request.",
            "`memory_is_short`: whether that request has no room as long as the pass holds its "
            "K/V. This is the only reason to lose work.",
            "`bound`: a pass that has been suspended for this many times its own length, or "
            "longer, resumes whatever waits, since urgent requests may come for ever.",
        ),
        args=(100, 900, True, False, 3.0),
        result="stay_suspended",
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
    right=(resume_or_abort, by_words, from_a_table),
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
    equivalent_mutants={"pass_us at least 1": "a pass takes time"},
)
