"""Exercise 8.3: how many times as fast speculation is as plain decoding."""

import random
from collections.abc import Callable

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
from solutions.l08_speculation.expected_tokens import accepted, expected_tokens

# --- right answers ------------------------------------------------------------------------------


def speedup(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Return how many times as fast as plain decoding speculation is: 2 is twice, 0.5 half."""
    # The draft model needs its own last token to draft the next one, so it runs k times in a round.
    # Rejected draft tokens cost as much as accepted ones.
    return expected_tokens(acceptance_rate, num_draft_tokens) / (1 + num_draft_tokens * draft_cost)


def of_a_round(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    time = 1.0
    tokens = chance = 1.0
    for _ in range(num_draft_tokens):
        time += draft_cost
        chance *= acceptance_rate
        tokens += chance
    return tokens / time


# --- wrong ideas --------------------------------------------------------------------------------


def tokens_over(time: Callable[[float, int, float], float]) -> Callable[..., float]:
    """The right number of tokens in this time."""
    return lambda rate, k, c: expected_tokens(rate, k) / time(rate, k, c)


def over_the_round(tokens: Callable[[float, int], float]) -> Callable[..., float]:
    """This number of tokens in the right time."""
    return lambda rate, k, c: tokens(rate, k) / (1 + k * c)


CLOSED_FORM = Misconception(
    *DIVIDES_BY_ZERO,
    near(nan_at_1(speedup)),
    examples=(over_the_round(lambda rate, k: (1 - rate ** (k + 1)) / (1 - rate)),),
)
MISCONCEPTIONS = (
    not_a_number(
        "The question is whether speculation pays.", lambda rate, k, c: speedup(rate, k, c) > 1
    ),
    NOT_FINITE,
    mistaken(
        "charged_once",
        "A round pays `draft_cost` once.",
        "The draft model runs once for each draft token, one after the other, so a round pays for "
        "k drafts, not for one.",
        tokens_over(lambda rate, k, c: 1 + c),
    ),
    mistaken(
        "charged_once_each_alone",
        "A round yields 1 + kα tokens and pays `draft_cost` once.",
        "Two errors make speculation look faster than it is. A draft token counts only if all "
        "before it were accepted, so a round yields fewer than 1 + kα tokens, and the draft runs k "
        "times in a round, not once.",
        lambda rate, k, c: (1 + k * rate) / (1 + c),
    ),
    mistaken(*EACH_ALONE, over_the_round(lambda rate, k: 1 + k * rate)),
    mistaken(*BONUS_FORGOTTEN, over_the_round(accepted)),
    CLOSED_FORM,
    mistaken(
        "draft_is_free",
        "The draft model is so small that it costs nothing.",
        "Drafting is not free: each of the k draft tokens takes `draft_cost` of a decode's time.",
        lambda rate, k, c: expected_tokens(rate, k),
    ),
    mistaken(
        "verifying_is_free",
        "The target has to run anyway, so only the drafts cost time.",
        "The verifying pass takes time too, as much as one decode.",
        tokens_over(lambda rate, k, c: k * c),
    ),
    mistaken(
        "accepted_only",
        "Rejected draft tokens cost nothing.",
        "A rejected draft token took as long to draft as an accepted one, so all k are paid for.",
        tokens_over(lambda rate, k, c: 1 + c * accepted(rate, k)),
    ),
    mistaken(
        "a_pass_each",
        "Each draft token needs a pass of the target.",
        "One verifying pass checks all draft tokens at once, in the time of one decode.",
        tokens_over(lambda rate, k, c: k + 1 + k * c),
    ),
    mistaken(
        "never_below_1",
        "At worst nothing is gained.",
        "Speculation can lose, and the engine has to know when: do not clip the result at 1.",
        lambda rate, k, c: max(1, speedup(rate, k, c)),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_draft(rng: random.Random) -> list[Args]:
    return [
        (round(rng.random(), 3), rng.randint(0, 8), rng.choice((0.015, 0.05, 0.1, 0.3, 0.625)))
        for _ in range(40)
    ]


JUDGE = Comparison(
    near(speedup),
    MISCONCEPTIONS,
    "Follow one round: how long does it take, and how many tokens does it yield?",
    draw=draw_number,
    evidence=[
        (rate, k, c)
        for rate in (0.1, 0.5, 0.7, 0.85, 0.95)
        for k, c in ((1, 0.1), (2, 0.25), (4, 0.1), (4, 0.5), (6, 0.02))
    ],
)

EXERCISE = Exercise(
    number=3,
    title="The speed-up",
    minutes=4,
    points=2,
    task=Task(
        rules=(
            "Returns how many times as fast speculation is as plain decoding: 2 is twice, 0.5 is "
            "half as fast.",
            "Unit of time: one plain decode step, which yields 1 token.",
            "With speculation, the draft model first drafts `num_draft_tokens` tokens (k), one "
            "after the other. Each takes `draft_cost` units (c).",
            "Then one verifying pass takes 1 unit, however many tokens it checks. It yields "
            "`expected_tokens(acceptance_rate, num_draft_tokens)` tokens on average; you may call "
            "that function.",
        ),
        args=(0.5, 2, 0.25),
        result=1.75 / 1.5,
        steps=(
            "Drafting takes 2 × 0.25 = 0.5 units, the verifying pass 1 unit.",
            "In these 1.5 units the round yields `expected_tokens(0.5, 2)` = 1.75 tokens.",
            "Plain decoding yields 1.5 tokens in the same time.",
        ),
    ),
    hints=(
        "Follow one round: which model runs how many times, and for how long? How many tokens does "
        "the round yield?",
        "Plain decoding yields 1 token per unit of time. A round takes 1 unit for the pass and "
        "`draft_cost` for each draft token, and yields `expected_tokens(...)` tokens.",
        "Speed is tokens per unit of time. Divide the tokens of a round by the time of a round, "
        "and compare with plain decoding, whose speed is 1.",
    ),
    right=(speedup, of_a_round),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a good draft", JUDGE.on((0.85, 4, 0.1), (0.5, 2, 0.25), (0.9, 1, 0.05))),
        (
            "a draft that costs nothing",
            JUDGE.on((0.85, 4, 0.0), (0.5, 1, 0.0), (0.0, 3, 0.0), (0.4, 0, 0.3)),
        ),
        (
            "a draft that is not worth its cost",
            JUDGE.on((0.2, 4, 0.1), (0.85, 4, 1.0), (0.0, 4, 0.1), (0.25, 1, 0.25)),
        ),
        (
            "a perfect draft",
            JUDGE.on_raising(CLOSED_FORM, (ZeroDivisionError,), (1.0, 4, 0.1), (1.0, 1, 1.0)),
        ),
        ("any draft", JUDGE.on_drawn(any_draft)),
    ),
    draw_call=named("acceptance_rate", "num_draft_tokens", "draft_cost"),
)
