"""Exercise 3.2: which new tokens of a padded step may attend to which."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look
from course.exercise import Exercise, Function, Misconception
from course.task import Task
from solutions.l03_interleaving._padded import (
    NEW_PADDING_SEEN,
    RIGHT_PADDED,
    Rule,
    explain_mask,
    new_on_the_left,
    new_padding_seen,
    padded_forms,
    padded_ideas,
    real_rows,
    seeing,
)

# --- right answers ------------------------------------------------------------------------------


def new_mask(num_new: list[int]) -> Tensor:
    """Return which new tokens of a fused step may attend to which: bool (B, T, T)."""
    # Two conditions, both needed: causal (k <= q) is about the order of columns, and knows nothing
    # of padding; real (k >= T - n) is about padding, and knows nothing of order.
    longest = max(num_new)
    column = torch.arange(longest)  # (T,)
    causal = column <= column[:, None]  # (T, T)
    first = longest - torch.tensor(num_new)  # (B,)
    real = column >= first[:, None, None]  # (B, 1, T)
    return causal & real  # (B, T, T)


def with_tril(num_new: list[int]) -> Tensor:
    longest = max(num_new)
    mask = torch.ones(len(num_new), longest, longest, dtype=torch.bool).tril()
    for i, n in enumerate(num_new):
        mask[i, :, : longest - n] = False
    return mask


def by_blocks(num_new: list[int]) -> Tensor:
    mask = torch.zeros(len(num_new), max(num_new), max(num_new), dtype=torch.bool)
    for i, n in enumerate(num_new):
        mask[i, -n:, -n:] = torch.ones(n, n).tril()
    return mask


def cell_by_cell(num_new: list[int]) -> Tensor:
    longest = max(num_new)
    cells: list[list[list[bool]]] = []
    for n in num_new:
        padding = longest - n
        cells.append([[padding <= k <= q for k in range(longest)] for q in range(longest)])
    return torch.tensor(cells)


def by_places(num_new: list[int]) -> Tensor:
    place = torch.arange(max(num_new)) - max(num_new) + torch.tensor(num_new)[:, None]  # (B, T)
    query, key = place.unsqueeze(2), place.unsqueeze(1)  # (B, T, 1), (B, 1, T)
    return (key >= 0) & (query >= key)


def padding_sees_all(num_new: list[int]) -> Tensor:
    order = torch.arange(max(num_new), 0, -1)  # (T,), counted from the right end
    real = order <= torch.tensor(num_new)[:, None]  # (B, T)
    sees = (order >= order[:, None]) & real[:, None, :]  # (B, T, T)
    return sees | ~real[:, :, None]


def counted_from_the_end(num_new: list[int]) -> Tensor:
    longest = max(num_new)
    mask = torch.ones(len(num_new), longest, longest, dtype=torch.bool).tril()
    for i, n in enumerate(num_new):
        mask[i, :, :-n] = False  # n is never 0
    return mask


# --- wrong ideas --------------------------------------------------------------------------------


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right mask, made another."""
    return lambda num_new: change(new_mask(num_new))


def new_seeing(rule: Rule) -> Callable[[list[int]], Tensor]:
    """The mask that the rule makes where there is no past."""
    return lambda num_new: seeing(rule)([0] * len(num_new), num_new)


MISCONCEPTIONS = (
    *padded_forms(changed, "T, T"),
    Misconception(
        "padding_visible",
        "Padding yields garbage that we ignore anyway; a causal mask will do.",
        NEW_PADDING_SEEN,
        new_seeing(new_padding_seen),
    ),
    Misconception(
        "right_padded",
        "The tokens are the first of their row.",
        RIGHT_PADDED,
        new_seeing(new_on_the_left),
    ),
    Misconception(
        "transposed",
        "Keys are rows, queries are columns.",
        "Rows are queries and columns are keys; here they changed places, so each token sees "
        "itself and what comes after it.",
        changed(lambda mask: mask.transpose(1, 2)),
    ),
    *padded_ideas(changed, new_seeing),
    Misconception(
        "in_place",
        "A list is sorted in passing.",
        also=(lambda *args: (new_mask(*args), args[0].reverse())[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_mix(rng: random.Random) -> list[Args]:
    cases: list[Args] = [([rng.randint(1, 5) for _ in range(1 + i % 4)],) for i in range(20)]
    return sorted(cases, key=lambda case: sum(case[0]))


JUDGE = Fusing(
    new_mask,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: real_rows(value, args[0]),
            mistakes=MISCONCEPTIONS,
            idea="A token attends to itself and to the tokens of its own row that stand before "
            "it, and nothing attends to padding.",
            rows=lambda args, wanted, got: explain_mask(([0] * len(args[0]), *args), wanted, got),
        ),
    ),
    evidence=[([1, 3],), ([3, 1, 2],)],
)

EXERCISE = Exercise(
    number=2,
    title="What the new tokens see of each other",
    minutes=8,
    points=2,
    task=Task(
        signature="new_mask(num_new: list[int]) -> torch.Tensor",
        rules=(
            "Row i of the batch holds `num_new[i]` tokens (at least 1) at the right end of its "
            "T = max(num_new) columns, and padding in front of them.",
            "Returns a bool tensor (B, T, T): [i, q, k] is True when the token in column q "
            "may attend to column k.",
            "A token attends to itself and to its row's tokens before it, never to padding.",
            "What a padding column attends to is free: its output is never read.",
        ),
        args=([1, 2],),
        result=torch.tensor([[[0, 0], [0, 1]], [[1, 0], [1, 1]]]).bool(),
    ),
    hints=(
        "Draw the row of a decode beside a chunk of 3: two columns of padding, then its token. "
        "What does a causal mask let that token see?",
        "Two conditions hold at once, one about the order of the columns and one about "
        "padding. In which column does row i have its first token?",
        "Make a tensor of each condition and join them with `&`. With torch.arange(T) as the "
        "columns, the order is a comparison of shape (T, T), the same for all rows; padding "
        "is one of shape (B, 1, T), with each row's first column as a (B, 1, 1).",
    ),
    right=(
        new_mask,
        with_tril,
        by_blocks,
        cell_by_cell,
        by_places,
        padding_sees_all,
        counted_from_the_end,
    ),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a chunk alone, nothing padded", JUDGE.on(([3],), ([1],))),
        ("a decode beside a chunk", JUDGE.on(([1, 3],), ([3, 1],))),
        ("chunks of unequal length", JUDGE.on(([2, 3],), ([3, 1, 2],), ([1, 1],), ([2, 2],))),
        ("any mix", JUDGE.on_drawn(any_mix)),
    ),
)
