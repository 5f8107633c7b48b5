"""Runs the programs that install, with a line that says what goes on and since when."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TICK_S = 1


class Ticker:
    """One line that is rewritten on a terminal; elsewhere a line for each phase. Mutable."""

    def __init__(self) -> None:
        self._is_tty = sys.stdout.isatty()
        self._began = time.monotonic()
        self._phase = ""

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, *error: object) -> None:
        if self._phase and self._is_tty:
            _write("\n")

    def show(self, phase: str, detail: str = "") -> None:
        """Say what goes on; a `detail` may change often and is for terminals only."""
        if phase == self._phase and not self._is_tty:
            return
        self._phase = phase
        text = f"Installing: {time.monotonic() - self._began:3.0f} s, {phase}"
        if self._is_tty:
            width = shutil.get_terminal_size().columns - 1
            text = (text + f": {detail}" * bool(detail))[:width].ljust(width)
            _write(f"\r{text}")
        else:
            _write(f"{text}\n")

    def say(self, sentence: str) -> None:
        """Print a sentence that stays."""
        if self._phase and self._is_tty:
            _write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
        self._phase = ""
        _write(f"{sentence}\n")

    def say_done(self) -> None:
        """Say how long it took."""
        self.say(f"Installed in {time.monotonic() - self._began:.0f} s.")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and all it printed."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs in the folder `root`; they hold the lock `held` as long as they run.

    What they print is added to the file `log`.
    """

    root: Path
    ticker: Ticker
    held: int
    log: Path

    @property
    def log_name(self) -> str:
        """The log's name as a sentence has it."""
        return "/".join(self.log.parts[-2:])

    def run(
        self, command: Sequence[str | Path], phase: str, env: Mapping[str, str] | None = None
    ) -> Ended:
        """Run a program to its end, showing its last line. Raises: OSError if it cannot start."""
        lines: list[str] = []
        with subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=() if os.name == "nt" else (self.held,),
        ) as program:
            assert program.stdout
            try:
                self._follow(program.stdout, lines, phase)
            except BaseException:
                program.kill()
                raise
            finally:
                with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as log:
                    log.writelines(lines)  # a full disk has no room for it either
        return Ended(program.returncode, "".join(lines))

    def _follow(self, output: IO[str], lines: list[str], phase: str) -> None:
        """Read output to its end into `lines`; the seconds go on where it says nothing."""
        arrived: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            with contextlib.suppress(ValueError):  # closed, because of Ctrl-C
                for line in output:
                    arrived.put(line)
            arrived.put(None)

        threading.Thread(target=read, daemon=True).start()
        line: str | None = ""
        while line is not None:
            self.ticker.show(phase, lines[-1].strip() if lines else "")
            with contextlib.suppress(queue.Empty):
                line = arrived.get(timeout=TICK_S)
                lines += [line] if line else []


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
