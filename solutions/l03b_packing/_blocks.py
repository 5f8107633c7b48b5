"""Attention over blocks of keys: partial results, and how a report shows them.

Shapes: H heads, S keys of a block, D head size.
"""

import random
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, a_kind
from course.checks.fusing import dtype

Merged = tuple[Tensor, Tensor, Tensor]  # out (H, D), max (H,), sum (H,)


def kinds(value: Any) -> str:
    """The shapes and types of a result's tensors."""
    if isinstance(value, tuple) and len(value) > 9:
        return f"a tuple of {len(value)}"
    items = value if isinstance(value, tuple) else (value,)
    return ", ".join(
        f"{tuple(x.shape)} {dtype(x)}" if isinstance(x, Tensor) else a_kind(x) for x in items
    )


def partial(scores: Tensor, values: Tensor) -> Merged:
    """Attention over one block. Shapes: scores (H, S), values (H, S, D) -> (H, D), (H,), (H,)."""
    if scores.shape[1] == 0:
        return values.sum(1), values.new_full((len(values),), float("-inf")), values.sum((1, 2))
    top = scores.amax(1)  # (H,)
    weights = (scores - top.masked_fill(top.isneginf(), 0)[:, None]).exp()  # (H, S)
    total = weights.sum(1)
    return torch.einsum("hs,hsd->hd", weights, values) / total.clamp(min=1)[:, None], top, total


def case(a: list[float], b: list[float]) -> Args:
    """Two blocks of one head with these scores; the values are 1, 2, 3 and so on."""
    scores = torch.tensor([[*a, *b]], dtype=torch.float64)  # (1, S)
    values = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64)[None, :, None]  # (1, S, 1)
    first, second = slice(len(a)), slice(len(a), None)
    return (
        *partial(scores[:, first], values[:, first]),
        *partial(scores[:, second], values[:, second]),
    )


def any_blocks(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for i in range(20):
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        heads, size, scale = rng.randint(1, 4), rng.randint(1, 5), rng.choice((1, 5, 400))
        args: list[Tensor] = []
        for _ in range(2):
            shape = heads, rng.randint(1, 9)
            scores = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
            scores[torch.rand(shape, generator=generator) < 0.3 * (i % 3)] = float("-inf")
            values = torch.randn(*shape, size, generator=generator, dtype=torch.float64)
            args += partial(scores, values)
        cases.append(tuple(args))
    return sorted(cases, key=lambda args: args[0].numel())


def close(got: Tensor, wanted: Tensor) -> bool:
    return torch.allclose(got, wanted, rtol=1e-6, atol=1e-9, equal_nan=True)


def numbers(values: Tensor) -> str:
    return str((values * 1e4).round().div(1e4).tolist())


def draw_call(name: str, args: Args) -> str:
    """The call with its numbers, a block on each line."""
    named = [f"{part}_{block}={numbers(args[3 * i + j])}" for i, block in enumerate("ab")
             for j, part in enumerate(("out", "max", "sum"))]  # fmt: skip
    return f"{name}({', '.join(named[:3])},\n    {', '.join(named[3:])})"
