"""The fused executor: decodes and chunks in one left-padded forward, as the interleaving post does.

One model call per step instead of two, and every row as long as the longest chunk: what a decode
costs here is what the lesson measures. Built from the parts that lesson 3 writes.

Shapes: B rows, T longest new part, S longest past, H heads, D head size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nanogpt.executors.base import ForwardResult, KVStore, Row, forward_record
from nanogpt.executors.padded import PaddedAttention, padded_mask
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.validate import PartError


class FusedExecutor:
    """One forward for all rows, left-padded to the longest."""

    name = "fused"
    verifies_drafts = False
    reads_cache = True

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        self.model = model
        self.cache = cache
        self.parts = parts

    @torch.inference_mode()
    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        padded_tokens, padded_positions = self.parts.fused_rows(
            [row.known for row in rows],
            [row.num_past for row in rows],
            [len(row.tokens) for row in rows],
        )
        self._check(padded_tokens, "token", self.model.config.vocab_size)
        self._check(padded_positions, "position", self.model.config.context_len)
        tokens, positions = torch.tensor(padded_tokens), torch.tensor(padded_positions)  # (B, T)
        attend = FusedAttention(self.cache, rows, self.parts)
        hidden = self.model.hidden(tokens, positions, attend)  # (B, T, C)
        logits = self.model.logits(hidden[:, -1])  # (B, V)
        return ForwardResult(logits, (forward_record(rows, self.cache, tokens.numel()),))

    def _check(self, table: list[list[int]], what: str, limit: int) -> None:
        """Raises: PartError for a number that the model has no embedding for."""
        for i, row in enumerate(table):
            if max(row) >= limit:
                raise PartError(
                    f"fused_rows put {what} {max(row)} into row {i}; there are "
                    f"{what}s 0..{limit - 1}"
                )


class FusedAttention(PaddedAttention):
    """Padded attention under the fused mask, its new K/V split off by the part."""

    def __init__(self, cache: KVStore, rows: Sequence[Row], parts: Parts) -> None:
        self.num_new = [len(row.tokens) for row in rows]
        past_lens = [cache.length(row.request_id) for row in rows]
        mask = parts.full_mask(past_lens, self.num_new)  # (B, T, S + T)
        windows = [cache.mask(row.request_id, len(row.tokens)) for row in rows]
        near = [window for window in windows if window is not None]
        if near:
            mask = mask & (padded_mask(near) | _padding_queries(self.num_new))
        super().__init__(cache, rows, mask)
        self.split = parts.split_kv

    def new_kv(self, padded: Tensor) -> Tensor:
        """Shapes: padded (B, H, S + T, D) -> (N, H, D)."""
        num_heads, head_size = padded.shape[1], padded.shape[3]
        flat = padded.transpose(1, 2).flatten(2)  # (B, S + T, C)
        own = self.split(flat, self.past_lens, self.num_new)  # B tensors (past + new, C)
        new = torch.cat([kv[-n:] for kv, n in zip(own, self.num_new, strict=True)])  # (N, C)
        return new.view(-1, num_heads, head_size)  # (N, H, D)


def _padding_queries(num_new: Sequence[int]) -> Tensor:
    """Which query rows are padding, to which no window applies. Shapes: -> (B, T, 1) bool."""
    first_real = max(num_new) - torch.tensor(num_new)  # (B,)
    return (torch.arange(max(num_new)) < first_real.unsqueeze(1)).unsqueeze(2)  # (B, T, 1)
