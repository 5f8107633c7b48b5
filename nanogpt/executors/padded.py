"""The padded executor: the textbook form, every row left-padded to the longest of its forward.

Easy to draw and easy to get wrong: padding sits in front of the past and in front of the new
tokens, and no real token may ever see it. Two forwards per step, prefills and then decodes, or one.

    past, left-padded   new, left-padded
    [ . . P P P P ]     [ . . . n ]        a decode
    [ . . . . P P ]     [ n n n n ]        a chunk

Shapes: B rows, T longest new part, S longest past, H heads, D head size.
"""

from collections.abc import Sequence

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
from nanogpt.trace import ForwardRecord


class PaddedExecutor:
    """Left-padded forwards; `fused` runs prefills and decodes in one of them."""

    def __init__(
        self, model: GPT, cache: KVCache, chunk_mask: ChunkMask, *, fused: bool = False
    ) -> None:
        self.model = model
        self.cache = cache
        self.chunk_mask = chunk_mask
        self.fused = fused
        self.name = "padded, fused" if fused else "padded"

    @torch.inference_mode()
    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        everything = range(len(rows))
        if self.fused:
            groups = [list(everything)]
        else:
            prefills = [i for i in everything if not rows[i].is_decode]
            groups = [
                group for group in (prefills, [i for i in everything if rows[i].is_decode]) if group
            ]
        logits: dict[int, Tensor] = {}
        forwards: list[ForwardRecord] = []
        for group in groups:
            members = [rows[i] for i in group]
            attend = PaddedAttention(self.cache, members, self.chunk_mask)
            tokens = _left_pad([row.tokens for row in members])  # (B, T)
            positions = _left_pad([row.positions for row in members])  # (B, T)
            hidden = self.model.hidden(tokens, positions, attend)  # (B, T, C)
            # Left-padding puts every row's last real token into the last column.
            logits.update(zip(group, self.model.logits(hidden[:, -1]), strict=True))
            forwards.append(forward_record(members, tokens.numel()))
        return ForwardResult(torch.stack([logits[i] for i in everything]), tuple(forwards))


class PaddedAttention:
    """Attention of one left-padded forward: copies of every past, side by side with the new K/V."""

    def __init__(self, cache: KVCache, rows: Sequence[Row], chunk_mask: ChunkMask) -> None:
        self.cache = cache
        self.rows = rows
        self.mask = padded_mask(rows, chunk_mask)  # (B, T, S + T)
        self.slots = torch.tensor([cache.slot(row.request_id) for row in rows for _ in row.tokens])
        self.stored_at = torch.tensor(
            [row.num_past + i for row in rows for i in range(len(row.tokens))]
        )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (B, T, H, D) -> (B, T, H, D)."""
        past_k, past_v = self._left_padded_past(layer)  # (B, H, S, D) each
        self._store(layer, k, v)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2),  # (B, H, T, D)
            torch.cat([past_k, k.transpose(1, 2)], dim=2),  # (B, H, S + T, D)
            torch.cat([past_v, v.transpose(1, 2)], dim=2),
            attn_mask=self.mask.unsqueeze(1),  # (B, 1, T, S + T)
        )
        return out.transpose(1, 2)  # (B, T, H, D)

    def _left_padded_past(self, layer: int) -> tuple[Tensor, Tensor]:
        longest = max(row.num_past for row in self.rows)
        shape = (len(self.rows), self.cache.k.shape[2], longest, self.cache.k.shape[4])
        past_k, past_v = self.cache.k.new_zeros(shape), self.cache.v.new_zeros(shape)
        for i, row in enumerate(self.rows):
            held_k, held_v = self.cache.gather(row.request_id, layer)  # (H, num_past, D)
            past_k[i, :, longest - row.num_past :] = held_k
            past_v[i, :, longest - row.num_past :] = held_v
        return past_k, past_v

    def _store(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write the K/V of real tokens; that of padding goes nowhere."""
        new_k = torch.cat(
            [k[i, -len(row.tokens) :] for i, row in enumerate(self.rows)]
        )  # (N, H, D)
        new_v = torch.cat([v[i, -len(row.tokens) :] for i, row in enumerate(self.rows)])
        self.cache.write(layer, self.slots, self.stored_at, new_k, new_v)


def padded_mask(rows: Sequence[Row], chunk_mask: ChunkMask) -> Tensor:
    """Each row's chunk mask, placed where its real past and its real new tokens are.

    A padding query sees its own column alone: its output is thrown away, but a row without any
    visible key would turn into NaN and spread from there.
    Shapes: -> (B, T, S + T) bool.
    """
    longest_new = max(len(row.tokens) for row in rows)
    longest_past = max(row.num_past for row in rows)
    mask = torch.zeros(len(rows), longest_new, longest_past + longest_new, dtype=torch.bool)
    for i, row in enumerate(rows):
        own = row_mask(row, chunk_mask)  # (t, num_past + t)
        padding = longest_new - len(row.tokens)
        mask[i, padding:, longest_past - row.num_past : longest_past] = own[:, : row.num_past]
        mask[i, padding:, longest_past + padding :] = own[:, row.num_past :]
        for query in range(padding):
            mask[i, query, longest_past + query] = True
    return mask


def _left_pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Stack rows of unequal length, zeros in front. Shapes: -> (B, T)."""
    longest = max(map(len, rows))
    return torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
