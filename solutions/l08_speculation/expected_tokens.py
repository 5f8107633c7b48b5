"""Exercise 8.2: how many tokens a verifying pass yields on average."""

import random

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from solutions.l08_speculation._means import (
    BONUS_FORGOTTEN,
    DIVIDES_BY_ZERO,
    EACH_ALONE,
    NOT_FINITE,
    draw_number,
    mistaken,
    nan_at_1,
    near,
    not_a_number,
)

# --- right answers ------------------------------------------------------------------------------


def expected_tokens(acceptance_rate: float, num_draft_tokens: int) -> float:
    """Return how many tokens one verifying pass yields on average."""
    # The i-th draft token counts if it and all those before it are accepted, which has probability
    # acceptance_rate ** i. A mean count is the sum of such probabilities; the target's own token is
    # certain, with exponent 0.
    return sum(acceptance_rate**i for i in range(num_draft_tokens + 1))


def in_closed_form(acceptance_rate: float, num_draft_tokens: int) -> float:
    if acceptance_rate == 1:
        return num_draft_tokens + 1
    return (1 - acceptance_rate ** (num_draft_tokens + 1)) / (1 - acceptance_rate)


# --- wrong ideas --------------------------------------------------------------------------------


def accepted(rate: float, k: int) -> float:
    """How many draft tokens are accepted on average."""
    return expected_tokens(rate, k) - 1


CLOSED_FORM = Misconception(
    *DIVIDES_BY_ZERO,
    near(nan_at_1(expected_tokens)),
    examples=(lambda rate, k: (1 - rate ** (k + 1)) / (1 - rate),),
)
MISCONCEPTIONS = (
    not_a_number(
        "The answer has one number per draft token.",
        lambda rate, k: [rate**i for i in range(k + 1)],
    ),
    NOT_FINITE,
    mistaken(*BONUS_FORGOTTEN, accepted),
    mistaken(
        "bonus_after_all_only",
        "The target adds a token only if all draft tokens were accepted.",
        "The target adds a token after a rejection too, in place of the rejected draft token: "
        "every pass yields one token more than it accepts.",
        lambda rate, k: accepted(rate, k) + rate**k,
    ),
    mistaken(
        "one_draft_less",
        "k draft tokens give k terms.",
        "There are k draft tokens and the target's own token, so add up k + 1 powers of α, from "
        "α⁰ to αᵏ.",
        lambda rate, k: sum(rate**i for i in range(k)),
    ),
    mistaken(
        "endless",
        "A geometric series is 1 / (1 - α).",
        "Only k tokens are drafted, so the series ends with αᵏ: 1 / (1 - α) would be the mean for "
        "endlessly many draft tokens.",
        lambda rate, k: 1 / (1 - rate),
    ),
    CLOSED_FORM,
    mistaken(*EACH_ALONE, lambda rate, k: 1 + k * rate),
    mistaken(
        "rejection",
        "α is the probability that a draft token is rejected.",
        "`acceptance_rate` is the probability that a draft token is accepted, not that it is "
        "rejected.",
        lambda rate, k: expected_tokens(1 - rate, k),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_rate(rng: random.Random) -> list[Args]:
    return [(round(rng.random(), 3), rng.randint(0, 12)) for _ in range(40)]


JUDGE = Comparison(
    near(expected_tokens),
    MISCONCEPTIONS,
    "Find the probability of each token that a pass may yield, and add these probabilities up.",
    draw=draw_number,
    evidence=[(rate, k) for rate in (0.0, 0.25, 0.5, 0.7, 0.85, 0.95) for k in (1, 2, 3, 4, 6)],
)

EXERCISE = Exercise(
    number=2,
    title="Expected tokens per pass",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "Returns how many tokens one verifying pass yields on average for `num_draft_tokens` "
            "draft tokens (k, which may be 0).",
            "Each draft token that the target checks is accepted with probability "
            "`acceptance_rate` (α, from 0 to 1, both included). The first rejected one is "
            "discarded with all draft tokens after it.",
            "Then the target adds one token of its own: in place of the first rejected draft "
            "token, or after the last one if all were accepted.",
        ),
        args=(0.5, 2),
        result=1.75,
        steps=(
            "With probability 0.5 the first draft token is rejected. The pass yields 1 token, the "
            "target's.",
            "With probability 0.5 × 0.5 = 0.25 the first is accepted and the second rejected: 2 "
            "tokens.",
            "With probability 0.25 both are accepted: 3 tokens.",
            "The mean is 0.5 × 1 + 0.25 × 2 + 0.25 × 3.",
        ),
    ),
    hints=(
        "How likely is the first draft token to be accepted? How likely the second, which counts "
        "only if the first is accepted too? What is added in every pass?",
        "A mean count is a sum of probabilities: α for the first draft token, α² for the second, "
        "and so on up to the k-th, and 1 for the target's own token.",
        "Write the 1 as α⁰, and the mean is one sum of powers of α, a single `sum(...)`. What is "
        "the first exponent, and what the last?",
    ),
    right=(expected_tokens, in_closed_form),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one draft token", JUDGE.on((0.5, 1), (0.75, 1), (0.25, 1))),
        ("several draft tokens", JUDGE.on((0.5, 2), (0.5, 3), (0.85, 4), (0.3, 6))),
        ("nothing accepted, nothing drafted", JUDGE.on((0.0, 4), (0.0, 1), (0.6, 0))),
        (
            "always accepted",
            JUDGE.on_raising(
                CLOSED_FORM, (ZeroDivisionError,), (1.0, 4), (1.0, 1), (1.0, 0), (0.999, 4)
            ),
        ),
        ("any acceptance rate", JUDGE.on_drawn(any_rate)),
    ),
    draw_call=named("acceptance_rate", "num_draft_tokens"),
)
