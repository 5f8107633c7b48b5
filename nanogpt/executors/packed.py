"""The packed executor: a step's tokens in one flat row, nothing padded, attention per request.

This is how production engines do it ("varlen" or "ragged" batches). Every Linear sees N tokens at
once, whatever they belong to; only attention has to know where one request ends.

    flat row:   [ d0 | d1 | d2 | a a a | b b b | c c c c c ]     rows of one length side by side

Rows that bring the same number of tokens attend in one call: all decodes, and chunks of one size.
Without a window they attend to the KV cache in place; under one, to copies of what is held.

Shapes: N tokens in all, B rows of T tokens each, S visible context, H heads, D head size.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.executors.base import (
    ForwardResult,
    KVStore,
    Row,
    forward_record,
    place_rows,
    row_mask,
    wanted_tokens,
)
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT, Attend
from nanogpt.parts import Parts


class PackedExecutor:
    """One forward per step over a flat row of tokens, attending over the KV cache in place."""

    name = "packed"
    verifies_drafts = True
    reads_cache = True

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        self.model = model
        self.cache = cache
        self.parts = parts

    @torch.inference_mode()
    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        order = sorted(range(len(rows)), key=lambda i: self._rank(rows[i]))
        packed = [rows[i] for i in order]
        tokens = torch.tensor([token for row in packed for token in row.tokens])  # (N,)
        positions = torch.tensor([p for row in packed for p in row.positions])  # (N,)
        wanted = torch.tensor(wanted_tokens(rows, order))  # (R,)
        hidden = self.model.hidden(tokens, positions, self._attend(packed), wanted)  # (R, C)
        logits = self.model.logits(hidden)  # (R, V)
        return ForwardResult(logits, (forward_record(rows, self.cache, len(tokens)),))

    def _rank(self, row: Row) -> tuple[int, int]:
        """By length, then by slot: neighbours in the cache can be attended to without a copy."""
        slot = self.cache.slot(row.request_id) if isinstance(self.cache, KVCache) else 0
        return len(row.tokens), slot

    def _attend(self, packed: Sequence[Row]) -> Attend:
        """Attention over rows that are sorted by their number of tokens."""
        masks = [row_mask(row, self.cache, self.parts.chunk_mask) for row in packed]
        if isinstance(self.cache, KVCache):
            return PackedAttention(self.cache, packed, masks)
        return GatheredAttention(self.cache, packed, masks)


class PackedAttention:
    """The step's attention over the flat row, reading the slots of the KV cache in place."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], masks: Sequence[Tensor]) -> None:
        """Shapes: masks (t, s + t) bool, one per row."""
        self.cache = cache
        self.place = cache.place([(row.request_id, len(row.tokens)) for row in rows])
        self.groups = [
            EqualRows(cache, [rows[i] for i in members], [masks[i] for i in members])
            for members in equal_lengths(rows)
        ]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, H, D) -> (N, H, D)."""
        self.cache.write(layer, self.place, k, v)
        out = torch.empty_like(q)  # (N, H, D)
        start = 0
        for group in self.groups:
            end = start + group.num_tokens
            group.attend(self.cache.k[layer], self.cache.v[layer], q[start:end], out[start:end])
            start = end
        return out


class EqualRows:
    """B rows of T tokens each, which attend to their slots of the cache in one call."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], masks: Sequence[Tensor]) -> None:
        self.num_rows = len(rows)
        self.num_tokens = sum(len(row.tokens) for row in rows)
        self.slots = _slots_to_read([cache.slot(row.request_id) for row in rows])
        self.longest = max(row.context_len for row in rows)
        self.bias = _visible_bias(masks, cache.k.dtype)

    def attend(self, keys: Tensor, values: Tensor, q: Tensor, out: Tensor) -> None:
        """Write into `out`. Shapes: keys and values (P, H, S_max, D), q and out (B * T, H, D)."""
        rows = q.unflatten(0, (self.num_rows, -1))  # (B, T, H, D)
        seen = F.scaled_dot_product_attention(
            rows.transpose(1, 2),  # (B, H, T, D)
            keys[self.slots, :, : self.longest],  # (B, H, S, D)
            values[self.slots, :, : self.longest],
            attn_mask=self.bias,
        )  # (B, H, T, D)
        out.unflatten(0, (self.num_rows, -1)).copy_(seen.transpose(1, 2))  # (B, T, H, D)


