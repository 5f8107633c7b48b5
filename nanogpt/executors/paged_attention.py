"""Attention over the paged KV cache: in place where blocks are neighbours, else gathered.

Rows that bring the same number of tokens attend together: those that lie in the pool at even
distances through one view, as all decodes do in the best case; those whose blocks are scattered
over one copy of them. The copy is made anew in each layer, behind that layer's write: it holds what
is new without a second write, and a layer's share of it fits the processor's cache.

Shapes: N tokens in all, B rows of T tokens each, S visible context, L layers, H heads of K/V, each
for G query heads, D head size, P blocks of E entries each.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.model import Attend
from nanogpt.outputs import Row


class PagedStore(Protocol):
    """The blocks as the attention reads them. Shapes: storage (2, L, H, P * E, D)."""

    storage: Tensor
    size: int
    group_size: int  # query heads for each head of K/V
    by_layer: tuple[tuple[Tensor, ...], tuple[Tensor, ...]]

    def slot_mapping(self, rows: Sequence[Row]) -> Any:
        """Where the rows' new tokens go."""
        ...

    def write(self, layer: int, slot_mapping: Any, k: Tensor, v: Tensor) -> None:
        """Store them."""
        ...

    def table(self, request_id: int) -> tuple[int, ...]:
        """The request's blocks, in the order of its text."""
        ...

    def is_run(self, request_id: int) -> bool:
        """Whether they are neighbours."""
        ...

    def reach(self, request_id: int, most: int) -> int:
        """How many entries from its first on no other request holds, counted up to `most`."""
        ...


class RowGroup(Protocol):
    """Rows that lie side by side in the flat row, and attend in one call."""

    num_tokens: int

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (n, G * H, D), k, v (n, H, D) -> as q."""
        ...


class GroupedAttention:
    """The step's attention over the flat row: new K/V is written, then group by group attends."""

    def __init__(
        self,
        write: Callable[[int, Any, Tensor, Tensor], None],
        slot_mapping: Any,
        groups: Sequence[RowGroup],
    ) -> None:
        self.write = write
        self.slot_mapping = slot_mapping
        self.groups = groups
        self.sizes = [group.num_tokens for group in groups]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (N, G * H, D), k, v (N, H, D) -> as q."""
        self.write(layer, self.slot_mapping, k, v)
        if len(self.groups) == 1:
            return self.groups[0].attend(layer, q, k, v)
        shares = (self.groups, q.split(self.sizes), k.split(self.sizes), v.split(self.sizes))
        return torch.cat([group.attend(layer, *qkv) for group, *qkv in zip(*shares, strict=True)])


def paged_attention(
    cache: PagedStore, rows: Sequence[Row], chunk_mask: Callable[[int, int], Tensor]
) -> Attend:
    """A step's attention, group by group, over rows sorted by their number of tokens."""
    slot_mapping = cache.slot_mapping(rows)
    groups = [
        UniformBatch(cache, group, stride, chunk_mask)
        for group, stride in contiguous_groups(rows, cache)
    ]
    return GroupedAttention(cache.write, slot_mapping, groups)


