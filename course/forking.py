"""A check in a child process, so that nothing an answer does can take the notebook with it.

A call into C that keeps the interpreter's lock, `os._exit` and a crash end the child alone. The
child is a fork: it has the learner's own helpers without any transport of source, and its report
comes back as JSON. Linux alone; elsewhere a fork after loading frameworks is not safe.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import gc
import io
import json
import os
import re
import selectors
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course.report import Report
from nanogpt.parts.guard import own_line

if TYPE_CHECKING:
    from course.exercise import Exercise  # which brings torch along

_BEAT = b"\0"
_BEAT_S = 0.1
_SILENT_CPU_S = 2.0  # computed without a sign of life: something keeps the interpreter's lock
_SILENT_WALL_S = 20.0  # the same where it does not even compute
_WHOLE_WALL_S = 120.0  # every limit within the child ends it long before
_DUMP_S = 0.3  # for the line that it is in
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True, slots=True)
class Checked:
    """A report, and whether the function can be run here: not what was stopped or crashed."""

    report: Report
    runs_here: bool


def check_apart(item: Exercise, function: Callable[..., Any]) -> Checked:
    """`item.check(function)` in a child process where that is safe, else here.

    Raises: RuntimeError when the check itself went wrong, which is no answer's fault.
    """
    if sys.platform != "linux":
        report = item.check(function)
        return Checked(report, report.status != "timeout")
    began = time.perf_counter()
    with _child(item, function) as child:
        child.listen()
    if child.said:
        report = _report(json.loads(child.said))
        return Checked(report, report.status != "timeout")
    status, idea = _what_happened(child, item.name, function)
    seconds = time.perf_counter() - began
    return Checked(Report(item.id, status, (), 0, idea, seconds=seconds), False)


def _report(said: dict[str, Any]) -> Report:
    if "broken" in said:
        raise RuntimeError(f"The check itself went wrong: {said['broken']}")
    said["checks"] = tuple(said["checks"])
    said["example"] = tuple((label, text) for label, text in said["example"])
    return Report(**said)


def _what_happened(child: _Child, name: str, function: Callable[..., Any]) -> tuple[Any, str]:
    """Status and sentence for a child that gave no report."""
    where = _place(child.words.decode(errors="replace"), function)
    if child.silent and child.cpu_s < _SILENT_CPU_S:
        return "timeout", (
            f"Your `{name}` was stopped{where}: it waits inside one operation that Python cannot "
            "interrupt."
        )
    if child.silent:
        return "timeout", (
            f"Your `{name}` was stopped{where} after {child.cpu_s:.0f} s of computing inside one "
            "operation that Python cannot interrupt."
        )
    if child.exit_signal is None:
        return "raised", (
            f"Your `{name}` ended the whole Python process{where} (`os._exit`?), so that there is "
            "no answer to check."
        )
    crash = signal.Signals(child.exit_signal).name
    hint = ": did it take all the memory?" if crash == "SIGKILL" else "."
    return "raised", f"Your `{name}` crashed the Python process{where} ({crash}){hint}"


def _place(dump: str, function: Callable[..., Any]) -> str:
    """Where in the function, out of the lines that Python's fault handler writes."""
    for number in re.findall(r'File ".*", line (\d+) in', dump):
        place = own_line(function, int(number))
        if place:
            return f" on its line {place[0]} (`{place[1]}`)"
    return ""


# --- the child -------------------------------------------------------------------------------


