"""One rank's share of a model, and a forward pass over it that stops at every attention op.

Heads and the MLP's inner channels are split over the ranks, the rest is copied. qkv and up are
split by their output (each rank computes its heads, its inner channels), proj and down by their
input: each rank's product is a term of a sum over the ranks.

    x ──> qkv[heads of rank] ──> attention ──> proj[:, heads of rank] ──> sum over ranks ──> + x
    x ──> up[inner of rank]  ──> gelu      ──> down[:, inner of rank] ──> sum over ranks ──> + x

Between two attention ops a serving engine replays compiled code; at the attention op it is back in
Python, once per layer, so that is where a pass can be left. The pass is a generator: a discarded
one is an aborted pass. One that is kept, with its activations and the K/V it has written, is a
suspended pass: the next `next` resumes it.

Source: Megatron-LM (Shoeybi et al., 2019), section 3, for the split.
Shapes: N tokens of all rows in one flat row, C channels, H heads, D head size, h = H / R heads of
one of R ranks, S context, L layers, P slots, V vocabulary; R is also the number of rows.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.config import ModelConfig
from nanogpt.kv_cache import zeros_on_demand
from nanogpt.model import GPT
from nanogpt.validate import check_int

Reduce = Callable[[Tensor], Tensor]
"""Add up a tensor over all ranks; every rank gets the sum."""


@dataclass(frozen=True, slots=True)
class LayerShard:
    """One layer's weights on one rank.

    Shapes: ln_1, ln_2 (C,); qkv (3, h, D, C); proj (C, h * D); up (4C / R, C); down (C, 4C / R).
    """

    ln_1: Tensor
    qkv: Tensor
    proj: Tensor
    ln_2: Tensor
    up: Tensor
    down: Tensor

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """This rank's heads of the attention's input. Shapes: x (N, C) -> (N, h, D) each."""
        normed = F.layer_norm(x, self.ln_1.shape, self.ln_1)  # (N, C)
        qkv = F.linear(normed, self.qkv.flatten(0, -2))  # (N, 3 * h * D)
        q, k, v = qkv.unflatten(-1, self.qkv.shape[:-1]).unbind(-3)  # (N, h, D) each
        return q, k, v

    def project(self, mixed: Tensor) -> Tensor:
        """This rank's term of the attention's output. Shapes: mixed (N, h, D) -> (N, C)."""
        return F.linear(mixed.flatten(-2), self.proj)

    def mlp(self, x: Tensor) -> Tensor:
        """This rank's term of the MLP's output. Shapes: (N, C) -> (N, C)."""
        normed = F.layer_norm(x, self.ln_2.shape, self.ln_2)  # (N, C)
        return F.linear(F.gelu(F.linear(normed, self.up)), self.down)


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's weights. Shapes: token_embedding (V, C), position_embedding (S, C), ln_f (C,)."""

    token_embedding: Tensor
    position_embedding: Tensor
    layers: tuple[LayerShard, ...]
    ln_f: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Shapes: x (R, C), straight from the last layer -> (R, V)."""
        return F.linear(F.layer_norm(x, self.ln_f.shape, self.ln_f), self.token_embedding)


def check_num_ranks(num_ranks: int, config: ModelConfig) -> None:
    """Raises: ValueError if the heads do not split evenly, and for another model than a GPT, or
    one with GPT-2's biases or GELU.
    """
    if type(config) is not ModelConfig:
        raise ValueError("ranks split only the layers of a GPT, not those of a Llama")
    if config.bias or config.tanh_gelu:
        raise ValueError("ranks split only models without biases and with the exact GELU")
    check_int("the number of ranks", num_ranks, 1)
    if config.num_heads % num_ranks:
        raise ValueError(f"{config.num_heads} heads do not split evenly over {num_ranks} ranks")


def shard_model(model: GPT, rank: int, num_ranks: int) -> Shard:
    """Copy one rank's share of a whole model. Raises: as `check_num_ranks` does."""
    check_num_ranks(num_ranks, model.config)
    weights = {name.removesuffix(".weight"): each for name, each in model.state_dict().items()}

    def whole(name: str) -> Tensor:
        return weights[name].clone()  # a pickled view would carry the whole tensor along

    def share(name: str, dim: int) -> Tensor:
        return weights[name].chunk(num_ranks, dim)[rank].clone()

    def layer(block: str) -> LayerShard:
        # Queries, keys and values are split one by one: (3, H, D, C).
        size = (3, model.config.num_heads, model.config.head_size)
        qkv = weights[block + "qkv"].unflatten(0, size).chunk(num_ranks, 1)[rank].clone()
        return LayerShard(
            whole(block + "ln_1"), qkv, share(block + "proj", 1),
            whole(block + "ln_2"), share(block + "up", 0), share(block + "down", 1),
        )  # fmt: skip

    return Shard(
        whole("token_embedding"),
        whole("position_embedding"),
        tuple(layer(f"blocks.{index}.") for index in range(model.config.num_layers)),
        whole("ln_f"),
    )


