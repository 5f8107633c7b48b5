"""Runs pip with one progress line: what is being installed, and for how long."""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from course.launcher.failure import Failure, last_line

OPTIONS = ("--progress-bar", "off", "--disable-pip-version-check", "--no-input")
NO_NETWORK = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeout|ProxyError")
WORDS = (
    (re.compile(r"Collecting ([\w.-]+)"), "looking up {}"),
    (
        re.compile(r"(?:Downloading|Using cached|Processing) (?:\S*/)?([\w.]+-[\d.]+\d)"),
        "getting {}",
    ),
    (re.compile(r"\s*(?:Installing build dep|Preparing editable)()"), "preparing the course"),
    (re.compile(r"Installing collected packages: (.*)"), "unpacking {}"),
)


class NothingInstalled(Failure):
    """Pip failed before it changed anything: what was installed still works."""


def run_pip(python: Path, root: Path, files: Sequence[str], *, log: Path) -> None:
    """Install requirements files.

    Raises: NothingInstalled or another Failure that says why that failed.
    """
    wanted = [argument for name in files for argument in ("-r", name)]
    pip = subprocess.Popen(
        [python, "-m", "pip", "install", *OPTIONS, *wanted],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    assert pip.stdout
    lines: list[str] = []
    try:
        _follow(pip.stdout, lines)
    except BaseException:
        pip.kill()
        raise
    finally:
        pip.wait()
        log.write_text("".join(lines), encoding="utf-8")
    if pip.returncode:
        output = "".join(lines)
        kind = Failure if "Installing collected packages" in output else NothingInstalled
        raise kind(_why(output, log.relative_to(root).as_posix()))


def _follow(output: IO[str], lines: list[str]) -> None:
    """Read pip's output to its end into `lines`, showing a progress line."""
    arrived: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in output:
            arrived.put(line)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    progress = Progress()
    doing = "starting pip"
    while True:
        progress.show(doing)
        try:
            line = arrived.get(timeout=1)
        except queue.Empty:
            continue
        if line is None:
            return progress.close()
        lines.append(line)
        doing = in_words(line) or doing


def in_words(line: str) -> str:
    """Return what a line of pip's output is about, "" for one that says nothing new."""
    for pattern, words in WORDS:
        match = pattern.match(line)
        if match:
            what = match[1]
            return words.format(f"{what.count(',') + 1} packages" if "," in what else what)
    return ""


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line now and then."""

    def __init__(self) -> None:
        self.is_tty = sys.stdout.isatty()
        self.began = time.monotonic()
        self.shown = ""
        self.shown_at = -60.0

    def show(self, doing: str) -> None:
        """Say what is being done and since when, unless that was just said."""
        elapsed = time.monotonic() - self.began
        pause = 0.1 if self.is_tty else 5 if doing != self.shown else 15
        if elapsed - self.shown_at < pause:
            return
        self.shown, self.shown_at = doing, elapsed
        text = f"Installing: {elapsed:3.0f} s, {doing}"
        if self.is_tty:
            width = shutil.get_terminal_size().columns - 1
            text = "\r" + text[:width].ljust(width)
        else:
            text += "\n"
        sys.stdout.write(text)
        sys.stdout.flush()

    def close(self) -> None:
        """End the line."""
        if self.is_tty:
            sys.stdout.write("\n")


def _why(output: str, log: str) -> str:
    """Return one sentence on why pip failed."""
    if "No space left" in output:
        return f"installing failed because the disk is full; the whole output is in {log}."
    if NO_NETWORK.search(output):
        return (
            "installing failed because the package index could not be reached: check the "
            f"network; the whole output is in {log}."
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1] if errors else last_line(output)
    return f"installing failed ({reason}); the whole output is in {log}."
