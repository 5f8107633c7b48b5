"""The fused executor: decodes and chunks in one left-padded forward, as the interleaving post does.

One model call per step instead of two, and every row as long as the longest chunk: what a decode
costs here is what the lesson measures. Built from the policies that lesson 3 writes.

Shapes: B rows, T longest new part, S longest past, H heads, D head size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nanogpt.executors.base import CachedExecutor, forward_record
from nanogpt.executors.padded import PaddedAttention, padded_mask
from nanogpt.kv_store import KVStore
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies
from nanogpt.validate import PolicyError


class FusedExecutor(CachedExecutor):
    """One forward for all rows, left-padded to the longest."""

    name = "fused"

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        padded_tokens, padded_positions = self.policies.prepare_inputs(
            [row.token_ids for row in rows],
            [row.context_len for row in rows],
            [len(row.input_ids) for row in rows],
        )
        self._check(padded_tokens, "token", self.model.config.vocab_size)
        self._check(padded_positions, "position", self.model.config.max_model_len)
        tokens, positions = torch.tensor(padded_tokens), torch.tensor(padded_positions)  # (B, T)
        attend = FusedAttention(self.cache, rows, self.policies)
        hidden = self.model.hidden(tokens, positions, attend)  # (B, T, C)
        logits = self.model.logits(hidden[:, -1])  # (B, V)
        return ModelOutput(logits, (forward_record(rows, self.cache, tokens.numel()),))

    def _check(self, table: list[list[int]], what: str, limit: int) -> None:
        """Raises: PolicyError for a number that the model has no embedding for."""
        for i, row in enumerate(table):
            if max(row) >= limit:
                raise PolicyError(
                    f"prepare_inputs put {what} {max(row)} into row {i}; there are "
                    f"{what}s 0..{limit - 1}"
                )


class FusedAttention(PaddedAttention):
    """Padded attention under the fused mask, its new K/V split off by the policy."""

    def __init__(self, cache: KVStore, rows: Sequence[Row], policies: Policies) -> None:
        self.query_lens = [len(row.input_ids) for row in rows]
        context_lens = [cache.length(row.request_id) for row in rows]
        mask = policies.full_mask(context_lens, self.query_lens)  # (B, T, S + T)
        windows = [cache.mask(row.request_id, len(row.input_ids)) for row in rows]
        near = [window for window in windows if window is not None]
        if near:
            mask = mask & (padded_mask(near) | _padding_queries(self.query_lens))
        super().__init__(cache, rows, mask)
        self.split = policies.split_kv

    def new_kv(self, padded: Tensor) -> Tensor:
        """Shapes: padded (B, H, S + T, D) -> (N, H, D)."""
        num_heads, head_size = padded.shape[1], padded.shape[3]
        flat = padded.transpose(1, 2).flatten(2)  # (B, S + T, C)
        own = self.split(flat, self.context_lens, self.query_lens)  # B tensors (past + new, C)
        new = torch.cat([kv[-n:] for kv, n in zip(own, self.query_lens, strict=True)])  # (N, C)
        return new.view(-1, num_heads, head_size)  # (N, H, D)


def _padding_queries(query_lens: Sequence[int]) -> Tensor:
    """Which query rows are padding, to which no window applies. Shapes: -> (B, T, 1) bool."""
    first_real = max(query_lens) - torch.tensor(query_lens)  # (B,)
    return (torch.arange(max(query_lens)) < first_real.unsqueeze(1)).unsqueeze(2)  # (B, T, 1)
