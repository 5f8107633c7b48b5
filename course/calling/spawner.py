"""Processes started from nothing, as everywhere but on Linux: one stays warm between answers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

from course.calling.channel import Channel, LostError
from course.calling.process_limits import MEMORY, dump_of, exit_error, read_words
from course.lazy import psutil
from nanogpt.child_process import ChildProcess

_START_S = 60.0  # for a process to be there, on a machine that does much else
_END_S = 5.0


class Spawner:
    """Keeps a warm process for the next answer. Mutable: that process.

    A process that had to be killed is replaced at once, so that the next one is soon ready.
    """

    def __init__(self, needs: str = "runs") -> None:
        self.needs = needs
        self._lock = threading.Lock()
        self._warm: _Spawned | None = _Spawned(self)

    def start(self) -> Channel:
        """Raises: RuntimeError where a process ends before it has begun."""
        with self._lock:
            process, self._warm = self._warm, None
        if process is not None and not process.is_alive():
            process.kill()
            process = None
        process = process or _Spawned(self)
        try:
            process.wait_until_ready()
        except BaseException:
            process.kill()
            raise
        return Channel(process.socket, process)

    def keep(self, process: _Spawned) -> None:
        """Take a process back, and end the one that was kept."""
        with self._lock:
            other, self._warm = self._warm, process
        if other is not None:
            other.kill()

    def replace(self) -> None:
        """Have a process ready, unless there is one."""
        with self._lock:
            if self._warm is None:
                self._warm = _Spawned(self)

    def close(self) -> None:
        """End the process that is kept."""
        with self._lock:
            process, self._warm = self._warm, None
        if process is not None:
            process.kill()


class _Spawned:
    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self._child = ChildProcess.start("course.calling.spawned", spawner.needs)
        self.socket = self._child.link
        self._seen = psutil.Process(self._child.process.pid)
        self._cpu_s = 0.0
        self._num_threads = 0
        self._is_ready = False

    def wait_until_ready(self) -> None:
        """Raises: RuntimeError where it ends before it has begun."""
        if not self._is_ready:
            self.socket.settimeout(_START_S)
            self._is_ready = bool(self.socket.recv(1))
            with contextlib.suppress(psutil.Error):
                self._num_threads = self._seen.num_threads()
        if not self._is_ready:
            raise RuntimeError("the process that runs answers did not start")

    def is_alive(self) -> bool:
        """Whether it has not been killed from outside."""
        return self._child.process.poll() is None

    def cpu_s(self) -> float:
        """As the system counts."""
        with contextlib.suppress(psutil.Error):
            times = self._seen.cpu_times()
            self._cpu_s = times.user + times.system
        return self._cpu_s

    def takes_too_much(self) -> bool:
        """Memory in use, since not every system limits it."""
        with contextlib.suppress(psutil.Error):
            return self._seen.memory_info().rss > MEMORY
        return False

    def where(self) -> str:
        """Asked by a signal, which Windows has not."""
        return (
            "" if sys.platform == "win32" else dump_of(self._child.process.pid, self._child.stderr)
        )

    def why_it_ended(self) -> LostError:
        """From its exit status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.process.wait(_END_S)
        code = self._child.process.poll() or 0
        return exit_error(-code if code < 0 else 0, 0, read_words(self._child.stderr))

    def end(self, *, healthy: bool) -> None:
        """It stays warm where it has nothing to do."""
        if healthy and self.is_alive() and not self._runs_more():
            self._spawner.keep(self)
        else:
            self.kill()
            self._spawner.replace()

    def _runs_more(self) -> bool:
        """Whether a thread or a process of an answer is left."""
        with contextlib.suppress(psutil.Error):
            return self._seen.num_threads() > self._num_threads or bool(self._seen.children())
        return True

    def kill(self) -> None:
        """End it and its children."""
        with contextlib.suppress(psutil.Error):
            for child in self._seen.children(recursive=True):
                child.kill()
        self._child.reap()
