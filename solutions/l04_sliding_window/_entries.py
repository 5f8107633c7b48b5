"""K/V under a window: the entries that stay, and how a report shows them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from course.calling.plain_values import as_items
from course.checks.comparing import Args

Kept: TypeAlias = tuple[Tensor, Tensor]
Eviction: TypeAlias = Callable[[Tensor, Tensor, int, int], Kept]


def keeping(choose: Callable[[int, int, int], Iterable[int]]) -> Eviction:
    """Copies the entries that choose(length, window, sinks) names."""

    def answer(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
        kept = list(choose(k.shape[1], window, sinks))
        return k[:, kept], v[:, kept]

    return answer


def entries(length: int, window: int, sinks: int) -> list[int]:
    """The entries that stay."""
    return [i for i in range(length) if i < sinks or i >= length - window]


RIGHT = keeping(entries)


def case(
    heads: int,
    length: int,
    window: int,
    sinks: int,
    dtype: torch.dtype = torch.float32,
    size: int = 2,
) -> Args:
    """Arguments with K/V of H heads and S entries of D = `size`, all numbers different.

    The numbers need the full precision of their type, and v is not -k.
    """
    count = heads * length * size
    k = (torch.arange(1, count + 1, dtype=dtype) / 3).view(heads, length, size)  # (H, S, D)
    return k, -1 - k, window, sinks


def draw_eviction(name: str, args: Args) -> str:
    """The call, with the tensors as shapes."""
    k, _, window, sinks = args
    return f"{name}(k, v, window={window}, sinks={sinks}), k and v {tuple(k.shape)}"


# --- drawing ------------------------------------------------------------------------------------


def parts(value: Any) -> Sequence[Any]:
    """The items of a tuple or a list."""
    return (as_items(value) or ()) if isinstance(value, list | tuple) else ()


def two_tensors(value: Any) -> bool:
    return [isinstance(part, Tensor) for part in parts(value)] == [True, True]


def draw_kept(args: Args, kept: Kept) -> str:
    """Which entries of k and of v were kept."""
    return f"k: {numbers(kept[0], args[0])}\nv: {numbers(kept[1], args[1])}"


def numbers(got: Tensor, source: Tensor) -> str:
    """The numbers of the source's entries in `got`, ? for an unknown one; else its shape."""
    if got.dim() != 3 or got[:, :0].shape != source[:, :0].shape:
        return f"a tensor of shape {tuple(got.shape)}"
    known = list(source.unbind(1))
    words = [
        next((str(i) for i, each in enumerate(known) if torch.equal(each, entry)), "?")
        for entry in got.unbind(1)
    ]
    return f"entries {', '.join(words)}" if words else "no entries"
