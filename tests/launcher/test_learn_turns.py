"""Two launchers, a killed one, Ctrl-C and a closed pipe: one sentence, and all is whole."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest
from launching import learn, wait_for
from support import ROOT, lend_python

pytestmark = pytest.mark.process

LEARN = [sys.executable, "learn.py"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """No test here gets anything: where pip is real, the requirements are empty."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Launchers that a test started; what is left of them is ended."""
    launchers: list[subprocess.Popen[str]] = []
    yield launchers
    for launcher in launchers:
        with launcher:  # what it may have left holds its pipes, and is not waited for
            launcher.kill()


def start(course: Path, *arguments: str, **options: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*LEARN, *arguments], cwd=course, **{**pipes, **options})  # type: ignore[call-overload]


def hang(course: Path) -> Path:
    """Let installing in this course go on for as long as the returned file is there."""
    file = course / ".venv" / "uv"
    file.write_text("hang")
    return file


def read_until(output: IO[str] | None, words: str) -> None:
    assert output
    said = ""
    for line in output:
        said += line
        if words in line:
            return
    raise AssertionError(said)


def is_whole(course: Path) -> bool:
    stamp = json.loads((course / ".venv" / "course.json").read_text())
    return (
        stamp.keys() == {"requirements.txt", "installer"} and not (course / ".installing").exists()
    )


def test_a_second_launcher_waits_for_the_first_and_installs_nothing(course: Path, started: list):
    hanging = hang(course)
    first = start(course, "progress")
    started.append(first)
    wait_for((course / ".venv" / "hanging").exists)
    second = start(course, "check", "l01")
    started.append(second)
    read_until(second.stdout, f"waiting for process {first.pid}, which had begun to install before")
    hanging.unlink()
    said, complaints = second.communicate(timeout=60)
    assert (said, complaints) == ("asked check l01\n", "")
    assert first.communicate(timeout=60)[0].endswith("asked progress\n")
    log = (course / ".venv" / "uv.log").read_text().splitlines()
    assert sum("--dry-run" not in line for line in log) == 1
    assert is_whole(course)


def test_two_launchers_at_once_from_nothing_make_one_venv(bare: Path, started: list):
    started += [start(bare, "progress"), start(bare, "progress")]
    said = [each.communicate(timeout=300)[0] for each in started]
    assert [each.returncode for each in started] == [0, 0], said
    assert sum("Installed in" in each for each in said) == 1
    assert all(each.endswith("asked progress\n") for each in said)
    assert is_whole(bare)


def test_after_a_killed_launcher_the_next_waits_for_what_it_left_and_begins_anew(
    course: Path, started: list
):
    hanging = hang(course)
    killed = start(course, "progress")
    started.append(killed)
    wait_for((course / ".venv" / "hanging").exists)
    killed.kill()
    killed.wait()
    following = start(course, "progress")
    started.append(following)
    read_until(following.stdout, f"waiting for process {killed.pid}, ")
    hanging.unlink()
    said, complaints = following.communicate(timeout=300)
    assert following.returncode == 0, complaints
    assert "making .venv anew" in said
    assert said.endswith("asked progress\n")
    assert is_whole(course)


def test_a_launcher_killed_while_it_makes_the_venv_leaves_nothing_in_the_way(
    bare: Path, started: list
):
    killed = start(bare, "progress")
    started.append(killed)
    wait_for((bare / ".venv" / "pyvenv.cfg").exists)
    killed.kill()
    killed.wait()
    done = learn(bare, "progress")
    assert done.returncode == 0, done.stderr
    assert "making .venv anew" in done.stdout
    assert not list(bare.glob(".venv-kept-*"))
    assert is_whole(bare)


def test_ctrl_c_during_an_installation_is_one_line(course: Path, started: list):
    hang(course)
    stopped = start(course, "progress")
    started.append(stopped)
    wait_for((course / ".venv" / "hanging").exists)
    installing = psutil.Process(stopped.pid).children()
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate(timeout=60)[1] == "learn.py: stopped.\n"
    assert stopped.returncode == 130
    assert not psutil.wait_procs(installing, timeout=60)[1]
    assert not (course / ".installing").exists()


BLOCK = "import pathlib, time\npathlib.Path('{}').touch()\ntime.sleep(600)\n"


def test_ctrl_c_while_the_launcher_itself_is_loaded_is_one_line(bare: Path, started: list):
    (bare / "course" / "launcher" / "__init__.py").write_text(BLOCK.format("loading"))
    stopped = start(bare, "progress")
    started.append(stopped)
    wait_for((bare / "loading").exists)
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate(timeout=60) == ("", "learn.py: stopped.\n")
    assert stopped.returncode == 130


def test_ctrl_c_during_a_check_is_one_line(course: Path, started: list):
    """A terminal sends it to every process of the launcher's group, and no other gets to know."""
    helper = "import subprocess\nsubprocess.Popen(['sleep', '600'])\n"
    (course / "course" / "__main__.py").write_text(helper + BLOCK.format("checking"))
    stopped = start(course, "check", "l01", start_new_session=True)
    started.append(stopped)
    wait_for((course / "checking").exists)
    checking = psutil.Process(stopped.pid).children(recursive=True)
    assert len(checking) == 2
    os.killpg(stopped.pid, signal.SIGINT)
    assert stopped.communicate(timeout=60)[1] == "learn.py: stopped.\n"
    assert stopped.returncode == 130
    assert not psutil.wait_procs(checking, timeout=60)[1]


# The launcher is busy elsewhere for a while, once it has started what it was asked for.
SLOWLY = """
import pathlib, runpy, subprocess, sys, time
start = subprocess.Popen.__init__
def start_slowly(self, command, *rest, **options):
    start(self, command, *rest, **options)
    if sys.argv[1] in command:
        pathlib.Path("started").touch()
        time.sleep(1)
subprocess.Popen.__init__ = start_slowly
sys.argv[0] = "learn.py"
runpy.run_path("learn.py", run_name="__main__")
"""


@pytest.mark.parametrize(("verb", "number"), [("check", signal.SIGINT), ("demo", signal.SIGTERM)])
def test_a_process_that_is_just_started_is_ended_too(
    course: Path, started: list, verb: str, number: int
):
    (course / "course" / "__main__.py").write_text(BLOCK.format("running"))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    stopped = subprocess.Popen([sys.executable, "-c", SLOWLY, verb, "l01"], cwd=course, **pipes)
    started.append(stopped)
    wait_for((course / "started").exists)
    [asked] = psutil.Process(stopped.pid).children()
    stopped.send_signal(number)
    stopped.communicate(timeout=60)
    assert not psutil.wait_procs([asked], timeout=60)[1]


@pytest.mark.parametrize(
    "command",
    [
        ["learn.py", "--help"],
        ["learn.py", "doctor"],
        ["learn.py", "update"],
        ["-m", "course", "progress"],
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_error(bare: Path, command: list[str], unbuffered: str):
    """As `| head -1` has, before it is all said."""
    (bare / "course" / "__main__.py").write_bytes((ROOT / "course" / "__main__.py").read_bytes())
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=bare,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_wrong_with_work_is_said_before_anything_is_installed(bare: Path, kind: str):
    lend_python(bare, sys.executable)
    (bare / "work").touch() if kind == "file" else (bare / "work").symlink_to("nowhere")
    done = learn(bare, "progress")
    assert (done.returncode, done.stdout) == (1, "")
    assert "move it away" in done.stderr
