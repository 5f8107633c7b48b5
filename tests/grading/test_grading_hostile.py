"""The grader against the catalogue of hostile and odd submissions: each comes to what it should."""

import ctypes
import itertools
import os
import re
import select
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import CATALOGUE, RIGHT, Hostile, body
from support import need_layers, processes_below
from tiers import some

from course import harness
from course.grading.grade import grade
from course.grading.handed_in.submissions import Submission
from course.grading.isolation.channel import Channel, Reply
from course.grading.isolation.zygote import Zygote
from course.grading.record import LAYERS, Mark, Record
from course.registry import exercise

pytestmark = pytest.mark.process

MAX_SECONDS = 45.0  # for a submission of one function: its calls wait 20 s at the most
FOLDERS = (Path(tempfile.gettempdir()), Path("/dev/shm"))
ANSWERS_RUN_AS = os.geteuid() or 65534  # nobody
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
SENTENCE = re.compile(r"\S.* .*[.)]", re.DOTALL)


def graded(text: str, exercise_id: str, zygote: Zygote) -> tuple[Record, Mark]:
    lesson = exercise(exercise_id).lesson
    record = grade(Submission("Ada", lesson, "ada.py", text, "", ""), zygote, seed=7)
    return record, next(mark for mark in record.marks if mark.exercise == exercise_id)


def status_of(lines: str, zygote: Zygote) -> str:
    """What a chunk_size with this body comes to."""
    return graded(body(lines), "l01.chunk_size", zygote)[1].status


@pytest.fixture(scope="module")
def processes_before() -> Iterator[set[int]]:
    """Processes below this one; orphans become its children too, wherever they have hidden."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield processes_below()
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def warm(processes_before: set[int]) -> Iterator[Zygote]:
    """The warm process of all tests."""
    need_layers(*LAYERS)
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def zygote(warm: Zygote) -> Zygote:
    """The same; its children are kept in by all layers, unless a test leaves one out."""
    warm.layers = LAYERS
    return warm


def files() -> set[str]:
    """Files of the user that answers run as, where anyone may write."""
    found: set[str] = set()
    for folder in FOLDERS:
        for entry in os.scandir(folder) if folder.is_dir() else ():
            try:
                if entry.stat(follow_symlinks=False).st_uid == ANSWERS_RUN_AS:
                    found.add(entry.path)
            except FileNotFoundError:
                continue
    return found


def processes_left(zygote: Zygote, before: set[int]) -> set[int]:
    """What is left of a submission's processes, once they had a moment to end."""
    until = time.monotonic() + 60
    while left := processes_below(before) - {zygote._process.pid}:
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return left


@pytest.mark.parametrize("case", [pytest.param(each, id=each.id) for each in some(CATALOGUE, 12)])
def test_a_submission_comes_to_what_it_should_and_leaves_nothing_behind(
    case: Hostile,
    zygote: Zygote,
    processes_before: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if case.statuses == {"timeout"}:  # every limit is waited out: a quarter of it will do
        for name in ("_CALL_LIMIT_S", "_ALL_CALLS_LIMIT_S", "_ALL_CALLS_WALL_S"):
            monkeypatch.setattr(harness, name, getattr(harness, name) / 4)
    files_before = files()
    record, mark = graded(case.text, case.exercise, zygote)
    assert mark.status in case.statuses, (mark.status, mark.idea)
    if mark.status == "passed":
        assert mark.idea == ""
    else:
        assert SENTENCE.fullmatch(mark.idea), mark.idea
        assert len(mark.idea) <= 500 and "Traceback" not in mark.idea
    assert record.layers == LAYERS and not record.is_internal
    assert record.seconds < MAX_SECONDS
    assert processes_left(zygote, processes_before) == set()
    assert files() - files_before == set()


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


@pytest.mark.parametrize(
    "without", ["", *(pytest.param(layer, marks=pytest.mark.nightly) for layer in LAYERS)]
)
def test_nothing_reaches_the_network_with_all_layers_or_all_but_one(
    without: str, zygote: Zygote
) -> None:
    zygote.layers = tuple(layer for layer in LAYERS if layer != without)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        port = server.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        status_of(f"{KNOCKS.format(port=port)}\n    {RIGHT}", zygote)
        assert select.select([server, datagrams], [], [], 0)[0] == []


def test_a_function_that_ends_its_process_costs_no_other_submission_or_exercise_a_mark(
    zygote: Zygote,
) -> None:
    for lines in ("import os; os.abort()", "import os; os.kill(-1, 9)", "while True: pass"):
        status_of(lines, zygote)
        assert status_of(RIGHT, zygote) == "passed"
    crashes = "\n\ndef chunk_mask(*_):\n    import os\n    os.abort()\n"
    record, mark = graded(body(RIGHT) + crashes, "l01.chunk_size", zygote)
    statuses = {each.exercise: each.status for each in record.marks}
    assert mark.status == "passed" and statuses["l01.chunk_mask"] == "crashed"


def test_no_answer_is_blamed_when_the_warm_process_is_killed_beneath_it(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed as the answer is read, and amid the questions."""
    exchange, count, killed = Channel.exchange, itertools.count(1), list[int]()

    def kill_at_times(channel: Channel, *message: Any) -> Reply:
        if next(count) in (1, 10):
            killed.append(zygote._process.pid)
            os.kill(killed[-1], signal.SIGKILL)
            zygote._process.wait()
            select.select([channel._handle], [], [], 60)  # the answer's process ends with it
        return exchange(channel, *message)

    monkeypatch.setattr(Channel, "exchange", kill_at_times)
    assert status_of(RIGHT, zygote) == "passed"
    assert len({*killed, zygote._process.pid}) == 3
