"""Exercise 8.1: which drafts stay, and what stands in place of the others."""

import bisect
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise
from course.format_values import show
from course.harness import Ask, Check, Failure
from course.task import Task
from solutions.l08_speculation._law import digits, judge_law, short
from solutions.l08_speculation._mistakes import FALLS_OFF, MISCONCEPTIONS

# --- right answers ------------------------------------------------------------------------------


def rejection_sample(
    target_probs: list[float], draft_probs: list[float], draft_token: int, u: float, v: float
) -> tuple[bool, int]:
    """Return `(kept, token)`: whether the draft token stays, and which token stands there."""
    # A token comes out as an accepted draft min(p, q) of the time, or it is drawn in place of a
    # rejected one. The first way lacks max(0, p - q) of p, so the second draws from that and from
    # nothing else: drawn from p, draft tokens would get a second chance.
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
    ratio = min(1.0, target_probs[draft_token] / draft_probs[draft_token])
    if u < ratio:
        return True, draft_token
    sums = list(
        itertools.accumulate(
            max(a - b, 0.0) for a, b in zip(target_probs, draft_probs, strict=True)
        )
    )
    return False, bisect.bisect_right(sums, v * sums[-1])


def exactly(
    target_probs: list[float], draft_probs: list[float], draft_token: int, u: float, v: float
) -> tuple[bool, int]:
    target, draft = [Fraction(a) for a in target_probs], [Fraction(b) for b in draft_probs]
    if Fraction(u) < target[draft_token] / draft[draft_token]:
        return True, draft_token
    goal = Fraction(v) * sum(a - b for a, b in zip(target, draft, strict=True) if a > b)
    other = -1
    while goal >= 0:
        other += 1
        goal -= max(Fraction(0), target[other] - draft[other])
    return False, other


def by_shares(
    target_probs: list[float], draft_probs: list[float], draft_token: int, u: float, v: float
) -> tuple[bool, int]:
    if draft_probs[draft_token] * u >= target_probs[draft_token]:
        share = 1 / sum(a - b for a, b in zip(target_probs, draft_probs, strict=True) if a > b)
        ends = list(
            itertools.accumulate(
                max(0, a - b) * share for a, b in zip(target_probs, draft_probs, strict=True)
            )
        )
        ends = [end if end < ends[-1] else math.inf for end in ends]
        return False, next(i for i, end in enumerate(ends) if v < end)
    return True, draft_token


# --- cases --------------------------------------------------------------------------------------

BELOW_1 = math.nextafter(1, 0)
NEARLY_1 = 0.999999
NOT_REACHED = (
    "This `v` is just below 1, and your sums miss the token: they round, and far sooner in the "
    "float32 of `torch.tensor`; where none is reached, it is the last token with a weight."
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
    "Two questions, one after the other: does the draft stay, by `u`; and if it does not, which "
    "token stands there, by `v`?",
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
    """The check that asks about these cases, where an answer may run off the end of its sums."""
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


def any_probs(rng: random.Random, size: int) -> list[float]:
    """Thousandths that sum to 1 up to rounding, a token in four without a chance."""
    weights = [rng.randint(1, 50) if rng.random() < 0.75 else 0 for _ in range(size)]
    weights[rng.randrange(size)] += 1
    ends = [round(1000 * end / sum(weights)) for end in itertools.accumulate(weights)]
    return [(end - start) / 1000 for start, end in itertools.pairwise([0, *ends])]


def is_clear(p: list[float], q: list[float], token: int, u: float, v: float) -> bool:
    """Whether u and v lie off the edges, so that rounding does not matter."""
    missing = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = sum(missing)
    edges = [end / total for end in itertools.accumulate(missing)] if total else [0.0]
    return min(abs(u - p[token] / q[token]), *(abs(v - edge) for edge in edges)) > 1e-9


def any_drafts(rng: random.Random) -> Sequence[Args]:
    """60 drafts over vocabularies of 2 to 12 tokens, the smallest first; some stay, some go."""
    cases: list[Args] = []
    while len(cases) < 60:
        size = rng.choice((2, 3, 4, 5, 6, 7, 12))
        p, q = any_probs(rng, size), any_probs(rng, size)
        token = rng.choice([index for index in range(size) if q[index]])
        u, v = round(rng.random(), 4), round(rng.random(), 4)
        if p != q and u < 1 and v < 1 and is_clear(p, q, token, u, v):
            cases.append((p, q, token, u, v))
    return sorted(cases, key=lambda case: len(case[0]))


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
EQUAL_LENGTHS = "all are equally long"
NO_WEIGHT = "a weight of 0 adds nothing and is never drawn"

EXERCISE = Exercise(
    number=1,
    title="Which drafts stay",
    minutes=12,
    points=4,
    part="rejection_sample",
    task=Task(
        signature="rejection_sample(target_probs: list[float], draft_probs: list[float], "
        "draft_token: int, u: float, v: float) -> tuple[bool, int]",
        rules=(
            "Returns `(kept, token)`: whether the draft token is accepted, and which token then "
            "stands at its position, the draft token or another one.",
            "`target_probs` (p) are the target model's probabilities and `draft_probs` (q) the "
            "draft model's, one for each token of the vocabulary. Each list sums to 1 up to "
            "rounding. `draft_token` was drawn from `draft_probs`.",
            "`u` and `v` are random numbers, uniform from 0 up to, but not including, 1. `u` "
            "decides: the draft token is accepted if `u` is below its acceptance probability.",
            "If it is rejected, `v` draws another token. Every token has a weight, which you have "
            "to find. Go through the tokens from 0 up and take the first one at which the sum of "
            "the weights so far is more than `v` times the sum of all weights.",
            "Over many drafts each token then comes out as often as p says, whatever q is, and no "
            "draft token is rejected that could have been accepted.",
        ),
        args=([0.25, 0.25, 0.5], [0.5, 0.25, 0.25], 0, 0.75, 0.75),
        result=(False, 2),
    ),
    hints=(
        "The draft proposes a token half the time, the target would say it a quarter of the time. "
        "How often may it stay, and which tokens have come too seldom so far?",
        "Keep it if u is below p[draft_token] / q[draft_token]. If not, the weight of each token "
        "is p minus q, and 0 where that is negative; add the weights up from token 0 on until they "
        "exceed v times their sum.",
        "`max(0.0, ...)` for each pair of `zip(target_probs, draft_probs)` makes the list of "
        "weights. Walk through it "
        "with a running sum, and compare that with `v` times the sum of the whole list. Should "
        "rounding keep the sum from ever getting there, the last token with a weight is meant.",
    ),
    right=(rejection_sample, by_bisection, exactly),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a draft that stays",
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
            "a draft that goes",
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
            "which token v picks",
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
        "in zip(target_probs, draft_probs, strict={True => False})]": EQUAL_LENGTHS,
        "by_bisection(): ratio = min({1.0 => 2.0}, target_probs[draft_token] / "
        "draft_probs[draft_token])": "u is below 1",
        "by_bisection(): sums = list(itertools.accumulate((max(a - b, 0.0) for a, b in "
        "zip(target_probs, draft_probs, strict={True => False}))))": EQUAL_LENGTHS,
        "exactly(): goal = Fraction(v) * sum((a - b for a, b in zip(target, draft, "
        "strict={True => False}) if a > b))": EQUAL_LENGTHS,
        "exactly(): goal = Fraction(v) * sum((a - b for a, b in zip(target, draft, "
        "strict=True) if a {> => >=} b))": NO_WEIGHT,
    },
)
