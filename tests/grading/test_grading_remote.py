"""An answer in another process gets the report that it gets in this one, and cannot do more."""

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
from answers import IDS, report_on, right, wrong
from exercises.test_checks_slips import WRONG as SLIPS
from exercises.test_checks_slips import draws_itself
from golden_verdicts import UNLIKE_ITSELF

from course import harness
from course.answering import Answer, Here, LostError, LostStatus, argument_names
from course.audit.auditing import SCORED
from course.audit.mutants import mutants
from course.called import Opaque
from course.checks.step_cost import StepCost
from course.exercise import Exercise
from course.grading.isolation import channel as channels
from course.grading.isolation import child
from course.grading.isolation.channel import Channel, TooSlowError
from course.grading.isolation.remote import RemoteGenerator, There
from course.registry import exercise
from course.report import Report

Function = Callable[..., Any]


class Others:
    """Functions in a child of this process: a new one wherever the last one was lost."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._pid = 0
        self.channel = self._start()

    def there(self, name: str) -> There:
        if self.channel._lost is not None:
            self.close()
            self.channel = self._start()
        return There(self.channel, name, argument_names(self._functions[name]))

    def close(self) -> None:
        self.channel.end()
        os.waitpid(self._pid, 0)

    def _start(self) -> Channel:
        here, there = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            child.serve(there.fileno(), self._functions)
        there.close()
        return Channel(here, self._pid, why_it_ended)


def why_it_ended() -> tuple[LostStatus, str]:
    return "crashed", "ended the process"


@pytest.fixture
def apart() -> Iterator[Callable[..., There]]:
    """Puts a function, by its name, into a process of its own."""
    children: list[Others] = []

    def put(function: Function) -> There:
        children.append(Others({function.__name__: function}))
        return children[-1].there(function.__name__)

    yield put
    for each in children:
        each.close()


def asked(there: Answer, *args: Any, limit_s: float = 5.0, wall_s: float = 20.0) -> Any:
    return there.call(args, limit_s=limit_s, wall_s=wall_s, seed=0)


def said(report: Report, without: tuple[str, ...] = ()) -> dict[str, str]:
    """All of it but how long it took, and where in memory a function lies."""
    names = ("status", "checks", "passed", "idea", "example", "misconception", "stdout")
    if report.status == "timeout":
        without = (*without, "idea")  # each clock's own seconds
    told = {name: repr(getattr(report, name)) for name in names if name not in without}
    return {name: re.sub(r" at 0x[0-9a-f]+", "", text) for name, text in told.items()}


def assert_alike(
    item: Exercise, functions: Mapping[str, Function], seed: int = 0, *, known: bool = True
) -> None:
    """Both ways of asking come to the same report; a `known` one is that of other tests."""
    others = Others(functions)
    try:
        for name, function in functions.items():
            # Its counterexample shows what the clock says.
            without = ("example",) if (item.id, "changes") in UNLIKE_ITSELF else ()
            batch = said(item.judge(others.there(name), seed=seed), without)
            if known and batch == said(report_on(item.id, function, seed), without):
                continue
            # One that remembers was asked in another test: once more, as its twin there was.
            instant = said(item.check(function, seed=seed), without)
            if "it takes a whole number" in batch.get("idea", ""):  # one that doubles without end
                assert instant["status"] == repr("timeout"), name
                continue
            if batch != instant:  # on a busy machine a call may take five times as long
                with pytest.MonkeyPatch.context() as patient:
                    patient.setattr(harness, "_CALL_LIMIT_S", 1.0)
                    batch = said(item.judge(others.there(name), seed=seed), without)
                    instant = said(item.check(function, seed=seed), without)
            assert batch == instant, name
    finally:
        others.close()


@pytest.mark.parametrize("exercise_id", IDS)
def test_right_and_wrong_answers_get_the_same_report_in_both_places(exercise_id: str) -> None:
    answers = {each.__name__: each for each in right(exercise_id)}
    assert_alike(exercise(exercise_id), answers)
    assert_alike(exercise(exercise_id), {each.name: each.function for each in wrong(exercise_id)})


@pytest.mark.parametrize(("exercise_id", "slip", "key"), SLIPS)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_slips_get_the_same_report_in_both_places(
    exercise_id: str, slip: Function, key: str | None
) -> None:
    if slip is draws_itself:
        pytest.skip("what it draws differs")
    assert_alike(exercise(exercise_id), {"slip": slip}, known=False)


@pytest.fixture
def filled_memory() -> Iterator[None]:
    """What is not written to holds NaN: it would differ from one process to another."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


