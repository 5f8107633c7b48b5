"""learn.py opens the course: its address, its token, its port, its end."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
from launching import assert_one_sentence, learn, wait_for
from support import ROOT, run
from websockets.sync.client import connect

from course.launcher import server
from course.launcher.kept import keep, note
from course.launcher.page_guard import may_open
from course.launcher.server import choose_host

pytestmark = pytest.mark.process
# A launcher that is asked to stop at one line after the other of Python's own wait for a process.
STOPPED_WITHIN_A_WAIT = """
import os, signal, subprocess, sys
from pathlib import Path
from course.launcher import server

ROOT = Path(sys.argv[1])
server._start = lambda *_: subprocess.Popen(
    ["sleep", "60"], start_new_session=True, stdin=subprocess.PIPE
)
server._is_listening = lambda *_: not sys.settrace(ask)
server.LISTEN_EVERY_S = 0.01
lines = 0

def ask(frame, event, _):
    global lines
    if frame.f_code.co_filename != subprocess.__file__:
        return None
    lines += event == "line"
    if lines == line:
        sys.settrace(None)
        signal.raise_signal(signal.SIGTERM)
    return ask

for line in range(1, 25):
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(server.serve("run", Path(), ROOT, server.parse_options(["--no-browser"])))
    _, status = os.waitpid(child, 0)
    print(line, status, flush=True)
