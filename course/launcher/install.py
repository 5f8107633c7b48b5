"""Makes .venv and installs the requirements, once; an interrupted installation is begun anew."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from course.launcher import doctor
from course.launcher.failure import Failure, last_line
from course.launcher.pip import NothingInstalled, run_pip
from course.launcher.workspace import write_atomically

COURSE, TESTS = "requirements.txt", "requirements-test.txt"
UNFINISHED = "unfinished"


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
        state = self._read_stamp()
        wanted = {name: self._digest(name) for name in files}
        for sentence in doctor.before_install(self.root):
            raise Failure(sentence)
        started = time.monotonic()
        if UNFINISHED in state or not self._works():
            self._make_venv()
            state = {}
        self._write_stamp({**state, UNFINISHED: "yes"})
        try:
            run_pip(self.python, self.root, files, log=self.venv / "install.log")
        except NothingInstalled:
            self._write_stamp(state)
            raise
        self._write_stamp({**state, **wanted})
        _say(f"Installed in {time.monotonic() - started:.0f} s.")

    def holds(self, *files: str) -> bool:
        """Whether the stamp says that these requirements files are installed."""
        state = self._read_stamp()
        wanted = {name: self._digest(name) for name in files}
        return self.python.exists() and UNFINISHED not in state and wanted.items() <= state.items()

    def is_half_made(self) -> bool:
        """Whether .venv is there and does not work, or its last installation was cut short."""
        if not os.path.lexists(self.venv):
            return False
        return UNFINISHED in self._read_stamp() or not self._works()

    def _digest(self, name: str) -> str:
        """Return what identifies an installation: pins, the package's data, Python and place."""
        text = "".join(_read(self.root / file) for file in (name, "pyproject.toml"))
        identity = f"{text}{sys.version_info[:2]}{self.root}"
        return hashlib.sha256(identity.encode()).hexdigest()

    def _read_stamp(self) -> dict[str, str]:
        """Return the stamp; a damaged one counts as an unfinished installation."""
        try:
            state = json.loads(_read(self.stamp))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            return {UNFINISHED: "yes"}
        return cast("dict[str, str]", state) if isinstance(state, dict) else {UNFINISHED: "yes"}

    def _write_stamp(self, state: Mapping[str, str]) -> None:
        write_atomically(self.stamp, json.dumps(state).encode())

    def _works(self) -> bool:
        """Whether .venv has a running Python of this version, with pip."""
        question = "import sys, pip; print(sys.version_info[:2])"
        try:
            answer = subprocess.run([self.python, "-c", question], capture_output=True, text=True)
        except OSError:
            return False
        return answer.stdout.strip() == str(sys.version_info[:2])

    def _make_venv(self) -> None:
        """Make .venv from nothing."""
        _say("Making .venv ...")
        if self.venv.is_dir() and not self.venv.is_symlink():
            shutil.rmtree(self.venv)
        elif os.path.lexists(self.venv):
            self.venv.unlink()
        python = getattr(sys, "_base_executable", None) or sys.executable
        made = subprocess.run([python, "-m", "venv", self.venv], capture_output=True, text=True)
        if made.returncode:
            shutil.rmtree(self.venv, ignore_errors=True)
            raise Failure(
                f"{python} could not make a virtual environment "
                f"({last_line(made.stdout + made.stderr)}); on Debian and Ubuntu this helps: "
                "sudo apt install python3-venv."
            )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
