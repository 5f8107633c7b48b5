"""What a check is told by an answer in another process, and what it does not believe."""

import contextlib
import io
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from launching import running, wait_for

from course import harness
from course.calling import jobs
from course.calling.answers import RemoteAnswer, answering
from course.calling.channel import MOST_REPLY_BYTES, Channel, LostError
from course.calling.errors import blame
from course.calling.processes import START_METHOD, ForkServer, own_starter
from course.calling.results import CallResult, Opaque
from course.calling.spawner import Spawner
from course.registry import exercise
from nanogpt.policies import Policies
from nanogpt.policies.validate_policies import ANSWERS
from nanogpt.validate import PolicyError, validated

Function = Callable[..., Any]
process = pytest.mark.process


@contextlib.contextmanager
def apart(function: Function) -> Iterator[RemoteAnswer]:
    """A function in a process of its own."""
    with answering(function, function.__name__) as answer:
        yield answer


def call(
    answer: RemoteAnswer, *args: Any, limit_s: float = 5.0, wall_s: float = 20.0
) -> CallResult:
    return answer.call(args, limit_s=limit_s, wall_s=wall_s, seed=0)


def computes_while_its_clocks_stand_still() -> None:
    time.thread_time = time.perf_counter = lambda: 0.0  # type: ignore[assignment]
    while True:
        pass


def computes_in_threads() -> None:
    for _ in range(3):
        threading.Thread(target=computes_while_its_clocks_stand_still, daemon=True).start()
    threading.Event().wait()


@process
def test_what_computes_too_long_in_any_thread_is_ended_by_the_clock_outside() -> None:
    for function in (computes_while_its_clocks_stand_still, computes_in_threads):
        with apart(function) as answer:
            late = call(answer, limit_s=0.2)
        assert late.timed_out and 0.2 <= late.cpu_s < 1.5


@process
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

    with apart(votes) as answer:
        error, closed = (call(answer.asked_as(driven), first) for first in (5, 7))
    assert error.error is not None
    assert error.error.kinds[0] == "ValueError" and "enough" in error.error.told
    assert seen == [5, 42, 7, 42]
    assert (closed.value, closed.stdout) == ([], "ended\n")


@process
def test_a_module_beside_the_notebook_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_it.py").write_text("SIZE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    def size() -> int:
        import beside_it

        return beside_it.SIZE

    with apart(size) as answer:
        assert call(answer).value == jobs.run(size) == 3


@process
def test_a_question_of_calls_without_an_end_has_one_limit() -> None:
    def next_one(number: int) -> int:
        return number + 1

    def for_ever(ask: Function) -> Function:
        return lambda number: [ask(number) for _ in iter(int, 1)]

    with apart(next_one) as answer:
        assert call(answer.asked_as(for_ever), 1, wall_s=0.3).timed_out


@process
def test_a_result_that_is_too_large_comes_back_as_that_and_an_argument_ends_the_call() -> None:
    def large(length: int, tensor: torch.Tensor) -> Any:
        return [torch.zeros(length, dtype=torch.uint8)]

    most, small = MOST_REPLY_BYTES, torch.zeros(1)
    with apart(large) as answer:
        assert call(answer, most - 1000, small).value[0].shape == (most - 1000,)
        assert call(answer, most, small).value == Opaque("list too large to look at")
        with pytest.raises(LostError, match="more than 8 MB"):
            call(answer, 1, torch.zeros(most + 1, dtype=torch.uint8))


def test_a_check_that_comes_to_no_end_with_a_result_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loops(ask: harness.Ask, _: object) -> None:
        ask()
        while True:
            pass

    monkeypatch.setattr(harness, "_REPORT_LIMIT_S", 0.2)
    with told_by(framed(REPLY)) as answer:
        report = harness.run_checks("l00.answer", answer, [("loops", loops)])
    assert report.status == "timeout"
    assert report.idea == "The check came to no end in 0.2 s with what `answer` returned."
    wait_for(lambda: threading.active_count() == 1, "the end of every thread")


# --- the processes --------------------------------------------------------------------------------


