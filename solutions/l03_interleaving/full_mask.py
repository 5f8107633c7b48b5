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
    draw_padded,
    explain_mask,
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


def full_mask(context_lens: list[int], num_scheduled_tokens: list[int]) -> Tensor:
    """Return which keys each token of a fused step may attend to: bool (B, T, S + T)."""
    # The past needs no causal rule, since all of it lies before the chunk, only its padding hidden.
    # A padding query of a row without a past would see nothing, and the softmax of nothing is NaN;
    # the next layer makes keys and values of it, and 0 times NaN is NaN for every token near it.
    # Seeing itself is enough to keep it a number.
    longest_past, longest_new = max(context_lens), max(num_scheduled_tokens)
    first_held = longest_past - torch.tensor(context_lens)  # (B,)
    held = torch.arange(longest_past) >= first_held[:, None, None]  # (B, 1, S)
    past = held.expand(-1, longest_new, -1)  # (B, T, S)
    column = torch.arange(longest_new)  # (T,)
    first_new = longest_new - torch.tensor(num_scheduled_tokens)  # (B,)
    real = column >= first_new[:, None, None]  # (B, 1, T)
    itself = column == column[:, None]  # (T, T)
    new = (column <= column[:, None]) & real | itself  # (B, T, T)
    return torch.cat([past, new], dim=2)  # (B, T, S + T)


def from_new_mask(contexts: list[int], scheduled: list[int]) -> Tensor:
    new = new_mask(scheduled)
    held = torch.zeros(len(contexts), max(scheduled), max(contexts), dtype=torch.bool)
    for i, past in enumerate(contexts):
        held[i, :, max(contexts) - past :] = True
    return torch.cat([held, new | torch.eye(max(scheduled), dtype=torch.bool)], dim=-1)


def with_tril(contexts: list[int], scheduled: list[int]) -> Tensor:
    cached, longest = max(contexts), max(scheduled)
    mask = torch.ones(len(contexts), longest, cached + longest, dtype=torch.bool).tril(cached)
    for i, row in enumerate(mask):
        row[:, : cached - contexts[i]] = False
        row[:, cached : cached + longest - scheduled[i]] = False
        row[: longest - scheduled[i]] = True
    return mask


# --- wrong ideas --------------------------------------------------------------------------------


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right mask, made another."""
    return lambda past, new: change(full_mask(past, new))


def past_by_minus_zero(past: list[int], new: list[int]) -> Tensor:
    mask = full_mask(past, new)
    for row, length in zip(mask[:, :, : max(past)], past, strict=True):
        row[:, -length:] = True
    return mask


ALL_MASKED = Misconception(
    "all_masked",
    "Padding sees nothing, in the rows as in the columns.",
    "A padding query that sees no key becomes NaN, and so do its K and V in the next layer, where "
    "even a weight of 0 spoils the tokens beside it (0 * NaN is NaN): let it see at least itself.",
    examples=((seeing(sees)),),
)
MISCONCEPTIONS = (
    *padded_forms(
        changed,
        "T, S + T",
        Misconception(
            "past_missing",
            "The mask concerns the new tokens.",
            "The keys are all columns, cached and new: the S columns of the past are missing.",
            matches=lambda got, wanted: (
                got.shape == wanted[:, :, : wanted.shape[1]].shape != wanted.shape
            ),
            examples=(lambda past, new: new_mask(new),),
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
        "minus_zero",
        "The last n columns are [-n:], whatever n.",
        "With a past of 0 tokens a slice such as [-0:] takes everything, because -0 is 0.",
        past_by_minus_zero,
    ),
    Misconception(
        "no_offset",
        "tril is the causal mask, whatever the shape.",
        "The new columns begin behind the S columns of past: a diagonal that starts at column 0 "
        "hides the tokens' own past from them.",
        seeing(lambda row, q, k: row.key(k) is not None and k <= q),
    ),
    *padded_ideas(changed, seeing),
    ALL_MASKED,
    Misconception(
        "in_place",
        "A list is sorted in passing.",
        examples=(lambda *args: (full_mask(*args), args[0].reverse())[0],),
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
        signature="full_mask(context_lens: list[int], num_scheduled_tokens: list[int]) -> "
        "torch.Tensor",
        rules=(
            "The keys are S = max(context_lens) cached columns and behind them T = "
            "max(num_scheduled_tokens) new ones; the queries are the T new columns.",
            "Row i has `context_lens[i]` cached tokens (0 or more) at the right end of the S "
            "columns and `num_scheduled_tokens[i]` new ones (at least 1) at the right end of the "
            "T; all else is padding.",
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
        "Two parts side by side: the S columns of the past, where every query of a row sees the "
        "same, and the T new ones as in new_mask. Then look at the padding queries.",
        "The past's part is (B, 1, S): which columns hold a token of row i. Expanded to (B, T, S), "
        "torch.cat joins it with the new part in the last dimension. For the padding queries, "
        "think of a key that is there for every query of every row, and that a token sees anyway.",
    ),
    right=(full_mask, from_new_mask, with_tril),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one request, nothing padded", JUDGE.on(([3], [2]), ([0], [2]), ([2], [1]))),
        ("pasts of unequal length", JUDGE.on(([1, 2], [2, 2]), ([2, 4], [3, 3]), ([1, 3], [1, 1]))),
        ("a decode beside a chunk", JUDGE.on(([3, 1], [1, 2]), ([1, 3], [1, 3]), ([2, 0], [1, 3]))),
        (
            "first chunks, no past at all",
            JUDGE.on(([0, 0], [1, 2]), ([0, 0, 0], [2, 3, 1]), ([0, 2], [1, 2])),
        ),
        ("any mix", JUDGE.on_drawn(lambda rng: any_lengths(rng, 20))),
    ),
    equivalent_mutants={
        "full_mask(): new = (column {<= => <} column[:, None]) & real | itself": (
            "itself is added anyway"
        )
    },
)
