"""Limits of a process that runs answers, and how it ended or was stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from course.calling.channel import LostError

MEMORY = 3 << 30
"""Bytes that an answer may have, beyond what its process has when it starts."""
_MOST_WORDS = 1 << 20  # bytes of a file: the fault handler's
_MOST_FILES = 64
_MOST_TASKS = 128  # threads and processes
_DUMP_S = 0.3  # for the fault handler's words
_MOST_READ = 1 << 16  # bytes of the fault handler's words


def limit_this_process(*, for_marks: bool) -> None:
    """Limit memory where the system can; `for_marks`, also files, threads and processes."""
    try:
        import resource
    except ImportError:  # Windows: the process that asks looks at the memory
        return
    limits = {resource.RLIMIT_AS: _mapped() + MEMORY, resource.RLIMIT_CORE: 0}
    if for_marks:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows is an error, no crash
        limits[resource.RLIMIT_FSIZE] = _MOST_WORDS
        limits[resource.RLIMIT_NOFILE] = _MOST_FILES
        limits[resource.RLIMIT_NPROC] = _MOST_TASKS  # counted within the sandbox's own user
        if sys.platform == "linux":
            limits[resource.RLIMIT_MSGQUEUE] = 0  # one would outlive the process
    for what, limit in limits.items():
        _, hard = resource.getrlimit(what)
        lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS limits no address space
            resource.setrlimit(what, (lower, lower))


def _mapped() -> int:
    """Bytes of address space that this process has mapped, where the system says so."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 2 << 30  # torch maps less than that


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
    """The fault handler's output in this file."""
    words.seek(0)
    return words.read(_MOST_READ).decode(errors="replace")


def exit_error(by_signal: object, most_bytes: object, dump: str) -> LostError:
    """Describe the end of a process that ended by itself."""
    if isinstance(most_bytes, int) and by_signal and most_bytes > 0.8 * MEMORY:
        return LostError("memory", f"took more than {MEMORY >> 30} GB of memory and was stopped")
    if isinstance(by_signal, int) and by_signal:
        words = f"crashed the Python process ({signal.Signals(by_signal).name})"
        return LostError("crashed", words, dump)
    return LostError("crashed", "ended the whole Python process (`os._exit`?)")
