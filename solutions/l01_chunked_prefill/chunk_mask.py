"""Exercise 1.2: which keys each token of a chunk may attend to."""

import random
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.format_values import show
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def chunk_mask(num_past: int, num_new: int) -> Tensor:
    """Return which keys each token of a chunk may attend to: a bool tensor (T, S)."""
    # Query t of the chunk stands at position num_past + t of the text. Once both sides are counted
    # in positions of the text, the rule is the old one: no key later than the query.
    query = num_past + torch.arange(num_new)  # (T,)
    key = torch.arange(num_past + num_new)  # (S,)
    return key <= query[:, None]  # (T, S)


def with_tril(num_past: int, num_new: int) -> Tensor:
    return torch.ones(num_new, num_past + num_new, dtype=torch.bool).tril(diagonal=num_past)


def in_two_blocks(num_past: int, num_new: int) -> Tensor:
    past = torch.ones(num_new, num_past, dtype=torch.bool)  # (T, num_past)
    chunk = torch.ones(num_new, num_new).tril().bool()  # (T, T)
    return torch.cat([past, chunk], dim=1)  # (T, S)


def cut_from_the_whole(num_past: int, num_new: int) -> Tensor:
    total = num_past + num_new
    hidden = torch.triu(torch.ones(total, total), diagonal=1) > 0  # (S, S)
    return ~hidden[num_past:]  # (T, S)


def row_by_row(num_past: int, num_new: int) -> Tensor:
    mask = torch.zeros(num_new, num_past + num_new, dtype=torch.bool)
    for t in range(num_new):
        mask[t, : num_past + t + 1] = True
    return mask


# --- wrong ideas --------------------------------------------------------------------------------


def tril(num_past: int, num_new: int, diagonal: int) -> Tensor:
    """A mask (T, S) that is True up to a diagonal counted from the corner."""
    return torch.ones(num_new, num_past + num_new, dtype=torch.bool).tril(diagonal)


def blind_to_the_past(num_past: int, num_new: int) -> Tensor:
    mask = chunk_mask(num_past, num_new)
    mask[:, :num_past] = False
    return mask


def only_themselves(num_past: int, num_new: int) -> Tensor:
    return torch.cat([torch.ones(num_new, num_past), torch.eye(num_new)], dim=1).bool()


