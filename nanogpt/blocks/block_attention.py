"""Attention over tables of blocks: in place where a table's blocks are neighbours, else gathered.

Rows that bring the same number of tokens attend together: those that lie in the pool at even
distances through one view, as slots do; those whose blocks are scattered over one copy of them.
The copy is made anew in each layer, behind that layer's write: it holds what is new without a
second write, and a layer's share of it fits the processor's cache.

Shapes: N tokens in all, B rows of T tokens each, S visible context, L layers, H heads, D head size,
P blocks of E entries each.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol

import torch
from torch import Tensor

from nanogpt.executors.base import KVStore, Row, place_rows
from nanogpt.executors.packed import (
    GroupedAttention,
    attend_rows,
    lengths_bias,
    visible_bias,
)
from nanogpt.model import Attend
from nanogpt.parts import ChunkMask


class BlockStore(KVStore, Protocol):
    """What the attention asks of the blocks. Shapes: storage (2, L, H, P * E, D)."""

    storage: Tensor
    size: int

    def table(self, request_id: int) -> tuple[int, ...]:
        """The request's blocks, in the order of its text."""
        ...

    def is_run(self, request_id: int) -> bool:
        """Whether they are neighbours."""
        ...


def block_attention(cache: BlockStore, rows: Sequence[Row], chunk_mask: ChunkMask) -> Attend:
    """A step's attention, group by group."""
    place = place_rows(rows, cache)  # takes the blocks for what is new, which the groups look at
    groups = [TabledRows(cache, group, step, chunk_mask) for group, step in together(rows, cache)]
    return GroupedAttention(cache, place, groups)


class TabledRows:
    """B rows of T tokens each; `step` is how far apart they lie in the pool, None if scattered."""

    def __init__(
        self, cache: BlockStore, rows: Sequence[Row], step: int | None, chunk_mask: ChunkMask
    ) -> None:
        self.num_rows = len(rows)
        self.num_tokens = sum(len(row.tokens) for row in rows)
        self.longest = max(row.context_len for row in rows)
        self.storage, self.step, self.size = cache.storage, step, cache.size
        tables = [cache.table(row.request_id) for row in rows]
        self.first = tables[0][0] * self.size
        if step is None:
            most = max(map(len, tables))
            # A short table is filled up with its own first block: hidden, but never NaN.
            full = [[*table, *table[:1] * (most - len(table))] for table in tables]
            self.blocks = torch.tensor(full, device=cache.storage.device).flatten()  # (B * P,)
        if self.num_tokens == len(rows):
            self.bias = lengths_bias([row.context_len for row in rows], cache.storage)
        else:
            masks = [chunk_mask(row.num_past, len(row.tokens)) for row in rows]  # (T, s) each
            self.bias = visible_bias(masks, cache.storage)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (B * T, H, D) -> (B * T, H, D); k and v are read from the pool."""
        see = self._gathered if self.step is None else self._in_place
        keys, values = see(self.storage[0, layer]), see(self.storage[1, layer])  # (B, H, S, D)
        return attend_rows(q, keys, values, self.bias)

    def _in_place(self, kv: Tensor) -> Tensor:
        """A view. Shapes: kv (H, P * E, D) -> (B, H, S, D)."""
        assert self.step is not None
        by_head, by_entry, by_number = kv.stride()
        return kv.as_strided(
            (self.num_rows, len(kv), self.longest, kv.shape[2]),
            (self.step * by_entry, by_head, by_entry, by_number),
            kv.storage_offset() + self.first * by_entry,
        )

    def _gathered(self, kv: Tensor) -> Tensor:
        """A copy. Shapes: kv (H, P * E, D) -> (B, H, S, D)."""
        num_heads, _, head_size = kv.shape
        by_block = kv.view(num_heads, -1, self.size * head_size)  # (H, P, E * D)
        chosen = by_block.index_select(1, self.blocks)  # (H, B * P, E * D)
        own = chosen.view(num_heads, self.num_rows, -1, head_size)  # (H, B, P * E, D)
        return own[:, :, : self.longest].transpose(0, 1)


def together(rows: Sequence[Row], cache: BlockStore) -> Iterator[tuple[Sequence[Row], int | None]]:
    """Neighbouring rows of one length that attend in one call, and how far apart they lie."""
    kinds = groupby(rows, key=lambda row: (len(row.tokens), cache.is_run(row.request_id)))
    for (_, in_place), members in kinds:
        group = list(members)
        if not in_place:
            yield group, None
            continue
        yield from _evenly_apart(group, cache)


def _evenly_apart(rows: Sequence[Row], cache: BlockStore) -> Iterator[tuple[Sequence[Row], int]]:
    """Rows that lie in one piece each, cut where the distance changes or the pool would end."""
    firsts = [cache.table(row.request_id)[0] * cache.size for row in rows]
    start = 0
    while start < len(rows):
        end, step = start + 1, 0
        longest = rows[start].context_len
        while end < len(rows):
            apart = firsts[end] - firsts[end - 1]
            longest = max(longest, rows[end].context_len)
            beyond = firsts[end] + longest > cache.storage.shape[3]
            if apart < 0 or beyond or (end > start + 1 and apart != step):
                break
            end, step = end + 1, apart
        yield rows[start:end], step
        start = end


def index_of(entries: Sequence[int]) -> slice | list[int]:
    """How to index the pool's entries: in one piece, without a copy, if they are neighbours."""
    first = entries[0] if entries else 0
    is_run = entries == list(range(first, first + len(entries)))
    return slice(first, first + len(entries)) if is_run else list(entries)
