"""Exercise 5.2: how urgent a request is."""

import math
import random
from collections.abc import Callable
from typing import TypeAlias

from course.checks.comparing import Args, Comparison, Near
from course.exercise import Exercise, Misconception, Task
from course.format_values import named, show
from solutions.l05_slo_policy._numbers import not_a_number, not_finite

Score: TypeAlias = Callable[[float, int], float]

# --- right answers ------------------------------------------------------------------------------


def edf_score(slack: float, time_to_deadline: int) -> float:
    """Return the score of a request, from -1 to 1: the higher goes first."""
    # The sign of the slack puts doomed requests below all others, and the time to the deadline
    # orders the rest. At the deadline itself 1 / time would be a division by zero.
    size = 1 / max(abs(time_to_deadline) / 1000, 1)
    return size if slack >= 0 else -size


def with_copysign(slack: float, time_to_deadline: int) -> float:
    return math.copysign(1000 / max(abs(time_to_deadline), 1000), slack)


def by_cases(slack: float, time_to_deadline: int) -> float:
    sign = -1 if slack < 0 else 1
    if abs(time_to_deadline) < 1000:
        return sign
    return sign * 1000 / abs(time_to_deadline)


# --- wrong ideas --------------------------------------------------------------------------------


def size(slack: float, left: int) -> float:
    return abs(edf_score(slack, left))


def sized(
    size: Score, is_positive: Callable[[float, int], bool] = lambda slack, left: slack >= 0
) -> Score:
    """A score of this size, above 0 where `is_positive`; infinite where it divides by zero."""

    def answer(slack: float, left: int) -> float:
        try:
            score = size(slack, left)
        except ZeroDivisionError:
            score = math.inf
        return Near(score if is_positive(slack, left) else -score)

    return answer


def doomed_get(score: Callable[[int], float]) -> Score:
    """The right score, except for doomed requests."""
    return lambda slack, left: Near(size(slack, left) if slack >= 0 else score(left))


DIVIDES_BY_ZERO = Misconception(
    "divides_by_zero",
    "The time is never 0.",
    "At the deadline the time left is 0. Count the time as at least 1 ms before you divide by it.",
    examples=(lambda slack, left: (1 if slack >= 0 else -1) / abs(left / 1000),),
)
MISCONCEPTIONS = (
    not_a_number(
        "edf_score", "A pair sorts just as well.", lambda slack, left: (slack >= 0, abs(left))
    ),
    not_finite(
        "edf_score",
        "A doomed request has no score.",
        lambda slack, left: edf_score(slack, left) if slack >= 0 else math.nan,
    ),
    DIVIDES_BY_ZERO,
    Misconception(
        "not_clamped",
        "Only a time of 0 is a problem.",
        "Just before and after the deadline the time left is tiny, so the score would be huge: "
        "count a time as at least 1 ms.",
        sized(lambda slack, left: 1 / abs(left / 1000) if left else 0.0),
    ),
    Misconception(
        "no_abs",
        "A time is never below 0.",
        "After the deadline `time_to_deadline` is negative: take its absolute value before you "
        "count it as at least 1 ms.",
        sized(lambda slack, left: 1 / max(left / 1000, 1)),
    ),
    Misconception(
        "clamp_of_1_us",
        "At least 1 means 1 us.",
        "A time counts as at least 1 ms, which is 1000 us. With 1 us, a request at its deadline "
        "would beat all others by any margin.",
        sized(lambda slack, left: 1000 / max(abs(left), 1)),
    ),
    Misconception(
        "per_us",
        "The size is 1 divided by the time in microseconds.",
        "The time comes in microseconds and the score is per millisecond: convert the time to "
        "milliseconds first, then take 1 divided by it.",
        sized(lambda slack, left: 1 / max(abs(left), 1)),
        same_result=(sized(lambda slack, left: 1 / max(abs(left), 1000)),),
    ),
    Misconception(
        "sign_of_the_time",
        "Negative means that the deadline is past.",
        "The sign comes from the slack, which counts the remaining work. A deadline that is still "
        "ahead may be impossible to meet.",
        sized(size, lambda slack, left: left >= 0),
    ),
    Misconception(
        "ignores_slack",
        "The nearest deadline first.",
        "Without a sign, doomed requests are as urgent as requests that can be saved: with a slack "
        "below 0 the score is negative.",
        sized(size, lambda slack, left: True),
    ),
    Misconception(
        "sign",
        "A request that is late is the most urgent.",
        "The sign is reversed. A slack of 0 or more makes the score positive.",
        sized(size, lambda slack, left: slack < 0),
    ),
    Misconception(
        "slack_for_time",
        "Least slack first.",
        "The size comes from the time to the deadline; the slack gives only the sign.",
        sized(lambda slack, left: 1 / max(abs(slack) / 1000, 1)),
    ),
    Misconception(
        "order_of_the_doomed",
        "All doomed requests are equal.",
        "A doomed request's score is -1 divided by the distance to its deadline in milliseconds. "
        "So among doomed requests, the one nearest to its deadline, past or ahead, ranks lowest.",
        doomed_get(lambda left: -1.0),
    ),
    Misconception(
        "zero_is_doomed",
        "A slack of 0 is not positive.",
        "With a slack of exactly 0 the request still meets its deadline, so 0 counts as positive.",
        sized(size, lambda slack, left: slack > 0),
    ),
)

