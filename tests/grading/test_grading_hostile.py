"""The grader against the catalogue of hostile and odd submissions: each comes to what it should."""

import ctypes
import itertools
import re
import select
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answers import IDS
from hostile import CATALOGUE, RIGHT, Hostile, body
from support import need_sandbox, processes_below
from tiers import some

from course import harness
from course.calling.answers import load
from course.calling.channel import Channel, Reply
from course.calling.processes import ForkServer
from course.calling.sandbox import sandboxed
from course.grading.grade import grade
from course.grading.handed_in.submissions import Submission
from course.grading.record import Mark, Record
from course.registry import exercise

pytestmark = pytest.mark.process

MAX_SECONDS = 45.0  # for a submission of one function: its calls wait 20 s at the most
FOLDERS = (Path("/tmp"), Path(tempfile.gettempdir()), Path("/dev/shm"), Path("/usr"))
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
SENTENCE = re.compile(r"\S.* .*[.)]", re.DOTALL)


def graded(text: str, exercise_id: str, server: ForkServer) -> tuple[Record, Mark]:
    lesson = exercise(exercise_id).lesson
    submission = Submission("Ada", lesson, "ada.py", text, "", "")
    record = grade(submission, server, seed=7, is_sandboxed=True)
    return record, next(mark for mark in record.marks if mark.exercise == exercise_id)


def status_of(lines: str, server: ForkServer) -> str:
    """What a chunk_size with this body comes to."""
    return graded(body(lines), "l01.chunk_size", server)[1].status


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """The sandbox of all tests: none of them may spoil it for the next."""
    need_sandbox()
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children, wherever they hide
    made = sandboxed()
    made.start().end()
    yield made
    made.close()
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def files() -> set[str]:
    """Those that submissions write, wherever they could."""
    return {str(path) for each in FOLDERS for path in each.glob("left_behind*")}


def processes_left(before: set[int]) -> set[int]:
    """What is left of a submission's processes, once they had a moment to end."""
    until = time.monotonic() + 60
    while (left := processes_below() - before) and time.monotonic() < until:
        time.sleep(0.01)
    return left


@pytest.mark.parametrize("case", [pytest.param(each, id=each.id) for each in some(CATALOGUE, 12)])
def test_a_submission_comes_to_what_it_should_and_leaves_nothing_behind(
    case: Hostile, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.statuses == {"timeout"}:  # every limit is waited out: a quarter of it will do
        for name in ("_CALL_LIMIT_S", "_ALL_CALLS_LIMIT_S", "_ALL_CALLS_WALL_S"):
            monkeypatch.setattr(harness, name, getattr(harness, name) / 4)
    files_before, processes_before = files(), processes_below()
    record, mark = graded(case.text, case.exercise, server)
    assert mark.status in case.statuses, (mark.status, mark.idea)
    if mark.status == "passed":
        assert mark.idea == ""
    else:
        assert SENTENCE.fullmatch(mark.idea), mark.idea
        assert len(mark.idea) <= 500 and "Traceback" not in mark.idea
    assert not record.is_internal
    assert record.seconds < MAX_SECONDS
    assert processes_left(processes_before) == set()
    assert files() - files_before == set()
    assert status_of(RIGHT, server) == "passed"  # in the same sandbox


def test_no_module_of_a_sandboxed_process_holds_a_function_that_an_exercise_asks_for(
    server: ForkServer,
) -> None:
    names = {exercise_id.partition(".")[2] for exercise_id in IDS}
    text = f"""
def found():
    import gc, sys, types
    ours = "course", "nanogpt", "solutions", "lessons", "widgets"
    modules = [sys.modules[name] for name in list(sys.modules) if name.partition(".")[0] in ours]
    held = {{name for each in modules for name, value in vars(each).items() if callable(value)}}
    held |= {{each.__name__ for each in gc.get_objects() if isinstance(each, types.FunctionType)
             and str(each.__module__).partition(".")[0] in ours}}
    return sorted(held & {names!r}), [each.__name__ for each in modules if "solu" in each.__name__]
"""
    with server.start() as channel:
        answer = load(channel, text, ["found"]).answers["found"]
        called = answer.call((), limit_s=10.0, wall_s=40.0)
    assert called.error is None, called.error
    assert called.value == ([], [])


KNOCKS = """
    import socket
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_INET, kind) as knocking:
                knocking.settimeout(1)
                knocking.connect(("127.0.0.1", {port}))
                knocking.send(b"here")
        except OSError: pass
    """


def test_nothing_reaches_the_network(server: ForkServer) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        port = listening.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        status_of(f"{KNOCKS.format(port=port)}\n    {RIGHT}", server)
        assert select.select([listening, datagrams], [], [], 0)[0] == []


def test_a_function_that_ends_its_process_costs_no_other_exercise_a_mark(
    server: ForkServer,
) -> None:
    crashes = "\n\ndef chunk_mask(*_):\n    import os\n    os.abort()\n"
    record, mark = graded(body(RIGHT) + crashes, "l01.chunk_size", server)
    statuses = {each.exercise: each.status for each in record.marks}
    assert mark.status == "passed" and statuses["l01.chunk_mask"] == "crashed"


def test_no_answer_is_blamed_when_the_sandbox_is_killed_beneath_it(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed amid the questions; one that is killed twice, as it is read, is blamed."""
    exchange = Channel.exchange
    for killed_at, status in (([10], "passed"), ([1, 2], "crashed")):
        count = itertools.count(1)

        def kill_at(
            channel: Channel, *message: Any, times: Any = killed_at, n: Any = count, **options: Any
        ) -> Reply:
            if next(n) in times:
                server._warm.process.kill()
                server._warm.process.wait()
                select.select([channel._end], [], [], 60)  # the answer's process ends with it
            return exchange(channel, *message, **options)

        monkeypatch.setattr(Channel, "exchange", kill_at)
        assert status_of(RIGHT, server) == status
