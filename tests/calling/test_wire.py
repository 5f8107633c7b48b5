"""Frames between a check and an answer: what goes in comes out, and nothing else ever does."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course.calling import wire
from course.calling.results import Opaque
from course.calling.wire import WireError, decode, encode


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A record of a test's own."""

    x: int
    tags: tuple[str, ...] = ()


RECORDS = {"Point": Point}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]

texts = st.text(st.characters(codec=None), max_size=5)
integers = st.one_of(st.integers(), st.integers(-(2**1023), 2**1023))
keys = st.one_of(integers, texts, st.tuples(integers, texts), st.frozensets(integers))
tensors = st.builds(
    lambda dtype, shape: torch.arange(math.prod(shape)).reshape(shape).to(dtype)[..., ::2],
    st.sampled_from(DTYPES),
    st.sampled_from([(4,), (0, 3), (2, 3, 2)]),
)
plain = st.one_of(integers, st.floats(), st.booleans(), st.none(), texts, tensors)


def containers(items: st.SearchStrategy) -> st.SearchStrategy:
    lists = st.lists(items, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.dictionaries(keys, items, max_size=4),
        st.sets(keys, max_size=4),
        st.builds(Point, st.integers(), st.tuples(texts)),
    )


values = st.recursive(
    st.one_of(plain, st.binary(max_size=5), texts.map(Opaque)), containers, max_leaves=12
)


def sent(value: Any) -> Any:
    return decode(encode(value, RECORDS).content, RECORDS)[0]


def alike(a: Any, b: Any) -> bool:
    """Equal in type, in every part, where a NaN equals itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(alike, a.values(), b.values()))
    return a == b


@given(values)
def test_plain_data_comes_out_as_it_went_in(value: Any):
    assert alike(value, sent(value))


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def answered(argument: Any, answer: Callable[[Any], Any]) -> Any:
    """What comes back of a call, in the words of the frames of both ways."""
    outward = encode(argument, RECORDS)
    given, storages = decode(outward.content, RECORDS)
    inward = encode(answer(given), RECORDS, storages)
    return decode(inward.content, RECORDS, outward.storages)[0]


def test_tensors_that_share_a_storage_share_it_on_the_other_side_too():
    whole = torch.arange(12.0).view(3, 4)
    a, b, other = sent((whole, whole[:, 1:3].T, whole.clone()))
    b[0, 0] = 99.0
    assert sent(torch.tensor(3.5)).item() == 3.5
    assert a[0, 1] == 99.0 and other[0, 1] == 1.0
    argument = torch.arange(6.0)
    view, copy = answered(argument, lambda given: (given[2:], given.clone()))
    assert torch.equal(view, argument[2:]) and torch.equal(copy, argument)
    assert address(view) == address(argument) != address(copy)
    assert answered(argument, lambda given: given.fill_(7.0).sum().item()) == 42.0
    assert argument.tolist() == [7.0] * 6


def test_what_is_not_plain_data_is_not_sent():
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    values = [object(), abs, lambda: 1, Point, Opaque, deep]
    values += [torch.eye(2).to_sparse(), torch.zeros(1, device="meta"), type("L", (list,), {})()]
    values += [torch.nn.Parameter(torch.zeros(1)), "x" * (wire.MOST_BYTES + 1)]
    for value in values:
        with pytest.raises(WireError):
            encode(value, RECORDS)


@pytest.mark.parametrize(
    "frame",
    [
        [["exec", "x"], []],
        [["record", "Path", ["/etc/passwd"]], []],
        [["record", "Point", [1]], []],
        [["dict", [[["items", "list", []], 1]]], []],
        [["int", "0x" + "f" * 300], []],
        [["items", "Popen", []], []],
        [["packed", "Point", b"\x92\x01\x90"], []],
        [["tensor", 0, "float32", [2], [1], 0], []],
        [["tensor", 0, "float32", [2], [1], 0], [b"1234567"]],
        [["tensor", 0, "float32", [2], [-1], 1], [b"12345678"]],
        [["tensor", 0, "float32", [10**15], [0], 0], [b"1234"]],
        [["tensor", 0, "qint8", [1], [1], 0], [b"12345678"]],
    ],
    ids=str,
)
def test_a_forged_frame_is_refused(frame: Any):
    with pytest.raises(WireError):
        decode(msgspec.msgpack.encode(frame), RECORDS)


def test_a_frame_that_is_too_long_or_too_deep_is_refused():
    with pytest.raises(WireError, match="at most 67,108,864"):
        decode(b"\0" * (wire.MOST_BYTES + 1), RECORDS)
    with pytest.raises(WireError):
        decode(b"\x92" + b"\x93\xa5items\xa4list\x91" * 100_000 + b"\x01\x90", RECORDS)
