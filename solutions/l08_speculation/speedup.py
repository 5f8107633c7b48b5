"""Exercise 8.3: how many times as fast as plain decoding speculation is."""

import math
import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task
from solutions.l08_speculation._means import (
    AT_LEAST_ONE,
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
from solutions.l08_speculation.expected_tokens import accepted, expected_tokens

# --- right answers ------------------------------------------------------------------------------


def speedup(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Return how many times as fast as plain decoding speculation is: 2 is twice, 0.5 half."""
    # The draft model has to know its own last token before it can draft the next one: it runs k
    # times in a round, and the rejected drafts are paid for like the others.
    return expected_tokens(acceptance_rate, num_draft_tokens) / (1 + num_draft_tokens * draft_cost)


def of_a_round(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    time = 1.0
    tokens = chance = 1.0
    for _ in range(num_draft_tokens):
        time += draft_cost
        chance *= acceptance_rate
        tokens += chance
    return tokens / time


def by_time_per_token(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    time_per_token = (1 + draft_cost * num_draft_tokens) / math.fsum(
        acceptance_rate**i for i in range(num_draft_tokens + 1)
    )
    return 1 / time_per_token


# --- wrong ideas --------------------------------------------------------------------------------


def tokens_over(time: Callable[[float, int, float], float]) -> Callable[..., float]:
    """The right tokens over such a time."""
    return lambda p, k, alpha: expected_tokens(p, k) / time(p, k, alpha)


def over_the_round(tokens: Callable[[float, int], float]) -> Callable[..., float]:
    """Such tokens over the right time."""
    return lambda p, k, alpha: tokens(p, k) / (1 + k * alpha)


CLOSED_FORM = Misconception(
    *DIVIDES_BY_ZERO,
    near(nan_at_1(speedup)),
    examples=(over_the_round(lambda p, k: (1 - p ** (k + 1)) / (1 - p)),),
)
MISCONCEPTIONS = (
    not_a_number("Is it worth it?", lambda p, k, alpha: speedup(p, k, alpha) > 1),
    NOT_FINITE,
    mistaken(
        "charged_once",
        "A draft costs `draft_cost`.",
        "The draft model runs once for every token that it drafts, one after the other: a round "
        "has k drafts to pay for, not one.",
        tokens_over(lambda p, k, alpha: 1 + alpha),
    ),
    mistaken(
        "charged_once_each_alone",
        "k drafts, each with probability p, for one `draft_cost`.",
        "Wrong twice, and both ways it looks better: drafts stay only in a row, so tokens are not "
        "1 + k * p, and the draft runs k times in a round, not once.",
        lambda p, k, alpha: (1 + k * p) / (1 + alpha),
    ),
    mistaken(*EACH_ALONE, over_the_round(lambda p, k: 1 + k * p)),
    mistaken(*BONUS_FORGOTTEN, over_the_round(accepted)),
    mistaken(*AT_LEAST_ONE, over_the_round(lambda p, k: max(1, accepted(p, k)))),
    mistaken(*ONE_DRAFT_LESS, over_the_round(lambda p, k: sum(p**i for i in range(k)))),
    mistaken(*ENDLESS, over_the_round(lambda p, k: 1 / (1 - p))),
    CLOSED_FORM,
    mistaken(
        "draft_is_free",
        "Drafts cost nothing.",
        "Drafting is not free: each of the k drafts takes `draft_cost` of a decode's time.",
        lambda p, k, alpha: expected_tokens(p, k),
    ),
    mistaken(
        "verifying_is_free",
        "The target has to run anyway.",
        "The verifying pass takes time as well, that of one decode.",
        tokens_over(lambda p, k, alpha: k * alpha),
    ),
    mistaken(
        "accepted_only",
        "What goes costs nothing.",
        "A rejected draft took as long to make as an accepted one: all k are paid for.",
        tokens_over(lambda p, k, alpha: 1 + alpha * accepted(p, k)),
    ),
    mistaken(
        "a_pass_each",
        "Each draft is verified.",
        "The verifying pass looks at all drafts at once and takes the time of one decode, however "
        "many they are.",
        tokens_over(lambda p, k, alpha: k + 1 + k * alpha),
    ),
    mistaken(
        "never_below_1",
        "At worst nothing is gained.",
        "Speculation can lose, and the engine needs to know when: do not cut it off at 1.",
        lambda p, k, alpha: max(1, speedup(p, k, alpha)),
    ),
    mistaken(
        "draft_speed",
        "The draft model is `draft_cost` times as fast.",
        "`draft_cost` is how long a draft takes, as a share of a decode, not how many times as "
        "fast the draft model is.",
        tokens_over(lambda p, k, alpha: 1 + k / alpha),
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
    "Follow one round with a watch: how long does it take, and how many tokens does it bring?",
    draw=draw_number,
    evidence=[
        (p, k, alpha)
        for p in (0.1, 0.5, 0.7, 0.85, 0.95)
        for k, alpha in ((1, 0.1), (2, 0.25), (4, 0.1), (4, 0.5), (6, 0.02))
    ],
)

EXERCISE = Exercise(
    number=3,
    title="What it is worth",
    minutes=4,
    points=2,
    task=Task(
        signature="speedup(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) "
        "-> float",
        rules=(
            "Returns how many times as fast as plain decoding speculation is: 2 is twice, 0.5 half "
            "as fast.",
            "Plain decoding yields 1 token per unit of time.",
            "With speculation, the draft model first drafts `num_draft_tokens` tokens, one after "
            "the other. Each takes `draft_cost` units.",
            "Then one verifying pass takes 1 unit, however many tokens it checks. It yields "
            "`expected_tokens(acceptance_rate, num_draft_tokens)` tokens on average; you may call "
            "that function.",
        ),
        args=(0.5, 2, 0.25),
        result=1.75 / 1.5,
    ),
    hints=(
        "Follow one round with a watch: who runs how many times, and for how long? Then count the "
        "tokens that it has brought.",
        "Plain decoding brings 1 token per unit of time. A round takes 1 unit for the pass and "
        "`draft_cost` for each draft token, and brings `expected_tokens(...)` tokens.",
        "Speed is tokens per unit of time. Write down the time of a round, divide its tokens by "
        "that, and compare with plain decoding, which has a speed of 1.",
    ),
    right=(speedup, of_a_round, by_time_per_token),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a good draft", JUDGE.on((0.85, 4, 0.1), (0.5, 2, 0.25), (0.9, 1, 0.05))),
        (
            "a draft that costs nothing",
            JUDGE.on((0.85, 4, 0.0), (0.5, 1, 0.0), (0.0, 3, 0.0), (0.4, 0, 0.3)),
        ),
        (
            "a draft that is not worth it",
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
