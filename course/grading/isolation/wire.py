"""Plain data as frames between a grader and the process that runs an answer.

What comes from there may be anything: it is decoded into numbers, strings, containers, tensors and
a closed list of records, or refused; nothing in it can name code. A frame is MessagePack with a tag
on whatever that has no form for, and a table of the storages that its tensors show:

    [tree, [bytes of storage 0, bytes of storage 1, ...]]

Tensors that share a storage share it on the other side too. A reply begins its table with the
storages of the call, so that a result that shows an argument shows it again where it is read.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import torch
from torch import Tensor

from course.called import Opaque
from course.observed_call import field_names
from nanogpt.fleet.views import FleetSnapshot

MOST_BYTES = 64 << 20
"""Of a frame."""
_DEEPEST = 40  # containers in each other; an answer's values end at 30
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
        torch.complex128,
    )
}  # fmt: skip
# Goes outward a thousand times for one load, and is whole numbers all through: written at once.
_PACKED = (FleetSnapshot,)
_CONTAINERS: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    kind.__name__: kind for kind in (list, tuple, set, frozenset)
}


class WireError(ValueError):
    """A frame that says nothing, or a value that no frame can say."""


Records = Mapping[str, type[Any]]
"""The dataclasses that may travel, by name."""
Storages = Sequence[torch.UntypedStorage]


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """The bytes of a frame, and the storages in its table."""

    content: bytes
    storages: Storages


def encode(
    value: Any,
    records: Records,
    storages: Storages = (),
    *,
    most: int = MOST_BYTES,
    outward: bool = False,
) -> Frame:
    """The frame of plain data, whose table begins with these storages.

    One that goes `outward`, to an answer's process, is read there without suspicion, so that some
    records are written at once. Raises: WireError for other data, and for too much of it.
    """
    writer = _Writer(records, storages, outward)
    tree = writer.tree(value, 0)
    content = msgspec.msgpack.encode([tree, [_bytes_of(each) for each in writer.storages]])
    if len(content) > most:
        raise WireError(f"{len(content):,} bytes; a frame has at most {most:,}")
    return Frame(content, writer.storages)


def decode(
    content: bytes,
    records: Records,
    storages: Storages = (),
    *,
    outward: bool = False,
) -> tuple[Any, Storages]:
    """The plain data of a frame, and its storages; the first ones are written into those given.

    Raises: WireError for anything else.
    """
    if len(content) > MOST_BYTES:
        raise WireError(f"{len(content):,} bytes; a frame has at most {MOST_BYTES:,}")
    try:
        tree, table = msgspec.msgpack.decode(content, type=tuple[Any, list[bytes]])
        filled = [_storage(each, old) for each, old in _paired(table, storages)]
        return _Reader(records, filled, outward).value(tree, 0), filled
    except WireError:
        raise
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"no frame: {type(error).__name__}") from error


class _Writer:
    """Makes trees. Mutable: the storages that they need."""

    def __init__(self, records: Records, storages: Storages, outward: bool) -> None:
        self._outward = outward
        self._names = {kind: name for name, kind in records.items()}
        self.storages = list(storages)
        self._places = {each.data_ptr(): i for i, each in enumerate(storages) if each.nbytes()}

    def tree(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind in (bool, float, bytes):
            return value
        if depth > _DEEPEST:
            raise WireError(f"more than {_DEEPEST} containers in each other")
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 63 else ["int", hex(value)]
        if kind is str:
            return ["str", value.encode("utf-8", "surrogatepass")]
        if kind in (list, tuple, set, frozenset):
            return [kind.__name__, [self.tree(item, depth + 1) for item in value]]
        if kind is dict:
            pairs = cast("dict[Any, Any]", value).items()
            return ["dict", [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in pairs]]
        if kind is Tensor and value.layout is torch.strided and str(value.device) == "cpu":
            return ["tensor", *self._tensor(value)]
        if kind is Opaque:
            return ["opaque", value.type_name.encode("utf-8", "surrogatepass")]
        if kind in _PACKED and self._outward:
            return ["packed", kind.__name__, msgspec.msgpack.encode(value)]
        if kind in self._names:
            fields = [self.tree(getattr(value, name), depth + 1) for name in field_names(kind)]
            return ["record", self._names[kind], fields]
        raise WireError(f"a {kind.__name__} has no place in a frame")

    def _tensor(self, tensor: Tensor) -> list[Any]:
        tensor = tensor.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() else None  # what is empty lies nowhere
        place = self._places.get(key) if key else None
        if place is None:
            place = len(self.storages)
            self.storages.append(storage)
            if key:
                self._places[key] = place
        name = str(tensor.dtype).removeprefix("torch.")
        return [place, name, list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]


def _as_tensor(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)  # (bytes,)


def _bytes_of(storage: torch.UntypedStorage) -> bytes:
    return _as_tensor(storage).numpy().tobytes()


def _text(encoded: bytes) -> str:
    return encoded.decode("utf-8", "surrogatepass")


def _paired(
    table: list[bytes], storages: Storages
) -> Iterator[tuple[bytes, torch.UntypedStorage | None]]:
    """Each of the table's storages with the one to write it into, if there is one."""
    return itertools.zip_longest(table, storages[: len(table)])