class _Child:
    """A child at work, seen from its parent. After `listen`, what it said or what became of it.

    `said` is its report, empty when there is none; `silent` says that it had to be stopped;
    `exit_signal` is the signal that ended it, if one did; `words` are the fault handler's.
    """

    def __init__(self, pid: int, report: int, words: int) -> None:
        self.pid = pid
        self.said = self.words = b""
        self.silent = False
        self.exit_signal: int | None = None
        self.cpu_s = 0.0
        self._report, self._words = report, words

    def listen(self) -> None:
        """Waits for the report, the child's end, or a silence that is too long."""
        began = beat = time.monotonic()
        beat_cpu_s = 0.0
        with selectors.DefaultSelector() as ready:
            ready.register(self._report, selectors.EVENT_READ)
            ready.register(self._words, selectors.EVENT_READ)
            while True:
                ended = self._has_ended()  # asked first: all that it wrote is in the pipes then
                pipes = {key.fd for key, _ in ready.select(0 if ended else _BEAT_S)}
                if self._words in pipes and self._hear():
                    beat, beat_cpu_s = time.monotonic(), self._cpu_now()
                if self._report in pipes:
                    chunk = os.read(self._report, 1 << 16)
                    self.said += chunk
                    if not chunk or chunk.endswith(b"\n"):
                        break
                if ended and not pipes:  # a child of its own may hold the pipes open
                    break
                now, self.cpu_s = time.monotonic(), self._cpu_now() - beat_cpu_s
                waited = now - beat > _SILENT_WALL_S or now - began > _WHOLE_WALL_S
                if self.cpu_s > _SILENT_CPU_S or waited:
                    self.silent, self.said = True, b""
                    self._ask_where()
                    return
        if not self.said.endswith(b"\n"):
            self.said = b""
            self._see_how_it_ended()

    def _hear(self) -> bool:
        """Reads what is on the pipe of words; whether there was a sign of life."""
        chunk = os.read(self._words, 1 << 16)
        self.words += chunk.replace(_BEAT, b"")
        return _BEAT in chunk

    def _ask_where(self) -> None:
        """Has the fault handler write where the child is, for which it needs no lock."""
        os.kill(self.pid, signal.SIGUSR1)
        until = time.monotonic() + _DUMP_S
        with selectors.DefaultSelector() as ready:
            ready.register(self._words, selectors.EVENT_READ)
            while ready.select(max(0.0, until - time.monotonic())):
                self._hear()

    def _cpu_now(self) -> float:
        """CPU seconds of all its threads, which Linux tells under a clock made from the pid."""
        with contextlib.suppress(OSError):
            return time.clock_gettime((~self.pid << 3) | 2)
        return 0.0

    def _has_ended(self) -> bool:
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, flags) is not None

    def _see_how_it_ended(self) -> None:
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if ended is not None and ended.si_code != os.CLD_EXITED:
            self.exit_signal = ended.si_status
        os.set_blocking(self._words, False)
        with contextlib.suppress(BlockingIOError):
            self._hear()


@contextlib.contextmanager
def _child(item: Exercise, function: Callable[..., Any]) -> Generator[_Child]:
    """A child that checks the function. It and its own children end with the block."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)  # a thread pool does not survive the fork: its work would hang
    report, words = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are other threads is known
        pid = os.fork()
    if pid == 0:
        _work(item, function, report[1], words[1])
    os.close(report[1])
    os.close(words[1])
    try:
        yield _Child(pid, report[0], words[0])
    finally:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(report[0])
        os.close(words[0])


def _work(item: Exercise, function: Callable[..., Any], report: int, words: int) -> None:
    """All that the child does; ends the process."""
    try:
        gc.freeze()  # what the notebook holds is no garbage, and a look at it would copy it all
        os.setsid()  # so that its own children can be ended with it
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        sys.stdout = sys.stderr = io.StringIO()  # the notebook's streams belong to its threads
        faulthandler.enable(words, all_threads=True)
        faulthandler.register(signal.SIGUSR1, words, all_threads=True)
        threading.Thread(target=_beat, args=(words,), daemon=True).start()
        try:
            said = dataclasses.asdict(item.check(function))
        except BaseException as error:
            said = {"broken": f"{type(error).__name__}: {error}"}
        text = json.dumps(said).encode() + b"\n"
        while text:
            text = text[os.write(report, text) :]
    finally:
        os._exit(0)


def _beat(words: int) -> None:
    """A sign of life again and again, as long as the interpreter's lock can be had."""
    while True:
        os.write(words, _BEAT)
        time.sleep(_BEAT_S)
