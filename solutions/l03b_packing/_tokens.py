"""The tokens of a packed step, request after request: masks over them by rules, drawn as grids."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from course.checks.comparing import Args
from course.checks.fusing import cell, grid
from course.harness import Rows

Packed = tuple[list[int], list[int], Tensor]  # cu_seqlens_q, cu_seqlens_k, mask


class Token(NamedTuple):
    """A token of the flat row; `past` is how many tokens of its request are cached."""

    request: int
    position: int
    past: int


def queries(contexts: list[int], scheduled: list[int]) -> list[Token]:
    return [token for token in keys(contexts, scheduled) if token.position >= token.past]


def keys(contexts: list[int], scheduled: list[int]) -> list[Token]:
    lengths = enumerate(zip(contexts, scheduled, strict=True))
    return [Token(i, at, past) for i, (past, new) in lengths for at in range(past + new)]


def sees(query: Token, key: Token, by: int = 0) -> bool:
    """The right rule, or one with its diagonal moved to the right by `by`."""
    return query.request == key.request and key.position <= query.position + by


Rule = Callable[[Token, Token], bool]  # query, key -> may attend


def mask_by(rule: Rule, queries: list[Token], keys: list[Token]) -> Tensor:
    """The mask (N, K) that the rule makes, cell by cell."""
    return torch.tensor([[rule(query, key) for key in keys] for query in queries])


def drawn(args: Args, wanted: Packed, got: Packed) -> Rows:
    """Both masks as grids, with lines between the requests."""
    cu_q, cu_k, _ = wanted
    columns = [str(key.position) for key in keys(*args)]
    lines = [str(query.position) for query in queries(*args)]
    bars, breaks = set(cu_k[1:-1]), frozenset(cu_q[1:-1])

    def as_grid(mask: Tensor) -> str:
        cells = [[cell(each) for each in line] for line in mask.tolist()]
        return grid(cells, columns, lines, bars, breaks)

    return (
        ("expected", as_grid(wanted[2])),
        ("got", as_grid(got[2])),
        ("drawn", "one line per query, one column per key; the numbers are positions in each text"),
    )