def _storage(contents: bytes, old: torch.UntypedStorage | None) -> torch.UntypedStorage:
    if old is not None and old.nbytes() == len(contents):
        _as_tensor(old).copy_(_as_tensor(_storage(contents, None)))
        return old
    made = torch.UntypedStorage(len(contents))  # one that can be resized, as any of torch's own
    if contents:
        _as_tensor(made).copy_(torch.frombuffer(bytearray(contents), dtype=torch.uint8))
    return made


class _Reader:
    """Makes values of trees, and trusts nothing about them."""

    def __init__(self, records: Records, storages: Storages, outward: bool) -> None:
        self._records = records
        self._storages = storages
        self._outward = outward

    def value(self, tree: Any, depth: int) -> Any:
        if tree is None or isinstance(tree, bool | int | float | bytes):
            return tree
        if depth > _DEEPEST or not isinstance(tree, list):
            raise WireError("no tree")
        match cast("list[Any]", tree):
            case ["int", str(digits)]:
                return int(digits, 16)
            case ["str", bytes(text)]:
                return _text(text)
            case ["opaque", bytes(name)]:
                return Opaque(_text(name))
            case [str(name), list(items)] if name in _CONTAINERS:
                return _CONTAINERS[name](self.value(item, depth + 1) for item in items)
            case ["dict", list(pairs)]:
                return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in pairs}
            case ["record", str(name), list(items)] if name in self._records:
                return self._record(self._records[name], items, depth + 1)
            case ["tensor", *rest]:
                return self._tensor(rest)
            case ["packed", str(name), bytes(content)] if self._outward and name in self._records:
                return msgspec.msgpack.decode(content, type=self._records[name])
            case _:
                raise WireError("there is no such form")

    def _record(self, kind: type[Any], items: list[Any], depth: int) -> Any:
        # Field by field, past __init__ and frozen: a record's own code is not asked.
        twin = object.__new__(kind)
        for name, item in zip(field_names(kind), items, strict=True):
            object.__setattr__(twin, name, self.value(item, depth))
        return twin

    def _tensor(self, rest: list[Any]) -> Tensor:
        place, name, shape, strides, offset = rest
        numbers = [place, offset, *shape, *strides]
        if any(type(number) is not int or number < 0 for number in numbers):
            raise WireError("a tensor's place is made of whole numbers from 0 on")
        if len(shape) != len(strides) or place >= len(self._storages) or name not in _DTYPES:
            raise WireError("a tensor of no shape, type or storage")
        dtype, storage = _DTYPES[name], self._storages[place]
        reach = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + 1
        in_storage = 0 in shape or reach * dtype.itemsize <= storage.nbytes()
        if not in_storage or math.prod(shape) * dtype.itemsize > MOST_BYTES:
            raise WireError("a tensor that reaches beyond its storage")
        return torch.empty(0, dtype=dtype).set_(storage, offset, tuple(shape), tuple(strides))
