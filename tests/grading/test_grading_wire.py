"""Frames between a grader and an answer: what goes in comes out, and nothing else ever does."""

import contextlib
import dataclasses
import math
import os
import random
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course.answering import LostError
from course.called import Opaque, Raised
from course.grading.isolation import wire, wire_records
from course.grading.isolation.channel import Channel
from course.grading.isolation.remote import _arguments, _raised
from course.grading.isolation.wire import WireError, decode, encode
from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A record of a test's own."""

    x: int
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.x >= 0


RECORDS = {"Point": Point}
SNAPSHOT = FleetSnapshot(
    5, (WaitingView(0, 1, 2, 3, 4, 5, 6),), (WorkerView(0, 1, 2, 3, 4, 5),), {0: {0: 7}}
)
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


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def answered(argument: Any, answer: Callable[[Any], Any]) -> Any:
    """What comes back of a call, in the words of the frames of both ways."""
    outward = encode(argument, RECORDS, outward=True)
    given, storages = decode(outward.content, RECORDS)
    inward = encode(answer(given), RECORDS, storages)
    return decode(inward.content, RECORDS, outward.storages)[0]


def test_a_result_that_shows_an_argument_shows_it_on_the_other_side_too():
    argument = torch.arange(6.0)
    view, copy = answered(argument, lambda given: (given[2:], given.clone()))
    assert torch.equal(view, argument[2:]) and torch.equal(copy, argument)
    assert address(view) == address(argument) != address(copy)


def test_what_was_written_into_an_argument_is_written_into_it_here():
    argument = torch.arange(6.0).view(2, 3)
    shows_it = argument[1:]
    assert answered(argument, lambda given: given.fill_(7.0).sum().item()) == 42.0
    assert argument.tolist() == [[7.0] * 3] * 2 and shows_it.tolist() == [[7.0] * 3]


def test_an_argument_that_was_resized_is_another_storage_and_the_old_one_stays():
    argument = torch.arange(4.0)
    back = answered(argument, lambda given: given.resize_(8).fill_(1.0))
    assert back.tolist() == [1.0] * 8
    assert argument.tolist() == [0.0, 1.0, 2.0, 3.0] and address(back) != address(argument)


def test_a_resized_argument_leaves_the_others_in_their_places():
    first, second = torch.zeros(2), torch.zeros(2)

    def answer(given: Any) -> Any:
        given[0].resize_(3).fill_(5.0)
        given[1].fill_(6.0)
        return given

    back = answered((first, second), answer)
    assert [each.tolist() for each in back] == [[5.0] * 3, [6.0] * 2]
    assert (first.tolist(), second.tolist()) == ([0.0] * 2, [6.0] * 2)


def test_arguments_without_a_cell_are_no_two_views_of_one():
    back = answered((torch.zeros(0), torch.zeros(0, 3)), lambda given: given)
    assert [tuple(each.shape) for each in back] == [(0,), (0, 3)]


def test_a_storage_that_came_back_can_be_resized():
    assert sent(torch.zeros(2)).resize_(5).shape == (5,)


@pytest.mark.parametrize("outward", [False, True])
@pytest.mark.parametrize("value", [abs, Point, lambda: 1])
def test_no_function_and_no_class_has_a_place_in_a_frame(value, outward):
    with pytest.raises(WireError, match="has no place"):
        encode(value, RECORDS, outward=outward)


def test_a_snapshot_goes_outward_in_one_piece_and_does_not_come_inward_like_that():
    outward = encode(SNAPSHOT, wire_records.RECORDS, outward=True).content
    inward = encode(SNAPSHOT, wire_records.RECORDS).content
    assert msgspec.msgpack.decode(outward)[0][:2] == ["packed", "FleetSnapshot"]
    assert msgspec.msgpack.decode(inward)[0][:2] == ["record", "FleetSnapshot"]
    given, _ = decode(outward, wire_records.RECORDS, outward=True)
    back, _ = decode(inward, wire_records.RECORDS)
    assert given == back == SNAPSHOT
    assert type(given.workers) is tuple and type(given.hit_tokens) is dict
    with pytest.raises(WireError):
        decode(outward, wire_records.RECORDS)


