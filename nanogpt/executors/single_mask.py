"""The single-mask executor: one flat row of new tokens, one flat row of keys, one mask over both.

The packed form at its simplest, to read and to draw: nothing is padded, and a staircase of blocks
keeps requests apart. The mask also spends N * K scores on pairs that may never see each other,
which is why `packed` attends group by group instead.

Shapes: N new tokens, K keys (held and new, request after request), H heads, D head size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nanogpt.executors.base import CachedExecutor, forward_record
from nanogpt.kv_store import KVStore
from nanogpt.model import repeat_heads
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies


class SingleMaskExecutor(CachedExecutor):
    """One unpadded forward per step under a single mask."""

    name = "single_mask"

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        tokens = torch.tensor([token for row in rows for token in row.input_ids])  # (N,)
        positions = torch.tensor([p for row in rows for p in row.positions])  # (N,)
        attend = SingleMaskAttention(self.cache, rows, self.policies)
        hidden = self.model.hidden(tokens, positions, attend)  # (N, C)
        last_of_row = torch.tensor(attend.cu_seqlens_q[1:]) - 1  # (R,)
        logits = self.model.logits(hidden[last_of_row])  # (R, V)
        return ModelOutput(logits, (forward_record(rows, self.cache, len(tokens)),))


class SingleMaskAttention:
    """Every query against every key of the step, all but its own request's masked away."""

    def __init__(self, cache: KVStore, rows: Sequence[Row], policies: Policies) -> None:
        self.cache = cache
        self.rows = rows
        self.slot_mapping = cache.slot_mapping(rows)
        context_lens = [cache.length(row.request_id) for row in rows]
        self.query_lens = [len(row.input_ids) for row in rows]
        self.cu_seqlens_q, _, self.mask = policies.pack(
            context_lens, self.query_lens
        )  # mask (N, K)
        windows = [cache.mask(row.request_id, len(row.input_ids)) for row in rows]
        near = [window for window in windows if window is not None]
        if near:
            self.mask = self.mask & torch.block_diag(*near).bool()  # (N, K)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (N, H, D), k, v (N, heads, D) -> (N, H, D)."""
        self.cache.write(layer, self.slot_mapping, k, v)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        news = zip(k.split(self.query_lens), v.split(self.query_lens), strict=True)
        for row, (new_k, new_v) in zip(self.rows, news, strict=True):
            held_k, held_v = self.cache.gather(row.request_id, layer)  # (H, S, D) each
            keys += [held_k, new_k.transpose(0, 1)]
            values += [held_v, new_v.transpose(0, 1)]
        every_key, every_value = torch.cat(keys, dim=1), torch.cat(values, dim=1)  # (heads, K, D)
        every_key = repeat_heads(every_key, q.shape[1], 0)
        every_value = repeat_heads(every_value, q.shape[1], 0)
        mask = self.mask.to(q.device)
        scores = q.transpose(0, 1) @ every_key.transpose(1, 2) * q.shape[2] ** -0.5  # (H, N, K)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        # 0 * NaN is NaN: only queries that see a value which is not finite may become NaN.
        broken = ~every_value.isfinite().all(dim=-1, keepdim=True)  # (H, K, 1)
        out = weights @ every_value.masked_fill(broken, 0.0)  # (H, N, D)
        out = out.masked_fill(mask.to(q.dtype) @ broken.to(q.dtype) > 0, float("nan"))
        return out.transpose(0, 1)  # (N, H, D)
