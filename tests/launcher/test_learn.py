"""learn.py: what each verb does, says and refuses, and what `doctor` finds wrong."""

import ast
import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest
from launching import LESSON, learn, load_learn, wait_for
from support import ROOT, run
from tiers import some

from course.launcher import doctor
from course.launcher.install import COURSE, JUPYTER, LIVE, TESTS


@pytest.fixture
def here(tmp_path: Path) -> Iterator[ModuleType]:
    """learn.py in this process, for a course of one lesson with nothing installed."""
    (tmp_path / "lessons").mkdir()
    for stem in ("index", "l01_chunks"):
        (tmp_path / "lessons" / f"{stem}.py").write_text(LESSON.format(title=stem))
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in signals]
    yield load_learn(tmp_path)
    for each, handler in zip(signals, before, strict=True):
        signal.signal(each, handler)


def test_an_older_python_says_what_it_needs(tmp_path: Path, monkeypatch):
    """Newer syntax above the version check, or in the file at all, would be a SyntaxError."""
    ast.parse((ROOT / "learn.py").read_text(), feature_version=(3, 6))
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer, and this is Python 3\.9"):
        load_learn(tmp_path)


def test_help_lists_every_verb(here: ModuleType, capsys):
    assert here.main(["--help"]) == here.main(["check", "--help"]) == 0
    said = capsys.readouterr().out
    assert [verb for verb in here.VERBS if f"learn.py {verb} " not in said] == ["open"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chekc"], "there is no verb 'chekc'; the verbs are: open, run, jupyter, check"),
        (["--port", "80"], "--port 80 is out of range: it must be from 1024 to 65535"),
        (["run", "--port", "x"], "invalid int value: 'x'"),
        (["jupyter", "--speed"], "unrecognized arguments: --speed"),
        (["--host", "192.0.2.1"], "invalid choice: '192.0.2.1'"),
        (["reset"], "reset takes one lesson"),
        (["reset", "l77"], "there is no lesson 'l77'; the lessons are: l01_chunks"),
        (["update", "l01"], "update takes no arguments, not 'l01'"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(
    here: ModuleType, capsys, arguments: list[str], words: str
):
    assert here.main(arguments) == 1
    said = capsys.readouterr()
    assert re.fullmatch(r"learn\.py: .+\.\n", said.err) and words in said.err
    assert said.out == "" and not (here.ROOT / ".venv").exists()


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space", "work/x"), 1, "work/x: the disk is full: make room."),
        (KeyboardInterrupt(), 130, "stopped."),
    ],
)
def test_a_failure_of_the_disk_and_ctrl_c_are_one_sentence(
    here: ModuleType, capsys, error: BaseException, status: int, sentence: str
):
    def fail(argv: list[str]) -> int:
        raise error

    here.VERBS["update"] = fail
    assert here.main(["update"]) == status
    assert capsys.readouterr().err == f"learn.py: {sentence}\n"


def test_update_and_reset_say_what_they_did(here: ModuleType, capsys):
    assert here.main(["update"]) == 0
    assert here.main(["update"]) == 0
    assert capsys.readouterr().out == (
        "index.py is new.\nl01_chunks.py is new.\nEverything is up to date.\n"
    )
    assert here.main(["reset", "l01"]) == 0
    kept = r"The lesson is as new\. Yours is kept: work/kept/l01_chunks\.[\d-]+\.py\n"
    assert re.fullmatch(kept, capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "files"),
    [
        (["open"], (COURSE,)),
        (["jupyter"], (COURSE, JUPYTER)),
        (["check", "l01"], (COURSE,)),
        (["demo", "live"], (COURSE, LIVE)),
        (["test"], (COURSE, TESTS)),
    ],
)
def test_a_verb_installs_what_it_needs(
    here: ModuleType, monkeypatch, argv: list[str], files: tuple[str, ...]
):
    def refuse(*_: object, **__: object) -> None:
        raise OSError("nothing is started here")

    asked = []
    monkeypatch.setattr(here.INSTALLATION, "ensure", lambda *files: asked.append(files))
    monkeypatch.setattr(here, "serve", refuse)
    monkeypatch.setattr(here.subprocess, "Popen", refuse)
    assert here.main(argv) == 1
    assert asked[0] == files


def test_newer_lessons_are_mentioned_and_what_is_wrong_with_work_is_said_before_the_long_wait(
    here: ModuleType, capsys, monkeypatch
):
    installed = []
    monkeypatch.setattr(here.INSTALLATION, "ensure", lambda *files: installed.append(files))
    here.prepare()
    assert capsys.readouterr().out == ""
    (here.ROOT / "lessons" / "l01_chunks.py").write_text(LESSON.format(title="Better"))
    here.prepare()
    assert capsys.readouterr().out == (
        "There is a newer version of l01_chunks.py: python3 learn.py update\n"
    )
    (here.ROOT / "work").rename(here.ROOT / "elsewhere")
    (here.ROOT / "work").touch()
    assert here.main(["progress"]) == 1
    assert "move it away" in capsys.readouterr().err
    assert len(installed) == 2


# ---- doctor --------------------------------------------------------------------------------------


