"""Exercise 1.1: how many prompt tokens fit into a step."""

import random

from course.checks.comparing import Args, Comparison, not_whole
from course.exercise import Exercise, Misconception, Task

# --- right answers ------------------------------------------------------------------------------


def chunk_size(token_budget: int, num_decodes: int, remaining: int) -> int:
    """Return how many prompt tokens one request may prefill in this step."""
    # The chunk is the smaller of two numbers: the budget that the decodes leave, and the prompt
    # tokens that remain. More decodes than budget would make the first one negative, hence the 0.
    return max(0, min(token_budget - num_decodes, remaining))


def by_cases(token_budget: int, num_decodes: int, remaining: int) -> int:
    if num_decodes >= token_budget:
        return 0
    left = token_budget - num_decodes
    return remaining if remaining < left else left


def by_counting(token_budget: int, num_decodes: int, remaining: int) -> int:
    n = 0
    while n < remaining and num_decodes + n < token_budget:
        n += 1
    return n


# --- wrong ideas --------------------------------------------------------------------------------

MISCONCEPTIONS = (
    not_whole(
        "The chunk may be a fraction.",
        lambda token_budget, num_decodes, remaining: (
            chunk_size(token_budget, num_decodes, remaining) + 0.5
        ),
    ),
    Misconception(
        "negative",
        "The prompt gets the budget minus the decodes, always.",
        "When the decodes need the whole budget or more, nothing is left for the prompt. The chunk "
        "is then 0 tokens, never a negative number.",
        lambda token_budget, num_decodes, remaining: min(token_budget - num_decodes, remaining),
    ),
    Misconception(
        "ignores_decodes",
        "The budget counts only prompt tokens.",
        "Each decode takes one token of the budget first. The chunk gets the rest.",
        lambda token_budget, num_decodes, remaining: min(token_budget, remaining),
    ),
    Misconception(
        "ignores_remaining",
        "A chunk fills the rest of the budget.",
        "A chunk cannot have more tokens than remain of the prompt, even when more would fit into "
        "the budget.",
        lambda token_budget, num_decodes, remaining: max(0, token_budget - num_decodes),
    ),
    Misconception(
        "at_least_one",
        "Every step computes at least one prompt token.",
        "When the decodes fill the step, not even one prompt token fits. The chunk is 0 and the "
        "prompt waits.",
        lambda token_budget, num_decodes, remaining: max(
            1, min(token_budget - num_decodes, remaining)
        ),
    ),
    Misconception(
        "whole_or_nothing",
        "A prompt runs only when all of it fits.",
        "The whole prompt need not fit. Compute a chunk of it now, or a prompt longer than the "
        "budget never starts.",
        lambda token_budget, num_decodes, remaining: (
            remaining * (remaining <= token_budget - num_decodes)
        ),
    ),
    Misconception(
        "decodes_off_the_chunk",
        "The chunk is the smaller of budget and prompt, minus the decodes.",
        "Subtract the decodes from the budget only, not from the tokens that remain of the prompt.",
        lambda token_budget, num_decodes, remaining: max(
            0, min(token_budget, remaining) - num_decodes
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_numbers(rng: random.Random) -> list[Args]:
    cases = [(rng.randint(1, 40), rng.randint(0, 20), rng.randint(1, 40)) for _ in range(80)]
    cases += [(rng.randint(100, 5000), rng.randint(0, 300), rng.randint(1, 9000)) for _ in range(9)]
    return sorted(cases, key=sum)


JUDGE = Comparison(
    chunk_size,
    MISCONCEPTIONS,
    "After every decode has its token, the chunk is as large as the budget and the prompt allow.",
    evidence=[(16, 4, 100), (16, 4, 5), (4, 9, 3), (6, 6, 1), (9, 2, 7), (8, 0, 8), (20, 7, 30)],
)

EXERCISE = Exercise(
    number=1,
    title="How large is the chunk?",
    minutes=4,
    points=1,
    task=Task(
        rules=(
            "A step computes at most `token_budget` tokens (at least 1).",
            "`num_decodes` decodes go first and take one token each. There may be none, or "
            "more than the budget holds.",
            "One request has `remaining` prompt tokens still to compute (at least 1).",
            "Returns how many of these tokens the step computes, 0 if none fits.",
        ),
        args=(16, 4, 100),
        result=12,
        steps=(
            "The 4 decodes take 4 of the 16 tokens.",
            "12 tokens are left, and the prompt can use all of them.",
        ),
    ),
    hints=(
        "Which two numbers limit the chunk? What if there are more decodes than the budget holds?",
        "The prompt gets the budget that the decodes leave, and never more than it still needs. "
        "How much do the decodes leave when there are more of them than the budget holds?",
        "Work out three steps by hand: budget 8 with 3 decodes and 20 tokens remaining, then with "
        "2 remaining, then with 9 decodes. Which built-in functions give all three?",
    ),
    right=(chunk_size, by_cases, by_counting),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a long prompt beside decodes", JUDGE.on((16, 4, 100), (8, 0, 20), (8, 7, 20))),
        ("the end of a prompt", JUDGE.on((16, 4, 3), (16, 4, 12), (8, 0, 1))),
        ("decodes that fill the budget", JUDGE.on((4, 4, 10), (4, 7, 10), (1, 1, 1))),
        ("any numbers", JUDGE.on_drawn(any_numbers)),
    ),
    equivalent_mutants={
        "token_budget at least 1": "it is at least 1",
        "remaining at least 1": "it is at least 1",
        "by_cases(): if num_decodes {>= => >} token_budget:": "then 0 tokens are left",
        "by_cases(): return remaining if remaining {< => <=} left else left": (
            "both are equal then"
        ),
    },
)
