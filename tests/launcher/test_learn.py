"""learn.py: what each verb does, says and refuses, and what `doctor` finds wrong."""

import ast
import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from launching import LESSON, NOTHING_TO_INSTALL, learn, wait_for
from support import ROOT, run
from tiers import some

from course.launcher import command, doctor
from course.launcher.command import COMMANDS, FOR_OTHERS, Launcher
from course.launcher.failure import learn_command


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Launcher:
    """learn.py in this process, for a course of one lesson with nothing installed."""
    (tmp_path / "lessons").mkdir()
    for stem in ("index", "l01_chunks"):
        (tmp_path / "lessons" / f"{stem}.py").write_text(LESSON.format(title=stem))
    (tmp_path / "pyproject.toml").write_text(NOTHING_TO_INSTALL)
    return Launcher(tmp_path)


@pytest.mark.parametrize("version", [(3, 9, 1), (3, 15, 0)])
def test_a_python_without_a_build_of_pytorch_is_refused(monkeypatch, version: tuple[int, ...]):
    """Newer syntax above the version check, or in the file at all, would be a SyntaxError."""
    text = (ROOT / "learn.py").read_text()
    ast.parse(text, feature_version=(3, 6))
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 to 3\.14, and this is Python 3\."):
        exec(text, {"__name__": "learn", "__file__": str(ROOT / "learn.py")})


