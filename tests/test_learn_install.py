"""learn.py makes .venv and installs once, and mends what was cut short."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from launching import assert_one_sentence, learn, wait_for

from course.launcher.install import Installation


def installs(course: Path) -> list[str]:
    log = course / ".venv" / "pip.log"
    return log.read_text().splitlines() if log.exists() else []


def test_the_first_run_installs_and_the_second_does_not(course: Path):
    first = learn(course, "progress")
    assert first.returncode == 0, first.stderr
    assert re.search(r"Installing: +\d+ s, ", first.stdout)
    assert first.stdout.endswith("asked progress\n")
    assert [line.split("--no-input ")[1] for line in installs(course)] == ["-r requirements.txt"]
    second = learn(course, "check", "l01")
    assert second.stdout == "asked check l01\n"
    assert len(installs(course)) == 1


def test_the_tests_need_more_than_the_course(course: Path):
    (course / "course" / "__main__.py").unlink()
    learn(course, "progress")
    done = learn(course, "test", "--version")
    assert done.returncode == 0, done.stdout + done.stderr
    assert installs(course)[1].endswith("-r requirements.txt -r requirements-test.txt")
    learn(course, "test", "--version")
    learn(course, "progress")
    assert len(installs(course)) == 2


def test_the_status_of_the_tests_passes_through(course: Path):
    assert learn(course, "test", "no_such_file.py").returncode == 4


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_changed_requirements_are_installed(course: Path, name: str):
    learn(course, "progress")
    with (course / name).open("a") as file:
        file.write("# another pin\n")
    learn(course, "progress")
    assert len(installs(course)) == 2


def test_a_moved_course_is_installed_anew(course: Path):
    learn(course, "progress")
    moved = course.rename(course.parent / "moved")
    lend = (moved / ".venv" / "bin" / "python").read_text()
    (moved / ".venv" / "bin" / "python").write_text(lend.replace(str(course), str(moved)))
    learn(moved, "progress")
    assert len(installs(moved)) == 2


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fail", "installing failed (ERROR: No matching distribution found for torch)"),
        ("full", "because the disk is full"),
        ("cut off", "because the package index could not be reached: check the network"),
    ],
)
def test_a_failed_installation_is_said(course: Path, mode: str, words: str):
    (course / ".venv" / "pip").write_text(mode)
    assert_one_sentence(learn(course, "progress"), words, ".venv/install.log")


def test_an_installation_that_failed_on_the_way_begins_anew(course: Path):
    learn(course, "progress")
    (course / ".venv" / "pip").write_text("full")
    assert learn(course, "test").returncode == 1
    done = learn(course, "progress")
    assert "Making .venv" in done.stdout
    assert done.stdout.endswith("asked progress\n")


def test_without_a_network_what_is_installed_goes_on_working(course: Path):
    learn(course, "progress")
    (course / ".venv" / "pip").write_text("cut off")
    assert learn(course, "test").returncode == 1
    assert learn(course, "progress").stdout == "asked progress\n"
    (course / ".venv" / "pip").unlink()
    learn(course, "test", "--version")
    assert len(installs(course)) == 3


def test_an_interrupted_installation_begins_anew(course: Path):
    (course / ".venv" / "pip").write_text("hang")
    command = [sys.executable, "learn.py", "progress"]
    with subprocess.Popen(command, cwd=course, stdout=subprocess.DEVNULL) as cut_short:
        wait_for((course / ".venv" / "hanging").exists)
        children = psutil.Process(cut_short.pid).children()
        cut_short.kill()
        for child in children:
            child.kill()
    done = learn(course, "progress")
    assert "Making .venv" in done.stdout
    assert done.stdout.endswith("asked progress\n")
    assert not (course / ".venv" / "hanging").exists()


def test_ctrl_c_during_an_installation_is_no_traceback(course: Path):
    (course / ".venv" / "pip").write_text("hang")
    command = [sys.executable, "learn.py", "progress"]
    with subprocess.Popen(command, cwd=course, stderr=subprocess.PIPE, text=True) as stopped:
        wait_for((course / ".venv" / "hanging").exists)
        stopped.send_signal(signal.SIGINT)
        assert stopped.stderr
        assert stopped.stderr.read() == "learn.py: stopped.\n"
    assert stopped.returncode == 130


def test_a_half_made_venv_is_made_anew(bare: Path):
    venv = bare / ".venv"
    venv.symlink_to(bare / "gone")
    done = learn(bare, "check", "l01")
    assert done.returncode == 0, done.stderr
    assert "Making .venv" in done.stdout
    assert "asked check l01" in done.stdout
    assert json.loads((venv / "course.json").read_text()).keys() == {"requirements.txt"}


@pytest.mark.parametrize("stamp", ["{", "[1]", '{"unfinished": "yes"}'])
def test_a_damaged_stamp_counts_as_a_half_made_venv(course: Path, stamp: str):
    assert not Installation(course).is_half_made()
    (course / ".venv" / "course.json").write_text(stamp)
    assert Installation(course).is_half_made()
