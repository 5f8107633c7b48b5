"""Launchers that are killed or interrupted, or begin at once, in real environments, too."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from launching import wait_for

from course.launcher.install import COURSE, Installation

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """No test here gets anything: where pip is real, the requirements are empty."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


Start = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a launcher; what is left of it is ended."""
    launchers: list[subprocess.Popen[str]] = []

    def start_one(course: Path) -> "subprocess.Popen[str]":
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "learn.py", "progress"]
        launchers.append(subprocess.Popen(command, cwd=course, **pipes))
        return launchers[-1]

    yield start_one
    for launcher in launchers:
        with launcher:  # what it may have left holds its pipes, and is not waited for
            launcher.kill()


def is_whole(course: Path) -> bool:
    left = (course / ".installing").exists()
    return Installation(course).holds(COURSE) and not left


def test_ctrl_c_during_an_installation_is_one_line(course: Path, start: Start):
    (course / ".venv" / "uv").write_text("hang")
    stopped = start(course)
    wait_for((course / ".venv" / "hanging").exists)
    installing = psutil.Process(stopped.pid).children()
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate(timeout=60)[1] == "learn.py: stopped.\n"
    assert stopped.returncode == 130
    assert not psutil.wait_procs(installing, timeout=60)[1]
    assert not (course / ".installing").exists()


@pytest.mark.nightly
def test_two_launchers_at_once_from_nothing_make_one_venv(bare: Path, start: Start):
    started = [start(bare), start(bare)]
    said = [each.communicate(timeout=300)[0] for each in started]
    assert sum("Installed in" in each for each in said) == 1
    assert all(each.endswith("asked progress\n") for each in said)
    assert is_whole(bare)


@pytest.mark.nightly
def test_after_a_killed_launcher_the_next_waits_for_what_it_left_and_begins_anew(
    course: Path, start: Start
):
    hanging = course / ".venv" / "uv"
    hanging.write_text("hang")  # as long as this file is there
    killed = start(course)
    wait_for((course / ".venv" / "hanging").exists)
    killed.kill()
    killed.wait()
    following = start(course)
    assert f"waiting for process {killed.pid}, " in following.stdout.readline()
    hanging.unlink()
    said, complaints = following.communicate(timeout=300)
    assert following.returncode == 0, complaints
    assert "making .venv anew" in said
    assert said.endswith("asked progress\n")
    assert is_whole(course)
