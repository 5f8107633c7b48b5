"""Installs with uv, from where pip is configured to, or else with pip itself."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from course.launcher.doctor import is_synced
from course.launcher.failure import Failure, reason
from course.launcher.running import Ended, Runner

UV = "uv==0.13.9"
_GETTING = "getting what is missing"
_OPTIONS = ("--progress-bar", "off", "--disable-pip-version-check", "--no-input", "--no-color")
_SECTIONS = ("global.", "install.", ":env:.")  # of pip's; a later one overrides an earlier
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
_NO_NETWORK = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeout|ProxyError")
_DISK_FULL = re.compile(r"No space left|os error (?:28|112)")
_NOT_GOT = re.compile(r"Failed to (?:fetch|download|build)")
_GPU = re.compile(r"^ \+ (?:nvidia-|cuda-|triton)", re.MULTILINE)


class NothingInstalled(Failure):
    """It failed before anything was changed: what was installed still works."""


class Unusable(Exception):
    """Why uv cannot install here, and whether it had begun; pip may do it."""

    def __init__(self, reason: str, *, has_begun: bool = False) -> None:
        super().__init__(reason)
        self.has_begun = has_begun


def packages(venv: Path) -> list[str]:
    """Return the names and versions of what is installed, such as "torch-2.13.0+cpu"."""
    folders = (*venv.glob("lib/python*/site-packages"), venv / "Lib" / "site-packages")
    return [p.stem for folder in folders for p in folder.glob("*.dist-info")]


def beside(python: Path) -> Path:
    """Return where uv is in the environment of this Python."""
    return python.with_name("uv").with_suffix(python.suffix)


def configuration_in(listed: str) -> dict[str, str]:
    """Return pip's settings for installing, as `pip config list` gives them."""
    found: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listed.splitlines():
            name, equals, value = line.partition("=")
            if equals and name.startswith(section):
                found[name.removeprefix(section)] = str(ast.literal_eval(value))
    return found


def environment_for(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell uv pip's settings; what is given for uv itself stays."""
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's rule: of all indexes the newest
    for name, value in settings.items():
        variable, between = _NAMES.get(name, ("", ""))
        if variable:
            found[variable] = between.join(value.split())
    return {name: value for name, value in found.items() if name not in given}


def run_uv(runner: Runner, python: Path, wanted: Sequence[str]) -> None:
    """Install what these arguments ask for; where there is a choice, PyTorch's small CPU build.

    Raises: Unusable, NothingInstalled or another Failure.
    """
    uv = beside(python)
    try:
        _get_uv(runner, python, uv)
        asked = runner.run([python, "-m", "pip", "config", "list"], "reading pip's settings")
        settings = configuration_in(asked.output)
        install = [uv, "pip", "install", "--color=never", f"--python={python}", *wanted]
        if settings.get("no-index", "no").lower() in ("1", "true", "yes", "on"):
            install.append("--no-index")
        environment = environment_for(settings, os.environ)
        if is_synced(runner.root):  # such folders refuse hard links
            environment["UV_LINK_MODE"] = "copy"
        build = _small_build(runner, install, environment)
        _raise_if_failed(runner.run([*install, *build], _GETTING, environment), runner)
    except OSError as error:  # a program for another kind of machine, say
        raise Unusable(error.strerror or str(error)) from None


def run_pip(runner: Runner, python: Path, wanted: Sequence[str]) -> None:
    """Install what these arguments ask for. Raises: NothingInstalled or another Failure."""
    ended = runner.run([python, "-m", "pip", "install", *_OPTIONS, *wanted], _GETTING)
    if ended.status == 0:
        return
    raise_if_disk_full(ended, runner)
    why = f"installing failed ({reason(ended.output)})"
    if _NO_NETWORK.search(ended.output):
        why = "installing failed because the package index could not be reached: check the network"
    has_begun = "Installing collected packages" in ended.output
    kind = Failure if has_begun else NothingInstalled
    raise kind(f"{why}; the whole output is in {runner.log_name}.")


def raise_if_disk_full(ended: Ended, runner: Runner) -> None:
    """Raise a Failure if a program failed because of that."""
    if ended.status and _DISK_FULL.search(ended.output):
        raise Failure(
            "installing failed because the disk is full: make room, and start again; the whole "
            f"output is in {runner.log_name}."
        )


def _get_uv(runner: Runner, python: Path, uv: Path) -> None:
    if uv.exists():
        there = runner.run([uv, "--version"], "looking for uv")
        if there.output.split()[:2] == UV.split("=="):
            return
    get = [python, "-m", "pip", "install", *_OPTIONS, "--retries=1", "--only-binary=:all:", UV]
    ended = runner.run(get, "getting uv, which installs the rest")
    raise_if_disk_full(ended, runner)
    if _NO_NETWORK.search(ended.output):
        raise Unusable("the package index could not be reached")
    if ended.status:
        raise Unusable(reason(ended.output))


def _small_build(
    runner: Runner, install: Sequence[str | Path], environment: Mapping[str, str]
) -> list[str]:
    """Return the option that keeps gigabytes of GPU libraries out, where they would come."""
    if "UV_TORCH_BACKEND" in os.environ:
        return []
    why = "it brings them too"
    for build in ([], ["--torch-backend=cpu"]):
        plan = runner.run(
            [*install, *build, "--dry-run"], "working out what is needed", environment
        )
        if plan.status == 0 and not _GPU.search(plan.output):
            return build
        if not build:
            _raise_if_failed(plan, runner)
        elif plan.status:
            why = reason(plan.output)
    raise NothingInstalled(
        "the PyTorch that pip would take brings gigabytes of GPU libraries, and PyTorch's own "
        f"index of small builds could not be used ({why}): check the network, or name an index "
        "that has the small build, as docs/setup.md says."
    )


def _raise_if_failed(ended: Ended, runner: Runner) -> None:
    raise_if_disk_full(ended, runner)
    if ended.status:
        has_all = "Resolved" in ended.output and not _NOT_GOT.search(ended.output)
        raise Unusable(reason(ended.output), has_begun=has_all)
