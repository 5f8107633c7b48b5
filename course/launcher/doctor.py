"""Says what is wrong with the machine's set-up. Standard library only."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from course.launcher.failure import learn_command

if TYPE_CHECKING:
    from course.launcher.install import Installation

OLDEST, NEWEST = (3, 11), (3, 14)  # Pythons that the pinned version of PyTorch has builds for
TEMPORARY = (
    "{} is a temporary folder, and the browser does not save what you write in one: "
    "move the course to another folder, such as your home folder."
)
_HAS_BUILD = re.compile(
    r"win-amd64$|macOS-(1[4-9]|[2-9]\d)\b.*-arm64|"
    r"Linux-.*(x86_64|aarch64)-with-glibc2\.(2[89]|[3-9]\d)"
)
_TEMPORARY_MARKS = ("/tmp/", "/var/folders/", "/appdata/local/temp/")  # as marimo's page has them
_SYNCED = re.compile(
    r"onedrive|dropbox|google ?drive|nextcloud|icloud|mobile documents|cloudstorage", re.IGNORECASE
)
_LONGEST = 66  # characters of a folder in which Windows's 259 hold the longest path in .venv


def report(installation: Installation, port: int) -> int:
    """Print what was found, most important first; return 1 if something is wrong, else 0."""
    root = installation.root
    wrong, noted = [*installation.obstacles()], [*notes(root)]
    fine = [f"Python {platform.python_version()} runs learn.py."]
    if is_temporary(root):
        wrong.append(TEMPORARY.format(root))
    if installation.is_half_made():
        wrong.append(f".venv is half made: {learn_command()} makes it anew.")
    elif not installation.holds():
        noted.append(f"the course is not installed yet: {learn_command()} does it.")
    elif fault := installation.fault():
        wrong.append(fault)
    else:
        fine.append(installation.describe())
    if not port_is_free(port):
        noted.append(f"port {port} is taken, perhaps by the course: --port names another.")
    if not has_display():
        noted.append("no browser was found here: open the printed address in one.")
    for kind, sentences in (("wrong", wrong), ("note", noted), ("ok", fine)):
        for sentence in sentences:
            print(f"{kind:>5}  {sentence}")
    return int(bool(wrong))


def unsupported() -> str | None:
    """Return a sentence if PyTorch has no build for this Python on this machine."""
    system = sysconfig.get_platform() if sys.platform == "win32" else platform.platform()
    is_known = OLDEST <= sys.version_info[:2] <= NEWEST and sys.implementation.name == "cpython"
    if is_known and _HAS_BUILD.match(system):
        return None
    newest = "{}.{}".format(*NEWEST)
    return (
        f"PyTorch has builds for CPython 3.11 to {newest} on Linux (x86_64 or aarch64, glibc 2.28 "
        "or newer), macOS 14 or newer (Apple silicon) and Windows (x64), and this is "
        f"{platform.python_implementation()} {platform.python_version()} on {system} "
        f"({sys.executable}): run learn.py with one of these Pythons, such as {newest}, or see in "
        "docs/hosting where else the course runs."
    )


def notes(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing about this folder that is better known beforehand."""
    if _SYNCED.search(root.as_posix()):
        yield (
            f"{root} is in a folder that is synced, and so would be the 13,000 files of .venv: "
            "better move the course out of it."
        )
    if os.name == "nt" and len(str(root)) > _LONGEST:
        yield (
            f"{root} has more than {_LONGEST} characters: if installing fails, move the course to "
            "a shorter path, or have Windows allow long paths."
        )
    if "WSL_DISTRO_NAME" in os.environ and re.match("/mnt/[a-z]/", root.as_posix()):
        yield f"{root} is on Windows's disk, which is slow from WSL: clone the course into ~."


def is_temporary(root: Path) -> bool:
    """Whether marimo's page takes files below `root` as not yet saved, and saves none of them."""
    path = root.as_posix().lower() + "/"
    return any(mark in path for mark in _TEMPORARY_MARKS)


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1."""
    with socket.socket() as probe:
        if os.name != "nt":  # a port whose last connections are closing counts as free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def has_display() -> bool:
    """Whether a browser with a window can be opened from here."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return sys.platform != "linux" or any(map(os.environ.get, names))
