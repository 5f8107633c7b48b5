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


def new_mask(num_scheduled_tokens: list[int]) -> Tensor:
    """Return which new tokens of a fused step may attend to which: bool (B, T, T)."""
    # Two conditions, both needed: causal (k <= q) is about the order of columns, and knows nothing
    # of padding; real (k >= T - n) is about padding, and knows nothing of order.
    longest = max(num_scheduled_tokens)
    column = torch.arange(longest)  # (T,)
    causal = column <= column[:, None]  # (T, T)
    first = longest - torch.tensor(num_scheduled_tokens)  # (B,)
    real = column >= first[:, None, None]  # (B, 1, T)
    return causal & real  # (B, T, T)


def with_tril(scheduled: list[int]) -> Tensor:
    longest = max(scheduled)
    mask = torch.ones(len(scheduled), longest, longest, dtype=torch.bool).tril()
    for i, n in enumerate(scheduled):
        mask[i, :, : longest - n] = False
    return mask


def cell_by_cell(scheduled: list[int]) -> Tensor:
    longest = max(scheduled)
    cells: list[list[list[bool]]] = []
    for n in scheduled:
        padding = longest - n
        cells.append([[padding <= k <= q for k in range(longest)] for q in range(longest)])
    return torch.tensor(cells)


# --- wrong ideas --------------------------------------------------------------------------------


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right mask, made another."""
    return lambda new: change(new_mask(new))


def new_seeing(rule: Rule) -> Callable[[list[int]], Tensor]:
    """The mask that the rule makes where there is no past."""
    return lambda new: seeing(rule)([0] * len(new), new)


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
    *padded_ideas(changed, new_seeing),
    Misconception(
        "in_place",
        "A list is sorted in passing.",
        examples=(lambda *args: (new_mask(*args), args[0].reverse())[0],),
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
        signature="new_mask(num_scheduled_tokens: list[int]) -> torch.Tensor",
        rules=(
            "Row i of the batch holds `num_scheduled_tokens[i]` tokens (at least 1) at the right "
            "end of its T = max(num_scheduled_tokens) columns, and padding in front of them.",
            "Returns a bool tensor (B, T, T): [i, q, k] is True when the token in column q may "
            "attend to column k.",
            "A token attends to itself and to its row's tokens before it, never to padding.",
            "What a padding column attends to is free: its output is never read.",
        ),
        args=([1, 2],),
        result=torch.tensor([[[0, 0], [0, 1]], [[1, 0], [1, 1]]]).bool(),
    ),
    hints=(
        "Draw the row of a decode beside a chunk of 3: two columns of padding, then its token. "
        "What does a causal mask let that token see?",
        "Two conditions hold at once, one about the order of the columns and one about padding. In "
        "which column does row i have its first token?",
        "Make a tensor of each condition and join them with `&`. With torch.arange(T) as the "
        "columns, the order is a comparison of shape (T, T), the same for all rows; padding is one "
        "of shape (B, 1, T), with each row's first column as a (B, 1, 1).",
    ),
    right=(new_mask, with_tril, cell_by_cell),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a chunk alone, nothing padded", JUDGE.on(([3],), ([1],))),
        ("a decode beside a chunk", JUDGE.on(([1, 3],), ([3, 1],))),
        ("chunks of unequal length", JUDGE.on(([2, 3],), ([3, 1, 2],), ([1, 1],), ([2, 2],))),
        ("any mix", JUDGE.on_drawn(any_mix)),
    ),
)
