"""An answer in another process gets the report that it gets in this one, and cannot do more."""

import contextlib
import os
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest
import torch
from answers import right, wrong
from tiers import some

from course import harness
from course.answering import LostError, argument_names
from course.called import Called, Opaque
from course.exercise import Exercise
from course.grading.isolation import child
from course.grading.isolation.channel import MOST_REPLY_BYTES, Channel, TooSlowError
from course.grading.isolation.remote import There
from course.lesson_map import LESSONS
from course.registry import exercise, lesson_exercises
from course.report import Report

pytestmark = pytest.mark.process
Function = Callable[..., Any]


@contextlib.contextmanager
def process_of(serve: Callable[[int], None]) -> Iterator[tuple[Channel, socket.socket]]:
    """A child that serves a channel, its end here, and the other end."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        serve(there.fileno())
        os._exit(0)
    channel = Channel(here, pid, lambda: ("crashed", "ended the process"))
    yield channel, there
    channel.end()
    there.close()
    os.waitpid(pid, 0)


@contextlib.contextmanager
def apart(function: Function) -> Iterator[There]:
    """A function in a process of its own."""
    name = function.__name__
    with process_of(lambda end: child.serve(end, {name: function})) as (channel, there):
        there.close()
        yield There(channel, name, argument_names(function))


def call(there: Any, *args: Any, limit_s: float = 5.0, wall_s: float = 20.0) -> Called:
    return there.call(args, limit_s=limit_s, wall_s=wall_s, seed=0)


def told(item: Exercise, report: Report) -> dict[str, str]:
    """A report but how long it took, and where in memory a function lies."""
    names = ["status", "checks", "passed", "idea", "example", "misconception", "stdout"]
    if report.status == "timeout":
        names.remove("idea")  # each clock's own seconds
    if item.id == "l02.aged_key":
        names.remove("example")  # it may show what the clock says
    return {name: re.sub(r" at 0x[0-9a-f]+", "", repr(getattr(report, name))) for name in names}


def assert_same_reports(item: Exercise, functions: Mapping[str, Function], seed: int = 0) -> None:
    """Both ways of asking come to the same report."""

    def both(function: Function) -> list[dict[str, str]]:
        with apart(function) as there:
            reports = item.judge(there, seed=seed), item.check(function, seed=seed)
        return [told(item, each) for each in reports]

    for name, function in functions.items():
        there, here = both(function)
        if there != here:  # on a busy machine a call may take five times as long
            with pytest.MonkeyPatch.context() as patient:
                patient.setattr(harness, "_CALL_LIMIT_S", 5.0)
                there, here = both(function)
        assert there == here, name


EXERCISES = [item.id for lesson in LESSONS for item in some(lesson_exercises(lesson.stem), 1)]


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_right_and_wrong_answers_get_the_same_report_in_both_places(exercise_id: str) -> None:
    item = exercise(exercise_id)
    assert_same_reports(item, {"worked": right(exercise_id)[0]})
    wrong_ones = some(wrong(exercise_id), 1)[:3]
    assert_same_reports(item, {each.name: each.function for each in wrong_ones}, seed=2**31 - 1)


def test_a_buffer_that_every_call_returns_is_seen_in_both_places() -> None:
    item, buffers = exercise("l00.cached_attention"), dict[Any, torch.Tensor]()

    def kept(number: int, value: torch.Tensor) -> torch.Tensor:
        key = number, value.shape, value.dtype
        return buffers.setdefault(key, torch.empty_like(value)).copy_(value)

    def cached_attention(*args: Any) -> Any:
        return tuple(kept(*each) for each in enumerate(item.right[0](*args)))

    assert_same_reports(item, {item.name: cached_attention})
    assert item.check(cached_attention).misconception == "returned_again"


def computes_while_its_clocks_stand_still() -> None:
    time.thread_time = time.perf_counter = lambda: 0.0  # type: ignore[assignment]
    while True:
        pass


def computes_in_threads() -> None:
    for _ in range(3):
        threading.Thread(target=computes_while_its_clocks_stand_still, daemon=True).start()
    threading.Event().wait()


def waits() -> None:
    threading.Event().wait()


def test_what_computes_too_long_in_any_thread_or_waits_too_long_is_ended() -> None:
    for function in (computes_while_its_clocks_stand_still, computes_in_threads):
        with apart(function) as there:
            late = call(there, limit_s=0.2)
        assert late.timed_out and 0.2 <= late.cpu_s < 1.5
    with apart(waits) as there:
        late = call(there, wall_s=0.3)
    assert late.timed_out and late.cpu_s < 0.2


def test_a_check_that_is_stopped_in_mid_call_leaves_no_process_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asks_for_ever(ask: harness.Ask, _: object) -> None:
        while True:
            ask()

    monkeypatch.setattr(harness, "_CHECK_LIMIT_S", 0.05)
    with apart(waits) as there:
        report = harness.run_checks("l00.waits", there, [("loops", asks_for_ever)])
        with pytest.raises((LostError, TooSlowError)):
            there._channel.exchange({"do": "callees", "name": "waits", "names": []}, 1.0, 1.0)
    assert report.status == "timeout"


def test_a_generator_goes_on_where_it_is_until_it_ends_or_is_closed() -> None:
    def votes(first: int) -> Iterator[int]:
        try:
            heard = yield first
            yield heard + 1
            raise ValueError("enough")
        finally:
            sys.stdout.write("ended\n")

    seen: list[int] = []

    def driven(ask: Function) -> Function:
        def drive(first: int) -> list[int]:
            moves = ask(first)
            seen.extend([next(moves), moves.send(41)])
            if first == 7:
                moves.close()
            return [*moves]

        return drive

    with apart(votes) as there:
        error, called = (call(there.asked_as(driven), first) for first in (5, 7))
    assert error.error.kinds[0] == "ValueError" and "enough" in error.error.told
    assert seen == [5, 42, 7, 42]
    assert (called.value, called.stdout) == ([], "ended\n")


def test_a_result_that_is_too_large_comes_back_as_that_and_an_argument_ends_the_call() -> None:
    def large(length: int, tensor: torch.Tensor) -> Any:
        return [torch.zeros(length, dtype=torch.uint8)]

    most, small = MOST_REPLY_BYTES, torch.zeros(1)
    with apart(large) as there:
        assert call(there, most - 1000, small).value[0].shape == (most - 1000,)
        assert call(there, most, small).value == Opaque("list too large to look at")
        with pytest.raises(LostError, match="more than 8 MB"):
            call(there, 1, torch.zeros(most + 1, dtype=torch.uint8))


REPLY = {"value": 1, "args_after": None, "error": None, "generator": None, "stdout": ""}


@contextlib.contextmanager
def told_by(content: bytes) -> Iterator[There]:
    """An answer of whose process these bytes have come already, and no more will."""
    with process_of(lambda end: waits()) as (channel, there):
        there.send(content)
        there.shutdown(socket.SHUT_WR)
        yield There(channel, "answer", [])


def tree(value: Any) -> Any:
    """A reply's tree, of which a wrong part may stand as it is."""
    if isinstance(value, dict):
        return ["dict", [[tree(key), tree(each)] for key, each in value.items()]]
    return ["str", value.encode()] if isinstance(value, str) else value


