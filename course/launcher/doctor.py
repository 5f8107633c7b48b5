"""Says what is wrong with the machine's set-up. Standard library only."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from course.launcher.failure import learn_command
from course.launcher.install import Installation

TEMPORARY = (
    "{} is a temporary folder, and the browser does not save what you write in one: "
    "move the course to another folder, such as your home folder."
)
_TEMPORARY_MARKS = ("/tmp/", "/var/folders/", "/appdata/local/temp/")  # as marimo's page has them
_SYNCED = re.compile(
    r"onedrive|dropbox|google ?drive|nextcloud|icloud|mobile documents|cloudstorage", re.IGNORECASE
)
_LONGEST = 66  # characters of a folder in which Windows's 259 hold the longest path in .venv


def report(installation: Installation) -> int:
    """Print what was found, most important first; return 1 if something is wrong, else 0."""
    root = installation.root
    wrong, noted = list[str](), [*notes(root)]
    fine = [f"Python {platform.python_version()} runs learn.py."]
    if is_temporary(root):
        wrong.append(TEMPORARY.format(root))
    if installation.is_half_made():
        wrong.append(f".venv is half made, or being made: {learn_command()} makes it anew.")
    elif not installation.holds():
        noted.append(f"the course is not installed yet: {learn_command()} does it.")
    elif fault := installation.fault():
        wrong.append(fault)
    else:
        torch = [each for each in installation.packages() if each.startswith("torch==")]
        fine.append(f"The course is installed in {installation.venv}, with {' '.join(torch)}.")
    for kind, sentences in (("wrong", wrong), ("note", noted), ("ok", fine)):
        for sentence in sentences:
            print(f"{kind:>5}  {sentence}")
    return int(bool(wrong))


def notes(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing about this machine or folder to know before installing."""
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        yield (
            "PyTorch has no builds for Macs with Intel processors: docs/hosting says where else "
            "the course runs."
        )
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
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def has_display() -> bool:
    """Whether a browser with a window can be opened from here."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return sys.platform != "linux" or any(map(os.environ.get, names))
