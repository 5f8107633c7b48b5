"""Exercise 3.1: the tokens and the positions of a padded step."""

import random
from typing import Any

import numpy as np
import torch

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look
from course.checks.lengths import any_lengths
from course.exercise import Exercise
from course.harness import Rows
from course.task import Task
from solutions.l03_interleaving._rows import BOTH, MISCONCEPTIONS, POSITIONS, TOKENS, Lists

# --- right answers ------------------------------------------------------------------------------


def fused_rows(
    known: list[list[int]], cursors: list[int], num_new: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return `(tokens, positions)`: what the model is fed in one fused step, a row per request."""
    # A decode is a chunk of one token, so one rule serves all rows: the tokens and the positions
    # from the cursor on. The padding stands in front, so that whatever a row has ends in the last
    # column, and one look at that column finds every row's next token.
    longest = max(num_new)
    tokens: list[list[int]] = []
    positions: list[list[int]] = []
    for mine, cursor, n in zip(known, cursors, num_new, strict=True):
        padding = [0] * (longest - n)
        tokens.append(padding + mine[cursor : cursor + n])
        positions.append(padding + list(range(cursor, cursor + n)))
    return tokens, positions


def padded_afterwards(known: Lists, cursors: list[int], num_new: list[int]) -> tuple[Lists, Lists]:
    places = [list(range(cursors[i], cursors[i] + n)) for i, n in enumerate(num_new)]
    tokens = [[known[i][place] for place in row] for i, row in enumerate(places)]
    for row in tokens + places:
        while len(row) < max(num_new):
            row.insert(0, 0)
    return tokens, places


def with_torch(known: Lists, cursors: list[int], num_new: list[int]) -> tuple[Lists, Lists]:
    tokens = torch.zeros(len(known), max(num_new), dtype=torch.long)  # (B, T)
    positions = torch.zeros_like(tokens)  # (B, T)
    for i, n in enumerate(num_new):
        place = torch.arange(n) + cursors[i]  # (n,)
        positions[i, -n:] = place
        tokens[i, -n:] = torch.tensor(known[i])[place]
    return tokens.tolist(), positions.tolist()


def cell_by_cell(known: Lists, cursors: list[int], num_new: list[int]) -> tuple[Lists, Lists]:
    tokens: Lists = []
    positions: Lists = []
    for i in range(len(known)):
        tokens.append([])
        positions.append([])
        for back in reversed(range(max(num_new))):
            place = cursors[i] + num_new[i] - back - 1
            real = back < num_new[i]
            tokens[i].append(known[i][place] if real else 0)
            positions[i].append(place if real else 0)
    return tokens, positions


def as_rows_of_numpy(known: Lists, cursors: list[int], num_new: list[int]) -> list[Any]:
    # Its numbers, tuples for lists and a list for the tuple are right by what they say.
    width = max(num_new)
    tokens: list[Any] = []
    positions: list[Any] = []
    for i, n in enumerate(num_new):
        piece = slice(cursors[i], cursors[i] + n)
        for rows, entries in ((tokens, known[i]), (positions, range(len(known[i])))):
            rows.append(tuple(np.pad(np.array(entries, dtype=int)[piece], (width - n, 0))))
    return [tuple(tokens), tuple(positions)]


# --- cases --------------------------------------------------------------------------------------


def text(rng: random.Random, length: int) -> list[int]:
    """Token ids of which many come more than once, as letters do; 0 is one of them."""
    return [rng.randint(0, 6) for _ in range(length)]


def any_mix(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for cursors, num_new in any_lengths(rng, 20):
        ends = [cursor + n for cursor, n in zip(cursors, num_new, strict=True)]
        known = [text(rng, end + rng.choice((0, 0, 2))) for end in ends]
        cases.append((known, cursors, num_new))
    return cases


def side_by_side(args: Args, wanted: tuple[Lists, Lists], got: tuple[Lists, Lists]) -> Rows:
    return (("expected", in_columns(*wanted)), ("got", in_columns(*got)))


def in_columns(tokens: Lists, positions: Lists) -> str:
    left = [" ".join(f"{entry:>2}" for entry in row) for row in tokens]
    width = max([len("tokens"), *map(len, left)])
    lines = [f"{'tokens':<{width}}   positions"]
    for start, row in zip(left, positions, strict=True):
        lines.append(f"{start:<{width}}   {' '.join(f'{entry:>2}' for entry in row)}")
    return "\n".join(lines)


JUDGE = Fusing(
    fused_rows,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: value[0],
            mistakes=(*BOTH, *TOKENS),
            idea="Row i feeds those tokens of request i that this step computes, in the order of "
            "the text, with zeros in front of a short row.",
            rows=side_by_side,
        ),
        Look(
            matters=lambda value, args: value[1],
            mistakes=(*BOTH, *POSITIONS),
            idea="The position of a token is its place in the whole text of its own request, "
            "counted from 0; padding has position 0.",
            rows=side_by_side,
        ),
    ),
    evidence=[
        ([[5, 3, 8, 2, 6], [4, 1, 6, 2, 9]], [4, 2], [1, 2]),
        ([[5, 3, 8], [4, 1, 6, 2, 9]], [0, 2], [2, 1]),
    ],
)
THREE_AND_FIVE = [[5, 3, 8], [4, 1, 6, 2, 9]]

EXERCISE = Exercise(
    number=1,
    title="Rows of unequal length",
    minutes=8,
    points=2,
    part="fused_rows",
    task=Task(
        signature="fused_rows(known: list[list[int]], cursors: list[int], num_new: list[int]) "
        "-> tuple[list[list[int]], list[list[int]]]",
        rules=(
            "`known[i]` are all tokens that request i knows: its prompt, then what it generated.",
            "The first `cursors[i]` of them are computed already. This step computes the next "
            "`num_new[i]` (at least 1): one for a decode, a chunk for a prefill.",
            "Returns `(tokens, positions)`, what the model is fed: two lists with a row for each "
            "of the B requests, in their order.",
            "A row has T = max(num_new) entries. A request with fewer new tokens is padded on the "
            "left with 0, in `tokens` and in `positions`.",
            "A position counts in the request's own text, from 0.",
            "The lists that come in stay as they are.",
        ),
        args=([[7, 2], [4, 1, 6]], [1, 1], [1, 2]),
        result=([[0, 2], [1, 6]], [[0, 1], [1, 2]]),
    ),
    hints=(
        "Is a decode anything else than a chunk of one token? Write down its cursor and the index "
        "of its token.",
        "For each request, cut out the piece of `known[i]` that this step computes, and write "
        "down the place of each of its tokens in the text. How much is missing in front?",
        "The piece begins at the cursor and so do its positions; both go on for num_new[i] "
        "entries. What is missing in front is the same in both lists: as many zeros as the "
        "longest of num_new is longer.",
    ),
    right=(fused_rows, padded_afterwards, with_torch, cell_by_cell, as_rows_of_numpy),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a decode beside a first chunk",
            JUDGE.on(([[5, 3, 8], [4, 1, 6, 2]], [2, 0], [1, 3])),
        ),
        ("decodes alone", JUDGE.on(([[5, 3, 8], [4, 1]], [2, 1], [1, 1]), ([[7]], [0], [1]))),
        (
            "a chunk in the middle of a prompt",
            JUDGE.on(
                (THREE_AND_FIVE, [2, 2], [1, 2]),
                (THREE_AND_FIVE, [0, 2], [2, 1]),
                ([[1, 1, 2, 1], [3, 3, 3]], [1, 0], [3, 2]),
            ),
        ),
        ("any mix", JUDGE.on_drawn(any_mix)),
    ),
    still_right={
        "fused_rows(): for mine, cursor, n in zip(known, cursors, num_new, strict={True => "
        "False}):": "all are equally long",
    },
)
