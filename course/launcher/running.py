"""Runs the programs that install, each with a line that moves as long as it runs."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from course.launcher.ticker import Ticker

TICK_S = 1


class Doing:
    """What a program is doing: a phase, and a detail that changes more often."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.detail = ""

    def hear(self, line: str) -> None:
        """Take in a line of its output."""

    def look(self) -> None:
        """Look at what it has done by now, about once a second."""


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

    def run(
        self, command: Sequence[str | Path], doing: Doing, env: Mapping[str, str] | None = None
    ) -> Ended:
        """Run a program to its end. Raises: OSError where it cannot be started."""
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
                self._follow(program.stdout, lines, doing)
            except BaseException:
                program.kill()
                raise
            finally:
                with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as log:
                    log.writelines(lines)  # a full disk has no room for it either
        return Ended(program.returncode, "".join(lines))

    def _follow(self, output: IO[str], lines: list[str], doing: Doing) -> None:
        """Read output to its end into `lines`, the line moving."""
        arrived: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            with contextlib.suppress(ValueError):  # closed, because of Ctrl-C
                for line in output:
                    arrived.put(line)
            arrived.put(None)

        threading.Thread(target=read, daemon=True).start()
        while True:
            doing.look()
            self.ticker.show(doing.phase, doing.detail)
            try:
                line = arrived.get(timeout=TICK_S)
            except queue.Empty:
                continue
            if line is None:
                return
            lines.append(line)
            doing.hear(line)


def shown(log: Path) -> str:
    """Return the log's name as a sentence has it."""
    return "/".join(log.parts[-2:])
