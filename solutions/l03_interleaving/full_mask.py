"""Exercise 3.3: the whole mask of a padded step, past and new columns."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look
from course.checks.lengths import any_lengths
from course.exercise import Exercise, Function, Misconception
from course.harness import Rows
from course.task import Task
from solutions.l03_interleaving._padded import (
    NEW_PADDING_SEEN,
    RIGHT_PADDED,
    PaddedRow,
    draw_padded,
    explain_mask,
    new_on_the_left,
    new_padding_seen,
    padded_forms,
    padded_ideas,
    padded_rows,
    real_rows,
    seeing,
    sees,
)
from solutions.l03_interleaving.new_mask import new_mask

# --- right answers ------------------------------------------------------------------------------


def full_mask(past_lens: list[int], num_new: list[int]) -> Tensor:
    """Return which keys each token of a fused step may attend to: bool (B, T, S + T)."""
    # The past needs no causal rule, since all of it lies before the chunk, only its padding hidden.
    # A padding query of a row without a past would see nothing, and the softmax of nothing is NaN;
    # the next layer makes keys and values of it, and 0 times NaN is NaN for every token near it.
    # Seeing itself is enough to keep it a number.
    longest_past, longest_new = max(past_lens), max(num_new)
    first_held = longest_past - torch.tensor(past_lens)  # (B,)
    held = torch.arange(longest_past) >= first_held[:, None, None]  # (B, 1, S)
    past = held.expand(-1, longest_new, -1)  # (B, T, S)
    column = torch.arange(longest_new)  # (T,)
    first_new = longest_new - torch.tensor(num_new)  # (B,)
    real = column >= first_new[:, None, None]  # (B, 1, T)
    itself = column == column[:, None]  # (T, T)
    new = (column <= column[:, None]) & real | itself  # (B, T, T)
    return torch.cat([past, new], dim=2)  # (B, T, S + T)


def from_new_mask(past_lens: list[int], num_new: list[int]) -> Tensor:
    new = new_mask(num_new)
    held = torch.zeros(len(past_lens), max(num_new), max(past_lens), dtype=torch.bool)
    for i, past in enumerate(past_lens):
        held[i, :, max(past_lens) - past :] = True
    return torch.cat([held, new | torch.eye(max(num_new), dtype=torch.bool)], dim=-1)


def with_tril(past_lens: list[int], num_new: list[int]) -> Tensor:
    cached, longest = max(past_lens), max(num_new)
    mask = torch.ones(len(past_lens), longest, cached + longest, dtype=torch.bool).tril(cached)
    for i, row in enumerate(mask):
        row[:, : cached - past_lens[i]] = False
        row[:, cached : cached + longest - num_new[i]] = False
        row[: longest - num_new[i]] = True
    return mask


def by_places(past_lens: list[int], num_new: list[int]) -> Tensor:
    cached, past = max(past_lens), torch.tensor(past_lens)[:, None]  # (B, 1)
    of_past = torch.arange(cached) - cached + past  # (B, S), below 0 for padding
    of_new = torch.arange(max(num_new)) - max(num_new) + torch.tensor(num_new)[:, None]  # (B, T)
    of_new = torch.where(of_new < 0, of_new, of_new + past)  # (B, T)
    key, query = torch.cat([of_past, of_new], 1)[:, None], of_new[:, :, None]
    return (key >= 0) & (key <= query) | (query < 0)  # (B, T, S + T)


def cell_by_cell(past_lens: list[int], num_new: list[int]) -> Tensor:
    mask: list[list[list[bool]]] = []
    for i, new in enumerate(num_new):
        past = past_lens[i]
        padding = [False] * (max(past_lens) - past)
        gap = [False] * (max(num_new) - new)
        blind = [True] * (max(past_lens) + max(num_new))
        rows = [blind for _ in gap]
        for t in range(new):
            seen = [True] * (t + 1) + [False] * (new - t - 1)
            rows.append(padding + [True] * past + gap + seen)
        mask.append(rows)
    return torch.tensor(mask)


def mended_afterwards(past_lens: list[int], num_new: list[int]) -> Tensor:
    real = torch.zeros(len(num_new), max(past_lens) + max(num_new), dtype=torch.bool)  # (B, S + T)
    for i, new in enumerate(num_new):
        real[i, max(past_lens) - past_lens[i] : max(past_lens)] = True
        real[i, real.shape[1] - new :] = True
    later = torch.ones(max(num_new), real.shape[1]).triu(max(past_lens) + 1).bool()  # (T, S + T)
    mask = ~later & real[:, None, :]  # (B, T, S + T)
    return mask | ~mask.any(2, keepdim=True)


# --- wrong ideas --------------------------------------------------------------------------------


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right mask, made another."""
    return lambda past_lens, num_new: change(full_mask(past_lens, num_new))


