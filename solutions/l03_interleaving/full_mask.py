"""Exercise 3.2: the attention mask of a padded step, past and new columns."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look, any_lengths, diagonal_ideas, mask_forms
from course.exercise import Exercise, Function, Misconception, Task
from course.harness import Rows
from solutions.l03_interleaving._padded import (
    draw_padded,
    explain_mask,
    new_on_the_left,
    new_padding_seen,
    padded_rows,
    real_rows,
    seeing,
    sees,
)

# --- right answers ------------------------------------------------------------------------------


def full_mask(context_lens: list[int], num_scheduled_tokens: list[int]) -> Tensor:
    """Return which keys each token of a fused step may attend to: bool (B, T, S + T)."""
    # Every query comes after the whole past, so in the past only padding must be hidden. In the new
    # columns two rules hold at once: causal, and no padding. A padding query of a row without a
    # past would see nothing, and a softmax over nothing is NaN. The next layer turns that NaN into
    # a key and a value, and 0 * NaN is NaN for the real tokens too. So each query sees itself.
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
    """The right mask, changed."""
    return lambda past, new: change(full_mask(past, new))


def past_by_minus_zero(past: list[int], new: list[int]) -> Tensor:
    mask = full_mask(past, new)
    for i, length in enumerate(past):
        mask[i, :, : max(past)][:, -length:] = True
    return mask


ALL_MASKED = Misconception(
    "all_masked",
    "A padding query should see no key, just as no query sees a padding key.",
    "A padding query that sees no key becomes NaN. In the next layer its K and V are NaN, and "
    "0 * NaN is NaN for the real tokens beside it. Let it see at least itself.",
    examples=((seeing(sees)),),
)
MISCONCEPTIONS = (
    *mask_forms(
        changed,
        Misconception(
            "past_missing",
            "The mask covers only the new tokens.",
            "The keys are all columns, past and new. The S columns of the past are missing.",
            matches=lambda got, wanted: (
                got.shape == wanted[:, :, : wanted.shape[1]].shape != wanted.shape
            ),
            examples=(lambda past, new: full_mask([0] * len(new), new),),
        ),
    ),
    Misconception(
        "new_padding_visible",
        "All new tokens are real, so a causal mask is enough for them.",
        "Padding among the new tokens is fed as token 0 at position 0 and gets a key and a value "
        "like any token. If the mask does not hide this padding, real tokens attend to it.",
        seeing(new_padding_seen),
    ),
    Misconception(
        "past_padding_visible",
        "The padding of the past is zeros, and zeros do no harm.",
        "A shorter past has padding in front of it, and keys of zeros are not harmless: a score of "
        "0 weighs e^0 = 1 in the softmax, as much as a real key with a score of 0.",
        seeing(lambda row, q, k: k < row.longest_past or sees(row, q, k)),
    ),
    Misconception(
        "right_padded",
        "The new tokens are the first of their row.",
        "The new tokens are at the right end of their columns, with the padding in front. This "
        "mask treats the first columns as the tokens.",
        seeing(new_on_the_left),
    ),
    Misconception(
        "past_on_the_left",
        "The past is the first columns of its row.",
        "A shorter past is at the right end of the S columns, with the padding in front. This "
        "mask shows the padding and hides real keys.",
        seeing(lambda row, q, k: k < row.past if k < row.longest_past else sees(row, q, k)),
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
        "The new columns come after the S columns of past. A diagonal that starts at column 0 "
        "hides the tokens' own past from them.",
        seeing(lambda row, q, k: row.key(k) is not None and k <= q),
    ),
    Misconception(
        "not_causal",
        "The mask only has to hide padding.",
        "Padding is hidden, but the tokens of a chunk are computed together, so each of them also "
        "sees the later tokens of its own chunk.",
        seeing(lambda row, query, key: row.key(key) is not None),
    ),
    *diagonal_ideas(changed, lambda by: seeing(lambda row, query, key: sees(row, query, key, by))),
    ALL_MASKED,
    Misconception(
        "in_place",
        "The function may sort the lists it is given.",
        examples=(lambda *args: (full_mask(*args), args[0].reverse())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def explain_blind(lengths: Args, wanted: Tensor, got: Tensor) -> Rows:
    """Draw the row of the first query that sees nothing."""
    i, query = (~got.any(dim=2)).nonzero()[0].tolist()
    return (
        *draw_padded(i, padded_rows(*lengths)[i], wanted[i], got[i]),
        ("softmax", f"row {i}, query {query}: 0/0 = nan for every key"),
    )


JUDGE = Fusing(
    full_mask,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: real_rows(value, args[1]),
            mistakes=MISCONCEPTIONS,
            idea="A real token attends to its row's whole past, to itself, and to the real new "
            "tokens before it.",
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
    number=2,
    title="The attention mask of a padded step",
    minutes=15,
    points=5,
    task=Task(
        rules=(
            "The keys of row i are S + T columns: S = max(context_lens) past columns, then T = "
            "max(num_scheduled_tokens) new columns. The queries are the T new columns.",
            "Row i has `context_lens[i]` past tokens (0 or more) at the right end of the S "
            "columns and `num_scheduled_tokens[i]` new tokens (at least 1) at the right end of the "
            "T columns. Everything else is padding.",
            "Return a bool tensor (B, T, S + T) that is True where the query may attend to the "
            "key.",
            "A token attends to all of its row's past, to itself and to the row's new tokens "
            "before it, and never to padding.",
            "A padding query may attend to any keys, but must attend to at least one.",
            "Do not change the lists.",
        ),
        args=([1, 2], [2, 1]),
        steps=(
            "S = 2 and T = 2. Row 0 has padding in column 0; row 1 has padding in column 2.",
            "Row 0's two tokens see their past, column 1. The first also sees itself, column 2; "
            "the second sees columns 2 and 3.",
            "Row 1's only token is in column 3. It sees its past, columns 0 and 1, and itself, but "
            "not column 2.",
            "Row 1's other query, column 2, is padding. Here it sees the past and itself.",
        ),
        result=torch.tensor([[[0, 1, 1, 0], [0, 1, 1, 1]], [[1, 1, 1, 0], [1, 1, 0, 1]]]).bool(),
        returns="bool tensor (2, 2, 4), 1 for True:\n"
        "row 0:  0 1 1 0\n        0 1 1 1\nrow 1:  1 1 1 0\n        1 1 0 1",
    ),
    hints=(
        "Which columns of row i are padding, among the past columns and among the new columns? "
        "And what is the softmax of a query that sees nothing?",
        "Build two parts and put them side by side. In the S past columns every query of a row "
        "sees the same keys. In the T new columns two rules hold at once, one about the order of "
        "columns and one about padding.",
        "With torch.arange, padding is a comparison of shape (B, 1, S) or (B, 1, T), and the "
        "causal order one of shape (T, T), the same for all rows. Join rules with `&`, expand the "
        "past's part to (B, T, S), and use torch.cat in the last dimension. Last, let every query "
        "see itself: real tokens do so anyway, and a padding query then sees one key.",
    ),
    right=(full_mask, with_tril),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one request, no padding", JUDGE.on(([3], [2]), ([0], [2]), ([2], [1]))),
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
            "`itself` adds the diagonal anyway"
        )
    },
)