# --- cases --------------------------------------------------------------------------------------

JUDGE = Comparison(
    lambda slack, left: Near(edf_score(slack, left)),
    MISCONCEPTIONS,
    "The sign says whether the request can still meet its deadline; the size says how near that "
    "deadline is, in milliseconds.",
    draw=lambda value: f"{value:.6g}" if type(value) in (float, Near) else show(value),
    evidence=[
        *((5_000, 80_000), (-5_000, 80_000), (-90_000, -30_000), (0, 40_000), (300, 500)),
        *((-20_000, 400), (-20_000, -300), (0, 0), (-7_000, 2_000_000), (7_000, 3_000_000)),
    ],
)
AT_THE_DEADLINE = (
    *((-30_000, 0), (0, 0), (0, 500), (-30_000, -200), (-7_000, 999)),
    *((-9_000, -1), (500, 1_001), (-9_000, -1_001)),
)


def any_times(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(60):
        left = rng.choice((1, 1, -1)) * rng.randint(0, rng.choice((1_500, 5_000, 300_000)))
        cases.append((left - rng.randint(0, 100_000), left))
    return cases


BOTH_SAY_1 = "at 1 ms both branches say 1"

EXERCISE = Exercise(
    number=2,
    title="Which request goes first",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "`slack` and `time_to_deadline` are in microseconds; once the deadline is past, "
            "`time_to_deadline` is below 0.",
            "Returns a score from -1 to 1: the request with the higher score goes first.",
            "The score has the sign of `slack`, where 0 counts as positive: it says whether the "
            "request can still meet its deadline.",
            "Its size says how near the deadline is, ahead or past: 1 divided by the distance in "
            "milliseconds.",
            "A deadline nearer than 1 ms counts as 1 ms away.",
        ),
        args=(5_000, 20_000),
        steps=("The deadline is 20 ms away: 1 / 20 = 0.05.", "The slack is positive."),
        result=0.05,
    ),
    hints=(
        "Which of the two arguments says whether the deadline can be met, and which one says how "
        "soon it comes?",
        "Compute the size first, always positive, from the time to the deadline. Then give it the "
        "sign of the slack.",
        "Take the absolute time, in milliseconds and at least 1, and divide 1 by it. The slack "
        "decides only the sign.",
    ),
    right=(edf_score, with_copysign, by_cases),
    misconceptions=MISCONCEPTIONS,
    draw_call=named("slack", "time_to_deadline"),
    checks=(
        ("time enough", JUDGE.on((20_000, 100_000), (20_000, 50_000), (3_000, 2_500_000))),
        (
            "too late",
            JUDGE.on(
                *((-20_000, 100_000), (-20_000, 50_000), (-60_000, -40_000)),
                *((-1, 8_000), (-400, 1_600)),
            ),
        ),
        (
            "at the deadline",
            JUDGE.on_raising(DIVIDES_BY_ZERO, (ZeroDivisionError,), *AT_THE_DEADLINE),
        ),
        ("a slack of 0", JUDGE.on((0, 40_000), (1, 40_000), (0, 1_000))),
        ("any time", JUDGE.on_drawn(any_times)),
    ),
    equivalent_mutants={
        "slack at most 7": "only its sign counts",
        "by_cases(): if abs(time_to_deadline) {< => <=} 1000:": BOTH_SAY_1,
        "by_cases(): if abs(time_to_deadline) < {1000 => 1001}:": BOTH_SAY_1,
    },
)
