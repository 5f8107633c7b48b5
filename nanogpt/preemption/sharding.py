"""One rank's share of a model: heads and the MLP's inner channels are split, the rest is copied.

    qkv and up are split by their output (each rank computes its heads, its inner channels), proj
    and down by their input: each rank's product is a term of a sum, which the ranks then add up.

    x ──> qkv[heads of rank] ──> attention ──> proj[:, heads of rank] ──> sum over ranks ──> + x
    x ──> up[inner of rank]  ──> gelu      ──> down[:, inner of rank] ──> sum over ranks ──> + x

Source: Megatron-LM (Shoeybi et al., 2019), section 3.
Shapes: C channels, H heads, D head size, h = H / R heads of one of R ranks, V vocabulary.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.validate import check_int


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
    """What one rank holds. Shapes: token_embedding (V, C), position_embedding (S, C), ln_f (C,)."""

    config: ModelConfig
    num_heads: int
    token_embedding: Tensor
    position_embedding: Tensor
    layers: tuple[LayerShard, ...]
    ln_f: Tensor

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Shapes: (N,), (N,) -> (N, C)."""
        return self.token_embedding[tokens] + self.position_embedding[positions]

    def logits(self, x: Tensor) -> Tensor:
        """Shapes: x (R, C), straight from the last layer -> (R, V)."""
        return F.linear(F.layer_norm(x, self.ln_f.shape, self.ln_f), self.token_embedding)


def check_num_ranks(num_ranks: int, config: ModelConfig) -> None:
    """Raises: ValueError for a number of ranks that the model's heads do not split into.

    And for a model with the biases or the GELU of GPT-2, which ranks do not know.
    """
    if config.bias or config.tanh_gelu:
        raise ValueError("ranks split models without biases and with the exact GELU alone")
    check_int("the number of ranks", num_ranks, 1)
    if config.num_heads % num_ranks:
        raise ValueError(f"{config.num_heads} heads do not split evenly over {num_ranks} ranks")


def shard_model(model: GPT, rank: int, num_ranks: int) -> Shard:
    """Copy the share of one rank out of a whole model.

    Raises: ValueError for a number of ranks that the heads do not split into.
    """
    config = model.config
    check_num_ranks(num_ranks, config)
    weights = model.state_dict()
    heads = config.num_heads // num_ranks
    mine = slice(rank * heads, (rank + 1) * heads)

    def layer(index: int) -> LayerShard:
        def weight(name: str) -> Tensor:
            return weights[f"blocks.{index}.{name}.weight"]

        qkv = weight("qkv").unflatten(0, (3, config.num_heads, config.head_size))  # (3, H, D, C)
        proj = weight("proj").unflatten(1, (config.num_heads, config.head_size))  # (C, H, D)
        up, down = weight("up").chunk(num_ranks, 0)[rank], weight("down").chunk(num_ranks, 1)[rank]
        # Cloned: a pickled view would carry the whole tensor along.
        return LayerShard(
            ln_1=weight("ln_1").clone(),
            qkv=qkv[:, mine].clone(),
            proj=proj[:, mine].flatten(1).clone(),
            ln_2=weight("ln_2").clone(),
            up=up.clone(),
            down=down.clone(),
        )

    return Shard(
        config=config,
        num_heads=heads,
        token_embedding=weights["token_embedding.weight"].clone(),
        position_embedding=weights["position_embedding.weight"].clone(),
        layers=tuple(layer(index) for index in range(config.num_layers)),
        ln_f=weights["ln_f.weight"].clone(),
    )