class GatheredAttention:
    """The step's attention over copies of what each request holds, followed by its new K/V."""

    def __init__(self, cache: KVStore, rows: Sequence[Row], masks: Sequence[Tensor]) -> None:
        """Shapes: masks (t, s + t) bool, one per row."""
        self.cache = cache
        self.place = place_rows(rows, cache)
        self.groups = [
            GatheredRows(cache, [rows[i] for i in members], [masks[i] for i in members])
            for members in equal_lengths(rows)
        ]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, H, D) -> (N, H, D)."""
        self.cache.write(layer, self.place, k, v)
        out = torch.empty_like(q)  # (N, H, D)
        start = 0
        for group in self.groups:
            here = slice(start, start + group.num_tokens)
            group.attend(layer, q[here], k[here], v[here], out[here])
            start = here.stop
        return out


class GatheredRows:
    """B rows of T tokens each, and copies of what they hold: in front of it room for what is new.

    Copied once per step for all layers; a layer then writes T columns and attends.
    """

    def __init__(self, cache: KVStore, rows: Sequence[Row], masks: Sequence[Tensor]) -> None:
        self.num_rows, self.num_new = len(rows), len(rows[0].tokens)
        self.num_tokens = self.num_rows * self.num_new
        held = [cache.held(row.request_id) for row in rows]  # (2, L, H, s, D) each
        longest = max(each.shape[3] for each in held)
        num_kv, num_layers, num_heads, _, head_size = held[0].shape
        shape = (num_kv, num_layers, len(rows), num_heads, self.num_new + longest, head_size)
        self.kv = held[0].new_zeros(shape)  # (2, L, B, H, T + S, D)
        for b, each in enumerate(held):
            self.kv[:, :, b, :, self.num_new : self.num_new + each.shape[3]] = each
        self.bias = _visible_bias(
            [mask.roll(self.num_new, dims=1) for mask in masks], self.kv.dtype
        )

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> None:
        """Write into `out`. Shapes: q, k, v, out (B * T, H, D)."""
        q, k, v = (
            each.unflatten(0, (self.num_rows, -1)).transpose(1, 2) for each in (q, k, v)
        )  # (B, H, T, D) each
        keys, values = self.kv[0, layer], self.kv[1, layer]  # (B, H, T + S, D) each
        keys[:, :, : self.num_new], values[:, :, : self.num_new] = k, v
        seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=self.bias)
        out.unflatten(0, (self.num_rows, -1)).copy_(seen.transpose(1, 2))  # (B, T, H, D)


def equal_lengths(rows: Sequence[Row]) -> list[list[int]]:
    """Indices of neighbouring rows that bring the same number of tokens, group by group."""
    groups = groupby(range(len(rows)), key=lambda i: len(rows[i].tokens))
    return [list(members) for _, members in groups]


def _visible_bias(masks: Sequence[Tensor], dtype: torch.dtype) -> Tensor | None:
    """What each row may see of the longest context among them: (B, 1, T, S), or None for all.

    Shapes: masks (T, s) bool, each over its own keys.
    """
    longest = max(mask.shape[1] for mask in masks)
    if all(mask.shape[1] == longest and mask.all() for mask in masks):
        return None
    visible = torch.zeros(len(masks), len(masks[0]), longest, dtype=torch.bool)  # (B, T, S)
    for i, mask in enumerate(masks):
        visible[i, :, : mask.shape[1]] = mask
    return mask_bias(visible, dtype).unsqueeze(1)  # (B, 1, T, S)


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A boolean mask as numbers to add to attention scores: 0 where True, minus infinity elsewhere.

    Built once per step, since a boolean mask would be converted anew in every layer.
    """
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, float("-inf"))


def _slots_to_read(slots: list[int]) -> slice | Tensor:
    """A slice when the slots are neighbours (attention then reads in place), else an index."""
    if slots and slots[-1] - slots[0] + 1 == len(slots):
        return slice(slots[0], slots[-1] + 1)
    return torch.tensor(slots, dtype=torch.long)
