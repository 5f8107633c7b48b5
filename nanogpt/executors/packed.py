"""The packed executor: a step's tokens in one flat row, nothing padded, attention per request.

This is how production engines do it ("varlen" or "ragged" batches). Every Linear sees N tokens at
once, whoever they belong to; only attention has to know where one request ends.

    flat row:   [ d0 | d1 | d2 | a a a a a a | b b b ]     decodes first, then the chunks

Shapes: N tokens in all, B decodes, T tokens of a chunk, S visible context, H heads, D head size.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.executors.executor import (
    ChunkMask,
    ForwardResult,
    Row,
    forward_record,
    row_mask,
)
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT


class PackedExecutor:
    """One forward per step over a flat row of tokens, attending over the KV cache in place."""

    name = "packed"

    def __init__(self, model: GPT, cache: KVCache, chunk_mask: ChunkMask) -> None:
        self.model = model
        self.cache = cache
        self.chunk_mask = chunk_mask

    @torch.inference_mode()
    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        # Single tokens go first, by slot: neighbours in the cache need no copy to be attended to.
        order = sorted(
            range(len(rows)),
            key=lambda i: (len(rows[i].tokens) > 1, self.cache.slot(rows[i].request_id)),
        )
        packed = [rows[i] for i in order]
        attend = PackedAttention(self.cache, packed, self.chunk_mask)
        tokens = torch.tensor([token for row in packed for token in row.tokens])  # (N,)
        positions = torch.tensor([p for row in packed for p in row.positions])  # (N,)
        hidden = self.model.hidden(tokens, positions, attend)  # (N, C)
        ends = list(accumulate(len(row.tokens) for row in packed))
        last_of_row = torch.empty(len(rows), dtype=torch.long)  # (R,)
        last_of_row[order] = torch.tensor(ends) - 1
        logits = self.model.logits(hidden[last_of_row])  # (R, V)
        return ForwardResult(logits, (forward_record(rows, len(tokens)),))


class PackedAttention:
    """The step's attention: all decodes in one call, each chunk in one of its own.

    `rows` must hold the single-token rows first, sorted by slot.
    """

    def __init__(self, cache: KVCache, rows: Sequence[Row], chunk_mask: ChunkMask) -> None:
        self.cache = cache
        self.singles = [row for row in rows if len(row.tokens) == 1]
        self.chunks = rows[len(self.singles) :]
        slots = [cache.slot(row.request_id) for row in rows]
        self.slots = torch.tensor(
            [slot for slot, row in zip(slots, rows, strict=True) for _ in row.tokens]
        )  # (N,)
        self.stored_at = torch.tensor(
            [row.num_past + i for row in rows for i in range(len(row.tokens))]
        )  # (N,)
        self.single_slots = _slots_to_read(slots[: len(self.singles)])
        self.longest = max((row.context_len for row in self.singles), default=0)
        self.single_bias = self._length_bias(cache.k.dtype)
        self.chunk_slots = slots[len(self.singles) :]
        self.chunk_biases = [
            mask_bias(row_mask(row, chunk_mask), cache.k.dtype) for row in self.chunks
        ]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, H, D) -> (N, H, D)."""
        self.cache.write(layer, self.slots, self.stored_at, k, v)
        out = torch.empty_like(q)  # (N, H, D)
        keys, values = self.cache.k[layer], self.cache.v[layer]  # (P, H, S, D)
        start = len(self.singles)
        if start:
            seen = F.scaled_dot_product_attention(
                q[:start].unsqueeze(2),  # (B, H, 1, D)
                keys[self.single_slots, :, : self.longest],  # (B, H, S, D)
                values[self.single_slots, :, : self.longest],
                attn_mask=self.single_bias,
            )  # (B, H, 1, D)
            out[:start] = seen.squeeze(2)  # (B, H, D)
        for row, slot, bias in zip(self.chunks, self.chunk_slots, self.chunk_biases, strict=True):
            end = start + len(row.tokens)
            seen = F.scaled_dot_product_attention(
                q[start:end].transpose(0, 1).unsqueeze(0),  # (1, H, T, D)
                keys[slot, :, : row.context_len].unsqueeze(0),  # (1, H, S, D)
                values[slot, :, : row.context_len].unsqueeze(0),
                attn_mask=bias,
            )  # (1, H, T, D)
            out[start:end] = seen.squeeze(0).transpose(0, 1)  # (T, H, D)
            start = end
        return out

    def _length_bias(self, dtype: torch.dtype) -> Tensor | None:
        """Hide what lies beyond each decode's own context: (B, 1, 1, S), or None if all agree."""
        lengths = [row.context_len for row in self.singles]
        if len(set(lengths)) < 2:
            return None
        visible = torch.arange(self.longest) < torch.tensor(lengths).unsqueeze(1)  # (B, S)
        return mask_bias(visible, dtype)[:, None, None]  # (B, 1, 1, S)


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
