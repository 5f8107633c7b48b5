"""Processes that run answers: how they are started, timed, ended, and what became of them.

ForkServer   Linux: each is forked from a warm process without threads, and ends after its use
Spawner      everywhere: a warm process that stays until it has to be killed
sandboxed    Linux, for marks: a ForkServer inside bubblewrap (see `sandbox`)
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

from course.calling.channel import Channel, LostError
from course.calling.process_limits import MEMORY, dump_of, exit_error, read_words
from course.calling.spawner import Spawner
from course.lazy import psutil
from nanogpt.child_process import ChildProcess

_START_S = 60.0  # for a process to be there, on a machine that does much else
_END_S = 5.0
_LOOK_S = 0.2  # from one look at the memory of several processes to the next
_MOST_TRIES = 3
_UCRED = struct.Struct("3i")
Needs: TypeAlias = Literal["numbers", "tensors", "runs", "marks"]
"""The use of a warm process: checks without torch, checks with it, also runs, or marks.

For runs it has loaded the models; for marks, answers may not import the course nor write files.
"""
START_METHOD = "SERVING_NANOGPT_START_METHOD"
"""The environment variable that may say "spawn" on Linux: as on macOS and Windows."""


class Starter(Protocol):
    """Starts processes that run answers."""

    def start(self) -> Channel:
        """A process of its own, at the other end of a channel. Raises: RuntimeError."""
        ...


class ForkServer:
    """Forks processes from a warm one, and starts another when that is killed.

    `command` are words to put before the warm process's own command, such as a sandbox's. Mutable:
    the warm process.
    """

    def __init__(self, command: Sequence[str] = (), *, needs: Needs = "runs") -> None:
        self._command = command
        self.needs = needs
        self._lock = threading.Lock()
        self._launch()

    def _launch(self) -> None:
        self._warm = ChildProcess.start(
            "course.calling.fork_server",
            self.needs,
            under=self._command,
            environment={"PATH": os.defpath, "LANG": "C.UTF-8"},  # alike in each place
        )
        self._is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether the warm process runs; when it is killed, those that it forked end with it."""
        return self._warm.process.poll() is None

    def start(self) -> Channel:
        """Raises: RuntimeError where the warm process cannot start or is killed again and again."""
        for _ in range(_MOST_TRIES):
            here, there = socket.socketpair()
            here.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            words = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
            with self._lock, contextlib.ExitStack() as opened:
                opened.enter_context(here)
                opened.enter_context(words)
                with there:
                    said = self._order(b"fork", [there.fileno(), words.fileno()])
                if "pid" in said:
                    process = _Forked(self, self._warm, said["pid"], here, words)
                    opened.pop_all()
                    return Channel(here, process)
                self.close()
                self._launch()
        raise RuntimeError("the process that answers are forked from was killed or did not start")

    def ended(self, warm: object, pid: int) -> dict[str, Any]:
        """End a process that `warm` forked, and how it ended if that was by itself.

        {} when nobody knows.
        """
        with self._lock:
            return self._order(b"ended %d" % pid, []) if warm is self._warm else {}

    def _order(self, order: bytes, files: Sequence[int]) -> dict[str, Any]:
        link = self._warm.link
        try:
            if not self._is_ready:
                link.settimeout(_START_S)
                self._is_ready = link.recv(16) == b"ready"
            socket.send_fds(link, [order], files)
            return json.loads(link.recv(4096) or b"{}")
        except BaseException as error:
            self._warm.kill()  # its answer to this order must not be taken for one to the next
            if isinstance(error, OSError):
                return {}
            raise

    def close(self) -> None:
        """End the warm process, and with it whatever it has started."""
        self._warm.link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._warm.process.wait(_END_S)
        self._warm.reap()


class _Forked:
    """A process that a fork server's process `warm` forked; `inner_pid` is its number there."""

    def __init__(
        self,
        server: ForkServer,
        warm: ChildProcess,
        inner_pid: int,
        end: socket.socket,
        words: Any,
    ) -> None:
        self._server = server
        self._warm = warm
        self._inner_pid = inner_pid
        self._end = end
        self._pid = _pid_of(end)
        self._words = words
        self._cpu_s = 0.0
        self._next_look = time.monotonic() + _LOOK_S
        self._said: dict[str, Any] | None = None

    def cpu_s(self) -> float:
        """Linux tells it under a clock made from the pid."""
        with contextlib.suppress(OSError):  # it has ended
            self._cpu_s = time.clock_gettime((~self._pid << 3) | 2)
        return self._cpu_s

    def takes_too_much(self) -> bool:
        """Its address space is limited, and for marks the memory of all that it starts."""
        if self._server.needs != "marks" or time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _LOOK_S
        with contextlib.suppress(psutil.Error):
            inside = psutil.Process(self._warm.process.pid).children(recursive=True)
            return sum(each.memory_info().rss for each in inside) > 2 * MEMORY
        return False

    def where(self) -> str:
        """Asked by a signal, for which the fault handler needs no lock."""
        return dump_of(self._pid, self._words)

    def why_it_ended(self) -> LostError:
        """As its parent tells."""
        said = self._ended()
        return exit_error(said.get("signal", 0), said.get("most_bytes", 0), read_words(self._words))

    def end(self, *, healthy: bool) -> None:
        """It is never used again."""
        self._ended()
        self._words.close()
        self._end.close()

    def _ended(self) -> dict[str, Any]:
        if self._said is None:
            self._said = self._server.ended(self._warm, self._inner_pid)
        return self._said


def _pid_of(end: socket.socket) -> int:
    """The other end's process number as this process sees it, which comes with its first byte."""
    end.settimeout(_START_S)
    _, notes, _, _ = end.recvmsg(1, socket.CMSG_SPACE(_UCRED.size))
    for level, kind, content in notes:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return _UCRED.unpack(content[: _UCRED.size])[0]
    raise exit_error(0, 0, "")


@functools.cache
def own_starter(needs: Needs = "runs") -> Starter:
    """The starter of this process: what it starts ends with it."""
    if sys.platform == "emscripten":  # a page, which has no processes
        from course.tab.page_channel import PageStarter

        return PageStarter()
    forks = sys.platform == "linux" and os.environ.get(START_METHOD) != "spawn"
    starter = ForkServer(needs=needs) if forks else Spawner(needs)
    atexit.register(starter.close)
    return starter
