"""What tests of several kinds share."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("nanogpt", "lessons", "widgets", "course", "solutions")
FILES = ("learn.py", "pyproject.toml", "requirements.txt", "requirements-test.txt")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def unavailable(reason: str) -> NoReturn:
    """Skip with the reason shown; under CI=true, where nothing may be skipped, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI skips nothing", pytrace=False)
    pytest.skip(reason)


def find_program(*names: str) -> str:
    """Return the path of the first of these programs that is installed, or skip."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    unavailable(f"{names[0]} is not installed")


def copy_course(to: Path) -> Path:
    """Copy the course's files, without anything of a learner's, to a new folder."""
    ignore = shutil.ignore_patterns("__pycache__", "__marimo__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, ignore=ignore)
    for name in FILES:
        shutil.copy2(ROOT / name, to / name)
    return to


def lend_python(course: Path, python: str) -> None:
    """Give a copied course a .venv whose Python is `python`, with an installation that is done.

    Its `python -m pip` only notes its arguments in .venv/pip.log, or does what the file .venv/pip
    says ("fail", "full", "cut off", "hang"). Everything else is run by the real Python.
    """
    venv = course / ".venv"
    (venv / "bin").mkdir(parents=True)
    program = venv / "bin" / "python"
    program.write_text(FAKE_PYTHON.format(venv=venv, python=python))
    program.chmod(0o755)


FAKE_PYTHON = """#!/bin/sh
if [ "$2" = pip ]; then
    echo "$@" >> "{venv}/pip.log"
    echo "Collecting torch==2.13.0 (from -r requirements.txt (line 3))"
    case "$(cat "{venv}/pip" 2>/dev/null)" in
        fail) echo "ERROR: No matching distribution found for torch"; exit 1 ;;
        "cut off") echo "WARNING: Retrying after NameResolutionError('no name')"; exit 1 ;;
        full) echo "Installing collected packages: torch"
              echo "OSError: [Errno 28] No space left on device"; exit 1 ;;
        hang) touch "{venv}/hanging"; exec sleep 60 ;;
    esac
    exit 0
fi
PYTHONPATH="{venv}/.." exec "{python}" "$@"
"""


def run(command: list[str], cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output as text."""
    return subprocess.run(  # type: ignore[call-overload]
        command, cwd=cwd, capture_output=True, text=True, timeout=120, **options
    )
