"""Exercise 1.2: which keys each token of a chunk may attend to."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look, cell, diagonal_ideas, grid, mask_forms
from course.exercise import Exercise, Function, Misconception
from course.harness import Rows
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def chunk_mask(context_len: int, num_scheduled_tokens: int) -> Tensor:
    """Return which keys each token of a chunk may attend to: a bool tensor (T, S)."""
    # Query t of the chunk stands at position context_len + t of the text. Once both sides count
    # positions of the text, the rule is the old one: no key later than the query.
    query = context_len + torch.arange(num_scheduled_tokens)  # (T,)
    key = torch.arange(context_len + num_scheduled_tokens)  # (S,)
    return key <= query[:, None]  # (T, S)


def with_tril(context_len: int, scheduled: int) -> Tensor:
    return torch.ones(scheduled, context_len + scheduled, dtype=torch.bool).tril(
        diagonal=context_len
    )


def row_by_row(context_len: int, scheduled: int) -> Tensor:
    mask = torch.zeros(scheduled, context_len + scheduled, dtype=torch.bool)
    for t in range(scheduled):
        mask[t, : context_len + t + 1] = True
    return mask


# --- wrong ideas --------------------------------------------------------------------------------


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right mask, made another."""
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
            "Keys are rows, queries are columns.",
            "Rows are queries (the chunk's tokens) and columns are keys (all tokens so far); here "
            "they changed places.",
            changed(lambda mask: mask.T),
            matches=lambda got, wanted: got.shape == wanted.T.shape != wanted.shape,
        ),
        Misconception(
            "only_the_chunk",
            "The mask concerns the new tokens: T by T.",
            "The keys are all tokens so far: the context_len columns of the cached ones are "
            "missing.",
            matches=lambda got, wanted: (
                got.shape == wanted[:, -len(wanted) :].shape != wanted.shape
            ),
            examples=(lambda past, new: tril(0, new, 0),),
        ),
    ),
    Misconception(
        "all_true",
        "With a cache no mask is needed: all cached tokens lie before the chunk.",
        "A cache does not replace the mask: the chunk's tokens come in together, so without one, "
        "each of them sees the later tokens of its own chunk.",
        lambda past, new: tril(past, new, past + new),
        same_result=(lambda past, new: tril(past, new, past and past + new),),
    ),
    Misconception(
        "no_offset",
        "tril is the causal mask, whatever the shape.",
        "Row t is not token t of the text but token context_len + t: the diagonal has to move to "
        "the right by context_len, or the chunk does not see the cached tokens before it.",
        lambda past, new: tril(past, new, 0),
    ),
    Misconception(
        "hides_the_past",
        "A chunk attends within itself.",
        "The chunk's tokens see each other but none of the cached tokens, as if the text began "
        "with this chunk.",
        blind_to_the_past,
    ),
    *diagonal_ideas(changed, lambda by: lambda past, new: tril(past, new, past + by)),
)

# --- cases --------------------------------------------------------------------------------------


def drawn(args: Args, wanted: Tensor, got: Tensor) -> Rows:
    """Both masks as grids, a line per query, a column per key."""
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
            idea="A row is a token of the chunk, a column a token of the text so far, and True "
            "stands where the row's token may look: at itself and at the tokens before it.",
            rows=drawn,
        ),
    ),
    evidence=[(2, 3), (4, 2), (0, 3), (3, 1), (1, 4)],
)

EXERCISE = Exercise(
    number=2,
    title="Which token sees which",
    minutes=8,
    points=2,
    part="chunk_mask",
    task=Task(
        signature="chunk_mask(context_len: int, num_scheduled_tokens: int) -> torch.Tensor",
        rules=(
            "K and V of the first `context_len` tokens of a text are in the cache (0 or more). The "
            "chunk holds the next `num_scheduled_tokens` tokens (at least 1).",
            "Returns a `torch.bool` tensor of shape `(T, S)`: a row for each of the T = "
            "`num_scheduled_tokens` queries, a column for each of the S = `context_len + "
            "num_scheduled_tokens` keys, both in the order of the text.",
            'True means "may attend". A token may attend to itself and to everything before it in '
            "the text.",
        ),
        args=(1, 2),
        result=torch.tensor([[True, True, False], [True, True, True]]),
    ),
    hints=(
        "Draw the mask for 2 cached tokens and a chunk of 3. Where in the text does row 0 stand?",
        "Row t is a token of the chunk and has a position in the text. It may see every column up "
        "to that position, itself included.",
        "Two ways lead there: compare a column of the queries' positions with a row of the keys' "
        "positions, or move the diagonal of torch.tril. How far is it from the corner?",
    ),
    right=(chunk_mask, with_tril, row_by_row),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the first chunk of a prompt", JUDGE.on((0, 3), (0, 1))),
        ("a chunk behind cached tokens", JUDGE.on((2, 3), (3, 2))),
        ("a chunk of one token, as in a decode", JUDGE.on((3, 1), (7, 1))),
        ("any chunk", JUDGE.on_drawn(any_chunk)),
    ),
    equivalent_mutants={"num_scheduled_tokens at least 1": "it is at least 1"},
)
