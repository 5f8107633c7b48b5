"""The padded executor: two left-padded forwards per step, first the prefills, then the decodes.

The textbook form. Easy to draw and easy to get wrong: padding sits in front of the past and in
front of the new tokens, and no real token may ever see it.

    past, left-padded   new, left-padded
    [ . . P P P P ]     [ . . . n ]
    [ . . . . P P ]     [ n n n n ]

Shapes: B rows, T longest new part, S longest past, H heads, D head size.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.executors.base import CachedExecutor, forward_record, row_mask
from nanogpt.kv_store import KVStore
from nanogpt.model import repeat_heads
from nanogpt.outputs import ModelOutput, Row
from nanogpt.trace import ForwardRecord


class PaddedExecutor(CachedExecutor):
    """One forward for the rows that prefill and one for those that decode, each left-padded."""

    name = "padded"

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        logits: dict[int, Tensor] = {}
        forwards: list[ForwardRecord] = []
        for decoding in (False, True):
            group = [i for i, row in enumerate(rows) if row.is_decode is decoding]
            if not group:
                continue
            members = [rows[i] for i in group]
            tokens = left_pad([row.input_ids for row in members])  # (B, T)
            positions = left_pad([row.positions for row in members])  # (B, T)
            masks = [row_mask(row, self.cache, self.policies.chunk_mask) for row in members]
            attend = PaddedAttention(self.cache, members, padded_mask(masks))
            hidden = self.model.hidden(tokens, positions, attend)  # (B, T, C)
            # Left-padding puts every row's last real token into the last column.
            logits.update(zip(group, self.model.logits(hidden[:, -1]), strict=True))
            forwards.append(forward_record(members, self.cache, tokens.numel()))
        return ModelOutput(torch.stack([logits[i] for i in range(len(rows))]), tuple(forwards))


class PaddedAttention:
    """Attention of one left-padded forward: copies of every past, side by side with the new K/V."""

    def __init__(self, cache: KVStore, rows: Sequence[Row], mask: Tensor) -> None:
        """Shapes: mask (B, T, S + T) bool."""
        self.cache = cache
        self.rows = rows
        self.slot_mapping = cache.slot_mapping(rows)
        self.context_lens = [cache.length(row.request_id) for row in rows]
        self.past = left_padded([cache.held(row.request_id) for row in rows])
        self.mask = mask.unsqueeze(1).to(self.past.device)  # (B, 1, T, S + T)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (B, T, H, D), k, v (B, T, K, D) -> (B, T, H, D)."""
        past_k, past_v = self.past[:, layer]  # (B, H, S, D) each
        keys = torch.cat([past_k, k.transpose(1, 2)], dim=2)  # (B, H, S + T, D)
        values = torch.cat([past_v, v.transpose(1, 2)], dim=2)
        new_k, new_v = self.new_kv(keys), self.new_kv(values)  # (N, H, D) each
        self.cache.write(layer, self.slot_mapping, new_k, new_v)
        keys, values = repeat_heads(keys, q.shape[2], 1), repeat_heads(values, q.shape[2], 1)
        out = F.scaled_dot_product_attention(q.transpose(1, 2), keys, values, attn_mask=self.mask)
        return out.transpose(1, 2)  # (B, T, H, D)

    def new_kv(self, padded: Tensor) -> Tensor:
        """The real new entries, without padding. Shapes: (B, H, S + T, D) -> (N, H, D)."""
        own = [padded[i, :, -len(row.input_ids) :] for i, row in enumerate(self.rows)]  # (H, t, D)
        return torch.cat(own, dim=1).transpose(0, 1)  # (N, H, D)


def left_padded(pasts: Sequence[Tensor]) -> Tensor:
    """Pasts of unequal length side by side. Shapes: B of (2, L, H, s, D) -> (2, L, B, H, S, D)."""
    longest = max(past.shape[3] for past in pasts)
    num_kv, num_layers, num_heads, _, head_size = pasts[0].shape
    whole = pasts[0].new_zeros(num_kv, num_layers, len(pasts), num_heads, longest, head_size)
    for i, past in enumerate(pasts):
        whole[:, :, i, :, longest - past.shape[3] :] = past
    return whole


def padded_mask(masks: Sequence[Tensor]) -> Tensor:
    """Each row's own mask, placed where its real past and its real new tokens are.

    A padding query sees its own column alone: its output is thrown away, but a row without any
    visible key would turn into NaN and spread from there.
    Shapes: B masks (t, s + t) bool -> (B, T, S + T) bool.
    """
    longest_new = max(len(mask) for mask in masks)
    longest_past = max(mask.shape[1] - len(mask) for mask in masks)
    whole = torch.zeros(len(masks), longest_new, longest_past + longest_new, dtype=torch.bool)
    for i, mask in enumerate(masks):
        past, padding = mask.shape[1] - len(mask), longest_new - len(mask)
        whole[i, padding:, longest_past - past : longest_past] = mask[:, :past]
        whole[i, padding:, longest_past + padding :] = mask[:, past:]
        for query in range(padding):
            whole[i, query, longest_past + query] = True
    return whole


def left_pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Stack rows of unequal length, zeros in front. Shapes: -> (B, T)."""
    longest = max(map(len, rows))
    return torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
