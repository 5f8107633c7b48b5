"""Says what is wrong with the machine's set-up. Standard library only."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
import sysconfig
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from course.launcher.failure import learn_command

if TYPE_CHECKING:
    from course.launcher.install import Installation

OLDEST, NEWEST = (3, 11), (3, 14)  # Pythons that the pinned version of PyTorch has builds for
NEEDED_GB = 3  # an installation with the CPU build of PyTorch, and room to unpack it
TEMPORARY = (
    "{} is a temporary folder, and the browser does not save what you write in one: "
    "move the course to another folder, such as your home folder."
)
_TEMPORARY_MARKS = ("/tmp/", "/var/folders/", "/appdata/local/temp/")  # as marimo's page has them
_SYNCED = re.compile(
    r"onedrive|dropbox|google ?drive|nextcloud|icloud|mobile documents|cloudstorage", re.IGNORECASE
)
_LONGEST = 66  # characters of a folder in which Windows's 259 hold the longest path in .venv
_CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Finding(NamedTuple):
    """One thing looked at."""

    kind: Literal["ok", "wrong", "note"]
    sentence: str


def report(installation: Installation, *, port: int) -> int:
    """Print every finding, most important first; return 1 if something is wrong, else 0."""
    findings = [*_of_the_folder(installation), *installation.findings(), *_of_the_machine(port)]
    sys.stdout.write("".join(f"{kind:>5}  {sentence}\n" for kind, sentence in findings))
    return int(any(kind == "wrong" for kind, _ in findings))


def _of_the_folder(installation: Installation) -> Iterator[Finding]:
    root = installation.root
    unfit = [Finding("wrong", sentence) for sentence in installation.obstacles()]
    yield from unfit
    if not unfit:
        yield Finding("ok", f"Python {platform.python_version()} can start the course.")
        yield Finding("ok", f"{root} can be written to, and the disk has room.")
    yield from (Finding("note", sentence) for sentence in notes(root))
    if is_temporary(root):
        yield Finding("wrong", TEMPORARY.format(root))


def _of_the_machine(port: int) -> Iterator[Finding]:
    if port_is_free(port):
        yield Finding("ok", f"Port {port} is free.")
    else:
        yield Finding(
            "note",
            f"port {port} is taken: perhaps the course is open already; learn.py then takes "
            "another port, or the one that you name with --port.",
        )
    if not has_display():
        yield Finding("note", "no browser was found here: open the printed address in one.")
    if not shutil.which("node"):
        yield Finding("note", "node is not installed: learn.py test skips the JavaScript tests.")
    if not any(shutil.which(name) for name in _CHROMIUM):
        yield Finding("note", "Chromium is not installed: learn.py test skips the browser tests.")


def unsupported() -> Iterator[str]:
    """Yield a sentence if PyTorch has no build for this Python, or none for this machine."""
    newest = "{}.{}".format(*NEWEST)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    machine, mac = platform.machine(), platform.mac_ver()[0]
    libc, libc_version = platform.libc_ver() if sys.platform == "linux" else ("", "")
    is_known = OLDEST <= sys.version_info[:2] <= NEWEST and sys.implementation.name == "cpython"
    if not (is_known and sys.maxsize > 2**32):
        yield (
            f"PyTorch has builds for the 64-bit CPython 3.11 to {newest}, and this is {python} "
            f"({sys.executable}): install Python {newest}, and run {learn_command(newest)}."
        )
    elif sys.platform == "win32" and sysconfig.get_platform() != "win-amd64":
        yield (
            f"PyTorch has no build for {sysconfig.get_platform()}: install the x64 Python "
            f"{newest}, which runs on this machine too."
        )
    elif sys.platform == "darwin" and (machine != "arm64" or _numbers(mac) < (14,)):
        yield (
            f"PyTorch needs macOS 14 or newer on Apple silicon with the arm64 Python, and this is "
            f"macOS {mac} on {machine}: docs/hosting says where else the course runs."
        )
    elif sys.platform == "linux" and not (
        machine in ("x86_64", "aarch64") and libc == "glibc" and _numbers(libc_version) >= (2, 28)
    ):
        yield (
            "PyTorch has builds for Linux on x86_64 and aarch64 with glibc 2.28 or newer, and this "
            f"is {machine} with {f'{libc} {libc_version}'.strip() or 'another C library'}: "
            "docs/hosting says where else the course runs."
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def before_install(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing about this folder that would make an installation fail."""
    if os.pathsep in str(root):
        yield f"no Python can be set up in {root}, for its name has a {os.pathsep!r}: rename it."
    try:
        tempfile.TemporaryFile(dir=root).close()
    except OSError as error:
        yield f"{root} cannot be written to ({error.strerror}): change its permissions or move it."
        return
    if sys.platform == "linux" and os.statvfs(root).f_flag & os.ST_NOEXEC:
        yield f"the disk of {root} runs no programs (noexec): move the course to another disk."
    free_gb = shutil.disk_usage(root).free / 1e9
    if free_gb < NEEDED_GB and not (root / ".venv").exists():
        yield f"the disk has {free_gb:.1f} GB free, and the course needs {NEEDED_GB} GB: make room."


def notes(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing about this folder that is better known beforehand."""
    if _SYNCED.search(root.as_posix()):
        yield (
            f"{root} is in a folder that is synced, and so would be the 13,000 files of .venv: "
            "better move the course out of it."
        )
    if os.name == "nt" and len(str(root)) > _LONGEST:
        yield (
            f"{root} has {len(str(root))} characters, and unless Windows allows long paths, "
            f"PyTorch's files have room below at most {_LONGEST}: if installing fails, move the "
            "course to a shorter path."
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
    if sys.platform.startswith("linux") and not any(map(os.environ.get, names)):
        return False
    try:
        return bool(webbrowser.get())
    except webbrowser.Error:
        return False
