"""Installs with pip, and knows how pip is configured."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from course.launcher.failure import Failure, reason
from course.launcher.running import Doing, Runner, shown

OPTIONS = ("--progress-bar", "off", "--disable-pip-version-check", "--no-input", "--no-color")
NO_NETWORK = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeout|ProxyError")
_LOOKING = re.compile(r"Collecting ([\w.-]+)")
_GETTING = re.compile(
    r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?([\w.]+-[\d.]+\d)\S*(?: (\(.*\)))?"
)
_UNPACKING = re.compile(r"Installing collected packages: (.*)")
_SECTIONS = ("global.", "install.", ":env:.")  # a later one takes the place of an earlier


class NothingInstalled(Failure):
    """It failed before anything was changed: what was installed still works."""


class PipDoing(Doing):
    """What pip is doing, from its output and from what lies in `venv`."""

    def __init__(self, phase: str, venv: Path) -> None:
        super().__init__(phase)
        self.venv = venv
        self.before: int | None = None

    def hear(self, line: str) -> None:
        """Take in what it looks up, gets and unpacks."""
        if match := _LOOKING.match(line):
            self.detail = f"looking up {match[1]}"
        elif match := _GETTING.match(line):
            self.detail = f"getting {match[1]} {match[2] or ''}".strip()
        elif match := _UNPACKING.match(line):
            self.phase = f"unpacking {match[1].count(',') + 1} packages"
            self.before = len(packages(self.venv))

    def look(self) -> None:
        """Count the packages that are there."""
        if self.before is not None:
            self.detail = f"{len(packages(self.venv)) - self.before} done"


def packages(venv: Path) -> list[str]:
    """Return the names and versions of what is installed, such as "torch-2.13.0+cpu"."""
    folders = (*venv.glob("lib/python*/site-packages"), venv / "Lib" / "site-packages")
    return [p.stem for folder in folders for p in folder.glob("*.dist-info")]


def run_pip(runner: Runner, python: Path, wanted: Sequence[str]) -> None:
    """Install what these arguments ask for.

    Raises: NothingInstalled or another Failure that says why that failed.
    """
    doing = PipDoing("getting what is missing", python.parents[1])
    ended = runner.run([python, "-m", "pip", "install", *OPTIONS, *wanted], doing)
    if ended.status:
        has_begun = "Installing collected packages" in ended.output
        raise (Failure if has_begun else NothingInstalled)(_why(ended.output, runner.log))


def configuration_in(listed: str) -> dict[str, str]:
    """Return pip's settings for installing, as `pip config list` gives them."""
    found: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listed.splitlines():
            name, equals, value = line.partition("=")
            if equals and name.startswith(section):
                found[name.removeprefix(section)] = str(ast.literal_eval(value))
    return found


def is_disk_full(output: str) -> bool:
    """Whether a program failed because of that."""
    return "No space left" in output or "os error 28" in output or "os error 112" in output


def disk_full(log: Path) -> Failure:
    """Return the sentence on it."""
    return Failure(
        f"installing failed because the disk is full: make room, and start again; the whole "
        f"output is in {shown(log)}."
    )


def _why(output: str, log: Path) -> str:
    """Return one sentence on why pip failed."""
    if is_disk_full(output):
        return str(disk_full(log))
    if NO_NETWORK.search(output):
        return (
            "installing failed because the package index could not be reached: check the "
            f"network; the whole output is in {shown(log)}."
        )
    return f"installing failed ({reason(output)}); the whole output is in {shown(log)}."
