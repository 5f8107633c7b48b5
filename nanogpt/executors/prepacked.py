"""Products of Linear layers by oneDNN over prepacked weights, where they are the quicker ones.

PyTorch's plain product on a CPU is its BLAS library's, which rearranges the weight at every
call. oneDNN's takes one that was rearranged once, and adds GELU or a residual while the result is
still in a register. A call of it costs more, so it loses where there is little to multiply: a short
measurement finds, for each shape, from how many rows on it wins on this machine, if at all.

The operations are those that torch.compile emits for CPUs; PyTorch has no public name for them.

Shapes: N rows of I inputs, O outputs.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear

from nanogpt.model import GPT, PLAIN, LinearBackend

FEWEST = 300_000
"""Multiply-adds below which the plain product is taken unasked."""


def backend_for(model: GPT) -> LinearBackend:
    """The quickest backend that this PyTorch has for the model: prepacked weights in float32 or
    bfloat16. They take the memory once more, which a Llama in float32 is too large for.
    """
    weight = model.ln_f.weight
    fits = weight.dtype == torch.bfloat16 or (weight.dtype, type(model)) == (torch.float32, GPT)
    fits = fits and weight.device.type == "cpu"
    return PrepackedBackend() if fits and is_available() and not weight.is_inference() else PLAIN


def is_available() -> bool:
    """Whether this PyTorch has oneDNN, and its operations under the names used here."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(
        hasattr(torch.ops.mkldnn, name) for name in names
    )


@dataclass(slots=True)
class Prepacked:
    """A weight as oneDNN wants it, as of a `version` of the original; used from `rows_from` on."""

    packed: Tensor
    version: int
    rows_from: int


class PrepackedBackend(LinearBackend):
    """oneDNN's products where they win. Mutable: the weights prepacked so far, by identity."""

    def __init__(self) -> None:
        self.prepacked: dict[Tensor, Prepacked] = {}

    def linear(self, x: Tensor, layer: Linear) -> Tensor:
        """The bare product. Shapes: x (N, I), layer (O, I) -> (N, O)."""
        packed = self._packed(x, layer.weight)
        return PLAIN.linear(x, layer) if packed is None else linear(x, packed, layer.bias)

    def gelu(self, x: Tensor, layer: Linear, form: str) -> Tensor:
        """The product, and GELU of it. Shapes: x (N, I), layer (O, I) -> (N, O)."""
        packed = self._packed(x, layer.weight)
        if packed is None:
            return PLAIN.gelu(x, layer, form)
        return linear_gelu(x, packed, layer.bias, form)

    def add(self, residual: Tensor, x: Tensor, layer: Linear) -> Tensor:
        """The product, added to a residual. Shapes: residual (N, O), x (N, I) -> (N, O)."""
        packed = self._packed(x, layer.weight)
        if packed is None:
            return PLAIN.add(residual, x, layer)
        return add_linear(residual, x, packed, layer.bias)

    def _packed(self, x: Tensor, weight: Tensor) -> Tensor | None:
        """The weight, prepacked, when that is the quicker one for so many rows."""
        num_rows = x.shape[0]
        if num_rows * weight.numel() < FEWEST:
            return None
        own = self.prepacked.get(weight)
        if own is None or own.version != weight._version:  # changed in place since
            rows_from = rows_to_win(*weight.shape, torch.get_num_threads(), weight.dtype)
            own = Prepacked(prepack(weight), weight._version, rows_from)
            self.prepacked[weight] = own
        return own.packed if num_rows >= own.rows_from else None


def prepack(weight: Tensor) -> Tensor:
    """The weight (O, I) in the layout that oneDNN takes for few rows; only good for the below."""
    return torch.ops.mkldnn._reorder_linear_weight(weight, 8)


def linear(x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    """Shapes: x (N, I) -> (N, O)."""
    return torch.ops.mkldnn._linear_pointwise.default(x, packed, bias, "none", [], "")


def linear_gelu(x: Tensor, packed: Tensor, bias: Tensor | None, form: str) -> Tensor:
    """Shapes: x (N, I) -> (N, O)."""
    return torch.ops.mkldnn._linear_pointwise.default(x, packed, bias, "gelu", [], form)


def add_linear(residual: Tensor, x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """Shapes: residual (N, O), x (N, I) -> (N, O)."""
    return torch.ops.mkldnn._linear_pointwise.binary(x, residual, packed, bias, "add")


@lru_cache
def rows_to_win(
    num_outputs: int, num_inputs: int, num_threads: int, dtype: torch.dtype = torch.float32
) -> int:
    """From how many rows on the prepacked product is the quicker one here: a few ms to measure.

    `num_threads` is torch's setting, on which it depends.
    """
    weight = torch.ones(num_inputs, num_outputs, dtype=dtype).t()  # (O, I), as GPT's in memory
    packed = prepack(weight)
    rows_from = sys.maxsize
    for num_rows in (16, 8, 4, 2, 1):
        x = torch.ones(num_rows, num_inputs, dtype=dtype)
        pairs = [(seconds(F.linear, x, weight), seconds(linear, x, packed)) for _ in range(9)]
        plain, prepacked = map(min, zip(*pairs, strict=True))
        if prepacked > plain:
            break
        rows_from = num_rows
    return rows_from


def seconds(product: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor) -> float:
    """How long one product takes."""
    start = time.perf_counter()
    product(x, weight)
    return time.perf_counter() - start
