"""The packed executor: a step's tokens in one flat row, nothing padded, attention per request.

This is how production engines do it ("varlen" or "ragged" batches). Every Linear sees N tokens at
once, whatever they belong to; only attention has to know where one request ends.

    flat row:   [ d0 | d1 | d2 | a a a | b b b | c c c c c ]     rows of one length side by side

Shapes: N tokens in all, R logits, C channels, V vocabulary.
"""

from collections.abc import Sequence

import torch

from nanogpt.executors.base import CachedExecutor, forward_record, logits_indices
from nanogpt.executors.prepacked import backend_for
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies


class PackedExecutor(CachedExecutor):
    """One forward per step over a flat row of tokens, attending over the KV cache in place."""

    name = "packed"
    verifies_drafts = True

    def __init__(self, model: GPT, cache: KVStore, policies: Policies) -> None:
        super().__init__(model, cache, policies)
        self.backend = backend_for(model)

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        order = sorted(range(len(rows)), key=lambda i: self._rank(rows[i]))
        packed = [rows[i] for i in order]
        tokens = torch.tensor([token for row in packed for token in row.input_ids])  # (N,)
        positions = torch.tensor([p for row in packed for p in row.positions])  # (N,)
        indices = torch.tensor(logits_indices(rows, order))  # (R,)
        attend = self.cache.attention(packed)
        hidden = self.model.hidden(tokens, positions, attend, indices, self.backend)  # (R, C)
        logits = self.model.logits(hidden, self.backend)  # (R, V)
        return ModelOutput(logits, (forward_record(rows, self.cache, len(tokens)),))

    def _rank(self, row: Row) -> tuple[int, int]:
        """By length, then by slot: neighbours in the cache can be attended to without a copy."""
        return len(row.input_ids), self.cache.slot(row.request_id)