def past_by_minus_zero(past_lens: list[int], num_new: list[int]) -> Tensor:
    mask = full_mask(past_lens, num_new)
    for row, past in zip(mask[:, :, : max(past_lens)], past_lens, strict=True):
        row[:, -past:] = True
    return mask


def padding_at_one_end(row: PaddedRow, query: int, key: int) -> bool:
    padding = row.longest_past - row.past + row.longest_new - row.new
    return padding <= key <= row.longest_past + query


ALL_MASKED = Misconception(
    "all_masked",
    "Padding sees nothing, in the rows as in the columns.",
    "A padding query that sees no key becomes NaN, and so do its K and V in the next layer, where "
    "even a weight of 0 spoils the tokens beside it (0 * NaN is NaN): let it see at least itself.",
    also=((seeing(sees)),),
)
MISCONCEPTIONS = (
    *padded_forms(
        changed,
        "T, S + T",
        Misconception(
            "new_missing",
            "The mask concerns the cache.",
            "The keys are all columns, cached and new: the T columns of the new tokens are "
            "missing, and each of them sees at least itself.",
            form=lambda got, wanted: got.shape == wanted[:, :, wanted.shape[1] :].shape,
            also=(changed(lambda mask: mask[:, :, : -mask.shape[1]]),),
        ),
        Misconception(
            "past_missing",
            "The mask concerns the new tokens.",
            "The keys are all columns, cached and new: the S columns of the past are missing.",
            form=lambda got, wanted: (
                got.shape == wanted[:, :, : wanted.shape[1]].shape != wanted.shape
            ),
            also=(lambda past_lens, num_new: new_mask(num_new),),
        ),
    ),
    Misconception(
        "new_padding_visible",
        "All new tokens are valid: new_valid is all True.",
        NEW_PADDING_SEEN,
        seeing(new_padding_seen),
    ),
    Misconception(
        "past_padding_visible",
        "The padding of the past is zeros, and zeros do no harm.",
        "A short past has padding in front of it, and keys of zeros are not harmless: a score of "
        "0 weighs e^0 = 1 in the softmax, as much as a token might.",
        seeing(lambda row, q, k: k < row.longest_past or sees(row, q, k)),
    ),
    Misconception(
        "padding_visible",
        "A causal mask is enough: garbage is ignored.",
        "This mask is causal, but it hides no padding: neither that in front of the past nor that "
        "in front of the new tokens.",
        seeing(lambda row, q, k: k - row.longest_past <= q),
    ),
    Misconception(
        "minus_zero",
        "The last n columns are [-n:], whatever n.",
        "With a past of 0 tokens a slice such as [-0:] takes everything, because -0 is 0.",
        past_by_minus_zero,
    ),
    Misconception(
        "past_on_the_left",
        "The past begins in the first column.",
        "The past stands at the right end of its S columns, next to the new ones; here the mask "
        "takes the first columns for it.",
        seeing(lambda row, q, k: k < row.past if k < row.longest_past else sees(row, q, k)),
    ),
    Misconception(
        "right_padded",
        "The new tokens are the first of their columns.",
        RIGHT_PADDED,
        seeing(new_on_the_left),
        alike=(seeing(lambda row, q, k: k == row.longest_past + q or new_on_the_left(row, q, k)),),
    ),
    Misconception(
        "padding_at_one_end",
        "All padding of a row stands at its front.",
        "A row has padding in two places, in front of its past and again in front of its new "
        "tokens; here it is hidden as if all of it stood at the front.",
        seeing(padding_at_one_end),
    ),
    Misconception(
        "no_offset",
        "tril is the causal mask, whatever the shape.",
        "The new columns begin behind the S columns of past: a diagonal that starts at column 0 "
        "hides the tokens' own past from them.",
        seeing(lambda row, q, k: row.key(k) is not None and k <= q),
    ),
    Misconception(
        "hides_the_past",
        "The cache is read by the model, the mask is for the new.",
        "The new tokens see each other but none of the cached ones, as if every text began with "
        "this step.",
        seeing(lambda row, q, k: k >= row.longest_past and sees(row, q, k)),
    ),
    *padded_ideas(changed, seeing),
    ALL_MASKED,
    Misconception(
        "in_place",
        "A list is sorted in passing.",
        also=(lambda *args: (full_mask(*args), args[0].reverse())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def explain_blind(lengths: Args, wanted: Tensor, got: Tensor) -> Rows:
    """The first row with a query that sees nothing, and what attention makes of it, computed."""
    i, query = (~got.any(dim=2)).nonzero()[0].tolist()
    row = padded_rows(*lengths)[i]
    scores = torch.zeros(got.shape[1:]).masked_fill(~got[i], float("-inf"))  # (T, S + T)
    weights = scores.softmax(dim=1)  # (T, S + T)
    values = torch.ones(got.shape[2])  # (S + T,)
    values[row.longest_past + query] = weights[query, 0]  # NaN, from the layer below
    shown = ", ".join(f"{weight:g}" for weight in weights[query].tolist()[:8])
    return (
        *draw_padded(i, row, wanted[i], got[i]),
        ("softmax", f"of query {query} of row {i}: [{shown}]"),
        (
            "next layer",
            f"the last token, too: {weights[-1, row.longest_past + query]:g} * nan + ... = "
            f"{weights[-1] @ values:g}",
        ),
    )


JUDGE = Fusing(
    full_mask,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: real_rows(value, args[1]),
            mistakes=MISCONCEPTIONS,
            idea="A real token attends to its row's whole past, and among the new columns to "
            "itself and to the real ones before it.",
            rows=explain_mask,
        ),
        Look(
            matters=lambda value, args: bool(value.any(dim=2).all()),
            mistakes=(),
            idea=ALL_MASKED.sentence(),
            key=ALL_MASKED.key,
            rows=explain_blind,
        ),
    ),
    evidence=[([3, 1], [1, 2]), ([1, 3], [1, 3]), ([2, 4], [3, 3])],
)

EXERCISE = Exercise(
    number=3,
    title="The whole mask",
    minutes=12,
    points=4,
    part="full_mask",
    task=Task(
        signature="full_mask(past_lens: list[int], num_new: list[int]) -> torch.Tensor",
        rules=(
            "The keys are S = max(past_lens) cached columns and behind them T = max(num_new) "
            "new ones; the queries are the T new columns.",
            "Row i has `past_lens[i]` cached tokens (0 or more) at the right end of the S "
            "columns and `num_new[i]` new ones (at least 1) at the right end of the T; all "
            "else is padding.",
            "Returns a bool tensor (B, T, S + T): True where the query may attend to the key.",
            "A token attends to all of its row's past, to itself and to the row's new tokens "
            "before it, never to padding.",
            "What a padding query attends to is free, but it has to attend to at least one key.",
        ),
        args=([1, 2], [2, 1]),
        result=torch.tensor([[[0, 1, 1, 0], [0, 1, 1, 1]], [[1, 1, 1, 0], [1, 1, 0, 1]]]).bool(),
    ),
    hints=(
        "Which columns of the past are padding in row i? And what does the softmax make of a "
        "query that sees nothing?",
        "Two parts side by side: the S columns of the past, where every query of a row sees "
        "the same, and the T new ones as in new_mask. Then look at the padding queries.",
        "The past's part is (B, 1, S): which columns hold a token of row i. Expanded to "
        "(B, T, S), torch.cat joins it with the new part in the last dimension. For the "
        "padding queries, think of a key that is there for every query of every row, and that "
        "a token sees anyway.",
    ),
    right=(full_mask, from_new_mask, with_tril, by_places, cell_by_cell, mended_afterwards),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "one request, nothing padded",
            JUDGE.on(([3], [2]), ([0], [2]), ([2], [1])),
        ),
        (
            "pasts of unequal length",
            JUDGE.on(([1, 2], [2, 2]), ([2, 4], [3, 3]), ([1, 3], [1, 1])),
        ),
        (
            "a decode beside a chunk",
            JUDGE.on(([3, 1], [1, 2]), ([1, 3], [1, 3]), ([2, 0], [1, 3])),
        ),
        (
            "first chunks, no past at all",
            JUDGE.on(([0, 0], [1, 2]), ([0, 0, 0], [2, 3, 1]), ([0, 2], [1, 2])),
        ),
        ("any mix", JUDGE.on_drawn(lambda rng: any_lengths(rng, 20))),
    ),
    still_right={
        "full_mask(): new = (column {<= => <} column[:, None]) & real | itself": (
            "itself is added anyway"
        ),
    },
)
