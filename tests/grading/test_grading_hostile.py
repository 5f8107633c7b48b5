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

from course import harness
from course.grading.grade import grade
from course.grading.handed_in.submissions import Submission
from course.grading.isolation.channel import Channel, Reply
from course.grading.isolation.zygote import Zygote
from course.grading.record import LAYERS, Mark, Record
from course.registry import exercise

NOBODY, USER = 65534, 12345
MOST_S = 45.0  # for a submission of one function: its calls wait 20 s at the most
FOLDERS = (Path(tempfile.gettempdir()), Path("/dev/shm"))
ANSWERS_AS = os.geteuid() or NOBODY
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
SENTENCE = re.compile(r"\S.* .*[.)]", re.DOTALL)


def graded(text: str, exercise_id: str, zygote: Zygote) -> tuple[Record, Mark]:
    lesson = exercise(exercise_id).lesson
    record = grade(Submission("Ada", lesson, "ada.py", text, "", ""), zygote, seed=7)
    return record, next(mark for mark in record.marks if mark.exercise == exercise_id)


@pytest.fixture(scope="module", autouse=True)
def orphans_come_here() -> Iterator[None]:
    """What loses its parent becomes this process's child, wherever it has hidden."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def others(orphans_come_here: None) -> set[int]:
    """Processes that were below this one before."""
    return processes_below()


@pytest.fixture(scope="module")
def warm(others: set[int]) -> Iterator[Zygote]:
    """The warm process of all tests: each order says which layers its child is kept in by."""
    zygote = Zygote(())
    yield zygote
    zygote.close()


@pytest.fixture
def zygote(warm: Zygote) -> Zygote:
    """The warm process, whose children are kept in by all layers."""
    return with_layers(warm, LAYERS)


@pytest.fixture(params=LAYERS)
def lacking(request: pytest.FixtureRequest, warm: Zygote) -> Zygote:
    """The warm process, whose children are kept in by all layers but one."""
    return with_layers(warm, tuple(layer for layer in LAYERS if layer != request.param))


def with_layers(warm: Zygote, layers: tuple[str, ...]) -> Zygote:
    need_layers(*layers)
    warm.layers = layers
    return warm


def give_a_quarter_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """To what can come to nothing but a timeout: every limit on time is waited out."""
    for name in ("_CALL_LIMIT_S", "_ALL_CALLS_LIMIT_S", "_ALL_CALLS_WALL_S"):
        monkeypatch.setattr(harness, name, getattr(harness, name) / 4)


def files() -> set[str]:
    """Files of the user that answers run as, where anyone may write."""
    found: set[str] = set()
    for folder in FOLDERS:
        for entry in os.scandir(folder) if folder.is_dir() else ():
            try:
                if entry.stat(follow_symlinks=False).st_uid == ANSWERS_AS:
                    found.add(entry.path)
            except FileNotFoundError:
                continue
    return found


def listening() -> set[str]:
    """Addresses at which that user listens, by TCP and in the abstract."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in lines_of(f"/proc/net/{name}")]
    return {row[1] for row in rows if row[3] == "0A" and row[7] == str(ANSWERS_AS)}


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()[1:] if Path(path).exists() else []


def ended(zygote: Zygote, others: set[int]) -> set[int]:
    """What is left of a submission's processes, once they had a moment to end."""
    until = time.monotonic() + 60
    while (left := _left(zygote, others)) and time.monotonic() < until:
        time.sleep(0.01)
    return left


def _left(zygote: Zygote, others: set[int]) -> set[int]:
    return processes_below(others) - {zygote._process.pid}


def param(case: Hostile) -> object:
    marks = [pytest.mark.process] if case.group == "resource" else []
    return pytest.param(case, id=case.id, marks=marks)


@pytest.mark.parametrize("case", [param(case) for case in CATALOGUE])
def test_a_submission_comes_to_what_it_should_and_leaves_nothing_behind(
    case: Hostile, zygote: Zygote, others: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.statuses == {"timeout"}:
        give_a_quarter_of_the_time(monkeypatch)
    files_before, listening_before = files(), listening()
    record, mark = graded(case.text, case.exercise, zygote)
    assert mark.status in case.statuses, (mark.status, mark.idea)
    if mark.status == "passed":
        assert mark.idea == ""
    else:
        assert SENTENCE.fullmatch(mark.idea) and case.words in mark.idea, mark.idea
        assert len(mark.idea) <= 500 and "Traceback" not in mark.idea
    assert record.layers == LAYERS and not record.is_internal
    assert record.seconds < MOST_S
    assert ended(zygote, others) == set()
    assert files() - files_before == set()
    assert listening() - listening_before == set()


JUDGED = [case for case in CATALOGUE if case.group in ("forge", "steal", "odd")]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in JUDGED])
def test_with_any_one_layer_off_nothing_passes_or_fails_wrongly(
    case: Hostile, lacking: Zygote
) -> None:
    _, mark = graded(case.text, case.exercise, lacking)
    assert (mark.status == "passed") == (case.group == "odd"), (mark.status, mark.idea)
    assert mark.status != "internal"


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