"""


@pytest.fixture
def opened(course: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str, str]]]:
    """Open a course and return (learn.py's process, what it said, the address)."""
    processes: list[subprocess.Popen[str]] = []

    def open_course(*arguments: str) -> tuple[subprocess.Popen[str], str, str]:
        command = [sys.executable, "learn.py", *arguments, "--no-browser"]
        process = subprocess.Popen(
            command, cwd=course, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout
        said = ""
        for line in process.stdout:
            said += line
            address = re.search(r"http://(course-\w{8}\.localhost)(:\S+)", line)
            if address:  # browsers find the name by themselves, Python does not
                return process, said, f"http://127.0.0.1{address[2]}"
        assert process.stderr
        raise AssertionError(said + process.stderr.read())

    yield open_course
    for process in processes:
        process.terminate()
        process.communicate(timeout=60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_second_run_installs_nothing_and_ctrl_c_ends_it(course: Path, opened: Callable):
    learn(course, "progress")
    port = free_port()
    installed = (course / ".venv" / "pip.log").read_text()
    process, _, address = opened("--port", str(port))
    assert f":{port}/?file=index.py&view-as=present&access_token=" in address
    assert urllib.request.urlopen(address).status == 200
    assert (course / ".venv" / "pip.log").read_text() == installed
    tree = psutil.Process(process.pid).children(recursive=True)
    assert {c.laddr.ip for p in tree for c in listening(p)} == {"127.0.0.1"}
    process.send_signal(signal.SIGINT)
    said, complaints = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (0, "Stopped. Your work is in work/.")
    assert "Traceback" not in complaints
    assert not psutil.wait_procs(tree, timeout=60)[1]


def test_jupyter_wants_its_token_listens_here_alone_and_ends_with_its_kernels(
    course: Path, opened: Callable
):
    process, _, address = opened("jupyter", "--port", str(free_port()))
    assert "requirements-jupyter.txt" in (course / ".venv" / "course.json").read_text()
    plain, token = address.split("/lab/tree/index.ipynb?token=")
    assert len(token) >= 20
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{plain}/api/contents")
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    start = urllib.request.Request(f"{plain}/api/kernels", b"{}", headers)
    assert urllib.request.urlopen(start).status == 201
    tree = psutil.Process(process.pid).children(recursive=True)
    assert any("ipykernel_launcher" in each.cmdline() for each in tree)
    assert {c.laddr.ip for p in tree for c in listening(p)} == {"127.0.0.1"}
    assert not any(token in word for each in tree for word in each.cmdline())
    process.send_signal(signal.SIGINT)
    said, complaints = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (0, "Stopped. Your work is in work/.")
    assert "Traceback" not in complaints
    assert not psutil.wait_procs(tree, timeout=60)[1]


def test_the_server_wants_its_token_and_keeps_it_to_its_owner(course: Path, opened: Callable):
    _, _, address = opened("--port", str(free_port()))
    without, token = address.split("&access_token=")
    assert len(token) >= 20
    page = urllib.request.urlopen(without)
    assert "/auth/login" in page.url
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(without.split("/?")[0] + "/api/status")
    assert (course / "work" / "server.log").stat().st_mode & 0o077 == 0
    commands = [" ".join(p.cmdline()) for p in psutil.process_iter() if is_readable(p)]
    assert not any(token in command for command in commands)


def test_the_course_is_opened_by_a_name_of_its_own():
    """A cookie goes to every port of its host: no other server has ever had this one."""
    first, second = choose_host(), choose_host()
    assert re.fullmatch(r"course-[0-9a-f]{8}\.localhost", first)
    assert first != second


def test_where_the_system_does_not_know_the_name_it_is_the_plain_address(monkeypatch):
    monkeypatch.setattr(server.sys, "platform", "darwin")  # where a browser asks the system

    def unknown(name: str, port: None) -> None:
        raise socket.gaierror(name)

    monkeypatch.setattr(server.socket, "getaddrinfo", unknown)
    assert choose_host() == "127.0.0.1"
    monkeypatch.setattr(server.socket, "getaddrinfo", lambda name, port: [])
    assert choose_host().endswith(".localhost")


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        (None, True),  # no browser
        ("http://127.0.0.1:2718", True),
        ("http://127.0.0.1:2719", False),
        ("http://localhost:2718", False),
        ("https://forwarded.example", True),
        ("http://evil.example", False),
        ("null", False),
    ],
)
def test_only_a_page_of_the_same_host_and_port_may_open_a_websocket(origin: str, own: bool):
    headers = [(b"Host", b"127.0.0.1:2718"), (b"x-forwarded-host", b"forwarded.example")]
    if origin:
        headers.append((b"origin", origin.encode()))
    assert may_open({"type": "websocket", "path": "/ws", "headers": headers}) is own


@pytest.mark.parametrize("stopped_before", [False, True])
def test_a_killed_launcher_takes_its_server_and_a_hanging_kernel_with_it(
    course: Path, opened: Callable, stopped_before: bool
):
    lesson = course / "lessons" / "l01_chunks.py"
    hanging = "    from pathlib import Path\n    Path('hangs').touch()\n    sum(range(10**12))\n"
    lesson.write_text(lesson.read_text().replace("    import marimo as mo\n", hanging))
    process, _, address = opened("--port", str(free_port()))
    with held_session(address, "l01_chunks.py"):
        wait_for(lambda: list(course.rglob("hangs")) != [])
        tree = psutil.Process(process.pid).children(recursive=True)
        assert len(tree) >= 2, "the server and a kernel, which hangs in a call into C"
        if stopped_before:
            process.send_signal(signal.SIGSTOP)
        process.kill()
        process.wait()
        assert not psutil.wait_procs(tree, timeout=60)[1]


def test_a_kernel_computes_with_one_thread(course: Path, opened: Callable, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    lesson = course / "lessons" / "l01_chunks.py"
    told = "    import pathlib, torch\n"
    told += "    pathlib.Path('threads').write_text(str(torch.get_num_threads()))\n"
    lesson.write_text(lesson.read_text().replace("    import marimo as mo\n", told))
    _, _, address = opened("--port", str(free_port()))
    with held_session(address, "l01_chunks.py"):
        wait_for(lambda: [file.read_text() for file in course.rglob("threads")] == ["1"])


def test_checks_and_lessons_compute_with_one_thread_wherever_they_run():
    count = "import torch, course.limited_call; print(torch.get_num_threads())"
    done = run([sys.executable, "-c", count], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "3"})
    assert done.stdout == "1\n"
    for lesson in (ROOT / "lessons").glob("l*.py"):
        assert "from course.attempt import " in lesson.read_text(), "which loads limited_call"


def test_what_is_kept_while_the_course_is_open_is_said(course: Path, opened: Callable):
    process, _, _ = opened("--port", str(free_port()))
    lesson = course / "work" / "l01_chunks.py"
    note(keep(lesson, b"mine", lesson.parent)[0], "It gave way.")
    [kept] = lesson.parent.glob("kept/*.py")
    assert process.stdout
    said = [process.stdout.readline() for _ in range(3)]
    assert said[-1].endswith(f"It gave way. It is kept as work/kept/{kept.name}.\n")


def test_a_version_is_kept_once(tmp_path: Path):
    lesson = tmp_path / "work" / "l01_chunks.py"
    lesson.parent.mkdir()
    kept = [keep(lesson, text, tmp_path) for text in (b"one", b"two", b"one")]
    assert [(each.read_bytes(), is_new) for each, is_new in kept] == [
        (b"one", True),
        (b"two", True),
        (b"one", False),
    ]
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_taken_port_is_said_and_another_one_is_used(course: Path, opened: Callable):
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            squatter.bind(("127.0.0.1", 2718))
            squatter.listen()
        except OSError:
            pass  # something else has it, which is as good
        _, said, address = opened()
        assert "Port 2718 is taken (perhaps the course is open already)" in said
        assert "127.0.0.1:2718/" not in address
        refused = learn(course, "--port", "2718", "--no-browser")
        assert_one_sentence(refused, "port 2718 is taken by another program")


def test_the_app_shows_no_code(course: Path, opened: Callable):
    process, _, address = opened("run", "--port", str(free_port()))
    assert "/?file=index.py&access_token=" in address
    assert b"raise NotImplementedError" not in urllib.request.urlopen(address).read()
    process.terminate()
    assert process.wait(60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX system")
def test_the_launcher_ends_wherever_in_its_wait_it_is_asked_to(tmp_path: Path):
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED_WITHIN_A_WAIT)
    done = run([sys.executable, str(script), str(tmp_path)], cwd=ROOT)
    ends = [line for line in done.stdout.splitlines() if re.fullmatch(r"\d+ \d+", line)]
    assert ends == [f"{line} 0" for line in range(1, 25)], done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX system")
def test_what_is_to_outlive_its_terminal_does():
    """`nohup` has the signal of a closed terminal ignored."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asked = server._requests_to_stop()
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert (asked.get_nowait(), asked.empty()) == (signal.SIGTERM, True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_server_that_cannot_start_is_said(course: Path):
    learn(course, "progress")
    program = course / ".venv" / "bin" / "python"
    program.write_text("#!/bin/sh\necho No module named marimo\nexit 1\n")
    done = learn(course, "--no-browser", "--port", str(free_port()))
    warning, failure = done.stderr.splitlines()
    assert "is a temporary folder" in warning
    assert failure == "learn.py: the course server did not start: No module named marimo."
    assert done.returncode == 1


@contextlib.contextmanager
def held_session(address: str, file: str) -> Iterator[None]:
    """A lesson opened as its page does it: the kernel starts, and runs every cell."""
    plain = urlsplit(address)
    token = parse_qs(plain.query)["access_token"][0]
    where = f"{plain.netloc}/ws?file={file}&session_id=s_test01&access_token={token}"
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = browser.open(address).read().decode()
    headers = {
        "Authorization": f"Bearer {token}",
        "Marimo-Session-Id": "s_test01",
        "Marimo-Server-Token": re.findall(r'server-token data-token="([^"]+)"', page)[0],
        "Content-Type": "application/json",
    }
    run_all = urllib.request.Request(
        f"http://{plain.netloc}/api/kernel/instantiate",
        b'{"objectIds": [], "values": [], "autoRun": true}',
        headers,
    )
    with connect(f"ws://{where}", max_size=None) as session:
        session.recv()
        urllib.request.urlopen(run_all)
        yield


def listening(process: psutil.Process) -> list:
    return [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def is_readable(process: psutil.Process) -> bool:
    try:
        process.cmdline()
    except psutil.Error:
        return False
    return True
