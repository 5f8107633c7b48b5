"""The packed executor with products of 8-bit integers: quicker, and its texts are others.

Each row of a weight is stored in 127 steps on either side of zero, a quarter of the memory; the
inputs of a product are rounded in the same way when they come, by the largest of them in the step,
to 127 steps or to 63: a processor without an instruction for such products (VNNI) adds two of them
in 16 bits, which two of 255 * 127 do not fit, and cuts off what is too much.
So a token's logits depend, within rounding, on what shares its step, and a near-tie may fall the
other way. Attention, norms, embeddings and logits stay as they are. Made by
`Engine(model, config, make_executor=Int8Executor)`.

The operations are those that torch.compile emits for CPUs; PyTorch has no public name for them.

Shapes: N rows of I inputs, O outputs.
Source: Dettmers et al., "LLM.int8()" (2022), section 2.1, for symmetric scales by row of a weight.
"""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Linear

from nanogpt.executors.packed import PackedExecutor
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT, LinearBackend
from nanogpt.policies import Policies

STEPS = 127
FEWER_STEPS = 63


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """A weight of `version`, in whole `steps` of each row's scale. Shapes: scales, zeros (O,)."""

    version: int
    steps: Tensor
    scales: Tensor
    zeros: Tensor


class Int8Backend(LinearBackend):
    """Products of integers. Mutable: the weights rounded so far.

    Inputs are rounded to `input_steps` on either side of zero, by default what `exact_steps` finds.
    """

    def __init__(self, input_steps: int | None = None) -> None:
        self.weights: dict[Tensor, Int8Weight] = {}
        self.input_steps = exact_steps() if input_steps is None else input_steps

    def linear(self, x: Tensor, layer: Linear) -> Tensor:
        """The bare product. Shapes: x (N, I), layer (O, I) -> (N, O)."""
        return self._multiply(x, layer, "none", "")

    def gelu(self, x: Tensor, layer: Linear, form: str) -> Tensor:
        """The product, and GELU of it. Shapes: x (N, I), layer (O, I) -> (N, O)."""
        return self._multiply(x, layer, "gelu", form)

    def add(self, residual: Tensor, x: Tensor, layer: Linear) -> Tensor:
        """The product, added to a residual. Shapes: residual (N, O), x (N, I) -> (N, O)."""
        return residual + self.linear(x, layer)

    def _multiply(self, x: Tensor, layer: Linear, then: str, form: str) -> Tensor:
        weight = layer.weight
        own = self.weights.get(weight)
        if own is None or own.version != weight._version:  # changed in place since
            own = self.weights[weight] = rounded(weight)
        low, high = torch.aminmax(x)
        # An input of zeros alone has no scale, and needs none.
        scale = max(-low.item(), high.item()) / self.input_steps or 1.0
        zero = self.input_steps + 1  # inputs are stored without a sign
        steps = torch.add(zero, x, alpha=1 / scale).round_().to(torch.uint8)  # (N, I)
        return torch.ops.onednn.qlinear_pointwise.default(
            steps, scale, zero, own.steps, own.scales, own.zeros,
            layer.bias, 1.0, 0, torch.float32, then, [], form,
        )  # fmt: skip


def rounded(weight: Tensor) -> Int8Weight:
    """A weight (O, I), each row to whole steps of the largest of its numbers over 127."""
    largest = weight.abs().amax(1)  # (O,)
    scales = largest.masked_fill(largest == 0, 1.0) / STEPS
    steps = (weight / scales.unsqueeze(1)).round().to(torch.int8).contiguous()  # (O, I)
    packed = torch.ops.onednn.qlinear_prepack(steps, None)
    return Int8Weight(weight._version, packed, scales, torch.zeros(len(scales), dtype=torch.int32))


@functools.cache
def exact_steps() -> int:
    """The most steps of inputs, 127 or 63, whose products this processor adds up exactly."""
    layer = Linear(16, 16, bias=False).requires_grad_(False)
    layer.weight.fill_(STEPS)
    largest = torch.full((1, 16), float(STEPS))
    found = Int8Backend(STEPS).linear(largest, layer)
    return STEPS if found.eq(16 * STEPS**2).all() else FEWER_STEPS


class Int8Executor(PackedExecutor):
    """One forward per step over a flat row of tokens, its products over 8-bit integers.

    Raises: ValueError for a model that is not float32 on a CPU, and where PyTorch lacks oneDNN.
    """

    name = "packed, int8"

    def __init__(self, model: GPT, cache: KVStore, policies: Policies) -> None:
        super().__init__(model, cache, policies)
        weight = model.ln_f.weight
        if weight.dtype != torch.float32 or weight.device.type != "cpu":
            raise ValueError(
                f"the model is {weight.dtype} on {weight.device}; int8 products need float32 "
                "weights on a CPU"
            )
        if not torch.backends.mkldnn.is_available():
            raise ValueError("this PyTorch has no oneDNN; int8 products need it")
        self.backend = Int8Backend()