@dataclass(frozen=True, slots=True)
class PassRow:
    """One request's n tokens in a pass, their positions, and the slot of its K/V.

    `mask` (n, S) bool says which entries of the context are visible; it ends with the n tokens.
    """

    slot: int
    tokens: Sequence[int]
    positions: Sequence[int]
    context_len: int
    mask: Tensor


def empty_kv(shard: Shard, num_slots: int) -> Tensor:
    """K and V of this rank's heads, by slot and position: (2, L, P, h, S, D).

    Nothing is wiped later: a row reads its slot only up to its own last token, and all of that was
    written by the row or by committed steps.
    """
    _, num_heads, head_size, _ = shard.layers[0].qkv.shape
    max_model_len = len(shard.position_embedding)
    shape = (2, len(shard.layers), num_slots, num_heads, max_model_len, head_size)
    return zeros_on_demand(shape, shard.ln_f.dtype)


def attend(kv: Tensor, rows: Sequence[PassRow], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Write one layer's K/V and attend, row by row.

    Shapes: kv (2, P, h, S, D); q, k, v (N, h, D) -> (N, h, D).
    """
    out = torch.empty_like(q)  # (N, h, D)
    start = 0
    for row in rows:
        end = start + len(row.tokens)
        context = row.context_len + len(row.tokens)
        keys, values = kv[:, row.slot, :, :context]  # (h, S, D) each
        keys[:, row.context_len :] = k[start:end].transpose(0, 1)
        values[:, row.context_len :] = v[start:end].transpose(0, 1)
        queries = q[start:end].transpose(0, 1)  # (h, n, D)
        mixed = F.scaled_dot_product_attention(
            queries[None], keys[None], values[None], attn_mask=row.mask
        )  # (1, h, n, D)
        out[start:end] = mixed[0].transpose(0, 1)
        start = end
    return out


def forward_pass(
    shard: Shard, kv: Tensor, rows: Sequence[PassRow], reduce_attention: Reduce, reduce_mlp: Reduce
) -> Generator[int, None, Tensor]:
    """Yield each layer's number at its attention op; return the rows' hidden states (R, C).

    The sum of the attention output is an argument of its own, since it may carry a vote.
    Shapes: kv (2, L, P, h, S, D).
    """
    tokens = torch.tensor([token for row in rows for token in row.tokens])  # (N,)
    positions = torch.tensor([position for row in rows for position in row.positions])  # (N,)
    x = shard.token_embedding[tokens] + shard.position_embedding[positions]  # (N, C)
    for layer, weights in enumerate(shard.layers):
        q, k, v = weights.queries_keys_values(x)  # (N, h, D) each
        yield layer
        x = x + reduce_attention(weights.project(attend(kv[:, layer], rows, q, k, v)))  # (N, C)
        x = x + reduce_mlp(weights.mlp(x))  # (N, C)
    ends = torch.tensor([len(row.tokens) for row in rows]).cumsum(0)  # (R,)
    return x[ends - 1]  # (R, C)
