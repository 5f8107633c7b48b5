"""What tests of several kinds share."""

import contextlib
import functools
import io
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

from course.launcher.install import Installation
from course.lesson_map import find_lesson
from course.registry import lesson_exercises

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("nanogpt", "lessons", "widgets", "course", "solutions")
FILES = ("learn.py", "pyproject.toml", "requirements.lock")
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
    """Give a copied course a .venv whose Python is `python`, as if the course were installed there.

    Its uv and its pip note their arguments in .venv/uv.log and .venv/pip.log, and fail where there
    is a file .venv/uv-fails or .venv/pip-fails. uv hangs where there is a .venv/uv-hangs. Whether
    torch can be imported is not tried; it cannot where .venv/torch-fails says why.
    """
    venv = course / ".venv"
    (venv / "bin").mkdir(parents=True)
    write_program(venv / "bin" / "python", FAKE_PYTHON.format(venv=venv, python=python))
    write_program(venv / "bin" / "uv", FAKE_UV.format(venv=venv))
    packages = venv / "lib" / "python3.11" / "site-packages"
    for pin in ("serving-nanogpt==0", *Installation(course).pins("jupyter", "live", "dev")):
        name = pin.replace("==", "+").replace("-", "_").replace("+", "-")
        (packages / f"{name}.dist-info").mkdir(parents=True)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files by their paths below a folder, which is returned."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_program(path: Path, text: str) -> None:
    """Write a program that can be run."""
    path.write_text(text)
    path.chmod(0o755)


FAKE_PYTHON = """#!/bin/sh
if [ "$3" = "import torch" ]; then
    ! cat "{venv}/torch-fails" >&2 2>/dev/null
    exit
fi
if [ "$2" != pip ]; then
    PYTHONPATH="{venv}/.." exec "{python}" "$@"
fi
case "$*" in
    *config*) cat "{venv}/pip-config" 2>/dev/null; exit ;;
esac
echo "$@" >> "{venv}/pip.log"
test ! -e "{venv}/pip-fails"
"""

FAKE_UV = """#!/bin/sh
echo "$@" >> "{venv}/uv.log"
env | grep -E "^(UV_|SSL_)" | sort > "{venv}/uv-environment"
if [ -e "{venv}/uv-hangs" ]; then touch "{venv}/hanging"; fi
while [ -e "{venv}/uv-hangs" ]; do sleep 0.05; done
test ! -e "{venv}/uv-fails"
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


def call(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[Any, str, str]:
    """(exit status, standard output, standard error) of a command that runs in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status: Any = main(arguments)
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


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
