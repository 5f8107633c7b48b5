"""The packed executor: a step's tokens in one flat row, nothing padded, attention per request.

This is how production engines do it ("varlen" or "ragged" batches). Every Linear sees N tokens at
once, whoever they belong to; only attention has to know where one request ends.

    flat row:   [ d0 | d1 | d2 | a a a | b b b | c c c c c ]     rows of one length side by side

Rows that bring the same number of tokens attend in one call: all decodes, and chunks of one size.

Shapes: N tokens in all, B rows of T tokens each, S visible context, H heads, D head size.
"""

from collections.abc import Sequence
from itertools import accumulate, groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.executors.executor import ChunkMask, ForwardResult, Row, forward_record
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
        # By length, then by slot: neighbours in the cache can be attended to without a copy.
        order = sorted(
            range(len(rows)),
            key=lambda i: (len(rows[i].tokens), self.cache.slot(rows[i].request_id)),
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
    """The step's attention over the flat row; `rows` must be sorted by their number of tokens."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], chunk_mask: ChunkMask) -> None:
        self.cache = cache
        slots = [cache.slot(row.request_id) for row in rows for _ in row.tokens]
        stored_at = [row.num_past + i for row in rows for i in range(len(row.tokens))]
        self.slots = torch.tensor(slots)  # (N,)
        self.stored_at = torch.tensor(stored_at)  # (N,)
        self.groups = [
            EqualRows(cache, list(members), chunk_mask)
            for _, members in groupby(rows, key=lambda row: len(row.tokens))
        ]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, H, D) -> (N, H, D)."""
        self.cache.write(layer, self.slots, self.stored_at, k, v)
        out = torch.empty_like(q)  # (N, H, D)
        start = 0
        for group in self.groups:
            end = start + group.num_tokens
            group.attend(self.cache.k[layer], self.cache.v[layer], q[start:end], out[start:end])
            start = end
        return out


class EqualRows:
    """B rows of T tokens each, which attend to their slots of the cache in one call."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], chunk_mask: ChunkMask) -> None:
        self.num_rows = len(rows)
        self.num_tokens = sum(len(row.tokens) for row in rows)
        self.slots = _slots_to_read([cache.slot(row.request_id) for row in rows])
        self.longest = max(row.context_len for row in rows)
        self.bias = _visible_bias(rows, self.longest, chunk_mask, cache.k.dtype)

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


def _visible_bias(
    rows: Sequence[Row], longest: int, chunk_mask: ChunkMask, dtype: torch.dtype
) -> Tensor | None:
    """What each row may see of the longest context among them: (B, 1, T, S), or None for all."""
    num_new = len(rows[0].tokens)
    if num_new == 1:
        lengths = torch.tensor([row.context_len for row in rows])  # (B,)
        visible = (torch.arange(longest) < lengths.unsqueeze(1)).unsqueeze(1)  # (B, 1, S)
    else:
        visible = torch.zeros(len(rows), num_new, longest, dtype=torch.bool)  # (B, T, S)
        for i, row in enumerate(rows):
            visible[i, :, : row.context_len] = chunk_mask(row.num_past, num_new)
    if visible.all():
        return None
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
