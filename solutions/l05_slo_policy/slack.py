"""Exercise 5.1: how much time a request has to spare."""

import math
import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison, Near
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from solutions.l05_slo_policy._numbers import not_a_number, not_finite

# --- right answers ------------------------------------------------------------------------------


def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    """Return how much time a request has to spare before its deadline, in microseconds."""
    # Only the remaining work still costs time. If a running request is charged for its whole
    # prompt, it looks doomed in the middle of its pass and is aborted just before it would finish.
    left = total - done
    work_us = a * left + c if left > 0 else 0
    return deadline - now - work_us


def of_the_finish(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    finish = now
    if done != total:
        finish += a * (total - done) + c
    return deadline - finish


def in_whole_microseconds(
    now: int, deadline: int, total: int, done: int, a: float, c: float
) -> int:
    def predict(tokens: int) -> int:
        return round(a * tokens + c) if tokens else 0

    return deadline - now - predict(total - done)


# --- wrong ideas --------------------------------------------------------------------------------


def charging(work: Callable[[int, int, float, float], float]) -> Callable[..., float]:
    """The slack with another idea of what is paid for: work(total, done, a, c)."""
    return lambda now, deadline, total, done, a, c: deadline - now - work(total, done, a, c)


def pass_us(tokens: int, a: float, c: float) -> float:
    return a * tokens + c if tokens > 0 else 0


MISCONCEPTIONS = (
    not_a_number(
        "slack", "The result says whether the request is late.", lambda *args: slack(*args) >= 0
    ),
    not_finite(
        "slack",
        "A finished request has unlimited time.",
        lambda now, deadline, total, done, a, c: (
            slack(now, deadline, total, done, a, c) if done < total else math.inf
        ),
    ),
    Misconception(
        "ignores_progress",
        "A prefill takes a fixed time.",
        "Only total - done tokens are still to be computed. Charged for its whole prompt, a "
        "running request looks doomed although it is about to finish.",
        charging(lambda total, done, a, c: pass_us(total, a, c)),
    ),
    Misconception(
        "forgets_c",
        "The time depends only on the tokens.",
        "Every pass also costs c. Without it, short prompts seem to have more time than they do.",
        charging(lambda total, done, a, c: a * (total - done)),
    ),
    Misconception(
        "forgets_now",
        "`deadline` is the time that is left.",
        "The deadline is a point in time. The time until then is `deadline - now`.",
        lambda now, *rest: slack(0, *rest),
    ),
    Misconception(
        "sign",
        "Slack is how late the request will be.",
        "The sign is reversed. The slack of a request with time to spare is above 0; the slack of "
        "a request that will be late is below 0.",
        lambda *args: -slack(*args),
    ),
    Misconception(
        "done_twice",
        "Each computed token also adds its time to the slack.",
        "The done tokens are subtracted twice here. They only reduce the work that remains.",
        charging(lambda total, done, a, c: pass_us(total - done, a, c) - a * done),
    ),
    Misconception(
        "empty_pass",
        "A pass always costs at least c.",
        "When nothing is left to compute there is no pass, so its fixed cost c is not paid.",
        charging(lambda total, done, a, c: a * (total - done) + c),
    ),
    Misconception(
        "no_work",
        "Slack is the time until the deadline.",
        "This is the time to the deadline. Subtract the time of a pass over the remaining tokens.",
        charging(lambda total, done, a, c: 0),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_requests(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(60):
        total = 8 * rng.randint(1, 150)
        done = 8 * rng.randint(0, total // 8) if rng.random() < 0.7 else 0
        now, left = rng.randint(0, 10**6), rng.randint(-50_000, 150_000)
        a, c = rng.choice(((100.0, 10_000.0), (0.5, 300.0), (172.625, 34_000.0), (41.0, 0.0)))
        cases.append((now, now + left, total, done, a, c))
    return cases


JUDGE = Comparison(
    lambda *args: Near(slack(*args), scale=1000),  # computed in any unit
    MISCONCEPTIONS,
    "The slack is the time until the deadline minus the predicted time of the remaining work.",
    evidence=[
        (0, 90_000, 400, 0, 100.0, 10_000.0),
        (70_000, 90_000, 400, 300, 100.0, 10_000.0),
        (40_000, 90_000, 400, 100, 100.0, 10_000.0),
        (5_000, 90_000, 400, 400, 100.0, 10_000.0),
        (0, 20_000, 400, 100, 100.0, 10_000.0),
    ],
)

EXERCISE = Exercise(
    number=1,
    title="Time to spare",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "At the time `now`, `done` of the request's `total` tokens are computed.",
            "A pass over n tokens is predicted to take a * n + c microseconds, and no time at all "
            "if there is no token to compute.",
            "Returns the slack: the time until `deadline` minus the time of a pass over the "
            "remaining tokens.",
            "A slack below 0 means that the request is doomed: it misses its deadline even if it "
            "starts now and is not interrupted.",
            "`now`, `deadline` and the result are in microseconds. Rounding to whole ones "
            "is allowed.",
        ),
        args=(20_000, 90_000, 400, 0, 100.0, 10_000.0),
        steps=(
            "The deadline is 70,000 us away.",
            "A pass over the 400 tokens takes 100 * 400 + 10,000 = 50,000 us.",
        ),
        result=20_000.0,
    ),
    hints=(
        "A request has computed 300 of its 400 tokens. Which work remains, and which is done?",
        "The time to the deadline is deadline - now. A pass over how many tokens has to be "
        "subtracted?",
        "Only the remaining tokens cost time, `a` microseconds each. Then look at a request "
        "without remaining tokens: would a * n + c be right for it?",
    ),
    right=(slack, of_the_finish, in_whole_microseconds),
    misconceptions=MISCONCEPTIONS,
    draw_call=named("now", "deadline", "total", "done", "a", "c"),
    checks=(
        (
            "a request that waits",
            JUDGE.on(
                (30_000, 90_000, 400, 0, 100.0, 10_000.0), (0, 90_000, 400, 0, 100.0, 10_000.0)
            ),
        ),
        (
            "a request that runs",
            JUDGE.on(
                (60_000, 90_000, 400, 300, 100.0, 10_000.0),
                (65_000, 90_000, 400, 360, 100.0, 10_000.0),
                (0, 90_000, 400, 2, 0.5, 300.0),
            ),
        ),
        (
            "a request that is too late",
            JUDGE.on(
                (60_000, 90_000, 400, 0, 100.0, 10_000.0),
                (100_000, 90_000, 400, 200, 100.0, 10_000.0),
                (40_000, 90_000, 400, 0, 100.0, 10_000.0),
            ),
        ),
        (
            "nothing left to compute",
            JUDGE.on(
                (50_000, 90_000, 400, 400, 100.0, 10_000.0),
                (50_000, 90_000, 400, 399, 100.0, 10_000.0),
                (90_000, 90_000, 1, 1, 100.0, 10_000.0),
            ),
        ),
        ("any request", JUDGE.on_drawn(any_requests)),
    ),
    equivalent_mutants={
        "deadline at least 1": "a deadline lies after the start of the clock",
        "total at least 1": "it is at least 1",
    },
)