def test_the_doctor_finds_what_is_wrong(here: ModuleType, capsys, monkeypatch):
    (here.ROOT / ".venv").mkdir()
    (here.ROOT / ".venv" / "course.json").write_text('{"unfinished": "yes"}')
    monkeypatch.setattr(doctor, "port_is_free", lambda port: False)
    monkeypatch.setattr(doctor, "is_temporary", lambda root: True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    assert here.main(["doctor"]) == 1
    said = capsys.readouterr().out
    for finding in (
        "   ok  Python 3.",
        "wrong  .venv is half made: python3 learn.py makes it anew.",
        f"wrong  {here.ROOT} is a temporary folder",
        " note  port 2718 is taken",
        " note  no browser was found here",
        " note  node is not installed",
        " note  Chromium is not installed",
    ):
        assert finding in said, said


def test_a_taken_port_a_missing_display_and_nothing_installed_are_nothing_wrong(
    here: ModuleType, capsys, monkeypatch
):
    monkeypatch.setattr(doctor, "port_is_free", lambda port: False)
    monkeypatch.setattr(doctor, "has_display", lambda: False)
    monkeypatch.setattr(doctor, "is_temporary", lambda root: False)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**12))
    assert here.main(["doctor"]) == 0
    assert " note  the course is not installed yet" in capsys.readouterr().out


def test_what_would_make_an_installation_fail_is_said_before_it(tmp_path: Path, monkeypatch):
    def refuse(dir: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    with monkeypatch.context() as patch:
        patch.setattr(doctor.tempfile, "TemporaryFile", refuse)
        [said] = doctor.before_install(tmp_path)
    assert said.startswith(f"{tmp_path} cannot be written to (Permission denied): change its")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=12 * 10**8))
    assert list(doctor.before_install(tmp_path)) == [
        "the disk has 1.2 GB free, and the course needs 3 GB: make room."
    ]
    (tmp_path / ".venv").mkdir()
    assert not list(doctor.before_install(tmp_path)), "what is installed takes no more room"


def test_a_temporary_folder_is_known_by_its_path():
    windows = "C:/Users/me/AppData/Local/Temp/course"
    for folder in ("/tmp/course", "/tmp", "/private/var/folders/ab/course", windows):
        assert doctor.is_temporary(Path(folder)), folder
    for folder in ("/home/me/tmpfiles/course", "/home/me/course"):
        assert not doctor.is_temporary(Path(folder)), folder


# ---- as a process --------------------------------------------------------------------------------


@pytest.mark.process
def test_it_runs_before_anything_is_installed(bare: Path):
    done = run([sys.executable, "-S", "learn.py", "reset", "l01"], cwd=bare)
    assert (done.returncode, done.stderr) == (0, "")
    assert (bare / "work" / "l01_chunks.py").exists()


@pytest.mark.process
def test_the_first_call_installs_and_every_call_passes_arguments_and_the_status_on(course: Path):
    with (course / "course" / "__main__.py").open("a") as file:
        file.write("sys.exit(len(sys.argv))\n")
    first = learn(course, "progress")
    assert re.search(r"Installing: +\d+ s, ", first.stdout)
    assert first.stdout.endswith("asked progress\n")
    second = learn(course, "check", "l01")
    assert (second.returncode, second.stdout) == (3, "asked check l01\n")
    assert learn(course, "test", "no_such_file.py").returncode == 4
    assert (course / "work" / "l01_chunks.py").exists()


@pytest.mark.process
def test_ctrl_c_during_a_check_is_one_line_and_ends_all_that_was_started(course: Path):
    """A terminal sends it to every process of the launcher's group, and no other gets to know."""
    (course / "course" / "__main__.py").write_text(
        "import pathlib, subprocess, time\nsubprocess.Popen(['sleep', '600'])\n"
        "pathlib.Path('checking').touch()\ntime.sleep(600)\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "learn.py", "check", "l01"]
    with subprocess.Popen(command, cwd=course, start_new_session=True, **pipes) as stopped:
        wait_for((course / "checking").exists)
        checking = psutil.Process(stopped.pid).children(recursive=True)
        assert len(checking) == 2
        os.killpg(stopped.pid, signal.SIGINT)
        assert stopped.communicate(timeout=60)[1] == "learn.py: stopped.\n"
        assert stopped.returncode == 130
    assert not psutil.wait_procs(checking, timeout=60)[1]


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    some(
        [
            ["learn.py", "--help"],
            ["learn.py", "doctor"],
            ["learn.py", "update"],
            ["-m", "course", "progress"],
        ],
        1,
    ),
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_error(bare: Path, command: list[str]):
    """As `| head -1` has, before it is all said."""
    (bare / "course" / "__main__.py").write_bytes((ROOT / "course" / "__main__.py").read_bytes())
    for unbuffered in ("", "1"):
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


# The interpreter names every module that it loads, in the processes that it starts, too.
HEAVY = {"torch", "numpy", "matplotlib", "marimo"}


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    some(
        [
            ["-c", "import nanogpt, nanogpt.fleet, nanogpt.slo"],
            ["-m", "nanogpt.fleet", "--duration", "1", "--json"],
            ["-m", "nanogpt.slo", "--help"],
            ["-m", "benchmarks.fleet", "--help"],
            ["-m", "course", "progress"],
            ["-m", "course", "check", "--help"],
            ["-m", "course", "audit", "--help"],
            ["-m", "course", "grade", "--help"],
            ["-m", "course", "demo", "--help"],
            ["-m", "course", "site", "--help"],
            ["learn.py", "--help"],
        ],
        3,
    ),
    ids=" ".join,
)
def test_a_command_that_computes_nothing_loads_no_framework(command: list[str]):
    done = run(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    )
    loaded = set(re.findall(r"^import time: .*\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert done.returncode == 0 and "site" in loaded
    assert loaded & HEAVY == set()
