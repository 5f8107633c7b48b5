"""The line that says what an installation is doing and since when."""

from __future__ import annotations

import shutil
import sys
import time


class Ticker:
    """One line that is rewritten on a terminal; elsewhere a line for each phase."""

    def __init__(self) -> None:
        self.is_tty = sys.stdout.isatty()
        self.began = time.monotonic()
        self.phase = ""

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, *error: object) -> None:
        if self.phase and self.is_tty:
            _write("\n")

    def show(self, phase: str, detail: str = "") -> None:
        """Say what goes on; a `detail` may change often and is for terminals alone."""
        if phase == self.phase and not self.is_tty:
            return
        self.phase = phase
        text = f"Installing: {time.monotonic() - self.began:3.0f} s, {phase}"
        if self.is_tty:
            width = shutil.get_terminal_size().columns - 1
            text = (text + f": {detail}" * bool(detail))[:width].ljust(width)
            _write(f"\r{text}")
        else:
            _write(f"{text}\n")

    def say(self, sentence: str) -> None:
        """Print a sentence that stays."""
        if self.phase and self.is_tty:
            _write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
        self.phase = ""
        _write(f"{sentence}\n")

    def say_done(self) -> None:
        """Say how long it took."""
        self.say(f"Installed in {time.monotonic() - self.began:.0f} s.")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
