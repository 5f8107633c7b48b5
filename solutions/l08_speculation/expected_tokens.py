"""Exercise 8.2: how many tokens a verifying pass yields on average."""

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


def expected_tokens(acceptance_rate: float, num_draft_tokens: int) -> float:
    """Return how many tokens one verifying pass yields on average."""
    # The i-th draft token is accepted if all in front of it are: p to the power of i. A mean count
    # is the sum of such chances, and the target's own token is certain: p to the power of 0.
    return sum(acceptance_rate**i for i in range(num_draft_tokens + 1))


def in_closed_form(acceptance_rate: float, num_draft_tokens: int) -> float:
    if acceptance_rate == 1:
        return num_draft_tokens + 1
    return (1 - acceptance_rate ** (num_draft_tokens + 1)) / (1 - acceptance_rate)


def recursive(acceptance_rate: float, num_draft_tokens: int) -> float:
    return (
        1.0
        if num_draft_tokens == 0
        else 1 + acceptance_rate * recursive(acceptance_rate, num_draft_tokens - 1)
    )


# --- wrong ideas --------------------------------------------------------------------------------


def accepted(p: float, k: int) -> float:
    """How many drafts are accepted on average."""
    return expected_tokens(p, k) - 1


def cut(how: Callable[[float], float]) -> Callable[[float, int], float]:
    """The right mean with digits taken off."""
    return lambda p, k: how(expected_tokens(p, k))


CLOSED_FORM = Misconception(
    *DIVIDES_BY_ZERO,
    near(nan_at_1(expected_tokens)),
    examples=(lambda p, k: (1 - p ** (k + 1)) / (1 - p),),
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
    mistaken(*AT_LEAST_ONE, lambda p, k: max(1, accepted(p, k))),
    mistaken(*ONE_DRAFT_LESS, lambda p, k: sum(p**i for i in range(k))),
    mistaken(*ENDLESS, lambda p, k: 1 / (1 - p)),
    CLOSED_FORM,
    mistaken(*EACH_ALONE, lambda p, k: 1 + k * p),
    mistaken(
        "rejection",
        "p is the chance that a draft goes.",
        "`acceptance_rate` is the probability that a draft is accepted, not that it is rejected.",
        lambda p, k: expected_tokens(1 - p, k),
    ),
    mistaken(
        "whole_tokens",
        "There are no half tokens.",
        "A mean need not be a whole number: do not round it.",
        cut(round),
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
        signature="expected_tokens(acceptance_rate: float, num_draft_tokens: int) -> float",
        rules=(
            "Returns how many tokens one verifying pass yields on average for `num_draft_tokens` "
            "draft tokens (k, which may be 0).",
            "Each draft token that the target checks is accepted with probability "
            "`acceptance_rate` (p, from 0 to 1, both included). The first rejected one is "
            "discarded with all draft tokens behind it.",
            "Then the target adds one token of its own: in the place of the first rejected draft "
            "token, or after the last one if all were accepted.",
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
    right=(expected_tokens, in_closed_form, recursive),
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
    draw_call=named("acceptance_rate", "num_draft_tokens"),
)