def test_a_frame_may_be_kept_smaller_than_any():
    tensor = torch.zeros(1000, dtype=torch.uint8)
    assert len(encode(tensor, RECORDS, most=1100).content) <= 1100
    with pytest.raises(WireError, match="at most 1,000"):
        encode(tensor, RECORDS, most=1000)


def test_a_record_is_rebuilt_without_asking_its_own_code():
    frame = encode(Point(1), RECORDS).content
    forged, _ = decode(frame.replace(b"\x01", b"\xff", 1), RECORDS)
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


def damaged(frame: bytes, draw: random.Random) -> bytes:
    """The frame with a few bytes changed, left out or put in."""
    made = bytearray(frame)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(made))
        match draw.randrange(3):
            case 0:
                made[at] = draw.randrange(256)
            case 1:
                del made[at : at + draw.randint(1, 3)]
            case _:
                made[at:at] = draw.randbytes(draw.randint(1, 3))
        made = made or bytearray(b"\0")
    return bytes(made)


@pytest.mark.process
def test_a_hundred_thousand_fuzzed_frames_are_refused_or_say_something_plain():
    draw = random.Random(0)
    samples = [
        encode(value, RECORDS).content
        for value in (
            [1, ("a", {2: None})], Point(3, ("t",)), torch.arange(4.0), {frozenset({1}): 1 << 70},
            Opaque("generator"), [torch.eye(2), b"bytes", -1.5],
        )
    ]  # fmt: skip
    refused = 0
    for _ in range(100_000):
        try:
            value, _ = decode(damaged(draw.choice(samples), draw), RECORDS)
        except WireError:
            refused += 1
        else:
            encode(value, RECORDS)  # plain data all through
    assert 50_000 < refused < 100_000


# --- replies to a channel --------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process for channels to watch, which each of them would end."""
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def replied(content: bytes, pid: int) -> Any:
    """What an exchange makes of these bytes, which lie there already, with no more to come."""
    here, there = socket.socketpair()
    channel = Channel(here, pid, lambda: ("crashed", "ended the process"))
    there.sendall(content)
    there.shutdown(socket.SHUT_WR)
    try:
        return channel.exchange({"do": "call", "of": [1, torch.zeros(2)]}, 5.0, 5.0)
    finally:
        channel.end()
        there.close()


KINDS = {"stdout": (str,), "args_after": (tuple, type(None)), "generator": (int, type(None))}


@pytest.mark.process
def test_thousands_of_fuzzed_replies_are_lost_answers_or_plain_ones(sleeper, monkeypatch):
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    draw = random.Random(1)
    plain = {"value": [1, 2.5], "args_after": (torch.zeros(2),), "error": None, "stdout": "x" * 40}
    samples = [
        encode(said, wire_records.RECORDS).content
        for said in (
            plain,
            {**plain, "error": Raised(("ValueError", "Exception"), "raised it", False, "f")},
            {"value": -3},
            {**plain, "value": SNAPSHOT, "generator": 0},
        )
    ]
    lost = 0
    for _ in range(4_000):
        content = draw.choice(samples)
        framed = struct.pack(">I", len(content)) + content
        if draw.random() < 0.7:  # a length that is right, around what is not
            content = damaged(content, draw)
            framed = struct.pack(">I", len(content)) + content
        else:
            framed = damaged(framed, draw)
        try:
            reply = replied(framed, sleeper)
        except LostError:
            lost += 1
            continue
        with contextlib.suppress(LostError):
            _raised(reply)
        with contextlib.suppress(LostError):
            _arguments(reply)
        for name, kinds in KINDS.items():
            with contextlib.suppress(LostError):
                assert type(reply.take(name, *kinds)) in kinds
        assert reply.cpu_s >= 0.0
    assert 1_000 < lost < 4_000
