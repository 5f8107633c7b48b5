"""learn.py opens the course: its address, its token, its port, its end."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from launching import assert_one_sentence, learn


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
            address = re.search(r"http://\S+", line)
            if address:
                return process, said, address[0]
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
    assert address.startswith(f"http://127.0.0.1:{port}/?file=index.py&view-as=present&access_to")
    assert urllib.request.urlopen(address).status == 200
    assert (course / ".venv" / "pip.log").read_text() == installed
    tree = psutil.Process(process.pid).children(recursive=True)
    assert {c.laddr.ip for p in tree for c in listening(p)} == {"127.0.0.1"}
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


def test_a_server_that_cannot_start_is_said(course: Path):
    learn(course, "progress")
    program = course / ".venv" / "bin" / "python"
    program.write_text("#!/bin/sh\necho No module named marimo\nexit 1\n")
    done = learn(course, "--no-browser", "--port", str(free_port()))
    warning, failure = done.stderr.splitlines()
    assert "is a temporary folder" in warning
    assert failure == "learn.py: the course server did not start: No module named marimo."
    assert done.returncode == 1


def listening(process: psutil.Process) -> list:
    return [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def is_readable(process: psutil.Process) -> bool:
    try:
        process.cmdline()
    except psutil.Error:
        return False
    return True
