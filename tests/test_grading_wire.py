"""Frames between a grader and an answer: what goes in comes out, and nothing else ever does."""

import dataclasses
import math
import random
from typing import Any

import msgspec
import pytest
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course.called import Opaque
from course.grading.isolation import wire
from course.grading.isolation.wire import WireError, decode, encode


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A record of a test's own."""

    x: int
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.x >= 0


RECORDS = {"Point": Point}
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)

numbers = st.one_of(st.integers(), st.floats(), st.booleans(), st.none())
texts = st.text(st.characters(codec=None), max_size=5)
keys = st.one_of(
    st.integers(), texts, st.tuples(st.integers(), texts), st.frozensets(st.integers())
)


def containers(items: st.SearchStrategy) -> st.SearchStrategy:
    lists = st.lists(items, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.dictionaries(keys, items, max_size=4),
        st.sets(keys, max_size=4),
        st.builds(Point, st.integers(0), st.tuples(texts)),
    )


values = st.recursive(
    st.one_of(numbers, texts, st.binary(max_size=5), texts.map(Opaque)), containers, max_leaves=12
)


def sent(value: Any) -> Any:
    return decode(encode(value, RECORDS).content, RECORDS)[0]


def alike(a: Any, b: Any) -> bool:
    """Equal in type, in every part, where a NaN equals itself."""
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(alike, a.values(), b.values()))
    return a == b


@examples(300)
@given(values)
def test_plain_data_comes_out_as_it_went_in(value: Any):
    back = sent(value)
    assert alike(value, back)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3, 2)])
def test_a_tensor_comes_out_with_its_type_its_shape_and_its_cells(dtype, shape):
    tensor = torch.randint(0, 2, shape).to(dtype)
    back = sent(tensor)
    assert back.dtype is dtype and back.shape == tensor.shape and torch.equal(back, tensor)


def test_views_of_one_storage_are_views_of_one_storage_again():
    whole = torch.arange(12.0).view(3, 4)
    a, b, other = sent((whole, whole[:, 1:3].T, whole.clone()))
    assert torch.equal(b, whole[:, 1:3].T)
    b[0, 0] = 99.0
    assert a[0, 1] == 99.0 and other[0, 1] == 1.0


def test_a_result_that_shows_an_argument_shows_it_on_the_other_side_too():
    argument = torch.arange(6.0)
    known = [argument.untyped_storage()]
    view, copy = sent((argument[2:], argument.clone()), known)
    assert view.untyped_storage().data_ptr() == argument.untyped_storage().data_ptr()
    assert copy.untyped_storage().data_ptr() != argument.untyped_storage().data_ptr()


def test_a_record_is_rebuilt_without_asking_its_own_code():
    frame = encode(Point(1), RECORDS)
    forged = decode(frame.replace(b"\x01", b"\xff", 1), RECORDS)
    assert forged.x == -1  # a check judges it: nothing of it has run


def kept_out() -> list[Any]:
    @dataclasses.dataclass(frozen=True)
    class Stranger:
        x: int = 1

    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    return [
        object(),
        lambda: 1,
        Stranger(),
        deep,
        torch.eye(2).to_sparse(),
        torch.zeros(1, device="meta"),
        torch.nn.Parameter(torch.zeros(1)),
        type("L", (list,), {})(),
        "x" * (wire.MOST_BYTES + 1),
    ]


@pytest.mark.parametrize("case", range(9))
def test_what_is_not_plain_data_is_not_sent(case):
    with pytest.raises(WireError):
        encode(kept_out()[case], RECORDS)


TENSOR = ["tensor", 0, "float32", [2], [1], 0]
FORGED = {
    "no list": [7, 8],
    "an unknown form": [["exec", "x"], []],
    "an unknown record": [["record", "Path", ["/etc/passwd"]], []],
    "too few fields": [["record", "Point", [1]], []],
    "an unhashable key": [["dict", [[["list", []], 1]]], []],
    "half a pair": [["dict", [[1]]], []],
    "a number that is none": [["int", "0xzz"], []],
    "a tensor without a storage": [TENSOR, []],
    "beyond its storage": [TENSOR, [b"1234567"]],
    "in front of its storage": [["tensor", 0, "float32", [1], [1], -1], [b"12345678"]],
    "steps backwards": [["tensor", 0, "float32", [2], [-1], 1], [b"12345678"]],
    "a thousand terabytes in four bytes": [["tensor", 0, "float32", [10**15], [0], 0], [b"1234"]],
    "an unknown type": [["tensor", 0, "qint8", [1], [1], 0], [b"12345678"]],
    "a shape without steps": [["tensor", 0, "float32", [1, 1], [1], 0], [b"12345678"]],
    "a shape of words": [["tensor", 0, "float32", ["1"], [1], 0], [b"12345678"]],
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_frame_is_refused(case):
    with pytest.raises(WireError):
        decode(msgspec.msgpack.encode(FORGED[case]), RECORDS)


def test_a_frame_that_is_too_long_or_too_deep_is_refused():
    with pytest.raises(WireError, match="at most 67,108,864"):
        decode(b"\0" * (wire.MOST_BYTES + 1), RECORDS)
    for depth in (wire._DEEPEST + 5, 100_000):
        with pytest.raises(WireError):
            decode(b"\x92" + b"\x92\xa4list\x91" * depth + b"\x01\x90", RECORDS)


def test_a_hundred_thousand_fuzzed_frames_are_refused_or_say_something_plain():
    draw = random.Random(0)
    samples = [
        encode(value, RECORDS)
        for value in (
            [1, ("a", {2: None})], Point(3, ("t",)), torch.arange(4.0), {frozenset({1}): 1 << 70},
            Opaque("generator"), [torch.eye(2), b"bytes", -1.5],
        )
    ]  # fmt: skip
    refused = 0
    for _ in range(100_000):
        frame = bytearray(draw.choice(samples))
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(frame))
            match draw.randrange(3):
                case 0:
                    frame[at] = draw.randrange(256)
                case 1:
                    del frame[at : at + draw.randint(1, 3)]
                case _:
                    frame[at:at] = draw.randbytes(draw.randint(1, 3))
            frame = frame or bytearray(b"\0")
        try:
            value = decode(bytes(frame), RECORDS)
        except WireError:
            refused += 1
        else:
            encode(value, RECORDS)  # plain data all through
    assert 50_000 < refused < 100_000
