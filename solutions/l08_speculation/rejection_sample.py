"""Exercise 8.1: accept or replace one draft token."""

import bisect
import itertools
import math
from dataclasses import replace
from operator import sub

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Task
from course.format_values import show
from course.harness import Ask, Check, Failure
from solutions.l08_speculation._law import any_drafts, digits, judge_law, short
from solutions.l08_speculation._mistakes import FALLS_OFF, MISCONCEPTIONS

# --- right answers ------------------------------------------------------------------------------


def rejection_sample(
    target_probs: list[float], draft_probs: list[float], draft_token: int, u: float, v: float
) -> tuple[bool, int]:
    """Return `(kept, token)`: whether the draft token is kept, and the token at its position."""
    # A token comes out as an accepted draft token with probability min(p, q), or as a replacement.
    # The first way leaves max(0, p - q) of p missing, so the replacement is drawn from that. Drawn
    # from p, a rejected token would get a second chance.
    if u * draft_probs[draft_token] < target_probs[draft_token]:
        return True, draft_token
    missing = [
        max(0.0, wanted - drafted)
        for wanted, drafted in zip(target_probs, draft_probs, strict=True)
    ]
    sums = list(itertools.accumulate(missing))
    return False, next(other for other, so_far in enumerate(sums) if so_far > v * sums[-1])


def by_bisection(
    target_probs: list[float], draft_probs: list[float], draft_token: int, u: float, v: float
) -> tuple[bool, int]:
    if u < target_probs[draft_token] / draft_probs[draft_token]:
        return True, draft_token
    missing = (max(gap, 0.0) for gap in map(sub, target_probs, draft_probs))
    sums = list(itertools.accumulate(missing))
    return False, bisect.bisect_right(sums, v * sums[-1])


# --- cases --------------------------------------------------------------------------------------

BELOW_1 = math.nextafter(1, 0)
NEARLY_1 = 0.999999
NOT_REACHED = (
    "Your running sum is rounded at every step, and here it never exceeds `v`, which is just below "
    "1. In such a case, which is far more frequent in float32, take the last token with a weight "
    "above 0."
)


def draw_call(name: str, args: Args) -> str:
    p, q, token, u, v = args
    return (
        f"{name}(target_probs={short(p)}, draft_probs={short(q)}, draft_token={token}, "
        f"u={digits(u)}, v={digits(v)})"
    )


JUDGE = Comparison(
    rejection_sample,
    MISCONCEPTIONS,
    "First `u` decides whether the draft token is kept. If it is not, `v` decides which token "
    "replaces it.",
    evidence=[
        (p, q, token, u, v)
        for p, q in (
            ([0.125, 0.5, 0.375], [0.5, 0.375, 0.125]),
            ([0.25, 0.0, 0.375, 0.375], [0.25, 0.5, 0.125, 0.125]),
            ([0.5, 0.125, 0.375], [0.25, 0.5, 0.25]),
            ([0.125, 0.0, 0.625, 0.125, 0.125], [0.5, 0.25, 0.125, 0.0, 0.125]),
        )
        for token in (0, 1)
        for u in (0.1, 0.3, 0.85)
        for v in (0.05, 0.4, 0.7, 0.95)
    ],
)


def reached(*cases: Args) -> Check:
    """The check that asks about these cases, in which a running sum may end too low."""
    return lambda ask, rng: next(filter(None, (judge_reached(ask, args) for args in cases)), None)


def judge_reached(ask: Ask, args: Args) -> Failure | None:
    near_1 = args[4] > NEARLY_1
    called = ask.call(*args, may_raise=near_1)
    if called.error is not None and called.raised(
        IndexError, StopIteration, ValueError, RuntimeError
    ):
        rows = ask.example(show(rejection_sample(*args)), called.error.kind)
        return Failure(NOT_REACHED, rows, FALLS_OFF.key)
    if called.error is not None:
        ask(*args)  # ends the check with the error's own words
    failure = JUDGE.judge(ask, [args])
    if failure is not None and failure.misconception in (None, "no_return") and near_1:
        return replace(failure, idea=NOT_REACHED, misconception=None)
    return failure


ZERO, ONE, TWO = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]  # one token is certain
LESS_OF_1 = [0.5, 0.125, 0.375], [0.25, 0.5, 0.25]
LIKELY_2 = [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]
THIRD_OF_0 = [0.25, 0.75], [0.75, 0.25]
NEARLY_THERE = [0.4996, 0.2502, 0.2502], [0.5, 0.25, 0.25]
LESS_OF_0 = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]
# What is missing: 0, 0.25, 0.125, 0, 0.125, 0.
SOME_WITHOUT = [0.0, 0.375, 0.125, 0.125, 0.375, 0.0], [0.5, 0.125, 0.0, 0.125, 0.25, 0.0]
# As floats, the shares of what is missing come to just below 1; the last token has none.
SHORT_OF_1 = [0.3, 0.15, 0.15, 0.3, 0.1], [0.1, 0.1, 0.3, 0.2, 0.3]
HALF_ONE = [0.25, 0.5, 0.25]

