"""The bytes that an eviction's result keeps alive.

A check gets a copy of an answer's result, and a copy does not show whether it was a view. So
`Weighed` counts the bytes in the process that computed the result.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from course.checks.comparing import Args
from course.exercise import Misconception
from course.harness import Rows
from solutions.l04_sliding_window._entries import RIGHT, Eviction, parts


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


class Weighed:
    """An eviction whose result comes with its bytes. Its errors still name the answer's lines."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any) -> tuple[Any, int, bool]:
        """Call the function and count its bytes before the result is copied."""
        return weighed(self._function(*args), args)


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
