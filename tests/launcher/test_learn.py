"""learn.py: what it says, refuses and finds wrong."""

import ast
import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from launching import assert_one_sentence, learn
from support import ROOT, run

from course.launcher import doctor


def test_an_older_python_says_what_it_needs():
    """Newer syntax above the version check, or in the file at all, would be a SyntaxError."""
    ast.parse((ROOT / "learn.py").read_text(), feature_version=(3, 6))
    older = "import runpy, sys; sys.version_info = (3, 9, 1); runpy.run_path('learn.py')"
    done = run([sys.executable, "-c", older], cwd=ROOT)
    assert_one_sentence(done, "needs Python 3.11 or newer", "this is Python 3.9")


def test_it_runs_before_anything_is_installed(bare: Path):
    done = run([sys.executable, "-S", "learn.py", "reset", "l01"], cwd=bare)
    assert done.returncode == 0, done.stderr
    assert (bare / "work" / "l01_chunks.py").exists()


def test_help_lists_every_verb():
    done = learn(ROOT, "--help")
    assert done.returncode == 0
    working = ("jupyter", "run", "check", "progress", "reset", "update", "doctor")
    for verb in (*working, "test", "audit", "grade", "demo", "site"):
        assert f"learn.py {verb}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chekc"], "there is no verb 'chekc'; the verbs are: open, run, jupyter, check"),
        (["--port", "80"], "--port 80 is out of range: it must be from 1024 to 65535"),
        (["--port", "x"], "invalid int value: 'x'"),
        (["--speed"], "unrecognized arguments: --speed"),
        (["reset"], "reset takes one lesson"),
        (["reset", "l77"], "there is no lesson 'l77'; the lessons are: l01_chunks"),
        (["update", "l01"], "update takes no arguments, not 'l01'"),
    ],
)
def test_a_wrong_call_is_refused_with_a_sentence(bare: Path, arguments: list[str], words: str):
    assert_one_sentence(learn(bare, *arguments), words)
    assert not (bare / ".venv").exists()


def test_the_doctor_finds_what_is_wrong(course: Path):
    (course / ".venv" / "course.json").write_text('{"unfinished": "yes"}')
    environment = {"PATH": str(course), "HOME": os.environ["HOME"]}
    done = learn(course, "doctor", env=environment)
    assert done.returncode == 1
    for finding in (
        "   ok  Python 3.",
        "wrong  .venv is half made: python3 learn.py makes it anew.",
        f"wrong  {course} is a temporary folder",
        " note  no browser was found here",
        " note  node is not installed: learn.py test skips the JavaScript tests.",
        " note  Chromium is not installed: learn.py test skips the browser tests.",
    ):
        assert finding in done.stdout, done.stdout


def test_a_venv_without_the_course_in_it_is_not_in_order(course: Path):
    """As Ctrl-C between making it and installing leaves it."""
    assert " note  the course is not installed yet" in learn(course, "doctor").stdout
    learn(course, "progress")
    said = learn(course, "doctor").stdout
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"   ok  .venv is in order: Python {version}, installed with uv 0.13.9.\n" in said


def test_a_taken_port_and_a_missing_display_are_nothing_wrong(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(doctor, "port_is_free", lambda port: False)
    monkeypatch.setattr(doctor, "has_display", lambda: False)
    monkeypatch.setattr(doctor, "is_temporary", lambda root: False)
    assert doctor.report(tmp_path, port=2718, half_made=False, installed=[]) == 0


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path, monkeypatch):
    def refuse(dir: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    sentence = f"{tmp_path} cannot be written to (Permission denied): change its permissions"
    assert [said.startswith(sentence) for said in doctor.before_install(tmp_path)] == [True]


def test_a_full_disk_is_said_before_anything_is_installed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=12 * 10**8))
    assert list(doctor.before_install(tmp_path)) == [
        "the disk has 1.2 GB free, and the course needs 3 GB: make room."
    ]
    (tmp_path / ".venv").mkdir()
    assert not list(doctor.before_install(tmp_path)), "what is installed takes no more room"


@pytest.mark.parametrize(
    ("folder", "temporary"),
    [
        ("/tmp/course", True),
        ("/tmp", True),
        ("/private/var/folders/ab/course", True),
        ("C:/Users/me/AppData/Local/Temp/course", True),
        ("/home/me/tmpfiles/course", False),
        ("/home/me/course", False),
    ],
)
def test_a_temporary_folder_is_known_by_its_path(folder: str, temporary: bool):
    assert doctor.is_temporary(Path(folder)) is temporary
