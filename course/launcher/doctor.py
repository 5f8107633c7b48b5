"""Says in words what is wrong with the machine's set-up. Standard library only."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NEEDED_BYTES = 3 * 10**9  # an installation with the CPU build of PyTorch, and room to unpack it
TEMPORARY = (
    "{} is a temporary folder, and the browser does not save what you write in one: "
    "move the course to another folder, such as your home folder."
)
_TEMPORARY_MARKS = ("/tmp/", "/var/folders/", "/appdata/local/temp/")  # as marimo's page has them
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


def report(root: Path, *, port: int, half_made: bool, installed: Sequence[str]) -> int:
    """Print every finding; return 1 if something is wrong, else 0.

    `installed` are sentences on what is installed, none where nothing is.
    """
    findings = list(examine(root, port=port, half_made=half_made, installed=installed))
    sys.stdout.write("".join(f"{f.kind:>5}  {f.sentence}\n" for f in findings))
    return int(any(f.kind == "wrong" for f in findings))


def examine(
    root: Path, *, port: int, half_made: bool, installed: Sequence[str]
) -> Iterator[Finding]:
    """Look at everything that the course needs, most important first."""
    yield Finding("ok", f"Python {sys.version.split()[0]} is new enough.")
    unfit = list(before_install(root))
    yield from (Finding("wrong", sentence) for sentence in unfit)
    if not unfit:
        yield Finding("ok", f"{root} can be written to, and the disk has room.")
    if half_made:
        yield Finding("wrong", ".venv is half made: python3 learn.py makes it anew.")
    elif installed:
        yield from (Finding("ok", sentence) for sentence in installed)
    else:
        yield Finding("note", "the course is not installed yet: python3 learn.py does it.")
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


def before_install(root: Path) -> Iterator[str]:
    """Yield a sentence for each thing that would make an installation fail."""
    try:
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        yield f"{root} cannot be written to ({error.strerror}): change its permissions or move it."
        return
    free = shutil.disk_usage(root).free
    if free < NEEDED_BYTES and not (root / ".venv").exists():
        need, have = NEEDED_BYTES / 1e9, free / 1e9
        yield f"the disk has {have:.1f} GB free, and the course needs {need:.0f} GB: make room."


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
