"""Exercise 8.2: how many tokens a verifying pass yields on average."""

import itertools
import math
import operator
import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task
from solutions.l08_speculation._means import (
    AT_LEAST_ONE,
    BONUS_AT_THE_END,
    BONUS_FORGOTTEN,
    DIVIDES_BY_ZERO,
    EACH_ALONE,
    ENDLESS,
    NOT_FINITE,
    ONE_DRAFT_LESS,
    draw_number,
    mistaken,
    nan_at_1,
    near,
    not_a_number,
)

# --- right answers ------------------------------------------------------------------------------


def expected_tokens(p: float, k: int) -> float:
    """Return how many tokens one verifying pass yields on average when `k` tokens were drafted."""
    # The i-th draft stays if it and all in front of it are accepted, p to the power of i. A mean
    # count is the sum of such chances, and the target's own token is certain: p to the power of 0.
    return sum(p**i for i in range(k + 1))


def in_closed_form(p: float, k: int) -> float:
    if p == 1:
        return k + 1
    return (1 - p ** (k + 1)) / (1 - p)


def by_the_first_rejection(p: float, k: int) -> float:
    mean = (k + 1) * p**k
    for accepted in range(k):
        mean += (accepted + 1) * p**accepted * (1 - p)
    return mean


def recursive(p: float, k: int) -> float:
    return 1.0 if k == 0 else 1 + p * recursive(p, k - 1)


def by_products(p: float, k: int) -> float:
    return math.fsum(itertools.accumulate([1.0, *[p] * k], operator.mul))


# --- wrong ideas --------------------------------------------------------------------------------


def accepted(p: float, k: int) -> float:
    """How many drafts are accepted on average."""
    return expected_tokens(p, k) - 1


def cut(how: Callable[[float], float]) -> Callable[[float, int], float]:
    """The right mean with digits taken off."""
    return lambda p, k: how(expected_tokens(p, k))


def at_p_1(certain: Callable[[int], float]) -> Callable[[float, int], float]:
    """Right but for drafts that are all accepted."""
    return lambda p, k: certain(k) if p == 1 else expected_tokens(p, k)


CLOSED_FORM = Misconception(
    *DIVIDES_BY_ZERO,
    near(nan_at_1(expected_tokens)),
    also=(lambda p, k: (1 - p ** (k + 1)) / (1 - p),),
)
MISCONCEPTIONS = (
    not_a_number("One number per draft.", lambda p, k: [p**i for i in range(k + 1)]),
    NOT_FINITE,
    mistaken(*BONUS_FORGOTTEN, accepted),
    mistaken(
        "bonus_after_all_only",
        "The bonus is for a clean run.",
        BONUS_AT_THE_END,
        lambda p, k: accepted(p, k) + p**k,
    ),
    mistaken(
        *AT_LEAST_ONE,
        lambda p, k: accepted(p, k) + 1 - p,
        lambda p, k: max(1, accepted(p, k)),
    ),
    mistaken(*ONE_DRAFT_LESS, lambda p, k: sum(p**i for i in range(k))),
    mistaken(
        "one_draft_more",
        "The bonus is one more.",
        "There are only k drafts: the powers of p end with p ** k.",
        lambda p, k: sum(p**i for i in range(k + 2)),
    ),
    mistaken(*ENDLESS, lambda p, k: 1 / (1 - p)),
    CLOSED_FORM,
    mistaken(*EACH_ALONE, lambda p, k: 1 + k * p, lambda p, k: k * p, lambda p, k: (k + 1) * p),
    mistaken(
        "all_or_nothing",
        "All have to be right.",
        "When a draft is rejected, those in front of it stay: it is not all of them or none.",
        lambda p, k: 1 + k * p**k,
        lambda p, k: (k + 1) * p**k,
    ),
    mistaken(
        "at_most",
        "All of them, and one.",
        "k + 1 is the most that a pass can yield: how many it is on average depends on `p`.",
        lambda p, k: k + 1,
    ),
    mistaken(
        "rejection",
        "p is the chance that a draft goes.",
        "`p` is the probability that a draft is accepted, not that it is rejected.",
        lambda p, k: expected_tokens(1 - p, k),
    ),
    mistaken(
        "weighs_by_count",
        "i tokens with probability p ** i.",
        "Add up the chances that the first draft stays, that the second does, and so on: each "
        "brings one token, however many are in front of it.",
        lambda p, k: 1 + sum(i * p**i for i in range(1, k + 1)),
    ),
    mistaken(
        "whole_tokens",
        "There are no half tokens.",
        "A mean need not be a whole number: do not round it.",
        *map(
            cut, (round, int, lambda mean: round(mean, 1), math.ceil, lambda mean: round(mean, 2))
        ),
    ),
    mistaken(
        "certain_drafts",
        "At p = 1 the sum is 1.",
        "At p = 1 every draft is accepted: count what a pass yields then.",
        *map(at_p_1, (lambda k: 1, lambda k: 0, lambda k: k)),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_chance(rng: random.Random) -> list[Args]:
    return [(round(rng.random(), 3), rng.randint(0, 12)) for _ in range(40)]


JUDGE = Comparison(
    near(expected_tokens),
    MISCONCEPTIONS,
    "Ask of each token that a pass may yield how likely it is to be there.",
    draw=draw_number,
    evidence=[(p, k) for p in (0.0, 0.25, 0.5, 0.7, 0.85, 0.95) for k in (1, 2, 3, 4, 6)],
)

EXERCISE = Exercise(
    number=2,
    title="Tokens in a pass",
    minutes=6,
    points=2,
    task=Task(
        signature="expected_tokens(p: float, k: int) -> float",
        rules=(
            "The result is how many tokens one verifying pass yields on average when `k` tokens "
            "were drafted; `k` may be 0.",
            "Each draft that the target looks at is accepted with probability `p`, from 0 to 1, "
            "both included. At the first that is not, it and all behind it go.",
            "Then the target adds one token of its own: in the place of the first rejected draft, "
            "or after the last one if all `k` were accepted.",
        ),
        args=(0.5, 1),
        result=1.5,
    ),
    hints=(
        "How likely is it that the first draft stays? And the second, which counts only if the "
        "first stays as well? What comes on top in every pass?",
        "A mean count is the sum of the chances: p for the first draft, p * p for the second, and "
        "so on up to the k-th; and 1 for the target's own token.",
        "With the 1 written as p ** 0 it is one sum over powers of p, in a single `sum(...)`. "
        "Which exponent is the first, and which the last?",
    ),
    right=(expected_tokens, in_closed_form, by_the_first_rejection, recursive, by_products),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one draft", JUDGE.on((0.5, 1), (0.75, 1), (0.25, 1))),
        ("several drafts", JUDGE.on((0.5, 2), (0.5, 3), (0.85, 4), (0.3, 6))),
        ("nothing accepted, nothing drafted", JUDGE.on((0.0, 4), (0.0, 1), (0.6, 0))),
        (
            "always accepted",
            JUDGE.on_raising(
                CLOSED_FORM, (ZeroDivisionError,), (1.0, 4), (1.0, 1), (1.0, 0), (0.999, 4)
            ),
        ),
        ("any chance", JUDGE.on_drawn(any_chance)),
    ),
    draw_call=named("p", "k"),
)
