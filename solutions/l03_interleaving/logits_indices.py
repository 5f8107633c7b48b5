"""Exercise 3.4: the rows of a fused step that get a new token."""

import random
from collections.abc import Callable
from typing import Any

import torch

from course.calling.plain_values import as_truth
from course.checks.comparing import Args, Comparison, not_a_list
from course.checks.fusing import some_lengths
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def logits_indices(
    num_scheduled_tokens: list[int], num_computed_tokens: list[int], num_tokens: list[int]
) -> list[int]:
    """Return the rows of a fused step that get a new token, in order: a list of row numbers."""
    # One rule for a decode, a last chunk, and the last chunk of a preempted request that recomputes
    # its generated tokens: this step computes its last known token, so its next token is new.
    return [
        row
        for row, (new, computed, known) in enumerate(
            zip(num_scheduled_tokens, num_computed_tokens, num_tokens, strict=True)
        )
        if computed + new == known
    ]


def with_torch(scheduled: list[int], computed: list[int], num_tokens: list[int]) -> list[int]:
    after = torch.tensor(scheduled) + torch.tensor(computed)  # (B,)
    return (after == torch.tensor(num_tokens)).nonzero().flatten().tolist()


# --- wrong ideas --------------------------------------------------------------------------------


def rows_where(rule: Callable[[int, int, int], bool]) -> Callable[..., list[int]]:
    """The rows for which the rule is true, given new, computed, known."""
    return lambda new, computed, known: [
        row for row, each in enumerate(zip(new, computed, known, strict=True)) if rule(*each)
    ]


def are_truths(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value)
    return is_list and all(as_truth(each) is not None for each in value)


