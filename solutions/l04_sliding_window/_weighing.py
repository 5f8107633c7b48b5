"""Judging the memory that kept K/V keep alive.

A check gets copies of what an answer returns, and a copy does not show whether it was a view. So
`Measured` weighs the result where it is made.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from course.checks.comparing import Args
from course.exercise import Misconception
from course.harness import Ask, Failure, Rows
from solutions.l04_sliding_window._entries import RIGHT, Eviction, case, draw_eviction, parts
from solutions.l04_sliding_window._storages import shown_bytes, storages


class Measured:
    """An eviction whose result comes weighed. Its errors still name a line of its own.

    It returns the result, the bytes that this keeps alive, and whether in the old storage.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any) -> tuple[Any, int, bool]:
        """Ask the function, and weigh its result before it is copied."""
        old = storages(item for item in args if isinstance(item, Tensor))
        value = self._function(*args)
        new = storages(item for item in parts(value) if isinstance(item, Tensor))
        return value, sum(new.values()), not old.keys().isdisjoint(new)


def cutting(cut: Callable[[Tensor], Any]) -> Eviction:
    """Right where there are sinks; else `cut` of a slice of the last `window`."""
    return lambda k, v, window, sinks: (
        RIGHT(k, v, window, sinks) if sinks else (cut(k[:, -window:]), cut(v[:, -window:]))
    )


OVERSIZED = Misconception(
    "oversized",
    "A deep copy copies what is seen.",
    "What you return is part of a new storage that is larger than the kept entries: copy these "
    "alone, into a storage of their own size.",
    also=((cutting(copy.deepcopy)),),
)
CONTIGUOUS = Misconception(
    "contiguous",
    "`.contiguous()` copies.",
    "With one head the kept entries lie in one piece already, so no copy was made and the old "
    "storage stays whole: `.contiguous()` may return a view, `.clone()` never.",
    also=(cutting(Tensor.contiguous),),
)
VIEW = Misconception(
    "view",
    "What a slice does not show is garbage, and collected as such.",
    "A slice is a view: it shows the entries that are kept and keeps the whole old storage "
    "alive, dropped ones included, so copy what is kept.",
    also=(cutting(lambda kept: kept),),
)


def judge_memory(ask: Ask, cases: Sequence[Args]) -> Failure | None:
    """Whether what is returned keeps no more bytes alive than it shows."""
    for args in cases:
        _, live_bytes, in_old_storage = ask(*args)
        kept = RIGHT(*args)
        if live_bytes <= shown_bytes(kept):
            continue
        whole = sum(storages(args[:2]).values())
        entries = f"{kept[0].shape[1]} entries"
        rows: Rows = (
            ("input", f"{draw_eviction('evict', args)}, {whole} bytes"),
            ("expected", f"{shown_bytes(kept)} bytes stay alive, those of {entries}"),
            ("got", f"{live_bytes} bytes stay alive"),
        )
        why = why_old(ask, args) if in_old_storage else OVERSIZED
        return why.failure(rows)
    return None


def why_old(ask: Ask, args: Args) -> Misconception:
    """Why a result keeps the old storage alive."""
    k, _, window, sinks = args
    if k.shape[0] == 1:
        twin = case(2, k.shape[1], window, sinks, k.dtype)
        if ask(*twin)[1] <= shown_bytes(RIGHT(*twin)):
            return CONTIGUOUS
    return VIEW