def is_bool(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool


MISCONCEPTIONS = (
    Misconception(
        "not_a_tensor",
        "Nested lists are a mask too.",
        lambda value: f"The mask is an ordinary torch tensor, not {a_kind(value)}.",
        form=lambda value: not isinstance(value, Tensor),
        also=((lambda num_past, num_new: chunk_mask(num_past, num_new).tolist()),),
    ),
    Misconception(
        "additive",
        "A mask is what is added to the scores: 0 or minus infinity.",
        "This is a mask to be added to the scores; return the decision itself, a tensor of True "
        "(may attend) and False.",
        form=lambda value: not is_bool(value) and bool(value.isinf().any()),
        also=(lambda num_past, num_new: chunk_mask(num_past, num_new).float().log(),),
    ),
    Misconception(
        "not_bool",
        "Ones and zeros are as good as True and False.",
        lambda value: (
            "The mask holds True and False (torch.bool); this one is "
            f"{str(value.dtype).removeprefix('torch.')}."
        ),
        form=lambda value: not is_bool(value),
        also=(lambda num_past, num_new: chunk_mask(num_past, num_new).float(),),
    ),
    Misconception(
        "all_true",
        "With a cache no mask is needed: everything in it is the past.",
        "A cache does not replace the mask: the chunk's tokens come in together, so without one, "
        "each of them sees the later tokens of its own chunk.",
        lambda num_past, num_new: tril(num_past, num_new, num_past + num_new),
        alike=(lambda num_past, num_new: tril(num_past, num_new, num_past and num_past + num_new),),
    ),
    Misconception(
        "no_offset",
        "tril is the causal mask, whatever the shape.",
        "Row t is not token t of the text but token num_past + t: the diagonal has to move to the "
        "right by num_past, or the chunk does not see the past that is in the cache.",
        lambda num_past, num_new: tril(num_past, num_new, 0),
    ),
    Misconception(
        "inverted",
        "True marks what is masked out.",
        'True means "may attend"; this mask has True where the others have False.',
        lambda num_past, num_new: ~chunk_mask(num_past, num_new),
    ),
    Misconception(
        "transposed",
        "Keys are rows, queries are columns.",
        "Rows are queries (the chunk's tokens) and columns are keys (all tokens so far); here they "
        "changed places.",
        lambda num_past, num_new: chunk_mask(num_past, num_new).T,
    ),
    Misconception(
        "one_future_key",
        "Query t sees num_past + t + 1 keys, and the one at that index.",
        "Each token sees one key too many: the token right after it, which it is about to predict.",
        lambda num_past, num_new: tril(num_past, num_new, num_past + 1),
    ),
    Misconception(
        "not_itself",
        "A token looks at the tokens before it.",
        "A token attends to itself as well; here it sees only what came before it.",
        lambda num_past, num_new: tril(num_past, num_new, num_past - 1),
    ),
    Misconception(
        "only_the_chunk",
        "The mask concerns the new tokens: T by T.",
        "The keys are all tokens so far: the num_past columns of the cached ones are missing.",
        lambda num_past, num_new: tril(0, num_new, 0),
    ),
    Misconception(
        "hides_the_past",
        "A chunk attends within itself.",
        "The chunk's tokens see each other but none of the cached tokens, as if the text began "
        "with this chunk.",
        blind_to_the_past,
    ),
    Misconception(
        "moved_by_the_chunk",
        "tril moves its diagonal by the number of new tokens.",
        "The diagonal moves by what lies before the chunk, which is num_past, and not by the "
        "chunk's own length.",
        lambda num_past, num_new: tril(num_past, num_new, num_new),
    ),
    Misconception(
        "no_chunk_mates",
        "The tokens of a chunk are computed at the same time, so none is there for another.",
        "The chunk's tokens come in together but they stand in a row: each also sees those of its "
        "own chunk that come before it.",
        only_themselves,
    ),
    Misconception(
        "upside_down",
        "triu is the causal one.",
        "Here each token sees itself and what comes after it; it is what came before that it may "
        "see.",
        lambda num_past, num_new: ~tril(num_past, num_new, num_past - 1),
    ),
    Misconception(
        "whole_square",
        "The causal mask of the whole text will do.",
        "Only the chunk's tokens ask in this step: a row for each of the num_new, none for those "
        "in the cache.",
        lambda num_past, num_new: tril(0, num_past + num_new, 0),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def grid(mask: Any) -> str:
    """A mask as rows of 1 (may attend) and . (may not), one row per query."""
    if not is_bool(mask) or mask.dim() != 2:
        return show(mask)
    rows = [" ".join("1" if cell else "." for cell in row) for row in mask.tolist()]
    return "\n".join([f"{tuple(mask.shape)}", *rows])


def any_chunk(rng: random.Random) -> list[Args]:
    cases = [(rng.randint(0, 14), rng.randint(1, 10)) for _ in range(20)] + [(40, 2), (2, 40)]
    return sorted(cases, key=sum)


JUDGE = Comparison(
    chunk_mask,
    MISCONCEPTIONS,
    "A row is a token of the chunk, a column a token of the text so far, and True stands where the "
    "row's token may look: at itself and at what came before it.",
    draw=grid,
    evidence=[(2, 3), (4, 2), (0, 3), (3, 1), (1, 4)],
)

EXERCISE = Exercise(
    number=2,
    title="Which token sees which",
    minutes=8,
    points=2,
    part="chunk_mask",
    task=Task(
        signature="chunk_mask(num_past: int, num_new: int) -> torch.Tensor",
        rules=(
            "K and V of the first `num_past` tokens of a text are in the cache (0 or more). The "
            "chunk holds the next `num_new` tokens (at least 1).",
            "Returns a `torch.bool` tensor of shape `(T, S)`: a row for each of the T = `num_new` "
            "queries, a column for each of the S = `num_past + num_new` keys, both in the order of "
            "the text.",
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
    right=(chunk_mask, with_tril, in_two_blocks, cut_from_the_whole, row_by_row),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("the first chunk of a prompt", JUDGE.on((0, 3), (0, 1))),
        ("a chunk behind cached tokens", JUDGE.on((2, 3), (3, 2))),
        ("a chunk of one token, as in a decode", JUDGE.on((3, 1), (7, 1))),
        ("any chunk", JUDGE.on_drawn(any_chunk)),
    ),
    still_right={"num_new at least 1": "it is at least 1"},
)
