"""The columns of a padded step, masks made from rules about them, and drawings of masks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import cell, grid
from course.harness import Rows


@dataclass(frozen=True, slots=True)
class PaddedRow:
    """The columns of one row of a padded step: S columns of past, then T new ones."""

    past: int
    new: int
    longest_past: int
    longest_new: int

    def key(self, column: int) -> int | None:
        """The position in the text of the key in one of the S + T columns, None for padding."""
        if column >= self.longest_past:
            return self.query(column - self.longest_past)
        index = column - (self.longest_past - self.past)
        return index if index >= 0 else None

    def query(self, column: int) -> int | None:
        """The position in the text of the query in one of the T columns, None for padding."""
        index = column - (self.longest_new - self.new)
        return self.past + index if index >= 0 else None


def padded_rows(contexts: list[int], scheduled: list[int]) -> list[PaddedRow]:
    """The rows of a step."""
    longest = max(contexts), max(scheduled)
    return [PaddedRow(p, n, *longest) for p, n in zip(contexts, scheduled, strict=True)]


# --- masks by rules -----------------------------------------------------------------------------

Rule = Callable[[PaddedRow, int, int], bool]  # row, query column, key column -> may attend


def seeing(rule: Rule) -> Callable[[list[int], list[int]], Tensor]:
    """The mask (B, T, S + T) whose cells the rule decides."""

    def mask(contexts: list[int], scheduled: list[int]) -> Tensor:
        queries, keys = range(max(scheduled)), range(max(contexts) + max(scheduled))
        rows = padded_rows(contexts, scheduled)
        return torch.tensor([[[rule(row, q, k) for k in keys] for q in queries] for row in rows])

    return mask


def sees(row: PaddedRow, query: int, key: int, by: int = 0) -> bool:
    """The right rule, its diagonal moved right by `by` columns; padding sees nothing."""
    at, end = row.key(key), row.query(query)
    return at is not None and end is not None and at <= end + by


def new_padding_seen(row: PaddedRow, query: int, key: int) -> bool:
    """The right rule for the past; among the new columns only causal, so padding is visible."""
    if key < row.longest_past:
        return row.key(key) is not None
    return key - row.longest_past <= query


def new_on_the_left(row: PaddedRow, query: int, key: int) -> bool:
    """The right rule, had the new tokens been at the left end of their columns."""
    column = key - row.longest_past
    return row.key(key) is not None if column < 0 else column < row.new and column <= query


# --- judging ------------------------------------------------------------------------------------


def real_rows(mask: Tensor, scheduled: list[int]) -> Tensor:
    """The mask's rows of real queries, one below the other: (N, S + T)."""
    longest = mask.shape[1]
    return torch.cat([mask[i, longest - new :] for i, new in enumerate(scheduled)])


def explain_mask(lengths: Args, wanted: Tensor, got: Tensor) -> Rows:
    """Draw the first row of the batch in which a real query sees a wrong set of keys."""
    for i, row in enumerate(padded_rows(*lengths)):
        real = slice(row.longest_new - row.new, None)
        if not torch.equal(wanted[i, real], got[i, real]):
            return draw_padded(i, row, wanted[i], got[i])
    raise AssertionError("asked to explain a mask that is right")


def draw_padded(i: int, row: PaddedRow, wanted: Tensor, got: Tensor) -> Rows:
    """One row of the batch as two grids (T, S + T), a line per query, a column per key."""
    keys = [written(row.key(column)) for column in range(wanted.shape[1])]
    queries = [written(row.query(column)) for column in range(row.longest_new)]
    bars = {row.longest_past} if row.longest_past else set[int]()
    cells = [
        ["?" if queries[q] == "-" else cell(c) for c in line]
        for q, line in enumerate(wanted.tolist())
    ]
    theirs = [[cell(c) for c in line] for line in got.tolist()]
    return (
        ("expected", grid(cells, keys, queries, bars)),
        ("got", grid(theirs, keys, queries, bars)),
        (
            "drawn",
            f"row {i} of the batch, a line per query, a column per key:\n"
            "numbers are positions in the text, - is padding, ? may be 0 or 1",
        ),
    )


def written(position: int | None) -> str:
    return "-" if position is None else str(position)
