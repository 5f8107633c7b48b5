"""Says in words what is wrong with the machine's set-up. Standard library only."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from course.launcher.failure import learn_command

if TYPE_CHECKING:
    from course.launcher.install import Installation

OLDEST, NEWEST = (3, 11), (3, 14)  # Pythons that the pinned version of PyTorch has builds for
NEEDED_BYTES = 3 * 10**9  # an installation with the CPU build of PyTorch, and room to unpack it
TEMPORARY = (
    "{} is a temporary folder, and the browser does not save what you write in one: "
    "move the course to another folder, such as your home folder."
)
_TEMPORARY_MARKS = ("/tmp/", "/var/folders/", "/appdata/local/temp/")  # as marimo's page has them
_SYNCED = re.compile(
    r"onedrive|dropbox|google ?drive|nextcloud|icloud|mobile documents|cloudstorage", re.IGNORECASE
)
_LONGEST = 66  # characters of a folder in which Windows's 259 hold the longest path in .venv
_CHROMIUM = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: `kind` is "ok", "wrong" or "note"."""

    kind: str
    sentence: str


def report(installation: Installation, *, port: int) -> int:
    """Print every finding; return 1 if something is wrong, else 0."""
    findings = list(examine(installation, port=port))
    sys.stdout.write("".join(f"{f.kind:>5}  {f.sentence}\n" for f in findings))
    return int(any(f.kind == "wrong" for f in findings))


def examine(installation: Installation, *, port: int) -> Iterator[Finding]:
    """Look at everything that the course needs, most important first."""
    root = installation.root
    unfit = list(installation.obstacles())
    yield from (Finding("wrong", sentence) for sentence in unfit)
    if not unfit:
        yield Finding("ok", f"Python {platform.python_version()} can start the course.")
        yield Finding("ok", f"{root} can be written to, and the disk has room.")
    yield from (Finding("note", sentence) for sentence in notes(root))
    yield from installation.findings()
    if is_temporary(root):
        yield Finding("wrong", TEMPORARY.format(root))
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
    yield from _for_the_tests()


def unsupported() -> Iterator[str]:
    """Yield a sentence if PyTorch has no build for this Python, or none for this machine."""
    newest = "{}.{}".format(*NEWEST)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    machine = platform.machine()
    libc = platform.libc_ver() if sys.platform == "linux" else ("", "")
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
    elif sys.platform == "darwin" and machine != "arm64":
        yield (
            f"PyTorch has no build for Macs with an Intel processor ({machine}): on one with "
            "Apple silicon, install the arm64 Python; docs/hosting says where else it runs."
        )
    elif sys.platform == "darwin" and _numbers(platform.mac_ver()[0]) < (14,):
        yield f"PyTorch needs macOS 14 or newer, and this is {platform.mac_ver()[0]}: update it."
    elif sys.platform == "linux" and not (
        machine in ("x86_64", "aarch64") and libc[0] == "glibc" and _numbers(libc[1]) >= (2, 28)
    ):
        yield (
            "PyTorch has builds for Linux on x86_64 and aarch64 with glibc 2.28 or newer, and this "
            f"is {machine} with {' '.join(libc).strip() or 'another C library'}: docs/hosting says "
            "where else the course runs."
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def before_install(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing about this folder that would make an installation fail."""
    if os.pathsep in str(root):
        yield f"no Python can be set up in {root}, for its name has a {os.pathsep!r}: rename it."
    try:
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        yield f"{root} cannot be written to ({error.strerror}): change its permissions or move it."
        return
    if sys.platform == "linux" and os.statvfs(root).f_flag & os.ST_NOEXEC:
        yield f"the disk of {root} runs no programs (noexec): move the course to another disk."
    free = shutil.disk_usage(root).free
    if free < NEEDED_BYTES and not (root / ".venv").exists():
        need, have = NEEDED_BYTES / 1e9, free / 1e9
        yield f"the disk has {have:.1f} GB free, and the course needs {need:.0f} GB: make room."


def notes(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing about this folder that is better known beforehand."""
    if is_synced(root):
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


def is_synced(root: Path) -> bool:
    """Whether a program that syncs folders, such as OneDrive, keeps this one."""
    return bool(_SYNCED.search(root.as_posix()))


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
    if sys.platform.startswith("linux") and not any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    ):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _for_the_tests() -> Iterator[Finding]:
    if not shutil.which("node"):
        yield Finding("note", "node is not installed: learn.py test skips the JavaScript tests.")
    if not any(shutil.which(name) for name in _CHROMIUM):
        yield Finding("note", "Chromium is not installed: learn.py test skips the browser tests.")
