"""Copies of an answer's values in plain data.

Plain data is numbers, strings, lists, tuples, dicts, sets, tensors and the project's own records of
these. Nothing that a function made is passed on itself: a value of another type becomes `Opaque`.
"""

import dataclasses
import functools
import sys
from collections import deque
from collections.abc import Collection
from typing import Any, cast

from course.calling.plain_values import (
    as_items,
    as_mapping,
    as_number,
    as_tensor,
    as_truth,
    kind_of,
)
from course.calling.results import PROJECT, Opaque
from course.same_values import same

_DEEPEST = 30  # containers in each other
_MOST_BITS = 1023  # of a whole number: the largest float has 1024
_LARGEST = 2**_MOST_BITS - 1
_ATOMS = frozenset((bool, float, str, bytes, type(None)))
_IN_TUPLES = _ATOMS | {int, tuple}
_MOST_KEPT = 64  # results, each of which may hold a tensor


def plain(value: Any, *, cloned: bool = True) -> Any:
    """A copy of `value` in plain data; what is not plain becomes `Opaque`.

    Subclasses and other libraries' scalars become what they stand for: see `plain_values`. Tensors
    keep their storages unless they are `cloned`.
    """
    return _plain(value, (), cloned)


def _plain(value: Any, around: tuple[int, ...], cloned: bool) -> Any:
    """`plain`, within the containers whose ids are `around`."""
    if type(value) is int:
        return _if_a_float_holds_it(value)
    if type(value) in _ATOMS:
        return value
    if len(around) > _DEEPEST or id(value) in around:
        return Opaque(f"{type(value).__name__} without a bottom")
    around = (*around, id(value))
    if isinstance(value, list | tuple):
        items = as_items(value) or []
        if not _all_plain(items, len(around)):
            items = [_plain(item, around, cloned) for item in items]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", as_mapping(value))
        if all(_all_plain(part, len(around)) for part in (entries.keys(), entries.values())):
            return entries
        return {
            _plain(key, around, cloned): _plain(item, around, cloned)
            for key, item in entries.items()
        }
    if type(value) in (set, frozenset):
        return type(value)(_plain(item, around, cloned) for item in value)
    if isinstance(value, str):
        return str.__str__(value)
    tensor = as_tensor(value)
    if tensor is not None and tensor.dim() > 0:
        return tensor.clone() if cloned else tensor
    for scalar in (as_truth(value), as_number(value), as_items(value)):
        if scalar is not None:
            return _if_a_float_holds_it(scalar) if type(scalar) is int else scalar
    if _is_record(value):
        # Field by field, past __init__ and frozen: the record's own code is not run.
        twin = object.__new__(type(value))
        for name in field_names(type(value)):
            object.__setattr__(twin, name, _plain(getattr(value, name), around, cloned))
        return twin
    return Opaque(kind_of(value))


def _all_plain(items: Collection[Any], depth: int) -> bool:
    """Whether every item is plain and cannot change: a hundred thousand numbers, or a heap."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return max(items) <= _LARGEST and min(items) >= -_LARGEST
    if tuple not in kinds:
        return kinds <= _ATOMS
    if depth > _DEEPEST or not kinds <= _IN_TUPLES:
        return False
    for item in items:
        kind = type(item)
        if kind is tuple and not _all_plain(item, depth + 1):
            return False
        if kind is int and not -_LARGEST <= item <= _LARGEST:
            return False
    return True


def _if_a_float_holds_it(number: int) -> int | Opaque:
    """Python computes with no larger float; no answer has to be larger."""
    bits = number.bit_length()
    return number if bits <= _MOST_BITS else Opaque(f"int of about {int(bits * 0.30103)} digits")


@functools.cache
def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields, in order: every record of every call needs them."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _is_record(value: Any) -> bool:
    """Whether it is a record of the project, and not of a learner's class."""
    kind = type(value)
    if not dataclasses.is_dataclass(kind) or kind.__module__.partition(".")[0] not in PROJECT:
        return False
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind


class KeptResults:
    """A function's last results, each with a copy from when it was returned. Mutable.

    A check sees only copies, which say nothing of a buffer that every call returns anew.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[Any, Any]] = deque(maxlen=_MOST_KEPT)

    def keep(self, value: Any, *, cloned: bool = True) -> Any:
        """Keep a result that was just returned; its copy in plain data."""
        copied = plain(value)
        if not isinstance(copied, Opaque):
            self._kept.append((value, copied))
        return copied if cloned else plain(value, cloned=False)

    def changed(self) -> tuple[Any, Any] | None:
        """The first result that a later call changed, in plain data: as it was, and as it is."""
        for value, before in self._kept:
            now = plain(value)
            if not same(before, now):
                return before, now
        return None
