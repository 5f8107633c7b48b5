"""The warm process that answers' processes are forked from. It has no threads.

`python -m course.calling.fork_server LINK NEEDS` takes orders over the socket to its parent, one at
a time: "fork", with a channel and a file for the fault handler to write to; and "ended N", for how
its child N ended. It ends when the socket is closed. NEEDS is one of `processes.Needs`.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from course.calling import child
from course.calling.process_limits import limit_this_process
from nanogpt.child_process import end_by_signal, parent_link

_FOR_RUNS = (
    "course.replay", "course.lesson_data.texts", "nanogpt.block_tables", "nanogpt.kv_cache",
    "nanogpt.experiments.trace_metrics",
    "nanogpt.speculative.drafting", "nanogpt.window", "widgets",
)  # fmt: skip
_DIE_WITH_PARENT, _DUMPABLE, _ADOPT_ORPHANS = 1, 4, 36  # PR_SET_PDEATHSIG and its like
_SHM_STAT, _SHM_INFO = 13, 14


def main(orders: socket.socket, needs: str) -> None:
    """Do what is ordered. For marks, an answer may not import the course, nor write files."""
    end_by_signal()  # also while it imports torch
    marks = needs == "marks"
    if needs != "numbers":
        importlib.import_module("torch")
    if needs == "runs":
        for name in _FOR_RUNS:
            importlib.import_module(name)
        _load_models()
    prctl = ctypes.CDLL(None).prctl
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    prctl(_DUMPABLE, 0)  # so that no answer can trace this process, or read its memory
    prctl(_ADOPT_ORPHANS, 1)  # what an answer leaves behind is ended here
    gc.collect()
    gc.freeze()  # what is here is no garbage, and a look at it would copy it all
    ended: dict[int, dict[str, int] | None] = {}
    orders.send(b"ready")
    while True:
        order, files, _, _ = socket.recv_fds(orders, 4096, 2)
        if not order:
            os._exit(0)  # at once: what it forked ends with it, and to tidy up takes seconds
        _reap_all(ended)
        if order == b"fork":
            channel, words = files
            pid = os.fork()
            if pid == 0:
                orders.close()
                prctl(_DIE_WITH_PARENT, signal.SIGKILL)
                _take_over(channel, words)
                limit_this_process(for_marks=marks)
                if marks:
                    child.refuse_the_course()
                child.serve(socket.socket(fileno=channel))
            os.close(channel)
            os.close(words)
            ended[pid] = None
            said: dict[str, Any] = {"pid": pid}
        else:
            said = _end(int(order.split()[1]), ended)
        orders.send(json.dumps(said).encode())


def _load_models() -> None:
    import torch

    from course.calling.jobs import shipped

    for dtype in (torch.float32, torch.float64):
        shipped(dtype)


def _take_over(channel: int, words: int) -> None:
    """Leave the parent's files and session: the fault handler's words are all that goes out."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream, place in ((0, null), (1, null), (2, words)):
        os.dup2(place, stream)
    for number in {null, words} - {0, 1, 2}:
        os.close(number)


def _end(pid: int, ended: dict[int, dict[str, int] | None]) -> dict[str, int]:
    """End a child and all that it started; returns how it ended, if that was by itself."""
    if ended[pid] is None:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
    while ended[pid] is None:
        _reap(ended, os.wait4(-1, 0))
    if os.getpid() == 1:  # in a sandbox: everyone else here is the child's
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        _remove_shared_memory()
    else:
        _end_orphans(ended)
    return ended.pop(pid) or {}


def _end_orphans(ended: dict[int, dict[str, int] | None]) -> None:
    """End the processes that ended children left behind, in whatever session."""
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(FileNotFoundError):  # a kernel may be built without it
        while orphans := [pid for pid in map(int, own.read_text().split()) if pid not in ended]:
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _remove_shared_memory() -> None:
    """Remove System V shared memory, which would outlive the processes that made it."""
    libc, info = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    for index in range(libc.shmctl(0, _SHM_INFO, info) + 1):
        number = libc.shmctl(index, _SHM_STAT, info)
        if number >= 0:
            libc.shmctl(number, 0, None)


def _reap_all(ended: dict[int, dict[str, int] | None]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (one := os.wait4(-1, os.WNOHANG))[0]:
            _reap(ended, one)


def _reap(ended: dict[int, dict[str, int] | None], one: tuple[int, int, Any]) -> None:
    """Note how a child ended. An orphan is no child, and may have an old child's number."""
    pid, status, used = one
    if pid in ended:
        by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        ended[pid] = {"signal": by, "most_bytes": used.ru_maxrss << 10}


if __name__ == "__main__":
    main(parent_link(), sys.argv[2])
