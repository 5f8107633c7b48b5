"""The memory that kept K/V keeps alive.

A check gets copies of what an answer returns, and a copy does not show whether it was a view. So
`Weighed` weighs the result where it is made.
"""

import copy
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
    """The bytes that the tensors' shapes speak of."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def weighed(value: Any, args: Args) -> tuple[Any, int, bool]:
    """A result, the bytes that it keeps alive, and whether in the old storage."""
    old = storages(item for item in args if isinstance(item, Tensor))
    new = storages(item for item in parts(value) if isinstance(item, Tensor))
    return value, sum(new.values()), not old.keys().isdisjoint(new)


class Weighed:
    """An eviction whose result comes weighed. Its errors still name a line of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any) -> tuple[Any, int, bool]:
        """Ask the function, and weigh its result before it is copied."""
        return weighed(self._function(*args), args)


def wasted(value: Any, args: Args) -> tuple[bool, bool]:
    """Whether a result keeps more bytes alive than it shows, and whether in the old storage."""
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
        ("expected", f"{wanted[1]} bytes stay alive, those of {wanted[0][0].shape[1]} entries"),
        ("got", f"{got[1]} bytes stay alive"),
    )


MEMORY = (
    Misconception(
        "oversized",
        "A deep copy copies what is seen.",
        "What you return is part of a new storage that is larger than the kept entries: copy only "
        "the kept entries, into a storage of their own size.",
        cutting(copy.deepcopy),
    ),
    Misconception(
        "contiguous",
        "`.contiguous()` copies.",
        "With one head the kept entries lie in one piece already, so no copy was made and the old "
        "storage stays whole: `.contiguous()` may return a view, `.clone()` never.",
        cutting(Tensor.contiguous),
    ),
    Misconception(
        "view",
        "What a slice does not show is garbage, and collected as such.",
        "A slice is a view: it shows the entries that are kept and keeps the whole old storage "
        "alive, dropped ones included, so copy what is kept.",
        cutting(lambda kept: kept),
    ),
)