def framed(said: Any) -> bytes:
    content = said if isinstance(said, bytes) else msgspec.msgpack.encode([tree(said), []])
    return struct.pack(">I", len(content)) + content


ERROR = ["record", "Raised", [["tuple", [["str", b"ValueError"]]], 3, False, None]]
WRONG_REPLIES = {
    "no frame": framed(b"passed"),
    "less than its length": b"\0\0\0\5ab",
    "more than it may be": struct.pack(">I", MOST_REPLY_BYTES + 1) + b"x",
    "an empty one": framed({}),
    "output that is no text": framed({**REPLY, "stdout": 3}),
    "an error whose words are none": framed({**REPLY, "error": ERROR}),
    "arguments that are a number": framed({**REPLY, "args_after": 3}),
    "a record of another project": framed({**REPLY, "value": ["record", "Popen", []]}),
}


def test_a_reply_of_a_wrong_form_is_no_answer() -> None:
    with told_by(framed(REPLY)) as there:
        assert call(there).value == 1
    for case, content in WRONG_REPLIES.items():
        with told_by(content) as there, pytest.raises(LostError) as lost:
            call(there)
        assert lost.value.words.startswith(("came back with", "ended the process")), case
    with told_by(WRONG_REPLIES["no frame"]) as there:
        report = exercise("l01.chunk_size").judge(there)
    assert report.status == "protocol"
    assert report.idea == "Your `chunk_size` came back with what is no answer at all."
