"""Limits of a process that runs answers, set from inside before it meets one."""

import contextlib
import os
import signal
import sys
from pathlib import Path

MEMORY = 3 << 30
"""Bytes that an answer may have, beyond what its process has when it starts."""
_MOST_WORDS = 1 << 20  # bytes of a file: the fault handler's
_MOST_FILES = 64
_MOST_TASKS = 128  # threads and processes


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
