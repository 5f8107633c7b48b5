"""Exercise 6.4: whether a suspended pass resumes, waits on, or is aborted."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from course.harness import Ask, Failure

Enough: TypeAlias = Callable[[int, int, float], bool]

# --- right answers ------------------------------------------------------------------------------


def resume_or_abort(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    """Return what to do with a suspended pass now: "stay_suspended", "resume" or "abort"."""
    # The bound comes first. Without it, a stream of urgent requests suspends the pass for ever, or
    # aborts it again and again. The bound is relative, so a short pass waits for a short time.
    if not urgent_waits or suspended_us >= bound * pass_us:
        return "resume"
    return "abort" if memory_is_short else "stay_suspended"


def by_words(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    may_wait = urgent_waits and suspended_us < bound * pass_us
    if may_wait and memory_is_short:
        return "abort"
    if may_wait:
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
    """The rules, with the given bound or results replaced."""

    def answer(
        slept: int, whole: int, urgent_waits: bool, memory_is_short: bool, bound: float
    ) -> str:
        if not urgent_waits:
            return calm
        if enough(slept, whole, bound):
            return over
        return short if memory_is_short else room

    return answer


def suspending(key: str, belief: str, idea: str, *enough: Enough) -> Misconception:
    """A wrong idea of how long a pass may stay suspended."""
    answer, *same_result = map(deciding, enough)
    return Misconception(key, belief, idea, answer, same_result=same_result)


def memory_first(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if short else resume_or_abort(slept, whole, urgent, short, bound)


def memory_before_time(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if urgent and short else resume_or_abort(slept, whole, urgent, short, bound)


MISCONCEPTIONS = (
    Misconception(
        "not_a_way",
        "The result says whether to resume.",
        'Return one of three words: "stay_suspended", "resume" or "abort".',
        matches=lambda value: (
            not isinstance(value, str) or value not in ("stay_suspended", "resume", "abort")
        ),
        examples=(lambda *args: resume_or_abort(*args) == "resume",),
    ),
    suspending(
        "suspended_for_ever",
        "It stays suspended while an urgent request waits.",
        "An urgent request may always wait, and then the pass never resumes. After `bound` times "
        "its own run time it resumes, no matter which requests wait.",
        lambda slept, whole, bound: False,
    ),
    Misconception(
        "aborts_when_time_is_up",
        "A pass that waited too long is lost.",
        "Once the bound is reached, it is this pass's turn, and its computed layers still count. "
        "Resume it.",
        deciding(over="abort"),
    ),
    Misconception(
        "memory_first",
        "Memory is checked first.",
        "Short memory is a reason to abort only while an urgent request waits. Otherwise the pass "
        "resumes and uses its K/V.",
        memory_first,
    ),
    Misconception(
        "memory_before_time",
        "While an urgent request has no room, the pass must be aborted.",
        "Look at the time first. A pass that has reached its bound resumes even if memory is "
        "short; otherwise it could be aborted again and again and never end.",
        memory_before_time,
    ),
    Misconception(
        "keeps_its_memory",
        "Computed work is always kept.",
        "While the suspended pass keeps its K/V, the urgent request has no room and waits as if "
        "the pass ran. Abort the pass.",
        deciding(short="stay_suspended"),
    ),
    Misconception(
        "always_aborts",
        "A preempted request starts over.",
        "There is room for both, so the work of the pass need not be lost. It stays suspended.",
        deciding(room="abort"),
    ),
    suspending(
        "one_moment_late",
        "At exactly the bound the pass is still suspended.",
        "After exactly `bound` times its own run time, the pass resumes.",
        lambda slept, whole, bound: slept > bound * whole,
    ),
    suspending(
        "rounded",
        "The suspension is counted in whole run times.",
        "Neither the bound nor the ratio of the two times has to be whole. Compare without "
        "rounding.",
        lambda slept, whole, bound: slept // whole >= bound,
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_passes(rng: random.Random, count: int) -> list[Args]:
    """Short and long passes, near the bound and far from it."""
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
    "Ask when each result is right: what is the pass suspended for, how long may that last, and "
    "what does an abort gain?",
    evidence=any_passes(random.Random(0), 40),
)


def one_after_the_other(ask: Ask, rng: random.Random) -> Failure | None:
    """Urgent requests keep coming, and the question is asked every 300 us."""
    whole, bound, every, most = 900, 3.0, 300, 30
    for slept in range(0, round(bound * whole) + 1, every):
        failure = JUDGE.judge(ask, [(slept, whole, True, False, bound)])
        if failure is None:
            continue
        ways: list[Any] = [ask(every * asked, whole, True, False, bound) for asked in range(most)]
        if ways != ["stay_suspended"] * most:
            return failure
        then = f"asked {most} times, every {every} us: suspended {most} times"
        return replace(failure, example=(*failure.example, ("then", then)))
    return None


TIMES = (
    (2_699, 900, 3.0), (2_701, 900, 3.0), (2_700, 900, 3.0), (40, 40, 1.0), (20, 40, 0.5),
    (19, 40, 0.5), (9_000, 500, 3.0), (900_000, 2_000_000, 1.0), (7_000_000, 2_500_000, 3.0),
    (2_250, 900, 2.5), (2_249, 900, 2.5), (1_800, 900, 3.0), (4_000, 900, 10.0), (1, 1, 1.75),
    (0, 1, 0.5), (1_700, 800, 2.125), (1_699, 800, 2.125),
)  # fmt: skip

AT_THE_BOUND = [
    (slept, whole, True, short, bound) for slept, whole, bound in TIMES for short in (False, True)
]

EXERCISE = Exercise(
    number=4,
    title="How long a pass stays suspended",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            'Returns what to do with a suspended pass now: `"stay_suspended"` until the next call, '
            '`"resume"`, or `"abort"`, which releases its K/V and loses its work.',
            "The pass has been suspended for `suspended_us` in all. Computing it whole takes "
            "`pass_us`. Both are in microseconds.",
            "`urgent_waits`: whether an urgent request still waits for its first token. The pass "
            "was suspended for such a request.",
            "`memory_is_short`: whether that request has no room while the suspended pass keeps "
            "its own K/V. Only this is a reason to abort.",
            "`bound`: a pass that has been suspended for this many times its own run time, or "
            "longer, resumes no matter which requests wait.",
        ),
        args=(100, 900, True, False, 3.0),
        steps=(
            "An urgent request waits, and there is room for its K/V beside that of the pass.",
            "The bound is 3 * 900 = 2,700 us, and only 100 us have passed.",
        ),
        result="stay_suspended",
    ),
    hints=(
        "Urgent requests come one after another, without end. When does the suspended pass resume? "
        "When is its work worth throwing away?",
        "First ask whether it may resume: no urgent request waits, or it has been suspended for "
        "`bound` times its run time. Only if neither holds does memory decide.",
        "The two reasons to resume make one condition with `or`. The second compares "
        "`suspended_us` with `bound * pass_us`, and equal is enough. After that, two results are "
        "left.",
    ),
    right=(resume_or_abort, by_words, from_a_table),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "just suspended",
            JUDGE.on(
                (100, 900, True, False, 3.0),
                (100, 900, False, False, 3.0),
                (100, 900, True, True, 3.0),
                (100, 900, False, True, 3.0),
            ),
        ),
        ("one urgent request after another", one_after_the_other),
        ("near the bound", JUDGE.on(*AT_THE_BOUND)),
        ("any question", JUDGE.on_drawn(lambda rng: any_passes(rng, 50))),
    ),
    draw_call=named("suspended_us", "pass_us", "urgent_waits", "memory_is_short", "bound"),
    equivalent_mutants={"pass_us at least 1": "a pass takes time"},
)
