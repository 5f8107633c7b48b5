"""The grader against the catalogue of hostile and odd submissions: each comes to what it should."""

import ctypes
import itertools
import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import CATALOGUE, RIGHT, Hostile, body
from support import ROOT, find_program, need_layers, processes_below, run
from tiers import some

from course import harness
from course.grading.grade import grade
from course.grading.handed_in.submissions import Submission
from course.grading.isolation.channel import Channel, Reply
from course.grading.isolation.zygote import Zygote
from course.grading.record import LAYERS, Mark, Record
from course.registry import exercise

pytestmark = pytest.mark.process

NOBODY, USER = 65534, 12345
MAX_SECONDS = 45.0  # for a submission of one function: its calls wait 20 s at the most
FOLDERS = (Path(tempfile.gettempdir()), Path("/dev/shm"))
ANSWERS_RUN_AS = os.geteuid() or NOBODY
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
SENTENCE = re.compile(r"\S.* .*[.)]", re.DOTALL)
BY_NAME = {case.name: case for case in CATALOGUE}


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
    """The warm process of all tests: each order says which layers its child is kept in by."""
    zygote = Zygote(())
    yield zygote
    zygote.close()


@pytest.fixture
def zygote(warm: Zygote) -> Zygote:
    """The warm process, whose children are kept in by all layers."""
    need_layers(*LAYERS)
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


def listening() -> set[str]:
    """Addresses at which that user listens by TCP."""
    paths = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()[1:]]
    rows = [line.split() for line in lines]
    return {row[1] for row in rows if row[3] == "0A" and row[7] == str(ANSWERS_RUN_AS)}


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
    files_before, listening_before = files(), listening()
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
    assert listening() - listening_before == set()


ATTACKS_ON_ONE_LAYER = (
    "plain", "the file by its path", "/proc", "the parent's memory", "ptrace of the parent",
    "patched encode", "passed reports written to every file", "the frames above", "TCP",
)  # fmt: skip
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


@pytest.mark.nightly
@pytest.mark.parametrize("missing", LAYERS)
def test_with_any_one_layer_off_no_attack_passes_and_nothing_reaches_the_network(
    missing: str, warm: Zygote
) -> None:
    layers = tuple(layer for layer in LAYERS if layer != missing)
    need_layers(*layers)
    warm.layers = layers
    for name in ATTACKS_ON_ONE_LAYER:
        case = BY_NAME[name]
        _, mark = graded(case.text, case.exercise, warm)
        assert (mark.status == "passed") == (name == "plain"), (name, mark.status, mark.idea)
        assert mark.status != "internal"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", port))
            status_of(f"{KNOCKS.format(port=port)}\n    {RIGHT}", warm)
            for end in (server, datagrams):
                end.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()
            with pytest.raises(BlockingIOError):
                datagrams.recv(9)


def test_the_submission_after_a_hostile_one_is_judged_as_ever(zygote: Zygote) -> None:
    for lines in ("import os; os.abort()", "import os; os.kill(-1, 9)", "while True: pass"):
        status_of(lines, zygote)
        assert status_of(RIGHT, zygote) == "passed"


def test_a_function_that_ends_its_process_costs_the_other_exercises_nothing(
    zygote: Zygote,
) -> None:
    crashes = "\n\ndef chunk_mask(*_):\n    import os\n    os.abort()\n"
    record, mark = graded(body(RIGHT) + crashes, "l01.chunk_size", zygote)
    statuses = {each.exercise: each.status for each in record.marks}
    assert mark.status == "passed" and statuses["l01.chunk_mask"] == "crashed"


def test_no_answer_is_blamed_when_the_warm_process_is_killed_beneath_it(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the answer's process starts, as it is read, and amid its questions."""
    exchange, count, killed = Channel.exchange, itertools.count(1), list[int]()

    def kill_at_times(channel: Channel, *message: Any) -> Reply:
        if next(count) in (1, 10):
            killed.append(zygote._process.pid)
            os.kill(killed[-1], signal.SIGKILL)
            zygote._process.wait()
            select.select([channel._handle], [], [], 60)  # the answer's process ends with it
        return exchange(channel, *message)

    os.kill(zygote._process.pid, signal.SIGKILL)
    monkeypatch.setattr(Channel, "exchange", kill_at_times)
    assert status_of(RIGHT, zygote) == "passed"
    assert len({*killed, zygote._process.pid}) == 3


# --- an ordinary user ------------------------------------------------------------------------


def hidden_above(path: Path) -> Path | None:
    """The outermost folder above that others may not look into."""
    for folder in reversed(path.resolve().parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


AS_AN_ORDINARY_USER = """
import json, os
from course.grading.grade import grade
from course.grading.handed_in.submissions import Submission
from course.grading.isolation.zygote import Zygote

if __name__ == "__main__":
    zygote = Zygote()  # whose every start fails where a layer is missing
    submissions = [Submission("Ada", "l01_chunked_prefill", "ada.py", t, "", "") for t in TEXTS]
    records = [grade(each, zygote, 7) for each in submissions]
    zygote.close()
    print(json.dumps([os.geteuid(), [[each.layers, each.marks[0].status] for each in records]]))
"""
OUTCOMES_FOR_ANYONE = {
    "plain": "passed",
    "the file by its path": "raised",
    "TCP": "raised",
    "abort": "crashed",
    "an endless loop": "timeout",
}


@pytest.mark.nightly
def test_an_ordinary_user_without_any_privilege_gets_the_same_four_layers(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("every test here is run by an ordinary user")
    find_program("setpriv")
    unshare = find_program("unshare")
    if run([unshare, "-m", "true"], tmp_path).returncode:
        pytest.skip("root may not mount here")
    home = Path(tempfile.mkdtemp())
    try:
        home.chmod(0o755)
        script = home / "script.py"
        texts = [BY_NAME[name].text for name in OUTCOMES_FOR_ANYONE]
        script.write_text(f"TEXTS = {texts!r}\n{AS_AN_ORDINARY_USER}")
        done = run([unshare, "-m", "bash", "-ec", as_user(home, script)], ROOT)
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stderr
    uid, found = json.loads(done.stdout.splitlines()[-1])
    assert (uid, [status for _, status in found]) == (USER, [*OUTCOMES_FOR_ANYONE.values()])
    assert all(layers == list(LAYERS) for layers, _ in found)


def as_user(home: Path, script: Path) -> str:
    """Shows the user what lies in another's home: Python, its packages and the course."""
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT}
    needed = {path for path in needed if not needed.intersection(path.parents)}
    hidden = {path: above for path in needed if (above := hidden_above(path / "x"))}
    lines = ["mount --make-rprivate /"]
    for number, path in enumerate(hidden):
        lines += [f"mkdir {home}/{number}", f"mount --bind {path} {home}/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 none {above}" for above in set(hidden.values())]
    for number, path in enumerate(hidden):
        lines += [f"mkdir -p {path}", f"mount --bind {home}/{number} {path}"]
    lines.append(
        f"PYTHONPATH={ROOT} exec setpriv --reuid {USER} --regid {USER} --clear-groups "
        f"--bounding-set -all --inh-caps -all {sys.executable} -B {script}"
    )
    return "\n".join(lines)
