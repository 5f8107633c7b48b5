"""Exercise 1.1: how many prompt tokens fit into a step."""

import random

from course.checks.comparing import Args, Comparison, not_whole
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def chunk_size(token_budget: int, num_decodes: int, remaining: int) -> int:
    """Return how many prompt tokens one request may prefill in this step."""
    # Two limits, what is left of the budget and what is left of the prompt: the smaller one rules.
    # The decodes can leave less than nothing, hence the 0.
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
        "Half a token is better than none.",
        lambda token_budget, num_decodes, remaining: (
            chunk_size(token_budget, num_decodes, remaining) + 0.5
        ),
    ),
    Misconception(
        "negative",
        "The budget minus the decodes is what is left.",
        "When the decodes fill the budget, or need more than it has, nothing is left for the "
        "prompt: the chunk is 0 tokens, never a negative number.",
        lambda token_budget, num_decodes, remaining: min(token_budget - num_decodes, remaining),
    ),
    Misconception(
        "ignores_decodes",
        "The budget is for prompt tokens; decodes come on top.",
        "Each decode takes one token of the budget first; the chunk gets what they leave.",
        lambda token_budget, num_decodes, remaining: min(token_budget, remaining),
    ),
    Misconception(
        "ignores_remaining",
        "A chunk fills the step, whatever the prompt's length.",
        "The prompt ends before the budget does: a chunk cannot be longer than the tokens that "
        "remain.",
        lambda token_budget, num_decodes, remaining: max(0, token_budget - num_decodes),
    ),
    Misconception(
        "at_least_one",
        "A prompt must get on by a token in every step.",
        "A step that the decodes fill has no room for even one prompt token: the chunk is 0 and "
        "the prompt waits.",
        lambda token_budget, num_decodes, remaining: max(
            1, min(token_budget - num_decodes, remaining)
        ),
    ),
    Misconception(
        "whole_or_nothing",
        "A prompt runs when it fits.",
        "The prompt need not fit whole: a chunk of it runs now, or a prompt longer than the "
        "budget never starts.",
        lambda token_budget, num_decodes, remaining: (
            remaining * (remaining <= token_budget - num_decodes)
        ),
    ),
    Misconception(
        "decodes_off_the_chunk",
        "The chunk is the smaller of budget and prompt, less the decodes.",
        "The decodes come off the budget, not off what remains of the prompt.",
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
    "The chunk is as large as the step's budget and the prompt itself allow, once every decode "
    "has its token.",
    evidence=[(16, 4, 100), (16, 4, 5), (4, 9, 3), (6, 6, 1), (9, 2, 7), (8, 0, 8), (20, 7, 30)],
)

EXERCISE = Exercise(
    number=1,
    title="How large a chunk",
    minutes=4,
    points=1,
    task=Task(
        signature="chunk_size(token_budget: int, num_decodes: int, remaining: int) -> int",
        rules=(
            "A step computes at most `token_budget` tokens (at least 1).",
            "`num_decodes` decodes go first and take one token each. There may be none, and there "
            "may be more of them than the budget holds.",
            "`remaining` prompt tokens of one request are still to compute (at least 1).",
            "Returns how many of them this step computes. When nothing fits that is 0.",
        ),
        args=(16, 4, 100),
        result=12,
    ),
    hints=(
        "Two things limit a chunk. Which, and what if the decodes alone are too many?",
        "The decodes go first, so the prompt gets what they leave, and never more than it needs. "
        "What do they leave when there are more of them than the budget holds?",
        "Work out three steps by hand: budget 8 with 3 decodes and 20 tokens left, then with 2 "
        "tokens left, then with 9 decodes. Which built-in function gives all three?",
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
        "by_cases(): if num_decodes {>= => >} token_budget:": "then 0 are left",
        "by_cases(): return remaining if remaining {< => <=} left else left": (
            "equal is the same answer"
        ),
    },
)
