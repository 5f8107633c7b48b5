"""Exercise 1.2: which keys each token of a chunk may attend to."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look, cell, diagonal_ideas, grid, mask_forms
from course.exercise import Exercise, Function, Misconception, Task
from course.harness import Rows

# --- right answers ------------------------------------------------------------------------------


def chunk_mask(context_len: int, num_scheduled_tokens: int) -> Tensor:
    """Return which keys each token of a chunk may attend to: a bool tensor (T, S)."""
    # Query t of the chunk has position context_len + t in the text. Once queries and keys both have
    # positions in the text, the rule is the usual one: no key later than the query.
    query = context_len + torch.arange(num_scheduled_tokens)  # (T,)
    key = torch.arange(context_len + num_scheduled_tokens)  # (S,)
    return key <= query[:, None]  # (T, S)


def with_tril(context_len: int, scheduled: int) -> Tensor:
    return torch.ones(scheduled, context_len + scheduled, dtype=torch.bool).tril(
        diagonal=context_len
    )


# --- wrong ideas --------------------------------------------------------------------------------


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right mask, changed."""
    return lambda past, new: change(chunk_mask(past, new))


def tril(past: int, new: int, diagonal: int) -> Tensor:
    """A mask (T, S) that is True up to a diagonal counted from the corner."""
    return torch.ones(new, past + new, dtype=torch.bool).tril(diagonal)


def blind_to_the_past(past: int, new: int) -> Tensor:
    mask = chunk_mask(past, new)
    mask[:, :past] = False
    return mask


MISCONCEPTIONS = (
    *mask_forms(
        changed,
        Misconception(
            "transposed",
            "Rows are keys, columns are queries.",
            "Rows are queries (the tokens of the chunk) and columns are keys (all tokens so far). "
            "Here they are swapped.",
            changed(lambda mask: mask.T),
            matches=lambda got, wanted: got.shape == wanted.T.shape != wanted.shape,
        ),
        Misconception(
            "only_the_chunk",
            "The mask covers only the new tokens: T by T.",
            "There is one column for each token so far. The columns of the context_len cached "
            "tokens are missing.",
            matches=lambda got, wanted: (
                got.shape == wanted[:, -len(wanted) :].shape != wanted.shape
            ),
            examples=(lambda past, new: tril(0, new, 0),),
        ),
    ),
    Misconception(
        "all_true",
        "With a cache no mask is needed, because all cached tokens come before the chunk.",
        "The tokens of a chunk are computed together, so without a mask each one attends to the "
        "later tokens of its own chunk.",
        lambda past, new: tril(past, new, past + new),
        same_result=(lambda past, new: tril(past, new, past and past + new),),
    ),
    Misconception(
        "no_offset",
        "tril is the causal mask for every shape.",
        "Row t is token context_len + t of the text, not token t. Move the diagonal to the right "
        "by context_len, or the chunk misses cached tokens.",
        lambda past, new: tril(past, new, 0),
    ),
    Misconception(
        "hides_the_past",
        "A chunk attends only to itself.",
        "The tokens of the chunk attend to each other but to no cached token, as if the text began "
        "with this chunk.",
        blind_to_the_past,
    ),
    *diagonal_ideas(changed, lambda by: lambda past, new: tril(past, new, past + by)),
)

# --- cases --------------------------------------------------------------------------------------


def drawn(args: Args, wanted: Tensor, got: Tensor) -> Rows:
    """Both masks as grids, one line per query, one column per key."""
    past, new = args
    keys, bars = [str(key) for key in range(past + new)], {past} if past else set[int]()

    def as_grid(mask: Tensor) -> str:
        return grid(
            [[cell(each) for each in row] for row in mask.tolist()], keys, keys[past:], bars
        )

    return ("expected", as_grid(wanted)), ("got", as_grid(got))


def any_chunk(rng: random.Random) -> list[Args]:
    cases = [(rng.randint(0, 14), rng.randint(1, 10)) for _ in range(20)] + [(40, 2), (2, 40)]
    return sorted(cases, key=sum)


JUDGE = Fusing(
    chunk_mask,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: value,
            mistakes=MISCONCEPTIONS,
            idea="A row is a token of the chunk and a column is a token of the text so far. An "
            "entry is True if the column's token is the row's token or comes before it.",
            rows=drawn,
        ),
    ),
    evidence=[(2, 3), (4, 2), (0, 3), (3, 1), (1, 4)],
)

EXERCISE = Exercise(
    number=2,
    title="The mask of a chunk",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "The K and V of the first `context_len` tokens (0 or more) of a text are cached. The "
            "chunk is the next `num_scheduled_tokens` tokens (at least 1).",
            "Returns a `torch.bool` tensor of shape `(T, S)`: one row for each of the T = "
            "`num_scheduled_tokens` queries, one column for each of the S = `context_len + "
            "num_scheduled_tokens` keys, both in the order of the text.",
            'True means "may attend". A token may attend to itself and to every token before it in '
            "the text.",
        ),
        args=(1, 2),
        result=torch.tensor([[True, True, False], [True, True, True]]),
        steps=(
            "One token is cached, so the chunk is tokens 1 and 2 of the text, counted from 0.",
            "Token 1 may attend to tokens 0 and 1, token 2 to all three.",
        ),
    ),
    hints=(
        "Draw the mask for 2 cached tokens and a chunk of 3. Which position in the text does "
        "row 0 have?",
        "Row t is a token of the chunk and has a position in the text. It may attend to every "
        "column up to that position, its own included.",
        "There are two ways: compare a column of the queries' positions with a row of the keys' "
        "positions, or move the diagonal of torch.tril. By how much?",
    ),
    right=(chunk_mask, with_tril),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the first chunk of a prompt", JUDGE.on((0, 3), (0, 1))),
        ("a chunk behind cached tokens", JUDGE.on((2, 3), (3, 2))),
        ("a chunk of one token, as in a decode", JUDGE.on((3, 1), (7, 1))),
        ("any chunk", JUDGE.on_drawn(any_chunk)),
    ),
    equivalent_mutants={"num_scheduled_tokens at least 1": "it is at least 1"},
)