# A call that ends takes a fiftieth of a second; one mutant here recurs as deep as Python lets it.
ENDS_LATE = {"l08.expected_tokens": 1.0}


@pytest.mark.process
@pytest.mark.usefixtures("filled_memory")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exercise_id", [each for each in IDS if each != SCORED])
def test_every_mutant_gets_the_same_report_in_both_places(
    exercise_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the worked answer; those of the policy judged by its score take a second each."""
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", ENDS_LATE.get(exercise_id, 0.1))
    monkeypatch.setattr(harness, "BACKSTOP", 100)  # a busy machine would reach the time first
    answers = [each.function for each in mutants(right(exercise_id)[0])]
    hurried = {str(n): each for n, each in enumerate(answers)}
    assert_alike(exercise(exercise_id), hurried, known=False)


@pytest.mark.parametrize("exercise_id", IDS)
def test_another_seed_asks_the_same_cases_in_both_places(exercise_id: str) -> None:
    answers = {each.name: each.function for each in wrong(exercise_id)[:2]}
    assert_alike(exercise(exercise_id), answers, seed=2**31 - 1)


# --- limits ----------------------------------------------------------------------------------


def test_time_is_measured_from_outside(apart: Callable[..., There]) -> None:
    def computes() -> float:
        clocks = time.thread_time, time.perf_counter
        time.thread_time = time.perf_counter = lambda: 0.0  # type: ignore[assignment]
        until = clocks[0]() + 0.3
        while clocks[0]() < until:
            pass
        return 0.0

    assert 0.28 < asked(apart(computes)).cpu_s < 1.0


def test_what_computes_too_long_is_ended_and_a_wait_is_told_from_it(
    apart: Callable[..., There],
) -> None:
    def endless() -> None:
        while True:
            pass

    def waits() -> None:
        threading.Event().wait()

    late = asked(apart(endless), limit_s=0.2)
    assert late.timed_out and 0.2 <= late.cpu_s < 1.0
    late = asked(apart(waits), wall_s=0.3)
    assert late.timed_out and late.cpu_s < 0.2


def test_threads_that_compute_are_counted_together(apart: Callable[..., There]) -> None:
    def many() -> None:
        def endless() -> None:
            while True:
                pass

        for _ in range(3):
            threading.Thread(target=endless, daemon=True).start()
        threading.Event().wait()

    assert asked(apart(many), limit_s=0.3).cpu_s >= 0.3


def test_a_lost_process_is_lost_at_every_further_call(apart: Callable[..., There]) -> None:
    def leaves() -> None:
        os._exit(0)

    there = apart(leaves)
    for _ in range(2):
        with pytest.raises(LostError, match="ended the process") as lost:
            asked(there)
        assert lost.value.status == "crashed"


def test_a_check_that_is_stopped_in_mid_call_leaves_no_process_behind(
    apart: Callable[..., There], monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits() -> None:
        threading.Event().wait()

    monkeypatch.setattr(harness, "_CHECK_LIMIT_S", 0.05)
    there = apart(waits)

    def asks_once(ask: harness.Ask, _: object) -> None:
        ask()

    def loops(ask: harness.Ask, rng: object) -> None:
        while True:
            asks_once(ask, rng)

    assert harness.run_checks("l00.waits", there, [("loops", loops)]).status == "timeout"
    with pytest.raises((LostError, TooSlowError)):
        there._channel.exchange({"do": "callees", "name": "waits", "names": []}, 1.0, 1.0)


# --- what goes through -----------------------------------------------------------------------


def test_an_argument_comes_back_as_it_was_left(apart: Callable[..., There]) -> None:
    def appends(items: list[int], tensor: torch.Tensor) -> torch.Tensor:
        items.append(1)
        tensor[0] = 9.0
        return tensor[1:]

    given = ([0], torch.zeros(3))
    called = asked(apart(appends), *given)
    assert called.args_after[0] == [0, 1] and called.args_after[1].tolist() == [9.0, 0.0, 0.0]
    assert given[0] == [0] and not given[1].any()


def test_results_share_storages_where_they_shared_them_there(apart: Callable[..., There]) -> None:
    def halves(tensor: torch.Tensor) -> Any:
        return tensor[:2], tensor[2:], tensor.clone()

    def wrap(ask: Function) -> Function:
        def asks(tensor: torch.Tensor) -> list[bool]:
            return [each.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
                    for each in ask(tensor)]  # fmt: skip

        return asks

    there = apart(halves)
    question = torch.arange(4.0)
    assert asked(there.asked_as(wrap), question).value == [True, True, False]
    here = Here(halves).asked_as(wrap).call((question,), limit_s=5.0, wall_s=20.0, seed=0)
    assert here.value == [True, True, False]


@pytest.mark.parametrize("exercise_id", ["l00.cached_attention", "l04.evict", "l10.on_disconnect"])
def test_a_buffer_that_every_call_returns_is_seen_in_both_places(exercise_id: str) -> None:
    item, buffers = exercise(exercise_id), dict[Any, torch.Tensor]()

    def kept(value: Any, key: Any) -> Any:
        if isinstance(value, torch.Tensor):
            buffer = buffers.setdefault((key, value.shape, value.dtype), torch.empty_like(value))
            return buffer.copy_(value)
        if isinstance(value, dict):
            buffers.update(value)
            return buffers
        return tuple(kept(each, place) for place, each in enumerate(value))

    def answer(*args: Any) -> Any:
        return kept(item.right[0](*args), None)

    answer.__name__ = item.name
    assert_alike(item, {item.name: answer}, known=False)
    assert item.check(answer).misconception == "returned_again"


def test_a_generator_goes_on_where_it_is(apart: Callable[..., There]) -> None:
    def votes(first: int) -> Iterator[int]:
        heard = yield first
        yield heard + 1
        raise ValueError("enough")

    seen: list[Any] = []

    def wrap(ask: Function) -> Function:
        def drive(first: int) -> list[Any]:
            moves = ask(first)
            seen.append(type(moves))
            return [next(moves), moves.send(41), next(moves)]

        return drive

    called = asked(apart(votes).asked_as(wrap), 5)
    assert seen == [RemoteGenerator]
    assert called.error.kinds[0] == "ValueError" and "enough" in called.error.told


def test_a_generator_that_is_closed_is_over(apart: Callable[..., There]) -> None:
    def counts() -> Iterator[int]:
        try:
            yield 1
        finally:
            sys.stdout.write("closed\n")

    def wrap(ask: Function) -> Function:
        def drive() -> list[int]:
            moves = ask()
            first = next(moves)
            moves.close()
            return [first, *moves]

        return drive

    called = asked(apart(counts).asked_as(wrap))
    assert (called.value, called.stdout) == ([1], "closed\n")


def test_a_cost_that_is_asked_says_how_often(apart: Callable[..., There]) -> None:
    def costs(cost: Function) -> Any:
        return [cost(3), cost(2.5), cost(1 << 70)]

    called = apart(costs).call((StepCost(5, 10),), limit_s=5.0, wall_s=20.0, seed=0)
    assert called.value == [35, 30.0, 5 + 10 * (1 << 70)]
    assert called.args_after[0].asked == 3


def test_what_is_too_large_comes_back_as_that(apart: Callable[..., There]) -> None:
    def large(length: int) -> Any:
        return [torch.zeros(length, dtype=torch.uint8)]

    there = apart(large)
    most = channels.MOST_REPLY_BYTES
    assert asked(there, most - 1000).value[0].shape == (most - 1000,)
    assert asked(there, most).value == Opaque("list too large to look at")


def test_an_argument_that_is_too_large_to_come_back_ends_the_call(
    apart: Callable[..., There],
) -> None:
    """No check asks with as much."""

    def changes(tensor: torch.Tensor) -> int:
        tensor.fill_(1)
        return 3

    length = channels.MOST_REPLY_BYTES + 1
    with pytest.raises(LostError, match="more than 8 MB"):
        asked(apart(changes), torch.zeros(length, dtype=torch.uint8))


# --- replies of another form -----------------------------------------------------------------

REPLY = {"value": 1, "args_after": None, "error": None, "generator": None, "stdout": ""}


class Said:
    """A channel at whose other end these bytes lie already."""

    def __init__(self, content: bytes) -> None:
        here, self._there = socket.socketpair()
        self._there.setblocking(False)
        self.pid = os.fork()
        if self.pid == 0:
            threading.Event().wait()
        self.channel = Channel(here, self.pid, why_it_ended)
        self._there.send(content)
        self._there.shutdown(socket.SHUT_WR)

    def __enter__(self) -> There:
        return There(self.channel, "answer", [])

    def __exit__(self, *_: object) -> None:
        self.channel.end()
        self._there.close()
        os.waitpid(self.pid, 0)


def framed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def tree(value: Any) -> Any:
    """A reply's tree, of which a wrong part may stand as it is."""
    if isinstance(value, dict):
        return ["dict", [[tree(key), tree(each)] for key, each in value.items()]]
    return ["str", value.encode()] if isinstance(value, str) else value


def reply(**fields: Any) -> bytes:
    return framed(msgspec.msgpack.encode([tree({**REPLY, **fields}), []]))


def raised_reply(*fields: Any) -> bytes:
    return reply(error=["record", "Raised", [tree(each) for each in fields]])


KINDS = ["tuple", [["str", b"ValueError"]]]
WRONG_REPLIES = {
    "no frame": framed(b"passed"),
    "nothing": b"",
    "half a length": b"\0\0",
    "a length alone": b"\0\0\0\5",
    "less than its length": b"\0\0\0\5ab",
    "more than it may be": struct.pack(">I", channels.MOST_REPLY_BYTES + 1) + b"x",
    "no dict": framed(msgspec.msgpack.encode([["list", []], []])),
    "an empty one": framed(msgspec.msgpack.encode([["dict", []], []])),
    "output that is no text": reply(stdout=3),
    "an error in words": reply(error="passed"),
    "an error without a kind": raised_reply(["tuple", []], "told", False, None),
    "kinds that are numbers": raised_reply(["tuple", [1]], "told", False, None),
    "words that are none": raised_reply(KINDS, None, False, None),
    "a stub's name that is none": raised_reply(KINDS, "told", True, 3),
    "arguments that are a number": reply(args_after=3),
    "a generator's name": reply(generator="first"),
    "a packed record": reply(value=["packed", "FleetSnapshot", b"\x80"]),
    "a record of another project": reply(value=["record", "Popen", []]),
}


@pytest.mark.parametrize("case", WRONG_REPLIES)
def test_a_reply_of_a_wrong_form_is_no_answer(case: str) -> None:
    with Said(WRONG_REPLIES[case]) as there, pytest.raises(LostError) as lost:
        asked(there)
    assert lost.value.status in ("protocol", "crashed")
    assert lost.value.words.startswith(("came back with", "asked for", "ended the process"))


def test_a_reply_of_the_right_form_is_one() -> None:
    with Said(reply()) as there:
        assert asked(there).value == 1
    with Said(raised_reply(KINDS, "x" * 9000, 1, None)) as there:
        error = asked(there).error
    assert (error.kinds, len(error.told), error.is_stub) == (("ValueError",), 2_000, False)


@pytest.mark.parametrize(
    "problems", [["dict", []], ["dict", [[["str", b"answer"], 3]]], ["list", []]]
)
def test_problems_of_another_form_are_none(problems: Any) -> None:
    from course.grading.isolation.remote import load

    said = {"arguments": {"answer": 3, "other": 4}, "problems": problems}
    content = framed(msgspec.msgpack.encode([tree(said), []]))
    with Said(content) as there:
        if problems[0] == "list":
            with pytest.raises(LostError):
                load(there._channel, "", ["answer"])
        else:
            loaded = load(there._channel, "", ["answer"])
            assert loaded.problems == {"answer": []}
            assert loaded.answers["answer"].argument(0) == "argument 1"


def test_the_report_on_a_reply_of_a_wrong_form_says_so() -> None:
    item = exercise("l01.chunk_size")
    with Said(WRONG_REPLIES["no frame"]) as there:
        report = item.judge(there)
    assert report.status == "protocol"
    assert report.idea == "Your `chunk_size` came back with what is no answer at all."
