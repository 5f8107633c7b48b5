"""What tests of several kinds share."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from course.lesson_map import find_lesson
from course.registry import lesson_exercises

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("nanogpt", "lessons", "widgets", "course", "solutions")
REQUIREMENTS = tuple(sorted(path.name for path in ROOT.glob("requirements*")))
FILES = ("learn.py", "pyproject.toml", *REQUIREMENTS)
CHROMIUM = (
    "chromium-headless-shell",  # the same without the window's own pages: a third less to compute
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


def unavailable(reason: str) -> NoReturn:
    """Skip with the reason shown; under CI=true, where nothing may be skipped, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI skips nothing", pytrace=False)
    pytest.skip(reason)


@functools.cache
def _why_no_sandbox() -> str:
    from course.calling.sandbox import SandboxError, sandboxed

    try:
        sandboxed().close()
    except SandboxError as error:
        return str(error)
    return ""


def need_sandbox() -> None:
    """Skip where there is no bubblewrap, or nothing that it could make a sandbox of."""
    if why := _why_no_sandbox():
        pytest.skip(why)


def find_program(*names: str) -> str:
    """Return the path of the first of these programs that is installed, or skip."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    unavailable(f"{names[0]} is not installed")


def copy_course(to: Path) -> Path:
    """Copy the course's files, without anything of a learner's, to a new folder."""
    ignore = shutil.ignore_patterns("__marimo__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, ignore=ignore)
    for name in FILES:
        shutil.copy2(ROOT / name, to / name)
    return to


def lend_python(course: Path, python: str) -> None:
    """Give a copied course a .venv whose Python is `python` and which only pretends to install.

    Its `python -m pip` and uv note their arguments in .venv/pip.log and .venv/uv.log, and do what
    the words in the files .venv/pip and .venv/uv say. Everything else is run by the real Python.
    """
    venv = course / ".venv"
    (venv / "bin").mkdir(parents=True)
    write_program(venv / "bin" / "python", FAKE_PYTHON.format(venv=venv, python=python))
    write_program(venv / "uv-to-get", FAKE_UV.format(venv=venv))


def write_program(path: Path, text: str) -> None:
    """Write a program that can be run."""
    path.write_text(text)
    path.chmod(0o755)


FAKE_PYTHON = """#!/bin/sh
if [ "$2" != pip ]; then
    PYTHONPATH="{venv}/.." exec "{python}" "$@"
fi
if [ "$3" = config ]; then
    cat "{venv}/pip-config" 2>/dev/null
    exit 0
fi
echo "$@" >> "{venv}/pip.log"
mode="$(cat "{venv}/pip" 2>/dev/null)"
case "$mode $*" in
    "no uv "*uv==*) echo "ERROR: No matching distribution found for uv"; exit 1 ;;
    "cut off "*) echo "WARNING: Retrying after NameResolutionError('no name')"; exit 1 ;;
    *uv==*) cp "{venv}/uv-to-get" "{venv}/bin/uv"; exit 0 ;;
esac
echo "Collecting torch==2.13.0 (from -r requirements.txt (line 3))"
case "$mode" in
    fail) echo "ERROR: No matching distribution found for torch"; exit 1 ;;
    full) echo "Installing collected packages: torch"
          echo "OSError: [Errno 28] No space left on device"; exit 1 ;;
esac
"""

FAKE_UV = """#!/bin/sh
if [ "$1" = --version ]; then
    echo "uv 0.13.9 (a stand-in)"
    exit 0
fi
echo "$@" >> "{venv}/uv.log"
env | grep -E "^(UV_|SSL_|ALL_PROXY)" | sort > "{venv}/uv-environment"
case "$(cat "{venv}/uv" 2>/dev/null) $*" in
    "fail "*) echo "error: Failed to fetch torch" >&2; exit 2 ;;
    "gpu "*torch-backend*) ;;
    "gpu "*--dry-run*) echo " + nvidia-cublas==13.1.1.3" ;;
    "only gpu "*torch-backend*) echo "error: Failed to fetch the index" >&2; exit 2 ;;
    "only gpu "*--dry-run*) echo " + nvidia-cublas==13.1.1.3" ;;
    *--dry-run*) ;;
    "full "*) echo "Prepared 70 packages in 2ms"
              echo "error: No space left on device (os error 28)" >&2; exit 2 ;;
    "half "*) echo "Resolved 70 packages in 2ms"; echo "error: failed to link" >&2; exit 2 ;;
    "hang "*) touch "{venv}/hanging"; while [ -e "{venv}/uv" ]; do sleep 0.05; done ;;
esac
echo "Resolved 70 packages in 1ms"
"""


def of_lesson(items: Iterable[pytest.Item], wanted: str) -> list[pytest.Item]:
    """The tests that name the lesson, in their file or their case. Raises: UsageError."""
    try:
        lesson = find_lesson(wanted)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    number = lesson.stem.partition("_")[0]
    cases = [lesson.stem, *(re.escape(item.id) for item in lesson_exercises(lesson.stem))]
    own = re.compile(
        rf"test_lesson_{lesson.number}\.py|_{number}\.py|\[.*\b(?:{'|'.join(cases)})\b"
    )
    return [item for item in items if own.search(item.nodeid)]


def run(command: list[str], cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output as text."""
    return subprocess.run(  # type: ignore[call-overload]
        command, cwd=cwd, capture_output=True, text=True, timeout=600, **options
    )


TICK_NS = 10**9 // 64


def let_monotonic_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `time.monotonic` as coarse as on Windows with Python 3.11 and 3.12: 15.6 ms."""
    exact_ns = time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: exact_ns() // TICK_NS * TICK_NS)
    monkeypatch.setattr(time, "monotonic", lambda: exact_ns() // TICK_NS * TICK_NS / 1e9)


def processes_below(but: Collection[int] = ()) -> set[int]:
    """What runs below this process. What one of `but` starts, as the notebooks' runs do, is not."""
    found: set[int] = set()
    for child in psutil.Process().children():
        if child.pid in but:
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in (child, *child.children(recursive=True)):
                if each.status() != psutil.STATUS_ZOMBIE:
                    found.add(each.pid)
    return found