def test_with_any_one_layer_off_nothing_reaches_the_network(lacking: Zygote) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as letters:
            letters.bind(("127.0.0.1", port))
            graded(body(f"{KNOCKS.format(port=port)}\n    {RIGHT}"), "l01.chunk_size", lacking)
            for waiting in (server, letters):
                waiting.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()
            with pytest.raises(BlockingIOError):
                letters.recv(9)


def test_the_submission_after_a_hostile_one_is_judged_as_ever(zygote: Zygote) -> None:
    for lines in ("import os; os.abort()", "import os; os.kill(-1, 9)", "while True: pass"):
        graded(body(lines), "l01.chunk_size", zygote)
        _, mark = graded(body(RIGHT), "l01.chunk_size", zygote)
        assert mark.status == "passed", mark.idea


def test_a_warm_process_that_is_killed_is_followed_by_another(zygote: Zygote) -> None:
    zygote.start().end()
    os.kill(zygote._process.pid, signal.SIGKILL)
    assert graded(body(RIGHT), "l01.chunk_size", zygote)[1].status == "passed"


@pytest.mark.parametrize("at", [1, 10], ids=["as it is read", "in the midst of its questions"])
def test_no_answer_is_blamed_when_the_warm_process_is_killed_beneath_it(
    at: int, zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, count = Channel.exchange, itertools.count(1)
    killed = zygote._process.pid

    def kills_once(channel: Channel, *message: Any) -> Reply:
        if next(count) == at:
            os.kill(killed, signal.SIGKILL)
            zygote._process.wait()
            select.select([channel._handle], [], [], 60)  # the answer's process ends with it
        return exchange(channel, *message)

    monkeypatch.setattr(Channel, "exchange", kills_once)
    record, mark = graded(body(RIGHT), "l01.chunk_size", zygote)
    assert (record.marks[0].exercise, mark.status) == ("l01.chunk_size", "passed")
    assert zygote._process.pid != killed


def test_one_function_that_ends_its_process_costs_the_others_nothing(zygote: Zygote) -> None:
    from solutions.l01_chunked_prefill import chunk_size

    crashes = "\n\ndef chunk_mask(*_):\n    import os\n    os.abort()\n"
    record, mark = graded(body(RIGHT) + crashes, "l01.chunk_size", zygote)
    assert chunk_size.EXERCISE.id == mark.exercise and mark.status == "passed"
    assert {each.status for each in record.marks if each.exercise == "l01.chunk_mask"} == {
        "crashed"
    }


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

def graded(zygote, text):
    return grade(Submission("Ada", "l01_chunked_prefill", "ada.py", text, "", ""), zygote, 7)

if __name__ == "__main__":
    zygote = Zygote()  # whose every start fails where a layer is missing
    records = [graded(zygote, text) for text in TEXTS]
    zygote.close()
    statuses = [record.marks[0].status for record in records]
    layers = [record.layers for record in records]
    print(json.dumps({"uid": os.geteuid(), "layers": layers, "statuses": statuses}))
"""


def test_an_ordinary_user_without_any_privilege_gets_the_same_four_layers(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("every test here is run by an ordinary user")
    find_program("setpriv")
    unshare = find_program("unshare")
    if run([unshare, "-m", "true"], tmp_path).returncode:
        pytest.skip("root may not mount here")
    wanted = ["plain", "the file by its path", "TCP", "crash", "an endless loop"]
    cases = {case.name: case for case in CATALOGUE}
    cases["crash"] = cases["abort"]
    home = Path(tempfile.mkdtemp())
    try:
        home.chmod(0o755)
        script = home / "script.py"
        texts = [cases[name].text for name in wanted]
        script.write_text(f"TEXTS = {texts!r}\n{AS_AN_ORDINARY_USER}")
        done = run([unshare, "-m", "bash", "-ec", as_user(home, script)], ROOT)
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["uid"], said["layers"]) == (USER, [list(LAYERS)] * len(texts))
    assert said["statuses"] == ["passed", "raised", "raised", "crashed", "timeout"]


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
