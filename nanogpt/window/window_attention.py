"""Attention under a sliding window: over copies of what is held, behind room for what is new.

Copied once per step for all layers; a layer then writes T columns and attends. Where a single token
sees all that is held, which is so in every decode, the copies need neither order nor mask.

Shapes: N tokens in all, B rows of T tokens each, S entries held, L layers, H heads, D head size.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Protocol

from torch import Tensor

from nanogpt.executors.paged_attention import (
    GroupedAttention,
    attend_rows,
    lengths_bias,
    visible_bias,
)
from nanogpt.model import Attend
from nanogpt.outputs import Row


class WindowStore(Protocol):
    """What the attention asks of the K/V under a window."""

    def slot_mapping(self, rows: Sequence[Row]) -> Any:
        """Where the rows' new tokens go."""
        ...

    def write(self, layer: int, slot_mapping: Any, k: Tensor, v: Tensor) -> None:
        """Store them."""
        ...

    def held(self, request_id: int) -> Tensor:
        """What is held in all layers, oldest first. Shapes: -> (2, L, H, S, D)."""
        ...

    def mask(self, request_id: int, num_new: int) -> Tensor:
        """Which keys, held and new, a query sees. Shapes: -> (T, S + T) bool."""
        ...

    def in_sight(self, request_id: int) -> Tensor | None:
        """All that is held, in any order, if the next token sees all of it."""
        ...


def window_attention(cache: WindowStore, rows: Sequence[Row]) -> Attend:
    """A step's attention, group by group of rows that bring the same number of tokens."""
    slot_mapping = cache.slot_mapping(rows)
    by_length = groupby(rows, key=lambda row: len(row.input_ids))
    return GroupedAttention(
        cache.write, slot_mapping, [CopiedRows(cache, list(own)) for _, own in by_length]
    )


class CopiedRows:
    """B rows of T tokens each: copies of what they hold, behind room for what is new."""

    def __init__(self, cache: WindowStore, rows: Sequence[Row]) -> None:
        self.num_rows, num_new = len(rows), len(rows[0].input_ids)
        self.num_tokens = self.num_rows * num_new
        ids = [row.request_id for row in rows]
        seen = [cache.in_sight(i) if num_new == 1 else None for i in ids]
        held = [cache.held(i) if kv is None else kv for i, kv in zip(ids, seen, strict=True)]
        lengths = [num_new + kv.shape[3] for kv in held]
        num_kv, num_layers, num_heads, _, head_size = held[0].shape
        shape = (num_kv, num_layers, len(rows), num_heads, max(lengths), head_size)
        # Zeros behind a short row: a hidden key has weight 0, but 0 * NaN would still be NaN.
        room = held[0].new_empty if min(lengths) == max(lengths) else held[0].new_zeros
        copies = room(shape)  # (2, L, B, H, T + S, D)
        for b, kv in enumerate(held):
            copies[:, :, b, :, num_new : lengths[b]] = kv
        if all(kv is not None for kv in seen):
            self.bias = lengths_bias(lengths, copies)
        else:
            masks = [cache.mask(i, num_new).roll(num_new, dims=1) for i in ids]
            self.bias = visible_bias(masks, copies)
        keys, values = copies.unbind()
        self.keys, self.values = keys.unbind(), values.unbind()  # L times (B, H, T + S, D)
        new_keys, new_values = copies[:, :, :, :, :num_new].unbind()
        self.new_keys, self.new_values = new_keys.unbind(), new_values.unbind()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (B * T, H, D) -> (B * T, H, D)."""
        shape = (self.num_rows, -1, *q.shape[1:])  # (B, T, H, D)
        self.new_keys[layer].copy_(k.view(shape).transpose(1, 2))
        self.new_values[layer].copy_(v.view(shape).transpose(1, 2))
        return attend_rows(q, self.keys[layer], self.values[layer], self.bias)
