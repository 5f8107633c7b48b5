"""Exercise 3.5: which rows of a fused step get a new token."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from course.calling.plain_values import as_truth
from course.checks.comparing import Args, Comparison, not_a_list
from course.checks.lengths import some_lengths
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def sample_rows(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    """Return the rows of a fused step that get a new token, in order: a list of row numbers."""
    # Decode, last chunk, last chunk of a preempted request that recomputes what it had generated:
    # one rule. All that it knows is computed after this step, so what comes next is new.
    return [
        row
        for row, (new, cursor, known) in enumerate(zip(num_new, cursors, num_known, strict=True))
        if cursor + new == known
    ]


def by_loop(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    rows: list[int] = []
    for i in range(len(num_new)):
        left = num_known[i] - cursors[i] - num_new[i]
        if not left:
            rows.append(i)
    return rows


def with_torch(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    computed = torch.tensor(num_new) + torch.tensor(cursors)  # (B,)
    return (computed == torch.tensor(num_known)).nonzero().flatten().tolist()


def by_leaving_out(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    rows = set(range(len(num_new)))
    for i, known in enumerate(num_known):
        if known > cursors[i] + num_new[i]:
            rows.remove(i)
    return sorted(rows)


def with_numpy(num_new: list[int], cursors: list[int], num_known: list[int]) -> Any:
    return np.flatnonzero(np.add(num_new, cursors) == num_known)


# --- wrong ideas --------------------------------------------------------------------------------


def rows_where(rule: Callable[[int, int, int], bool]) -> Callable[..., list[int]]:
    """The rows for which the rule says so, given new, cursor, known."""
    return lambda num_new, cursors, num_known: [
        row for row, each in enumerate(zip(num_new, cursors, num_known, strict=True)) if rule(*each)
    ]


def are_truths(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value)
    return is_list and all(as_truth(each) is not None for each in value)


MISCONCEPTIONS = (
    Misconception(
        "samples_partial",
        "Every row of a forward pass gets a token.",
        "A chunk that ends inside its prompt predicts a token that is known already, the next one "
        "of the prompt: such a row gets no new token.",
        rows_where(lambda new, cursor, known: True),
    ),
    Misconception(
        "only_decodes",
        "Decodes get tokens, prefill fills the cache.",
        "The last chunk of a prompt gets a new token as well, its first: here only rows of one "
        "token do.",
        rows_where(lambda new, cursor, known: new == 1 and cursor + new == known),
        alike=(rows_where(lambda new, cursor, known: new == 1),),
    ),
    Misconception(
        "one_is_a_decode",
        "A row of one token is a decode; last chunks get a token as well.",
        "A row of one token need not be a decode: if tokens of its prompt are left after it, the "
        "token that it predicts is known.",
        rows_where(lambda new, cursor, known: new == 1 or cursor + new == known),
    ),
    Misconception(
        "samples_early",
        "The last known index is known - 1, so that is the end.",
        "With one known token still to come, a row predicts just that token, so it gets nothing "
        "new.",
        rows_where(lambda new, cursor, known: cursor + new >= known - 1),
    ),
    Misconception(
        "off_by_one",
        "The end is where cursor + new is the last index.",
        "A number of computed tokens is compared with the index of the last known one here; "
        "compare numbers with numbers.",
        rows_where(lambda new, cursor, known: cursor + new == known - 1),
    ),
    Misconception(
        "cursor_alone",
        "The cursor has to be at the end.",
        "No row ever gets a token here: the cursor counts what was computed before this step, and "
        "what the step computes comes on top.",
        rows_where(lambda new, cursor, known: cursor == known),
    ),
    Misconception(
        "forgets_the_cursor",
        "A chunk as long as the text ends the text.",
        "The first cursors[i] tokens were computed in earlier steps, and they count as well.",
        rows_where(lambda new, cursor, known: new == known),
    ),
    Misconception(
        "not_the_first_chunk",
        "A first chunk is prefill and gets no token.",
        "A first chunk that holds all that is known, such as a short prompt or a text that is "
        "computed again, is a last chunk too: it gets a token.",
        rows_where(lambda new, cursor, known: cursor > 0 and cursor + new == known),
    ),
    Misconception(
        "longest",
        "A row without padding is complete.",
        "How wide a row is says nothing about its text: what counts is whether it ends with the "
        "last known token.",
        lambda num_new, cursors, num_known: [
            row for row, new in enumerate(num_new) if new == max(num_new)
        ],
        alike=(rows_where(lambda new, cursor, known: new > 1),),
    ),
    Misconception(
        "inverted",
        "The rows that have something left.",
        "These are the rows that get no new token: known tokens are left after them.",
        rows_where(lambda new, cursor, known: cursor + new < known),
    ),
    Misconception(
        "order",
        "The order of rows is free.",
        "These are the right rows in another order: give them as they stand in the batch, the "
        "lowest number first.",
        lambda *args: sample_rows(*args)[::-1],
        alike=(lambda *args: list(set(sample_rows(*args))),),
    ),
    Misconception(
        "first_only",
        "A step gives a token.",
        "Each row is a request of its own: more than one of them may get a token in a step.",
        lambda *args: sample_rows(*args)[:1],
    ),
    Misconception(
        "flags",
        "A True or False for each row.",
        "Return the numbers of the rows, such as [0, 2], not a True or False for each.",
        lambda *args: [int(row in sample_rows(*args)) for row in range(len(args[0]))],
        form=are_truths,
    ),
    not_a_list(
        "The rows of a step are a set.",
        lambda *args: set(sample_rows(*args)),
    ),
    Misconception(
        "from_one",
        "The first row is row 1.",
        "Rows are counted from 0, as everywhere in Python.",
        lambda *args: [row + 1 for row in sample_rows(*args)],
    ),
    Misconception(
        "in_place",
        "A list is mine to use.",
        also=(lambda *args: (sample_rows(*args), args[2].reverse())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_mix(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for i in range(25):
        cursors, num_new = some_lengths(rng, 1 + i % 5)
        ends = [cursor + new for cursor, new in zip(cursors, num_new, strict=True)]
        cases.append(
            (num_new, cursors, [end + rng.choice((0, 0, 1, rng.randint(2, 40))) for end in ends])
        )
    low = rng.randint(1, 7)
    sampled = low, 8 + rng.randrange(low)  # a set of these two begins with the second
    cases.append(([2] * 16, [4] * 16, [6 if row in sampled else 9 for row in range(16)]))
    return cases


JUDGE = Comparison(
    sample_rows,
    MISCONCEPTIONS,
    "A row gets a token when what it predicts after its last column is a token that is not known "
    "yet.",
    evidence=[
        ([1, 3, 2], [9, 4, 4], [10, 7, 9]),
        ([3, 1], [0, 2], [3, 4]),
        ([2, 2, 1, 4], [3, 0, 6, 1], [5, 2, 7, 9]),
    ],
)

EXERCISE = Exercise(
    number=5,
    title="Which rows get a token",
    minutes=5,
    points=1,
    task=Task(
        signature="sample_rows(num_new: list[int], cursors: list[int], num_known: list[int]) "
        "-> list[int]",
        rules=(
            "Request i knows `num_known[i]` tokens: its prompt, and what it generated.",
            "The first `cursors[i]` of them were computed before, and this step computes the next "
            "`num_new[i]` (at least 1), never beyond what is known.",
            "After its last column a row predicts the token that comes next in its text. A row "
            "gets a new token only if that one is not known yet.",
            "Returns the numbers of the rows that get a new token, counted from 0, in order.",
        ),
        args=([1, 2, 2], [4, 0, 3], [5, 6, 5]),
        result=[0, 2],
    ),
    hints=(
        "What comes after the last token that a row computes: a token that its request knows "
        "already, or a new one?",
        "How many tokens of request i are computed once this step is done? And how many does it "
        "know?",
        "A row gets a token when nothing that its request knows is left to compute. Go through "
        "the rows in order, add up two of the three numbers, and compare.",
    ),
    right=(sample_rows, by_loop, with_torch, by_leaving_out, with_numpy),
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
    still_right={
        "result: sorted": "they come in order",
        "result: without repeats": "a row comes once",
        "sample_rows(): return [row for row, (new, cursor, known) in enumerate(zip(num_new, "
        "cursors, num_known, strict={True => False})) if cursor + new == known]": (
            "all are equally long"
        ),
    },
)
