"""Installs with uv, which is quicker than pip, from where pip is configured to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from course.launcher.doctor import is_synced
from course.launcher.failure import reason
from course.launcher.pip import (
    NO_NETWORK,
    OPTIONS,
    NothingInstalled,
    configuration_in,
    disk_full,
    is_disk_full,
)
from course.launcher.running import Doing, Ended, Runner

UV = "uv==0.13.9"
# What pip's settings are called in uv's environment, and how several values are told apart there.
_NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}
_RESOLVED = re.compile(r"Resolved (\d+ packages?)")
_GETTING = re.compile(r"\s*(?:Downloading|Building) (\S+)(?: (\(.*\)))?")
_GOT = re.compile(r"\s*(?:Downloaded|Built) (\S+)")
_NOT_GOT = re.compile(r"Failed to (?:fetch|download|build)")
_GPU = re.compile(r"^ \+ (?:nvidia-|cuda-|triton)", re.MULTILINE)


class Unusable(Exception):
    """Why uv cannot install here, and whether it had begun; pip may do it."""

    def __init__(self, reason: str, *, has_begun: bool = False) -> None:
        super().__init__(reason)
        self.has_begun = has_begun


class UvDoing(Doing):
    """What uv is doing, from its output."""

    def __init__(self, phase: str) -> None:
        super().__init__(phase)
        self.number = ""
        self.under_way: dict[str, str] = {}

    def hear(self, line: str) -> None:
        """Take in what it resolves, gets and puts in place."""
        if match := _RESOLVED.match(line):
            self.number = match[1]
            self.phase = f"getting what is missing of {self.number}"
        elif line.startswith("Prepared"):  # only what it had not kept from another time
            self.phase = f"putting {self.number} in place"
        elif match := _GETTING.match(line):
            self.under_way[match[1]] = f"{match[1]} {match[2] or ''}".strip()
        elif match := _GOT.match(line):
            self.under_way.pop(match[1], None)
        self.detail = ", ".join(self.under_way.values())


def run_uv(runner: Runner, python: Path, wanted: Sequence[str]) -> None:
    """Install what these arguments ask for; where there is a choice, PyTorch's small CPU build.

    Raises: Unusable, NothingInstalled or another Failure.
    """
    uv = beside(python)
    try:
        _get_uv(runner, python, uv)
        asked = runner.run([python, "-m", "pip", "config", "list"], Doing("reading pip's settings"))
        settings = configuration_in(asked.output)
        install = [uv, "pip", "install", "--color=never", f"--python={python}", *wanted]
        if settings.get("no-index", "no").lower() in ("1", "true", "yes", "on"):
            install.append("--no-index")
        environment = environment_for(settings, os.environ)
        if is_synced(runner.root):  # such folders refuse hard links
            environment["UV_LINK_MODE"] = "copy"
        build = _small_build(runner, install, environment)
        ended = runner.run([*install, *build], UvDoing("getting what is missing"), environment)
    except OSError as error:  # a program for another kind of machine, say
        raise Unusable(error.strerror or str(error)) from None
    _refuse(ended, runner)


def beside(python: Path) -> Path:
    """Return where uv is in the environment of this Python."""
    return python.with_name("uv").with_suffix(python.suffix)


def environment_for(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell uv pip's settings; what is given for uv itself stays."""
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's rule: of all indexes the newest
    for name, value in settings.items():
        variable, between = _NAMES.get(name, ("", ""))
        if variable:
            found[variable] = between.join(value.split())
    return {name: value for name, value in found.items() if name not in given}


def _get_uv(runner: Runner, python: Path, uv: Path) -> None:
    """Install uv in .venv, unless it is there."""
    if uv.exists():
        there = runner.run([uv, "--version"], Doing("looking for uv"))
        if there.output.split()[:2] == UV.split("=="):
            return
    get = [python, "-m", "pip", "install", *OPTIONS, "--retries=1", "--only-binary=:all:", UV]
    ended = runner.run(get, Doing("getting uv, which installs the rest"))
    if is_disk_full(ended.output):
        raise disk_full(runner.log)
    if NO_NETWORK.search(ended.output):
        raise Unusable("the package index could not be reached")
    if ended.status:
        raise Unusable(reason(ended.output))


def _small_build(
    runner: Runner, install: Sequence[str | Path], environment: Mapping[str, str]
) -> list[str]:
    """Return the option that keeps gigabytes of GPU libraries out, where they would come."""
    if "UV_TORCH_BACKEND" in os.environ:
        return []
    looking = Doing("working out what is needed")
    why = "it brings them too"
    for build in ([], ["--torch-backend=cpu"]):
        plan = runner.run([*install, *build, "--dry-run"], looking, environment)
        if plan.status == 0 and not _GPU.search(plan.output):
            return build
        if plan.status and not build:
            _refuse(plan, runner)
        if plan.status:
            why = reason(plan.output)
    raise NothingInstalled(
        "the PyTorch that pip would take brings gigabytes of GPU libraries, and PyTorch's own "
        f"index of small builds could not be used ({why}): check the network, or name an index "
        "that has the small build, as the README says."
    )


def _refuse(ended: Ended, runner: Runner) -> None:
    """Raise what follows from a failure."""
    if ended.status and is_disk_full(ended.output):
        raise disk_full(runner.log)
    if ended.status:
        has_all = "Resolved" in ended.output and not _NOT_GOT.search(ended.output)
        raise Unusable(reason(ended.output), has_begun=has_all)