class UniformBatch:
    """B rows of T tokens each, `stride` entries apart in the pool; None if they are scattered."""

    def __init__(
        self,
        cache: PagedStore,
        rows: Sequence[Row],
        stride: int | None,
        chunk_mask: Callable[[int, int], Tensor],
    ) -> None:
        self.num_rows = len(rows)
        self.num_tokens = sum(len(row.input_ids) for row in rows)
        self.longest = max(row.seq_len for row in rows)
        self.stride, self.size = stride, cache.size
        self.keys, self.values = cache.by_layer  # L times (H, P * E, D) each
        if stride is None:
            tables = [cache.table(row.request_id) for row in rows]
            most = max(map(len, tables))
            # A short table is filled up with its own first block: hidden, but never NaN.
            full = [[*table, *table[:1] * (most - len(table))] for table in tables]
            self.blocks = torch.tensor(full, device=cache.storage.device).flatten()  # (B * P,)
        else:
            first = cache.table(rows[0].request_id)[0] * self.size
            self.keys = [self._in_place(kv, first, stride) for kv in self.keys]
            self.values = [self._in_place(kv, first, stride) for kv in self.values]
        if self.num_tokens == len(rows):
            self.bias = lengths_bias([row.seq_len for row in rows], cache.storage)
        else:
            masks = [chunk_mask(row.context_len, len(row.input_ids)) for row in rows]  # (T, s) each
            self.bias = visible_bias(masks, cache.storage, cache.group_size)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (B * T, G * H, D) -> as q; k and v are read from the pool."""
        keys, values = self.keys[layer], self.values[layer]
        if self.stride is None:
            keys, values = self._gathered(keys), self._gathered(values)
        return attend_rows(q, keys, values, self.bias)

    def _in_place(self, kv: Tensor, first: int, stride: int) -> Tensor:
        """A view. Shapes: kv (H, P * E, D) -> (B, H, S, D)."""
        by_head, by_entry, by_number = kv.stride()
        return kv.as_strided(
            (self.num_rows, len(kv), self.longest, kv.shape[2]),
            (stride * by_entry, by_head, by_entry, by_number),
            kv.storage_offset() + first * by_entry,
        )

    def _gathered(self, kv: Tensor) -> Tensor:
        """A copy. Shapes: kv (H, P * E, D) -> (B, H, S, D)."""
        num_heads, _, head_size = kv.shape
        by_block = kv.view(num_heads, -1, self.size * head_size)  # (H, P, E * D)
        chosen = by_block.index_select(1, self.blocks)  # (H, B * P, E * D)
        own = chosen.view(num_heads, self.num_rows, -1, head_size)  # (H, B, P * E, D)
        return own[:, :, : self.longest].transpose(0, 1)


def contiguous_groups(
    rows: Sequence[Row], cache: PagedStore
) -> Iterator[tuple[Sequence[Row], int | None]]:
    """Neighbouring rows of one length that attend in one call, and how far apart they lie."""
    kinds = groupby(rows, key=lambda row: (len(row.input_ids), cache.is_run(row.request_id)))
    for (_, in_place), members in kinds:
        group = list(members)
        if in_place:
            yield from _evenly_apart(group, cache)
        else:
            yield group, None


def _evenly_apart(rows: Sequence[Row], cache: PagedStore) -> Iterator[tuple[Sequence[Row], int]]:
    """Rows that lie in one piece each, cut where the distance changes or another request begins."""
    firsts = [cache.table(row.request_id)[0] * cache.size for row in rows]
    most = max(row.seq_len for row in rows)
    reaches = [cache.reach(row.request_id, most) for row in rows]
    start = 0
    while start < len(rows):
        end, stride = start + 1, 0
        longest, reach = rows[start].seq_len, reaches[start]
        while end < len(rows):
            apart = firsts[end] - firsts[end - 1]
            longest, reach = max(longest, rows[end].seq_len), min(reach, reaches[end])
            # A view that reaches into another request's entries would carry its NaN over.
            if apart < 0 or longest > reach or (end > start + 1 and apart != stride):
                break
            end, stride = end + 1, apart
        yield rows[start:end], stride
        start = end


def attend_rows(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """B rows of T tokens, each over its own keys; query heads of one K/V head are G more queries.

    Shapes: q (B * T, G * H, D), keys, values (B, H, S, D), bias (B, 1, T * G, S) -> as q.
    """
    num_rows, num_heads, _, head_size = keys.shape
    queries = q.view(num_rows, -1, num_heads, head_size).transpose(1, 2)  # (B, H, T * G, D)
    seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    return seen.transpose(1, 2).reshape(q.shape)


def visible_bias(masks: Sequence[Tensor], like: Tensor, group_size: int) -> Tensor | None:
    """The keys of the longest context that each row may see: (B, 1, T * G, S), or None for all.

    Shapes: masks (T, s) bool, each over its own keys, for G = `group_size` queries of each token.
    """
    longest = max(mask.shape[1] for mask in masks)
    if all(mask.shape[1] == longest and mask.all() for mask in masks):
        return None
    visible = torch.zeros(len(masks), len(masks[0]), longest, dtype=torch.bool)  # (B, T, S)
    for i, mask in enumerate(masks):
        visible[i, :, : mask.shape[1]] = mask
    if group_size > 1:
        visible = visible.repeat_interleave(group_size, dim=1)  # (B, T * G, S)
    return mask_bias(visible, like).unsqueeze(1)  # (B, 1, T * G, S)


def lengths_bias(lengths: Sequence[int], like: Tensor) -> Tensor | None:
    """The keys single tokens see: all of their own length. (B, 1, 1, S), or None for all of S."""
    if min(lengths) == max(lengths):
        return None
    visible = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)  # (B, S)
    return mask_bias(visible, like)[:, None, None]  # (B, 1, 1, S)


def mask_bias(mask: Tensor, like: Tensor) -> Tensor:
    """A boolean mask as numbers to add to attention scores: 0 where True, minus infinity elsewhere.

    Built once per step, since a boolean mask would be converted anew in every layer.
    """
    bias = torch.zeros(mask.shape, dtype=like.dtype).masked_fill_(~mask, float("-inf"))
    return bias.to(like.device)


def index_of(entries: Sequence[int]) -> slice | list[int]:
    """How to index the pool's entries: in one piece, without a copy, if they are neighbours."""
    first = entries[0] if entries else 0
    is_run = entries == list(range(first, first + len(entries)))
    return slice(first, first + len(entries)) if is_run else list(entries)
