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
from nanogpt.executors.prepacked import products_for
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT, Attend
from nanogpt.parts import ChunkMask, Parts


class PackedExecutor:
    """One forward per step over a flat row of tokens, attending over the KV cache in place."""

    name = "packed"
    verifies_drafts = True
    reads_cache = True

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        self.model = model
        self.cache = cache
        self.parts = parts
        self.products = products_for(model)

    @torch.inference_mode()
    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        order = sorted(range(len(rows)), key=lambda i: self._rank(rows[i]))
        packed = [rows[i] for i in order]
        tokens = torch.tensor([token for row in packed for token in row.tokens])  # (N,)
        positions = torch.tensor([p for row in packed for p in row.positions])  # (N,)
        wanted = torch.tensor(wanted_tokens(rows, order))  # (R,)
        attend = self._attend(packed)
        hidden = self.model.hidden(tokens, positions, attend, wanted, self.products)  # (R, C)
        logits = self.model.logits(hidden)  # (R, V)
        return ForwardResult(logits, (forward_record(rows, self.cache, len(tokens)),))

    def _rank(self, row: Row) -> tuple[int, int]:
        """By length, then by slot: neighbours in the cache can be attended to without a copy."""
        slot = self.cache.slot(row.request_id) if isinstance(self.cache, KVCache) else 0
        return len(row.tokens), slot

    def _attend(self, packed: Sequence[Row]) -> Attend:
        """Attention over rows that are sorted by their number of tokens."""
        if isinstance(self.cache, KVCache):
            return PackedAttention(self.cache, packed, self.parts.chunk_mask)
        masks = [row_mask(row, self.cache, self.parts.chunk_mask) for row in packed]
        return GatheredAttention(self.cache, packed, masks)


class PackedAttention:
    """The step's attention over the flat row, reading the slots of the KV cache in place."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], chunk_mask: ChunkMask) -> None:
        self.cache = cache
        self.place = cache.place([(row.request_id, len(row.tokens)) for row in rows])
        self.groups = [EqualRows(cache, group, chunk_mask) for group in neighbours(rows, cache)]
        self.sizes = [group.num_tokens for group in self.groups]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, H, D) -> (N, H, D)."""
        self.cache.write(layer, self.place, k, v)
        if len(self.groups) == 1:
            return self.groups[0].attend(layer, q)
        parts = zip(self.groups, q.split(self.sizes), strict=True)
        return torch.cat([group.attend(layer, part) for group, part in parts])


class EqualRows:
    """B rows of T tokens each in neighbouring slots, which are attended to in one call."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], chunk_mask: ChunkMask) -> None:
        self.num_rows = len(rows)
        self.num_tokens = sum(len(row.tokens) for row in rows)
        first = cache.slot(rows[0].request_id)
        longest = max(row.context_len for row in rows)
        seen = cache.storage[:, :, first : first + len(rows), :, :longest]  # (2, L, B, H, S, D)
        keys, values = seen.unbind()
        self.keys, self.values = keys.unbind(), values.unbind()  # L times (B, H, S, D) each
        if self.num_tokens == len(rows):
            self.bias = lengths_bias([row.context_len for row in rows], cache.k.dtype)
        else:
            masks = [chunk_mask(row.num_past, len(row.tokens)) for row in rows]  # (T, s) each
            self.bias = _visible_bias(masks, cache.k.dtype)

    def attend(self, layer: int, q: Tensor) -> Tensor:
        """Shapes: q (B * T, H, D) -> (B * T, H, D)."""
        seen = F.scaled_dot_product_attention(
            q.view(self.num_rows, -1, *q.shape[1:]).transpose(1, 2),  # (B, H, T, D)
            self.keys[layer],  # (B, H, S, D)
            self.values[layer],
            attn_mask=self.bias,
        )  # (B, H, T, D)
        return seen.transpose(1, 2).flatten(0, 1)


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


def neighbours(rows: Sequence[Row], cache: KVCache) -> list[list[Row]]:
    """Sorted rows, cut where the number of tokens changes or a slot between belongs to another."""
    slots = [cache.slot(row.request_id) for row in rows]
    cuts = groupby(range(len(rows)), key=lambda i: (len(rows[i].tokens), slots[i] - i))
    return [[rows[i] for i in members] for _, members in cuts]


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


def lengths_bias(lengths: Sequence[int], dtype: torch.dtype) -> Tensor | None:
    """What single tokens may see: all of their own length. (B, 1, 1, S), or None for all of S."""
    if min(lengths) == max(lengths):
        return None
    hidden = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)  # (B, S)
    bias = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
    return bias[:, None, None]  # (B, 1, 1, S)