MISCONCEPTIONS = (
    Misconception(
        "samples_partial",
        "Every row of a forward pass gets a token.",
        "A chunk that ends inside its prompt predicts the next token of the prompt, which is known "
        "already. Such a row gets no new token.",
        rows_where(lambda new, computed, known: True),
    ),
    Misconception(
        "only_decodes",
        "Decodes get tokens; prefills only fill the cache.",
        "The last chunk of a prompt also gets a token, the first of its answer. Here only rows of "
        "one token get a new token.",
        rows_where(lambda new, computed, known: new == 1 and computed + new == known),
        same_result=(rows_where(lambda new, computed, known: new == 1),),
    ),
    Misconception(
        "one_is_a_decode",
        "A row of one token is a decode, so it always gets a token.",
        "A row of one token need not be a decode: it can be a chunk. If the prompt goes on after "
        "the chunk, the predicted token is known.",
        rows_where(lambda new, computed, known: new == 1 or computed + new == known),
    ),
    Misconception(
        "samples_early",
        "A row is complete when it has computed num_tokens - 1 tokens: that is the last index.",
        "If one known token is left to compute, the row predicts exactly that token, so it gets no "
        "new one.",
        rows_where(lambda new, computed, known: computed + new >= known - 1),
    ),
    Misconception(
        "forgets_the_computed",
        "A chunk ends the text only if it is as long as the text.",
        "The first num_computed_tokens[i] tokens were computed in earlier steps, and they count "
        "too.",
        rows_where(lambda new, computed, known: new == known),
    ),
    Misconception(
        "not_the_first_chunk",
        "A first chunk is a prefill and gets no token.",
        "A first chunk that holds all known tokens, such as a short prompt or a recomputed text, "
        "is also the last chunk: it gets a token.",
        rows_where(lambda new, computed, known: computed > 0 and computed + new == known),
    ),
    Misconception(
        "order",
        "The rows may come in any order.",
        "These are the right rows in another order. List them in the order of the batch, the "
        "lowest number first.",
        lambda *args: logits_indices(*args)[::-1],
        same_result=(lambda *args: list(set(logits_indices(*args))),),
    ),
    Misconception(
        "flags",
        "The answer is a True or False for each row.",
        "Return the numbers of the rows, such as [0, 2], not a True or False for each row.",
        lambda *args: [int(row in logits_indices(*args)) for row in range(len(args[0]))],
        matches=are_truths,
    ),
    not_a_list("The rows of a step are a set.", lambda *args: set(logits_indices(*args))),
    Misconception(
        "in_place",
        "The function may reverse the lists it is given.",
        examples=(lambda *args: (logits_indices(*args), args[2].reverse())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_mix(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for i in range(25):
        computed, new = some_lengths(rng, 1 + i % 5)
        ends = [computed + new for computed, new in zip(computed, new, strict=True)]
        cases.append(
            (new, computed, [end + rng.choice((0, 0, 1, rng.randint(2, 40))) for end in ends])
        )
    low = rng.randint(1, 7)
    sampled = low, 8 + rng.randrange(low)  # a set of these two begins with the second
    cases.append(([2] * 16, [4] * 16, [6 if row in sampled else 9 for row in range(16)]))
    return cases


JUDGE = Comparison(
    logits_indices,
    MISCONCEPTIONS,
    "A row gets a token if its request does not know the token after the row's last one.",
    evidence=[
        ([1, 3, 2], [9, 4, 4], [10, 7, 9]),
        ([3, 1], [0, 2], [3, 4]),
        ([2, 2, 1, 4], [3, 0, 6, 1], [5, 2, 7, 9]),
    ],
)

EXERCISE = Exercise(
    number=4,
    title="Which rows get a token",
    minutes=5,
    points=1,
    task=Task(
        signature="logits_indices(num_scheduled_tokens: list[int], num_computed_tokens: list[int], "
        "num_tokens: list[int]) -> list[int]",
        rules=(
            "Request i has `num_tokens[i]` known tokens: its prompt and its generated tokens.",
            "The first `num_computed_tokens[i]` of them were computed in earlier steps. This step "
            "computes the next `num_scheduled_tokens[i]` (at least 1), never more than are known.",
            "The logits of a row's last column predict the token that comes next in its text. The "
            "row gets a new token only if that next token is not known yet.",
            "Return the numbers of the rows that get a new token, counted from 0, in order. Do not "
            "change the lists.",
        ),
        args=([1, 2, 2], [4, 0, 3], [5, 6, 5]),
        steps=(
            "Row 0 computes its token 4 and knows 5 tokens, 0 to 4. Its next token is new.",
            "Row 1 computes tokens 0 and 1 and knows 6, so its next token, number 2, is known.",
            "Row 2 computes tokens 3 and 4 and knows 5. Its next token is new.",
        ),
        result=[0, 2],
    ),
    hints=(
        "What comes after the last token that a row computes: a token that its request already "
        "knows, or a new one?",
        "How many tokens of request i have been computed once this step is done? And how many does "
        "it know?",
        "A row gets a token when none of its request's known tokens is left to compute. Go through "
        "the rows in order, add two of the three numbers, and compare with the third.",
    ),
    right=(logits_indices, with_torch),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "decodes, and a chunk inside its prompt",
            JUDGE.on(([1, 1, 8], [21, 14, 0], [22, 15, 30]), ([4], [0], [9])),
        ),
        (
            "last chunks",
            JUDGE.on(
                ([1, 3], [21, 5], [22, 8]),
                ([8, 2], [0, 6], [30, 8]),
                ([1], [299], [300]),  # equal numbers that are no longer one object
            ),
        ),
        (
            "chunks with one token to go",
            JUDGE.on(([1, 1], [9, 4], [10, 7]), ([1, 3], [5, 4], [6, 8])),
        ),
        (
            "whole texts in one chunk",
            JUDGE.on(([5, 1], [0, 7], [5, 8]), ([1], [0], [1]), ([9, 9], [0, 0], [9, 12])),
        ),
        ("any mix", JUDGE.on_drawn(any_mix)),
    ),
    equivalent_mutants={
        "result: sorted": "the rows come in order",
        "result: without repeats": "each row occurs once",
        "logits_indices(): return [row for row, (new, computed, known) in "
        "enumerate(zip(num_scheduled_tokens, num_computed_tokens, num_tokens, strict={True => "
        "False})) if computed + new == known]": ("all are equally long"),
    },
)