EXERCISE = Exercise(
    number=1,
    title="Accept or replace a draft token",
    minutes=12,
    points=4,
    task=Task(
        rules=(
            "Returns `(kept, token)`: whether the draft token is accepted, and the token at its "
            "position, which is the draft token or its replacement.",
            "`target_probs` (p) are the target's probabilities and `draft_probs` (q) the draft's, "
            "one for each token of the vocabulary. Each list sums to 1 up to rounding. "
            "`draft_token` was drawn from `draft_probs`.",
            "`u` and `v` are uniform random numbers, at least 0 and below 1. The draft token is "
            "accepted if `u` is below its acceptance probability.",
            "If it is rejected, `v` draws the replacement by the weights derived above. Go "
            "through the tokens from 0 up and take the first one at which the running sum of the "
            "weights exceeds `v` times the sum of all weights. Do not change the lists.",
            "Over many drafts each token then comes out as often as p says, whatever q is.",
        ),
        args=([0.125, 0.25, 0.625], [0.625, 0.125, 0.25], 0, 0.75, 0.5),
        result=(False, 2),
        call="rejection_sample(target_probs=[0.125, 0.25, 0.625], draft_probs=[0.625, 0.125, 0.25],"
        "\n                 draft_token=0, u=0.75, v=0.5)",
        steps=(
            "The draft proposes token 0 with probability 0.625, five times as often as the target "
            "wants it (0.125). Its acceptance probability is 0.2.",
            "`u` = 0.75 is not below 0.2, so token 0 is rejected.",
            "Token 0 gets its whole share of p from accepted draft tokens. Token 1 still lacks "
            "0.125 and token 2 lacks 0.375: the weights are 0, 0.125 and 0.375, and their sum is "
            "0.5.",
            "`v` times the sum is 0.25. The running sums are 0, 0.125 and 0.5, and the first one "
            "above 0.25 is at token 2.",
        ),
    ),
    hints=(
        "A draft proposes a token with probability 0.5, and the target wants it with 0.25. How "
        "often may it be kept? Which tokens come out too seldom then?",
        "Keep the token if u is below p[draft_token] / q[draft_token]. If not, the weight of each "
        "token is p - q, or 0 where that is negative. Add up the weights from token 0 on until "
        "they exceed v times their sum.",
        "`max(0.0, ...)` over `zip(target_probs, draft_probs)` makes the list of weights. Walk "
        "through it with a running sum. If rounding keeps that sum too low to the end, take the "
        "last token with a weight above 0.",
    ),
    right=(rejection_sample, by_bisection),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a draft token that is kept",
            JUDGE.on(
                (*LESS_OF_1, 0, 0.75, 0.5),
                (*LESS_OF_1, 1, 0.125, 0.75),
                (*LESS_OF_1, 2, 0.9375, 0.0),
                (*LIKELY_2, 0, 0.75, 0.75),
                (*LIKELY_2, 1, 0.375, 0.75),
                (*THIRD_OF_0, 0, 0.332, 0.5),
                (*THIRD_OF_0, 0, 0.3333, 0.5),
            ),
        ),
        (
            "a draft token that is rejected",
            JUDGE.on(
                (*LESS_OF_0, 0, 0.75, 0.75),
                (*LESS_OF_0, 0, 0.5625, 0.875),
                (*NEARLY_THERE, 0, 0.9995, 0.75),
            ),
        ),
        ("distributed as p", lambda ask, rng: judge_law(ask, JUDGE)),
        (
            "one token is certain",
            reached(
                (ONE, ONE, 1, 0.75, 0.25),
                (ONE, TWO, 2, 0.25, 0.75),
                (TWO, ZERO, 0, 0.0, 0.0),
                (ZERO, ONE, 1, 0.5, BELOW_1),
                (HALF_ONE, ONE, 1, 0.75, 0.25),
                (ONE, HALF_ONE, 2, 0.0, 0.5),
                (ONE, HALF_ONE, 1, BELOW_1, 0.5),
            ),
        ),
        (
            "which token v draws",
            reached(
                *(
                    (*SOME_WITHOUT, 0, 0.5, v)
                    for v in (0.25, 0.0, 0.4375, 0.5, 0.625, 0.75, 0.875, BELOW_1)
                )
            ),
        ),
        (
            "at the edges",
            reached(
                (*LESS_OF_0, 0, 0.5, 0.5),
                (*LESS_OF_0, 0, math.nextafter(0.5, 0), 0.5),
                ([0.0, 0.5, 0.5], LESS_OF_0[1], 0, 0.0, 0.75),
                (LESS_OF_0[1], LESS_OF_0[1], 0, BELOW_1, 0.25),
                (LESS_OF_0[1], LESS_OF_0[1], 2, 0.0, 0.0),
                (*SHORT_OF_1, 4, 0.5, BELOW_1),
                (*SHORT_OF_1, 2, 0.75, BELOW_1),
            ),
        ),
        ("any draft", JUDGE.on_drawn(any_drafts)),
    ),
    draw_call=draw_call,
    equivalent_mutants={
        "rejection_sample(): missing = [max(0.0, wanted - drafted) for wanted, drafted "
        "in zip(target_probs, draft_probs, strict={True => False})]": "all are equally long",
    },
)
