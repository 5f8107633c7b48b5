"""GPT: token embeddings in, logits out. Knows its weights; does not know requests or the KV cache.

The one seam is `attend`: each layer computes Q, K and V of the new tokens and asks the caller to
attend. Training passes plain causal attention, an executor passes attention over its KV cache, and
a forward pass can be stopped there, between two layers.

Shapes: B rows, T new tokens, S visible context, H heads, D head size, C = H * D, V vocabulary.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nanogpt.config import ModelConfig

Attend: TypeAlias = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""attend(layer, q, k, v) -> out, all (..., H, D): mix the values that each query may see.

A model may have fewer heads of K/V, K, that divide H: query head h then reads K/V head h % K.
"""


class LinearBackend:
    """How the Linear layers are computed: by PyTorch. An executor may know quicker ways.

    Shapes: x (..., I), layer (O, I), residual (..., O) -> (..., O).
    """

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """The bare product."""
        return F.linear(x, layer.weight, layer.bias)

    def gelu(self, x: Tensor, layer: nn.Linear, form: str) -> Tensor:
        """The product, and GELU of it; its `form` is "none" or "tanh", as in `F.gelu`."""
        return F.gelu(F.linear(x, layer.weight, layer.bias), approximate=form)

    def add(self, residual: Tensor, x: Tensor, layer: nn.Linear) -> Tensor:
        """The product, added to a residual."""
        return residual + F.linear(x, layer.weight, layer.bias)


PLAIN = LinearBackend()


class Block(nn.Module):
    """One pre-LayerNorm transformer block: attention, then an MLP four times as wide.

    Source: nanoGPT model.py, Block; GPT-2 paper, section 2.3.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        channels, bias = config.num_channels, config.bias
        self.num_heads = config.num_heads
        self.gelu_form = "tanh" if config.tanh_gelu else "none"
        self.ln_1 = nn.LayerNorm(channels, bias=bias)
        self.qkv = nn.Linear(channels, 3 * channels, bias)
        self.proj = nn.Linear(channels, channels, bias)
        self.ln_2 = nn.LayerNorm(channels, bias=bias)
        self.up = nn.Linear(channels, 4 * channels, bias)
        self.down = nn.Linear(4 * channels, channels, bias)

    def forward(
        self,
        x: Tensor,
        layer: int,
        attend: Attend,
        logits_indices: Tensor | None = None,
        backend: LinearBackend = PLAIN,
    ) -> Tensor:
        """Shapes: x (..., C) -> (..., C), or (R, C) of the tokens at `logits_indices`."""
        qkv = backend.linear(layer_norm(x, self.ln_1), self.qkv)  # (..., 3C)
        qkv = qkv.view(*x.shape[:-1], 3, self.num_heads, -1)  # (..., 3, H, D)
        q, k, v = qkv.unbind(-3)  # (..., H, D) each
        mixed = attend(layer, q, k, v).reshape(x.shape)  # (..., C)
        if logits_indices is not None:
            x, mixed = x[logits_indices], mixed[logits_indices]  # (R, C) each
        x = backend.add(x, mixed, self.proj)
        wide = backend.gelu(layer_norm(x, self.ln_2), self.up, self.gelu_form)  # (..., 4C)
        return backend.add(x, wide, self.down)


class GPT(nn.Module):
    """A GPT with learned absolute positions and an output layer tied to the token embedding.

    Source: nanoGPT model.py, GPT, without dropout; biases as the config has them.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.num_channels)
        self.position_embedding = nn.Embedding(config.max_model_len, config.num_channels)
        blocks = [Block(config) for _ in range(config.num_layers)]
        self.blocks = nn.ModuleList(blocks)
        self.ln_f = nn.LayerNorm(config.num_channels, bias=config.bias)
        self.apply(self._init_weights)
        for block in blocks:
            # Residual branches start small so that their sum over the layers does not grow.
            scale = 0.02 / (2 * config.num_layers) ** 0.5
            nn.init.normal_(block.proj.weight, std=scale)
            nn.init.normal_(block.down.weight, std=scale)
            for linear in (block.qkv, block.proj, block.up, block.down):
                # In memory (in, out), not (out, in): one row of x then streams through it, and
                # the product of a single decode takes a fifth less time.
                linear.weight.data = linear.weight.data.t().contiguous().t()  # (out, in)

    @staticmethod
    def _init_weights(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        logits_indices: Tensor | None = None,
        backend: LinearBackend = PLAIN,
    ) -> Tensor:
        """Run all layers over new tokens, in any arrangement; `attend` knows what sees what.

        With `logits_indices` (R,), only those tokens of a flat row come back: the last layer writes
        the K/V of all, but its MLP leaves the others out, which no later layer needs.
        Shapes: tokens and positions (...) -> (..., C), or (R, C), ready for `logits`.
        """
        device = self.ln_f.weight.device
        x = F.embedding(tokens.to(device), self.token_embedding.weight)  # (..., C)
        x = x + F.embedding(positions.to(device), self.position_embedding.weight)
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            x = block.forward(x, layer, attend, logits_indices if layer == last else None, backend)
        return layer_norm(x, self.ln_f)

    def logits(self, hidden: Tensor, backend: LinearBackend = PLAIN) -> Tensor:
        """Shapes: (..., C) -> (..., V). The embedding is no Linear layer: its product is plain."""
        return F.linear(hidden, self.token_embedding.weight)  # (..., V)

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Whole sequences from position 0, no cache: for training and for the oracle.

        Shapes: tokens (B, T), targets (B, T) -> logits (B, T, V), mean cross-entropy or None.
        Raises: ValueError when T exceeds the context length.
        """
        length = tokens.shape[-1]
        if length > self.config.max_model_len:
            raise ValueError(
                f"{length} tokens do not fit the context of {self.config.max_model_len}"
            )
        positions = torch.arange(length, device=tokens.device)  # (T,)
        logits = self.logits(self.hidden(tokens, positions, attend_causally))  # (B, T, V)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The result of `norm(x)`; a module's call costs as much as the sum itself here."""
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias)


def attend_causally(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every token sees itself and the tokens before it in its row.

    Shapes: q (B, T, H, D), k, v (B, T, K, D) -> (B, T, H, D).
    """
    k, v = repeat_heads(k, q.shape[-2], -2), repeat_heads(v, q.shape[-2], -2)
    out = F.scaled_dot_product_attention(
        q.transpose(-2, -3), k.transpose(-2, -3), v.transpose(-2, -3), is_causal=True
    )  # (B, H, T, D)
    return out.transpose(-2, -3)  # (B, T, H, D)


def repeat_heads(kv: Tensor, num_heads: int, dim: int) -> Tensor:
    """K or V with a head for each query head. Shapes: (..., K, ...) -> (..., H, ...) at `dim`."""
    group_size = num_heads // kv.shape[dim]
    return kv if group_size == 1 else torch.cat([kv] * group_size, dim)
