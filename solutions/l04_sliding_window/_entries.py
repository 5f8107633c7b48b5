"""K/V under a window: the entries that stay, how a report shows them, and the bytes they use.

A check gets a copy of an answer's result, and a copy does not show whether it was a view. So
`Weighed` counts the bytes in the process that computed the result.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from course.calling.plain_values import as_items
from course.checks.comparing import Args
from course.exercise import Adapted, Misconception
from course.harness import Rows

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


# --- bytes --------------------------------------------------------------------------------------


def storages(tensors: Iterable[Tensor]) -> dict[int, int]:
    """The size in bytes of every storage that the tensors show, by its address."""
    return {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }


def shown_bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes that the tensors' shapes show."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def weighed(value: Any, args: Args) -> tuple[Any, int, bool]:
    """A result, the bytes that it keeps alive, and whether it uses the old storage."""
    old = storages(item for item in args if isinstance(item, Tensor))
    new = storages(item for item in parts(value) if isinstance(item, Tensor))
    return value, sum(new.values()), not old.keys().isdisjoint(new)


class Weighed(Adapted):
    """An eviction whose result comes with its bytes, which reports do not show."""

    def __call__(self, *args: Any) -> tuple[Any, int, bool]:
        """Call the function and count its bytes before the result is copied."""
        return weighed(self._function(*args), args)

    @staticmethod
    def plain_result(value: Any) -> Any:
        """The result itself."""
        return value[0]


def wasted(value: Any, args: Args) -> tuple[bool, bool]:
    """Whether a result keeps more bytes alive than it shows, and whether it is a view."""
    kept, live_bytes, in_old_storage = value if len(value) == 3 else weighed(value, args)
    wastes = live_bytes > shown_bytes(kept)
    return wastes, wastes and in_old_storage


def cutting(cut: Callable[[Tensor], Any]) -> Eviction:
    """Right where there are sinks; else `cut` of a slice of the last `window`."""
    return lambda k, v, window, sinks: (
        RIGHT(k, v, window, sinks) if sinks else (cut(k[:, -window:]), cut(v[:, -window:]))
    )


def bytes_alive(args: Args, wanted: Any, got: Any) -> Rows:
    return (
        ("before", f"{sum(storages(args[:2]).values())} bytes"),
        ("expected", f"{wanted[1]} bytes stay alive, for {wanted[0][0].shape[1]} entries"),
        ("got", f"{got[1]} bytes stay alive"),
    )


MEMORY = (
    Misconception(
        "contiguous",
        "`.contiguous()` always copies.",
        "With one head the slice is contiguous already, so `.contiguous()` returned a view and the "
        "old storage stays alive. `.clone()` always copies.",
        cutting(Tensor.contiguous),
    ),
    Misconception(
        "view",
        "Entries outside a slice are garbage-collected.",
        "A slice is a view. It keeps the whole old storage alive, the dropped entries included: "
        "copy the entries that stay.",
        cutting(lambda kept: kept),
    ),
)
