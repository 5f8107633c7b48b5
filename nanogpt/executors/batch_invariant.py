"""The batch-invariant executor: the same float32 bits for a token, whatever shares the batch.

A matrix product rounds differently for 1 row and for 8, so an ordinary engine's logits depend on
the company a request keeps. Here no operation ever sees another shape: tokens run in tiles of
`ROWS` (the last filled up with dummies), and attention walks over keys in tiles of `KEYS`, a fixed
distance from position 0, with a running softmax. A tile that a token may not see changes nothing:
its weights are exp(-inf) = 0, and what is rescaled is multiplied by exactly 1.

Shapes: R = ROWS tokens of a tile, K = KEYS keys of one, H heads, D head size, P requests.
Source: Thinking Machines Lab, "Defeating Nondeterminism in LLM Inference" (2025), for the idea.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nanogpt.executors.base import CachedExecutor, forward_record, logits_indices, row_mask
from nanogpt.kv_store import KVStore
from nanogpt.model import repeat_heads
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies

ROWS = 16
KEYS = 64


class BatchInvariantExecutor(CachedExecutor):
    """Forwards of exactly `ROWS` tokens each; one thread, or the products may be split anew."""

    name = "packed, batch-invariant"
    verifies_drafts = True

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`, K + 1 for a row with K drafts."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._forward(rows)
        finally:
            torch.set_num_threads(threads)

    def _forward(self, rows: Sequence[Row]) -> ModelOutput:
        context = StepContext(self.cache, rows, self.policies)
        tokens = [token for row in rows for token in row.input_ids]
        positions = [position for row in rows for position in row.positions]
        tiles = range(0, len(tokens), ROWS)
        tile_logits: list[Tensor] = []
        for start in tiles:
            filled = [0] * (ROWS - len(tokens[start : start + ROWS]))
            attend = TileAttention(context, start)
            tile = torch.tensor([*tokens[start : start + ROWS], *filled])  # (R,)
            at = torch.tensor([*positions[start : start + ROWS], *filled])  # (R,)
            hidden = self.model.hidden(tile, at, attend)  # (R, C)
            tile_logits.append(self.model.logits(hidden))  # (R, V)
        context.store()
        indices = logits_indices(rows, range(len(rows)))
        logits = torch.cat(tile_logits)[indices]  # (rows and drafts, V)
        record = forward_record(rows, self.cache, len(tiles) * ROWS)
        return ModelOutput(logits, (record,))


class StepContext:
    """Keys and values of the step's requests by position, filled up tile by tile."""

    def __init__(self, cache: KVStore, rows: Sequence[Row], policies: Policies) -> None:
        self.cache = cache
        self.slot_mapping = cache.slot_mapping(rows)
        self.owner = [p for p, row in enumerate(rows) for _ in row.input_ids]
        self.at = [row.context_len + i for row in rows for i in range(len(row.input_ids))]
        ends = [row.seq_len for row in rows]
        self.num_tiles = -(-max(ends) // KEYS)
        self.visible = torch.zeros(len(self.at), self.num_tiles * KEYS, dtype=torch.bool)
        start = 0
        for row in rows:
            mask = row_mask(row, cache, policies.chunk_mask)  # (t, s + t)
            keys = [*cache.positions(row.request_id), *range(row.context_len, row.seq_len)]
            self.visible[start : start + len(row.input_ids), keys] = mask
            start += len(row.input_ids)
        self.rows = rows
        self.device = cache.held(rows[0].request_id).device
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def layer(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of all requests in one layer, by position. Shapes: (P, H, S, D) each."""
        if layer not in self.layers:
            shape = (2, len(self.rows), like.shape[1], self.num_tiles * KEYS, like.shape[2])
            kv = like.new_zeros(shape)  # (2, P, H, S, D)
            for p, row in enumerate(self.rows):
                held = self.cache.positions(row.request_id)
                kv[0, p, :, held], kv[1, p, :, held] = self.cache.gather(row.request_id, layer)
            self.layers[layer] = (kv[0], kv[1])
        return self.layers[layer]

    def store(self) -> None:
        """Hand the step's new K/V to the cache."""
        for layer, (k, v) in self.layers.items():
            self.cache.write(
                layer, self.slot_mapping, k[self.owner, :, self.at], v[self.owner, :, self.at]
            )


class TileAttention:
    """Attention of the tile of `ROWS` tokens that begins at token `start` of the step."""

    def __init__(self, context: StepContext, start: int) -> None:
        self.context = context
        self.owner = context.owner[start : start + ROWS]
        self.at = context.at[start : start + ROWS]
        num_real = len(self.owner)
        # Dummies read request 0, the first key of it, and are thrown away.
        self.read = torch.tensor([*self.owner, *[0] * (ROWS - num_real)])  # (R,)
        visible = torch.zeros(ROWS, context.visible.shape[1], dtype=torch.bool)  # (R, S)
        visible[:num_real] = context.visible[start : start + num_real]
        visible[num_real:, 0] = True
        tiles = (~visible).view(ROWS, -1, KEYS).transpose(0, 1)  # (tiles, R, K)
        self.hidden_tiles = tiles.unsqueeze(2).to(context.device)  # (tiles, R, 1, K)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (R, H, D), k, v (R, heads, D) -> (R, H, D)."""
        keys, values = self.context.layer(layer, k)  # (P, H, S, D) each
        real = len(self.owner)
        keys[self.owner, :, self.at] = k[:real]
        values[self.owner, :, self.at] = v[:real]
        q = q * q.shape[-1] ** -0.5
        peak = q.new_full((*q.shape[:2], 1), float("-inf"))  # (R, H, 1), largest score so far
        total = q.new_zeros(*q.shape[:2], 1)  # (R, H, 1), sum of weights so far
        mixed = torch.zeros_like(q)  # (R, H, D), weighted values so far
        for i, hidden in enumerate(self.hidden_tiles):
            here = slice(i * KEYS, (i + 1) * KEYS)
            tile_k = repeat_heads(keys[self.read, :, here], q.shape[1], 1)  # (R, H, K, D)
            tile_v = repeat_heads(values[self.read, :, here], q.shape[1], 1)
            scores = (tile_k @ q.unsqueeze(3)).squeeze(3)  # (R, H, K)
            scores = scores.masked_fill(hidden, float("-inf"))
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))  # (R, H, 1)
            # A window may hide the first tiles: nothing was seen yet, and nothing is rescaled.
            safe = new_peak.masked_fill(new_peak.isinf(), 0.0)
            rescale, weights = (peak - safe).exp(), (scores - safe).exp()  # (R, H, 1), (R, H, K)
            total = total * rescale + weights.sum(-1, keepdim=True)
            mixed = mixed * rescale + (weights.unsqueeze(2) @ tile_v).squeeze(2)
            peak = new_peak
        return mixed / total  # (R, H, D)