def test_help_lists_every_command(here: Launcher, capsys):
    for arguments in (["--help"], ["check", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            here.run(arguments)
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n    {name} " not in said] == []
    assert "check your answers in the terminal" in said.rpartition("usage: ")[2]


WRONG_CALLS = {
    "chekc": "invalid choice: 'chekc' (choose from ",
    "--port 80": "--port: 80 is out of range: it must be from 1024 to 65535",
    "jupyter --speed": "unrecognized arguments: --speed",
    "--host 192.0.2.1": "invalid choice: '192.0.2.1'",
    "reset": "required: LESSON",
    "reset l77": "There is no lesson 'l77'; the lessons are: ",
    "reset l01.plan_step": "l01.plan_step is an exercise; name its lesson, l01.",
}


def test_a_wrong_call_is_refused_in_one_sentence(here: Launcher, capsys):
    for arguments, words in WRONG_CALLS.items():
        with contextlib.suppress(SystemExit):  # argparse's
            assert here.run(arguments.split()) == 1
        said = capsys.readouterr()
        assert words in said.err.splitlines()[-1]
        assert said.out == "" and not (here.root / ".venv").exists()


def test_a_failure_of_the_disk_and_ctrl_c_are_one_sentence(here: Launcher, capsys, monkeypatch):
    def fail() -> int:
        raise errors.pop()

    monkeypatch.setattr(here.workspace, "update", fail)
    errors = [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space", "work/x")]
    assert [here.run(["update"]), here.run(["update"])] == [1, 130]
    said = "learn.py: work/x: the disk is full: make room.\nlearn.py: stopped.\n"
    assert capsys.readouterr().err == said


def test_on_windows_the_launcher_waits_and_leaves_ctrl_c_to_the_program(monkeypatch):
    def interrupted(command: list[str], **_: object) -> int:
        signal.raise_signal(signal.SIGINT)  # which the console sends to both
        return 130

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(command.subprocess, "call", interrupted)
    with monkeypatch.context() as patch:
        patch.setattr(command.os, "name", "nt")
        assert command.become(["python"]) == 130
    signal.signal(signal.SIGINT, before)


def test_a_command_installs_what_it_needs(here: Launcher, monkeypatch):
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(here.installation, "ensure", lambda *extras: asked.append(extras))
    monkeypatch.setattr(command, "serve", lambda *_: 0)
    monkeypatch.setattr(command, "become", lambda *_: 0)
    monkeypatch.chdir(here.root)
    for argv in ([], ["jupyter"], ["check", "l01"], ["test"], ["demo", "live"], ["demo", "l01"]):
        assert here.run(argv) == 0
    assert asked == [(), ("jupyter",), (), ("dev",), ("live",), ()]


def test_what_becomes_of_the_lessons_is_said_and_what_is_wrong_with_them_before_the_long_wait(
    here: Launcher, capsys, monkeypatch
):
    monkeypatch.setattr(here.installation, "ensure", lambda *_: sys.stdout.write("installed\n"))
    assert here.run(["update"]) == here.run(["update"]) == 0
    (here.root / "lessons" / "l01_chunks.py").write_text(LESSON.format(title="Better"))
    here.prepare()
    assert here.run(["reset", "l01"]) == 0
    said = (
        "index.py is new.\nl01_chunks.py is new.\nEverything is up to date.\ninstalled\n"
        "There is a newer version of l01_chunks.py: python3 learn.py update\n"
        "The lesson is as new; exercises that you have passed stay passed.\n"
        r"Yours is kept: work/kept/l01_chunks\.[\d-]+\.py\n"
    )
    assert re.fullmatch(said, capsys.readouterr().out)
    (here.root / "work").rename(here.root / "elsewhere")
    (here.root / "work").touch()
    assert here.run(["progress"]) == 1
    told = capsys.readouterr()
    assert "move it away" in told.err and told.out == ""


def test_the_doctor_finds_what_is_wrong(here: Launcher, capsys, monkeypatch):
    (here.root / ".installing").touch()
    monkeypatch.setattr(doctor, "is_temporary", lambda root: True)
    assert here.run(["doctor"]) == 1
    said = capsys.readouterr().out
    for finding in (
        "   ok  Python 3.",
        "wrong  .venv is half made, or being made: python3 learn.py makes it anew.",
        f"wrong  {here.root} is a temporary folder",
    ):
        assert finding in said, said
    (here.root / ".installing").unlink()
    monkeypatch.setattr(doctor, "is_temporary", lambda root: False)
    assert here.run(["doctor"]) == 0
    assert " note  the course is not installed yet" in capsys.readouterr().out


def test_what_is_slow_or_may_fail_about_a_folder_is_noted(monkeypatch):
    long = Path("/" + "x" * 66)
    monkeypatch.delenv("WSL_DISTRO_NAME", raising=False)
    assert not [*doctor.notes(long), *doctor.notes(Path("/mnt/c/course"))]
    for folder in (
        "/Users/me/Library/Mobile Documents/course",
        "C:/Users/me/OneDrive - Uni/course",
    ):
        assert "in a folder that is synced" in next(doctor.notes(Path(folder)))
    monkeypatch.setenv("WSL_DISTRO_NAME", "Debian")
    assert "slow from WSL" in next(doctor.notes(Path("/mnt/c/course")))
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    with monkeypatch.context() as patch:
        patch.setattr(doctor.sys, "platform", "darwin")
        assert "no builds for Macs with Intel" in next(doctor.notes(long))
    with monkeypatch.context() as patch:
        patch.setattr(doctor.os, "name", "nt")
        [said] = doctor.notes(long)
    assert "has more than 66 characters" in said


def test_commands_that_are_printed_are_those_of_the_system(here: Launcher, capsys, monkeypatch):
    """Windows has `py`; its `python3` opens the Store."""
    printed = [ROOT / "learn.py", *ROOT.glob("course/**/*.py")]
    text = {path.name: path.read_text(encoding="utf-8") for path in printed}
    assert {name for name in text if '"python3 learn.py' in text[name]} == {"failure.py"}
    assert learn_command() == "python3 learn.py"
    with monkeypatch.context() as patch:
        patch.setattr(command.os, "name", "nt")
        usage = command.parser().format_usage()
    assert usage.startswith("usage: py learn.py ")


def test_what_a_shell_has_set_for_other_pythons_reaches_no_process_of_the_courses(monkeypatch):
    for name in (*FOR_OTHERS, "PIP_USER"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(Launcher, "run", lambda *_: 0)
    assert command.main() == 0
    assert not set(FOR_OTHERS) & set(os.environ) and os.environ["PIP_USER"] == "0"


def test_a_temporary_folder_is_known_by_its_path():
    windows = "C:/Users/me/AppData/Local/Temp/course"
    folders = ("/tmp", "/private/var/folders/ab/course", windows, "/home/me/tmpfiles/course")
    assert [doctor.is_temporary(Path(each)) for each in folders] == [True, True, True, False]


@pytest.mark.process
def test_it_runs_before_anything_is_installed(bare: Path):
    for options in (["-S", "-P"], ["-S", "-I", "-OO"]):
        for arguments in (["reset", "l01"], ["--help"]):
            done = run([sys.executable, *options, "learn.py", *arguments], cwd=bare)
            assert (done.returncode, done.stderr) == (0, "") and done.stdout
    assert (bare / "work" / "l01_chunks.py").exists()


@pytest.mark.process
def test_arguments_and_the_status_are_passed_on(course: Path):
    with (course / "course" / "__main__.py").open("a") as file:
        file.write("sys.exit(len(sys.argv))\n")
    done = learn(course, "check", "l01")
    assert (done.returncode, done.stdout) == (3, "asked check l01\n")
    assert learn(course, "test", "no_such_file.py").returncode == 4
    assert (course / "work" / "l01_chunks.py").exists()


@pytest.mark.process
def test_ctrl_c_during_a_check_ends_all_that_was_started(course: Path):
    """A terminal sends it to every process of the launcher's group, and no other gets to know."""
    (course / "course" / "__main__.py").write_text(
        """import pathlib, subprocess, sys
try:
    child = subprocess.Popen(["sleep", "600"])
    pathlib.Path("checking").touch()
    child.wait()
except KeyboardInterrupt:
    sys.exit(130)
"""
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [sys.executable, "learn.py", "check", "l01"]
    with subprocess.Popen(started, cwd=course, start_new_session=True, **pipes) as stopped:
        wait_for((course / "checking").exists)
        checking = psutil.Process(stopped.pid).children(recursive=True)
        assert len(checking) == 1
        os.killpg(stopped.pid, signal.SIGINT)
        assert (stopped.communicate(timeout=60)[1], stopped.returncode) == ("", 130)
    assert not psutil.wait_procs(checking, timeout=60)[1]


# The interpreter names every module that it loads, in the processes that it starts, too.
HEAVY = {"torch", "numpy", "matplotlib", "marimo"}


LIGHT = (
    "-m nanogpt.fleet --duration 1 --json",
    "-m nanogpt.slo --help",
    "-m benchmarks.fleet --help",
    "-m course progress",
    *(f"-m course {verb} --help" for verb in ("check", "audit", "grade", "demo", "site")),
    "learn.py --help",
)


@pytest.mark.process
@pytest.mark.parametrize("command", some(LIGHT, 3))
def test_a_command_that_computes_nothing_loads_no_framework(command: str):
    timed = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = run([sys.executable, *command.split()], cwd=ROOT, env=timed)
    loaded = set(re.findall(r"^import time: .*\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert done.returncode == 0 and "site" in loaded
    assert loaded & HEAVY == set()
