"""Plain data as frames between a check and the process that runs an answer.

What comes from there may be anything: it is decoded into numbers, strings, containers, tensors and
a closed list of records, or refused; nothing in a frame can name code. A frame is MessagePack: a
tagged union of nodes, and the bytes of the storages that its tensors view.

Tensors that share a storage share it on the other side too. A reply begins its table with the
storages of the call, so that a result that views an argument views it again where it is read.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, cast

import msgspec

from course.calling.results import Opaque
from course.calling.values import field_names

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_BYTES = 64 << 20
"""Of a frame."""
_MOST_DIGITS = 300  # hexadecimal ones of a whole number; an answer's have 256 at most
_DEEPEST = 40  # containers in each other; an answer's values end at 30
_DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_CONTAINERS: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    kind.__name__: kind for kind in (list, tuple, set, frozenset)
}
_KINDS: Mapping[Any, str] = {kind: name for name, kind in _CONTAINERS.items()}
_ATOMS = frozenset((bool, int, float, type(None)))  # copied into a frame as they are

Container: TypeAlias = Literal["list", "tuple", "set", "frozenset"]
Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Node(msgspec.Struct, array_like=True, frozen=True):
    """A value that MessagePack has no form for, with its class as a tag."""


class Whole(_Node, tag="int", frozen=True):
    """A whole number beyond 64 bits, in hexadecimal digits."""

    digits: str


class Text(_Node, tag="str", frozen=True):
    """A string that is no UTF-8: it has lone surrogates."""

    content: bytes


class Raw(_Node, tag="bytes", frozen=True):
    """Bytes."""

    content: bytes


class Flat(_Node, tag="flat", frozen=True):
    """A container of numbers, truths and None."""

    kind: Container
    items: list[bool | int | float | None]


class Items(_Node, tag="items", frozen=True):
    """A container of anything."""

    kind: Container
    items: list[Node]


class Entries(_Node, tag="dict", frozen=True):
    """A dict."""

    items: list[tuple[Node, Node]]


class View(_Node, tag="tensor", frozen=True):
    """A tensor, as a view of storage number `storage`."""

    storage: Natural
    dtype: str
    shape: list[Natural]
    strides: list[Natural]
    offset: Natural


class Fields(_Node, tag="record", frozen=True):
    """A record by the name of its class, field by field."""

    name: str
    items: list[Node]


class Packed(_Node, tag="packed", frozen=True):
    """A record written at once; only a check writes one, of values that it made itself."""

    name: str
    content: bytes


class Other(_Node, tag="opaque", frozen=True):
    """Stands for what is not plain data."""

    type_name: bytes


Node = Union[  # noqa: UP007 (an operand is a class that is defined above)
    None, bool, int, float, str,
    Whole, Text, Raw, Flat, Items, Entries, View, Fields, Packed, Other,
]  # fmt: skip


class _Content(msgspec.Struct, array_like=True, frozen=True):
    node: Node
    storages: list[bytes]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Content)


class WireError(ValueError):
    """A frame that says nothing, or a value that no frame can hold."""


Records: TypeAlias = Mapping[str, type[Any]]
"""The dataclasses that may travel, by name."""
Storages: TypeAlias = "Sequence[torch.UntypedStorage]"


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
    packed: Records = MappingProxyType({}),
) -> Frame:
    """The frame of plain data, whose table begins with these storages.

    Records of a class in `packed` are written at once. Raises: WireError for other data, and for
    too much of it.
    """
    writer = _Writer(records, storages, packed)
    node = writer.node(value, 0)
    content = _ENCODER.encode(_Content(node, [_bytes_of(each) for each in writer.storages]))
    if len(content) > most:
        raise WireError(f"{len(content):,} bytes; a frame has at most {most:,}")
    return Frame(content, writer.storages)


def decode(
    content: bytes,
    records: Records,
    storages: Storages = (),
    *,
    packed: Records = MappingProxyType({}),
) -> tuple[Any, Storages]:
    """The plain data of a frame, and its storages; the first ones are written into those given.

    Raises: WireError for anything else.
    """
    if len(content) > MOST_BYTES:
        raise WireError(f"{len(content):,} bytes; a frame has at most {MOST_BYTES:,}")
    try:
        said = _DECODER.decode(content)
        table = itertools.zip_longest(said.storages, storages[: len(said.storages)])
        filled = [_storage(each, old) for each, old in table]
        return _Reader(records, filled, packed).value(said.node, 0), filled
    except WireError:
        raise
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"no frame: {type(error).__name__}") from error


class _Writer:
    """Makes nodes. Mutable: the storages that they need."""

    def __init__(self, records: Records, storages: Storages, packed: Records) -> None:
        self._names = {kind: name for name, kind in records.items()}
        self._packed = frozenset(packed.values())
        self.storages = list(storages)
        self._places = {each.data_ptr(): i for i, each in enumerate(storages) if each.nbytes()}

    def node(self, value: Any, depth: int) -> Node:
        kind = type(value)
        if value is None or kind in (bool, float):
            return value
        if kind is bytes:
            return Raw(value)
        if depth > _DEEPEST:
            raise WireError(f"more than {_DEEPEST} containers in each other")
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 63 else Whole(hex(value))
        if kind is str:
            return value if value.isascii() else _text(value)
        if kind in _KINDS:
            name = cast("Container", _KINDS[kind])
            if _is_flat(value):
                return Flat(name, list(value))
            return Items(name, [self.node(item, depth + 1) for item in value])
        if kind is dict:
            pairs = cast("dict[Any, Any]", value).items()
            return Entries([(self.node(k, depth + 1), self.node(v, depth + 1)) for k, v in pairs])
        if kind.__name__ == "Tensor" and _is_dense(value):
            return self._view(value)
        if kind is Opaque:
            return Other(value.type_name.encode("utf-8", "surrogatepass"))
        if kind in self._packed:
            return Packed(self._names[kind], _ENCODER.encode(value))
        if kind in self._names:
            items = [self.node(getattr(value, name), depth + 1) for name in field_names(kind)]
            return Fields(self._names[kind], items)
        raise WireError(f"a {kind.__name__} has no place in a frame")

    def _view(self, tensor: Tensor) -> View:
        tensor = tensor.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() else None  # an empty one lies nowhere
        place = self._places.get(key) if key else None
        if place is None:
            place = len(self.storages)
            self.storages.append(storage)
            if key:
                self._places[key] = place
        dtype = str(tensor.dtype).removeprefix("torch.")
        return View(
            place, dtype, list(tensor.shape), list(tensor.stride()), int(tensor.storage_offset())
        )


def _is_flat(items: Any) -> bool:
    kinds = set(map(type, items))
    if not kinds <= _ATOMS:
        return False
    if int not in kinds:
        return True
    numbers = [item for item in items if type(item) is int] if len(kinds) > 1 else items
    return max(numbers) < 1 << 63 and min(numbers) >= -(1 << 63)


def _text(value: str) -> str | Text:
    try:
        value.encode()
    except UnicodeEncodeError:
        return Text(value.encode("utf-8", "surrogatepass"))
    return value


def _is_dense(value: Any) -> bool:
    import torch

    is_plain = type(value) is torch.Tensor and value.layout is torch.strided
    return is_plain and str(value.device) == "cpu"


def _as_tensor(storage: torch.UntypedStorage) -> Tensor:
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(storage)  # (bytes,)


def _bytes_of(storage: torch.UntypedStorage) -> bytes:
    return _as_tensor(storage).numpy().tobytes()


def _storage(contents: bytes, old: torch.UntypedStorage | None) -> torch.UntypedStorage:
    import torch

    if old is not None and old.nbytes() == len(contents):
        _as_tensor(old).copy_(_as_tensor(_storage(contents, None)))
        return old
    made = torch.UntypedStorage(len(contents))  # one that can be resized, as any of torch's own
    if contents:
        _as_tensor(made).copy_(torch.frombuffer(bytearray(contents), dtype=torch.uint8))
    return made


class _Reader:
    """Makes values of nodes. msgspec has checked their types and nothing else."""

    def __init__(self, records: Records, storages: Storages, packed: Records) -> None:
        self._records = records
        self._storages = storages
        self._packed = packed

    def value(self, node: Node, depth: int) -> Any:
        if not isinstance(node, _Node):
            return node
        if depth > _DEEPEST:
            raise WireError("no frame: too deep")
        match node:
            case Whole(digits) if len(digits) < _MOST_DIGITS:
                return int(digits, 16)
            case Text(content):
                return content.decode("utf-8", "surrogatepass")
            case Raw(content):
                return content
            case Flat(kind, items):
                return items if kind == "list" else _CONTAINERS[kind](items)
            case Items(kind, items):
                return _CONTAINERS[kind](self.value(item, depth + 1) for item in items)
            case Entries(items):
                return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in items}
            case View():
                return self._view(node)
            case Fields(name, items) if name in self._records:
                return self._record(self._records[name], items, depth + 1)
            case Packed(name, content) if name in self._packed:
                return msgspec.msgpack.decode(content, type=self._packed[name])
            case Other(name):
                return Opaque(name.decode("utf-8", "surrogatepass"))
            case _:
                raise WireError("no frame: a number too large or a record that is not known")

    def _record(self, kind: type[Any], items: list[Node], depth: int) -> Any:
        # Field by field, past __init__ and frozen: a record's own code is not run.
        twin = object.__new__(kind)
        for name, item in zip(field_names(kind), items, strict=True):
            object.__setattr__(twin, name, self.value(item, depth))
        return twin

    def _view(self, node: View) -> Tensor:
        import torch

        shape, strides = node.shape, node.strides
        same_length = len(shape) == len(strides)
        if not same_length or node.storage >= len(self._storages) or node.dtype not in _DTYPES:
            raise WireError("no frame: a tensor of no shape, type or storage")
        dtype, storage = getattr(torch, node.dtype), self._storages[node.storage]
        steps = ((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        reach = node.offset + sum(steps) + 1
        in_storage = 0 in shape or reach * dtype.itemsize <= storage.nbytes()
        if not in_storage or math.prod(shape) * dtype.itemsize > MOST_BYTES:
            raise WireError("no frame: a tensor that reaches beyond its storage")
        return torch.empty(0, dtype=dtype).set_(storage, node.offset, tuple(shape), tuple(strides))
