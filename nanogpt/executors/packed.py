"""The packed executor: a step's tokens in one flat row, nothing padded, attention per request.

This is how production engines do it ("varlen" or "ragged" batches). Every Linear sees N tokens at
once, whatever they belong to; only attention has to know where one request ends.

    flat row:   [ d0 | d1 | d2 | a a a | b b b | c c c c c ]     rows of one length side by side

Rows of neighbouring slots that bring the same number of tokens attend in one call, to the KV cache
in place: all decodes, in the best case. Windows and blocks have their own way to attend.

Shapes: N tokens in all, B rows of T tokens each, S visible context, H heads, D head size.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.executors.base import (
    ForwardResult,
    KVStore,
    Row,
    forward_record,
    place_rows,
    wanted_tokens,
)
from nanogpt.executors.prepacked import products_for
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT, Attend
from nanogpt.parts import ChunkMask, Parts


class AttendedStore(KVStore, Protocol):
    """Another form of the KV cache, which knows how to attend to what it holds."""

    def slot(self, request_id: int) -> int:
        """Where the request's K/V begins, in an order in which neighbours may attend together."""
        ...

    def attention(self, rows: Sequence[Row]) -> Attend:
        """Attention of a flat row of tokens, sorted by how many each of `rows` brings."""
        ...


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
        return len(row.tokens), cast(AttendedStore, self.cache).slot(row.request_id)

    def _attend(self, packed: Sequence[Row]) -> Attend:
        """Attention over rows that are sorted by their number of tokens."""
        if isinstance(self.cache, KVCache):
            place, chunk_mask = place_rows(packed, self.cache), self.parts.chunk_mask
            groups = [
                EqualRows(self.cache, each, chunk_mask) for each in neighbours(packed, self.cache)
            ]
            return GroupedAttention(self.cache, place, groups)
        return cast(AttendedStore, self.cache).attention(packed)


class RowGroup(Protocol):
    """Rows that lie side by side in the flat row, and attend in one call."""

    num_tokens: int

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (n, H, D) -> (n, H, D); k and v are in the cache already."""
        ...


class GroupedAttention:
    """The step's attention over the flat row: new K/V goes to its place, then group by group."""

    def __init__(self, cache: KVStore, place: object, groups: Sequence[RowGroup]) -> None:
        self.cache = cache
        self.place = place
        self.groups = groups
        self.sizes = [group.num_tokens for group in groups]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, H, D) -> (N, H, D)."""
        self.cache.write(layer, self.place, k, v)
        if len(self.groups) == 1:
            return self.groups[0].attend(layer, q, k, v)
        news = zip(*(each.split(self.sizes) for each in (q, k, v)), strict=True)
        parts = zip(self.groups, news, strict=True)
        return torch.cat([group.attend(layer, *new) for group, new in parts])


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
            self.bias = lengths_bias([row.context_len for row in rows], cache.k)
        else:
            masks = [chunk_mask(row.num_past, len(row.tokens)) for row in rows]  # (T, s) each
            self.bias = visible_bias(masks, cache.k)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (B * T, H, D) -> (B * T, H, D); k and v are read from the cache."""
        return attend_rows(q, self.keys[layer], self.values[layer], self.bias)


def attend_rows(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """B rows of T queries, each over its own keys.

    Shapes: q (B * T, H, D), keys and values (B, H, S, D), bias (B, 1, T, S) -> (B * T, H, D).
    """
    num_rows, num_heads, _, head_size = keys.shape
    queries = q.view(num_rows, -1, num_heads, head_size).transpose(1, 2)  # (B, H, T, D)
    seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)  # (B, H, T, D)
    return seen.transpose(1, 2).flatten(0, 1)


def neighbours(rows: Sequence[Row], cache: KVCache) -> list[list[Row]]:
    """Sorted rows, cut where the number of tokens changes or a slot between belongs to another."""
    slots = [cache.slot(row.request_id) for row in rows]
    cuts = groupby(range(len(rows)), key=lambda i: (len(rows[i].tokens), slots[i] - i))
    return [[rows[i] for i in members] for _, members in cuts]


def visible_bias(masks: Sequence[Tensor], like: Tensor) -> Tensor | None:
    """What each row may see of the longest context among them: (B, 1, T, S), or None for all.

    Shapes: masks (T, s) bool, each over its own keys.
    """
    longest = max(mask.shape[1] for mask in masks)
    if all(mask.shape[1] == longest and mask.all() for mask in masks):
        return None
    visible = torch.zeros(len(masks), len(masks[0]), longest, dtype=torch.bool)  # (B, T, S)
    for i, mask in enumerate(masks):
        visible[i, :, : mask.shape[1]] = mask
    return mask_bias(visible, like).unsqueeze(1)  # (B, 1, T, S)


def mask_bias(mask: Tensor, like: Tensor) -> Tensor:
    """A boolean mask as numbers to add to attention scores: 0 where True, minus infinity elsewhere.

    Built once per step, since a boolean mask would be converted anew in every layer.
    """
    bias = torch.zeros(mask.shape, dtype=like.dtype).masked_fill_(~mask, float("-inf"))
    return bias.to(like.device)


def lengths_bias(lengths: Sequence[int], like: Tensor) -> Tensor | None:
    """What single tokens may see: all of their own length. (B, 1, 1, S), or None for all of S."""
    if min(lengths) == max(lengths):
        return None
    visible = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)  # (B, S)
    return mask_bias(visible, like)[:, None, None]  # (B, 1, 1, S)
