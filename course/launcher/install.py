"""Makes .venv and installs the requirements, once; an interrupted installation is begun anew."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from course.launcher import doctor
from course.launcher.doctor import Finding
from course.launcher.failure import Failure, cannot_load, last_line, learn_command
from course.launcher.install_lock import install_lock
from course.launcher.installers import (
    UV,
    NothingInstalled,
    Unusable,
    packages,
    raise_if_disk_full,
    run_pip,
    run_uv,
)
from course.launcher.running import Runner, Ticker
from course.launcher.workspace import write_atomically

COURSE, TESTS = "requirements.txt", "requirements-test.txt"
LIVE = "requirements-live.txt"
JUPYTER = "requirements-jupyter.txt"
LOCK = "requirements.lock"  # the exact version of everything that these bring along
LOCK_FILE = ".installing"
UNFINISHED, INSTALLER = "unfinished", "installer"
_LOADING = """
import importlib.util, sys
for name in sys.argv[1:]:
    if not importlib.util.find_spec(name):
        raise ModuleNotFoundError(f"No module named {name!r}")
    if name == "torch":
        import torch
"""
_BARE = re.compile(r"(pip|setuptools|wheel|uv)-")


class Installation:
    """The .venv of a course folder, and a stamp in it that says what it holds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.venv = root / ".venv"
        self.python = self.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.stamp = self.venv / "course.json"

    def ensure(self, *files: str) -> None:
        """Install these requirements files, unless the stamp says that they are installed."""
        if self.holds(*files):
            return
        for sentence in self.obstacles():
            raise Failure(sentence)
        with Ticker() as ticker, install_lock(self.root / LOCK_FILE, ticker) as held:
            if not self.holds(*files):  # another launcher may have done it by now
                for sentence in doctor.notes(self.root):
                    ticker.say(f"learn.py: note: {sentence}")
                log = self.venv / "install.log"
                self._install(files, Runner(self.root, ticker, held, log))
                ticker.say_done()

    def _install(self, files: Sequence[str], runner: Runner) -> None:
        self._make_room(runner.ticker)
        runner.log.unlink(missing_ok=True)
        state = self._read_stamp()
        if UNFINISHED in state or not self._works():
            self._make_venv(runner)
            state = {}
        wanted = {name: self._digest(name) for name in files}
        self._write_stamp({**state, UNFINISHED: "yes"})
        try:
            installer = self._install_files(files, runner)
        except NothingInstalled:
            self._write_stamp(state)
            raise
        tried = runner.run(self._loading(), "loading what is there for the first time")
        if tried.status:
            raise Failure(cannot_load(tried.output))
        self._write_stamp({**state, **wanted, INSTALLER: installer})

    def _install_files(self, files: Sequence[str], runner: Runner) -> str:
        """Install with uv, or else with pip; returns the installer's name."""
        wanted = [argument for name in files for argument in ("-r", name)] + ["-c", LOCK]
        try:
            run_uv(runner, self.python, wanted)
            return UV.replace("==", " ")
        except Unusable as unusable:
            runner.ticker.say(f"uv cannot install here ({unusable}): going on with pip.")
            has_begun = unusable.has_begun
        try:
            run_pip(runner, self.python, wanted)
        except NothingInstalled as failure:
            raise Failure(str(failure)) if has_begun else failure from None
        return "pip"

    def holds(self, *files: str) -> bool:
        """Whether the stamp says that these requirements files are installed."""
        state = self._read_stamp()
        wanted = {name: self._digest(name) for name in files}
        return self.python.exists() and UNFINISHED not in state and wanted.items() <= state.items()

    def obstacles(self) -> Iterator[str]:
        """Yield a sentence for each thing that would make an installation fail."""
        if self.is_half_made() or not os.path.lexists(self.stamp):
            yield from doctor.unsupported()  # this Python makes .venv, and is the one in it
        yield from doctor.before_install(self.root)

    def findings(self) -> Iterator[Finding]:
        """Look at .venv, and load what it holds."""
        if self.is_half_made():
            yield Finding("wrong", f".venv is half made: {learn_command()} makes it anew.")
        elif not self.holds(COURSE):
            yield Finding("note", f"the course is not installed yet: {learn_command()} does it.")
        else:
            tried = subprocess.run(self._loading(), capture_output=True, text=True)
            if tried.returncode:
                yield Finding("wrong", cannot_load(tried.stderr))
            else:
                yield from (Finding("ok", sentence) for sentence in self.describe())

    def _loading(self) -> list[str | Path]:
        """The command that looks for each package of the course, and loads PyTorch."""
        names = re.findall(r"^([\w-]+)==", _read(self.root / COURSE), re.M)
        return [self.python, "-I", "-c", _LOADING, *(name.replace("-", "_") for name in names)]

    def is_half_made(self) -> bool:
        """Whether the course's .venv does not work, or its last installation was cut short."""
        if not os.path.lexists(self.stamp):
            return False
        return UNFINISHED in self._read_stamp() or not self._works()

    def describe(self) -> list[str]:
        """Return sentences on what is installed, and how."""
        installer = self._read_stamp().get(INSTALLER, "pip")
        said = [f".venv is in order: Python {self._python_version()}, installed with {installer}."]
        held = packages(self.venv)
        for torch in (name.removeprefix("torch-") for name in held if name.startswith("torch-")):
            has_gpu = any(name.startswith("nvidia_") for name in held)
            build = "with GPU libraries, which the course does not use" if has_gpu else "CPU build"
            said.append(f"PyTorch {torch}, {build}.")
        return said

    def _digest(self, name: str) -> str:
        """A digest of the pins, the package's data, Python's version and the folder."""
        text = "".join(_read(self.root / file) for file in (name, LOCK, "pyproject.toml"))
        identity = f"{text}{self._python_version()}{self.root}"
        return hashlib.sha256(identity.encode()).hexdigest()

    def _python_version(self) -> str:
        """Return that of .venv, such as "3.11"; without one, that of this Python.

        Another Python may start the course: it is .venv's that runs it.
        """
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = re.search(r"^version\s*=\s*(\d+\.\d+)", _read(self.venv / "pyvenv.cfg"), re.M)
            if found:
                return found[1]
        return "{}.{}".format(*sys.version_info[:2])

    def _read_stamp(self) -> dict[str, str]:
        """The stamp; a damaged one counts as an unfinished installation."""
        try:
            state = json.loads(_read(self.stamp))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, RecursionError):
            return {UNFINISHED: "yes"}
        return cast("dict[str, str]", state) if isinstance(state, dict) else {UNFINISHED: "yes"}

    def _write_stamp(self, state: Mapping[str, str]) -> None:
        write_atomically(self.stamp, json.dumps(state).encode())

    def _works(self) -> bool:
        """Whether .venv has a running Python of a fitting version, with pip."""
        fits = f"{doctor.OLDEST} <= sys.version_info[:2] <= {doctor.NEWEST}"
        question = f"import sys, pip; sys.exit(not {fits})"
        try:
            asked = subprocess.run([self.python, "-c", question], capture_output=True)
        except OSError:
            return False
        return asked.returncode == 0

    def _make_room(self, ticker: Ticker) -> None:
        """Move away what stands in the place of .venv and was not made for the course.

        A .venv that works and holds nothing yet is as good as one made here.
        """
        if not os.path.lexists(self.venv) or os.path.lexists(self.stamp):
            return
        if self._works() and all(_BARE.match(name) for name in packages(self.venv)):
            return
        aside = self.root / time.strftime(".venv-kept-%Y-%m-%d-%H%M%S")
        self.venv.rename(aside)
        ticker.say(f".venv was not made for the course: it is moved to {aside.name}.")

    def _make_venv(self, runner: Runner) -> None:
        """Make .venv from nothing; until it is complete, its stamp says so."""
        there = list(self.venv.iterdir()) if self.venv.exists() else []
        phase = "making .venv anew" if there else "making .venv"
        runner.ticker.show(phase)
        self._write_stamp({UNFINISHED: "yes"})
        for path in there:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != self.stamp:
                path.unlink()
        python = getattr(sys, "_base_executable", None) or sys.executable
        made = runner.run([python, "-m", "venv", self.venv], phase)
        raise_if_disk_full(made, runner)
        if made.status:
            helps = ""
            if sys.platform == "linux" and "ensurepip" in made.output:
                helps = "; on Debian and Ubuntu this helps: sudo apt install python3-venv"
            raise Failure(
                f"{python} could not make a virtual environment ({last_line(made.output)}){helps}."
            )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