@process
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is but one way")
def test_the_environment_says_how_this_process_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for method, kind in (("fork server", ForkServer), ("spawn", Spawner)):
        monkeypatch.setenv(START_METHOD, method)
        made = own_starter.__wrapped__()
        made.close()
        assert isinstance(made, kind)


@process
def test_they_end_with_the_one_that_asks(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    text = (
        "import os, psutil\nfrom course.calling.processes import ForkServer\n"
        "from course.calling.spawner import Spawner\n"
        "both = ForkServer(), Spawner()\nopen_ = [each.start() for each in both]\n"
        "pids = [str(each.pid) for each in psutil.Process().children(recursive=True)]\n"
        f"open({str(note)!r}, 'w').write(' '.join(pids))\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", text], check=False)
    pids = [int(pid) for pid in note.read_text().split()]
    assert len(pids) == 3
    wait_for(lambda: not running(pids), "the end of all processes")


# --- malformed replies ----------------------------------------------------------------------------

REPLY = {"value": 1, "args_after": None, "error": None, "generator": None, "stdout": ""}


class Nobody:
    """A process that is not there."""

    def cpu_s(self) -> float:
        return 0.0

    def takes_too_much(self) -> bool:
        return False

    def where(self) -> str:
        return ""

    def why_it_ended(self) -> LostError:
        return LostError("crashed", "ended the process")

    def end(self, *, healthy: bool) -> None:
        pass


@contextlib.contextmanager
def told_by(content: bytes) -> Iterator[RemoteAnswer]:
    """An answer of whose process these bytes have come already, and no more will."""
    here, there = socket.socketpair()
    with here, there:
        there.send(content)
        there.shutdown(socket.SHUT_WR)
        yield RemoteAnswer(Channel(here, Nobody()), "answer", [])


def tree(value: Any) -> Any:
    """A reply's tree, of which a wrong part may stand as it is."""
    if isinstance(value, dict):
        return ["dict", [[tree(key), tree(each)] for key, each in value.items()]]
    return value


def framed(said: Any) -> bytes:
    content = said if isinstance(said, bytes) else msgspec.msgpack.encode([tree(said), []])
    return struct.pack(">I", len(content)) + content


ERROR = ["record", "Raised", [["items", "tuple", ["ValueError"]], 3, False, None]]
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
    with told_by(framed(REPLY)) as answer:
        assert call(answer).value == 1
    for case, content in WRONG_REPLIES.items():
        with told_by(content) as answer, pytest.raises(LostError) as lost:
            call(answer)
        assert lost.value.words.startswith(("came back with", "ended the process")), case
    with told_by(WRONG_REPLIES["no frame"]) as answer:
        report = exercise("l01.chunk_size").judge(answer)
    assert report.status == "protocol"
    assert report.idea == "Your `chunk_size` came back with what is no answer at all."


@pytest.mark.parametrize(
    "named",
    [
        b"cos\nsystem\n.",
        b"ccourse.calling.processes\nsubprocess.Popen\n.",
        b"ccourse.calling.sandbox\nPath\n.",
        b"ctorch\nload\n.",
    ],
)
def test_the_result_of_a_job_names_records_of_the_project_only(named: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="which is no plain data"):
        jobs._Records(io.BytesIO(named)).load()


@process
def test_a_job_returns_tensors_and_no_class_from_elsewhere() -> None:
    assert torch.equal(jobs.run(torch.arange, 6).view(2, 3), torch.arange(6).view(2, 3))
    with pytest.raises(jobs.RunError, match="a Fraction of fractions, which is no plain"):
        jobs.run(Fraction, 3)


def test_a_refused_answer_is_told_in_its_own_sentence_wherever_it_was_asked_from() -> None:
    policies = validated(Policies(choose_victim=lambda active: 7), ANSWERS)
    with pytest.raises(PolicyError) as refused:
        policies.choose_victim([])  # in this file, which is none of the project's packages
    said = "choose_victim returned 7; it must be one of the running requests []"
    assert blame(refused.value) == said
