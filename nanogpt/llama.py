"""Llama: the layers of Llama 3, Qwen2.5 and Qwen3 behind the same seam as the GPT's.

RMSNorm for LayerNorm, rotary positions for learned ones, SwiGLU for GELU, and fewer K/V heads than
query heads. Executors and stores do not know which model they serve: they see `attend`.

Shapes: B rows, T new tokens, H query heads, K heads of K/V, G = H / K, D head size, C channels, I
inner channels of the MLP, V vocabulary.
Source: the Llama 3 paper, arXiv 2407.21783, section 3.2; transformers' modeling_llama.py and
modeling_qwen3.py, whose tensors `checkpoints/llama_folder.py` reads.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nanogpt.config import ModelConfig
from nanogpt.model import GPT, PLAIN, Attend, LinearBackend
from nanogpt.validate import check_amount, check_int

Rotary: TypeAlias = tuple[Tensor, Tensor]
"""Cosines and sines of the tokens' angles, (..., 1, D / 2) each."""


@dataclass(frozen=True, slots=True)
class LlamaConfig(ModelConfig):
    """The shape of a Llama. Its own fields have the names of the hub's config.json, but for biases.

    `rope_scaling` holds Llama 3's factor, low_freq_factor, high_freq_factor and original context.
    Raises: ValueError for a size below 1, an odd head size, or query heads that do not split
    evenly over the heads of K/V.
    """

    num_key_value_heads: int = 2
    head_dim: int = 32
    intermediate_size: int = 384
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: tuple[float, ...] | None = None
    tie_word_embeddings: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False

    def __post_init__(self) -> None:
        for name in (
            "num_layers", "num_heads", "num_channels", "max_model_len", "vocab_size",
            "num_key_value_heads", "head_dim", "intermediate_size",
        ):  # fmt: skip
            check_int(name, getattr(self, name), 1)
        check_amount("rms_norm_eps", self.rms_norm_eps, 1)
        if self.num_heads % self.num_key_value_heads:
            raise ValueError(
                f"{self.num_heads} query heads do not split evenly over "
                f"{self.num_key_value_heads} heads of K/V"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; rotary positions need an even one")

    @property
    def head_size(self) -> int:
        """D, the channels of one head."""
        return self.head_dim

    @property
    def num_kv_heads(self) -> int:
        """K, the heads that K/V is stored for."""
        return self.num_key_value_heads


class LlamaBlock(nn.Module):
    """Attention with rotary positions, then a gated MLP, each behind an RMSNorm.

    Query head h reads K/V head h % K, so that queries that share a K/V head lie K apart; the hub's
    checkpoints have them side by side.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        channels, inner, eps = config.num_channels, config.intermediate_size, config.rms_norm_eps
        self.num_heads, self.num_kv_heads = config.num_heads, config.num_kv_heads
        self.head_size = config.head_size
        rows = (self.num_heads + 2 * self.num_kv_heads) * self.head_size
        self.ln_1 = nn.RMSNorm(channels, eps)
        self.qkv = nn.Linear(channels, rows, config.qkv_bias)
        self.q_norm = nn.RMSNorm(self.head_size, eps) if config.qk_norm else None
        self.k_norm = nn.RMSNorm(self.head_size, eps) if config.qk_norm else None
        self.proj = nn.Linear(self.num_heads * self.head_size, channels, config.output_bias)
        self.ln_2 = nn.RMSNorm(channels, eps)
        self.gate_up = nn.Linear(channels, 2 * inner, config.mlp_bias)
        self.down = nn.Linear(inner, channels, config.mlp_bias)

    def forward(
        self,
        x: Tensor,
        layer: int,
        rotary: Rotary,
        attend: Attend,
        logits_indices: Tensor | None = None,
        backend: LinearBackend = PLAIN,
    ) -> Tensor:
        """Shapes: x (..., C) -> (..., C), or (R, C) of the tokens at `logits_indices`."""
        qkv = backend.linear(rms_norm(x, self.ln_1), self.qkv)
        qkv = qkv.unflatten(-1, (-1, self.head_size))  # (..., H + 2K, D)
        q, k, v = qkv.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], -2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = rms_norm(q, self.q_norm), rms_norm(k, self.k_norm)
        mixed = attend(layer, rotate(q, rotary), rotate(k, rotary), v).flatten(-2)  # (..., H * D)
        if logits_indices is not None:
            x, mixed = x[logits_indices], mixed[logits_indices]  # (R, C) and (R, H * D)
        x = backend.add(x, mixed, self.proj)
        wide = backend.linear(rms_norm(x, self.ln_2), self.gate_up)  # (..., 2I)
        gate, up = wide.chunk(2, -1)  # (..., I) each
        return backend.add(x, F.silu(gate) * up, self.down)


class Llama(GPT):
    """A decoder of `LlamaBlock`s; the output layer may be tied to the token embedding."""

    config: LlamaConfig

    def __init__(self, config: LlamaConfig) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.num_channels)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.num_layers))
        self.ln_f = nn.RMSNorm(config.num_channels, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.num_channels, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.token_embedding.weight
        self.apply(self._init_weights)
        # Not a buffer: angles are computed in float32, as in training, whatever the weights are.
        self._frequencies = frequencies(config)

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        logits_indices: Tensor | None = None,
        backend: LinearBackend = PLAIN,
    ) -> Tensor:
        """As `GPT.hidden`. Shapes: tokens and positions (...) -> (..., C), or (R, C)."""
        weight = self.token_embedding.weight
        x = F.embedding(tokens.to(weight.device), weight)  # (..., C)
        angles = positions.unsqueeze(-1) * self._frequencies  # (..., D / 2)
        at = angles.unsqueeze(-2).to(weight.device)  # (..., 1, D / 2)
        rotary = at.cos().to(weight.dtype), at.sin().to(weight.dtype)
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            indices = logits_indices if layer == last else None
            x = block.forward(x, layer, rotary, attend, indices, backend)
        return rms_norm(x, self.ln_f)

    def logits(self, hidden: Tensor, backend: LinearBackend = PLAIN) -> Tensor:
        """Shapes: (..., C) -> (..., V), in float32 at least, for sampling."""
        logits = backend.linear(hidden, self.lm_head)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def rms_norm(x: Tensor, norm: nn.RMSNorm) -> Tensor:
    """Each vector over the root of its mean square, scaled. Shapes: (..., C) -> (..., C)."""
    return F.rms_norm(x, norm.normalized_shape, norm.weight, norm.eps)


def rotate(x: Tensor, rotary: Rotary) -> Tensor:
    """Turn number i of each head, with number i + D / 2, by the token's angle i.

    A product of a rotated query and a rotated key depends only on how far apart the two are.
    Shapes: x (..., heads, D) -> (..., heads, D).
    """
    cos, sin = rotary
    a, b = x.chunk(2, -1)  # (..., heads, D / 2) each
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def frequencies(config: LlamaConfig) -> Tensor:
    """Radians per position, from 1 down to about 1 / rope_theta. Shapes: -> (D / 2,) float32.

    Llama 3 slows down the angles whose period is long against the context it was first trained on,
    and blends between the two ends.
    """
    size = config.head_size
    exponents = torch.arange(0, size, 2, dtype=torch.float32) / size
    plain = 1.0 / config.rope_theta**exponents  # (D / 2,)
    if config.rope_scaling is None:
        return plain
    factor, low, high, context = config.rope_scaling
    turns = context / (2 * math.pi / plain)  # (D / 2,), in the original context
    share = ((turns - low) / (high - low)).clamp(0, 1)  # 0: slowed down; 1: as it was
    return (1 - share) * plain / factor + share * plain
