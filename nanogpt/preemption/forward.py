"""A forward pass as a generator: it stops at every attention op, and its caller may leave it there.

Between two attention ops a serving engine replays compiled code, into which nothing can be called;
the attention op is where it is back in Python once per layer. So that is where a pass can be left.
A generator that is thrown away is an aborted pass. One that is kept, with the K/V it has written
so far and its activations, is a suspended pass: driving it further resumes it.

Shapes: N tokens of all rows in one flat row, h heads of this rank, D head size, S context,
L layers, P slots, R rows, C channels.
"""

from collections.abc import Callable, Generator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.kv_cache import zeros_on_demand
from nanogpt.preemption.rank_messages import PassRow
from nanogpt.preemption.sharding import Shard

Reduce = Callable[[Tensor], Tensor]
"""Add up a tensor over all ranks; every rank gets the sum."""


class RankStorage:
    """K and V of this rank's heads, by slot and position. Who sits where is the engine's business.

    Nothing is ever wiped: a row reads its slot up to its own last token, all of which was written
    by the row or by steps that were committed.
    """

    def __init__(self, shard: Shard, num_slots: int) -> None:
        config = shard.config
        shape = (
            2, config.num_layers, num_slots, shard.num_heads, config.context_len, config.head_size
        )  # fmt: skip
        storage = zeros_on_demand(shape, shard.ln_f.dtype)
        self.k, self.v = storage.unbind(0)  # (L, P, h, S, D) each


class RowAttention:
    """Attention of one pass over the storage, row by row."""

    def __init__(self, storage: RankStorage, rows: Sequence[PassRow]) -> None:
        self.storage = storage
        self.rows = rows
        dtype = storage.k.dtype
        self.biases = [
            torch.zeros(row.mask.shape, dtype=dtype).masked_fill_(~row.mask, float("-inf"))
            for row in rows
        ]  # (N, S) each

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q, k, v (N, h, D) -> (N, h, D)."""
        out = torch.empty_like(q)  # (N, h, D)
        start = 0
        for row, bias in zip(self.rows, self.biases, strict=True):
            end = start + len(row.tokens)
            context = row.num_past + len(row.tokens)
            keys = self.storage.k[layer, row.slot, :, :context]  # (h, S, D)
            values = self.storage.v[layer, row.slot, :, :context]
            keys[:, row.num_past :] = k[start:end].transpose(0, 1)
            values[:, row.num_past :] = v[start:end].transpose(0, 1)
            queries = q[start:end].transpose(0, 1)  # (h, n, D)
            mixed = F.scaled_dot_product_attention(
                queries[None], keys[None], values[None], attn_mask=bias
            )  # (1, h, n, D)
            out[start:end] = mixed[0].transpose(0, 1)
            start = end
        return out


def forward_pass(
    shard: Shard,
    storage: RankStorage,
    rows: Sequence[PassRow],
    reduce_attention: Reduce,
    reduce_mlp: Reduce,
) -> Generator[int, None, Tensor]:
    """Yield each layer's number at its attention op; return the rows' hidden states (R, C).

    The two sums are handed in separately because the attention output's may carry a vote.
    """
    attend = RowAttention(storage, rows)
    tokens = torch.tensor([token for row in rows for token in row.tokens])  # (N,)
    positions = torch.tensor([position for row in rows for position in row.positions])  # (N,)
    x = shard.embed(tokens, positions)  # (N, C)
    for layer, weights in enumerate(shard.layers):
        q, k, v = weights.queries_keys_values(x)  # (N, h, D) each
        yield layer
        x = x + reduce_attention(weights.project(attend(layer, q, k, v)))  # (N, C)
        x = x + reduce_mlp(weights.mlp(x))  # (N, C)
    ends = torch.tensor([len(row.tokens) for row in rows]).cumsum(0)  # (R,)
    return x[ends - 1]  # (R, C)
