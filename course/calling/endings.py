"""What became of a process that runs answers, and where it was when it was stopped."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from course.calling.limits import MEMORY

if TYPE_CHECKING:
    from course.calling.channel import LostError  # which imports torch

_DUMP_S = 0.3  # for the fault handler's words
_MOST_WORDS = 1 << 16  # bytes of the fault handler's that are read


def dump_of(pid: int, words: Any) -> str:
    """Have the fault handler of a process write where it is."""
    try:
        os.kill(pid, signal.SIGUSR1)
    except (ProcessLookupError, PermissionError):
        return ""
    until, before = time.monotonic() + _DUMP_S, -1
    while time.monotonic() < until:
        size = os.fstat(words.fileno()).st_size
        if size and size == before:  # it has been written whole
            break
        before = size
        time.sleep(0.01)
    return read_words(words)


def read_words(words: Any) -> str:
    """What the fault handler wrote to this file."""
    words.seek(0)
    return words.read(_MOST_WORDS).decode(errors="replace")


def exit_error(by_signal: object, most_bytes: object, dump: str) -> LostError:
    """What became of a process that ended by itself."""
    from course.calling.channel import LostError

    if isinstance(most_bytes, int) and by_signal and most_bytes > 0.8 * MEMORY:
        return LostError("memory", f"took more than {MEMORY >> 30} GB of memory and was stopped")
    if isinstance(by_signal, int) and by_signal:
        words = f"crashed the Python process ({signal.Signals(by_signal).name})"
        return LostError("crashed", words, dump)
    return LostError("crashed", "ended the whole Python process (`os._exit`?)")
