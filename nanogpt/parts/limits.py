"""Calls of a learner's function that end: in a thread of their own, or watched in a run's.

Knows threads and clocks; knows nothing of what the function computes. One limit stays: a single
call into C that keeps the interpreter's lock (`sum(range(10**12))`) can only be waited for, or be
stopped from another process.
"""

import contextlib
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from nanogpt.validate import PartError

Value = TypeVar("Value")

BACKSTOP = 4.0
"""Wall seconds allowed per second of limit: a busy machine is not the learner's fault."""
_POLL_S = 0.05
_INJECT_EVERY_S = 0.01
_GRACE_S = 0.25  # to end by exception, and then again to be parked


@dataclass(frozen=True, slots=True)
class _Called:
    """A part at work in a run's own thread, and the seconds on both clocks when it was called."""

    name: str
    limit_s: float
    cpu_start: float
    wall_start: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a limited call came to: a value, an error, or neither when it was stopped.

    `cpu_s` is the CPU time of the thread that ran the function, in seconds, where the OS tells it.
    """

    value: Any
    error: BaseException | None
    timed_out: bool
    cpu_s: float


class _Stop(SystemExit):
    """Injected into a call beyond its limit; a SystemExit, so that its thread dies silently."""


class _Park(_Stop):
    """Injected into a call that swallows `_Stop`: puts its thread to sleep for good.

    The interpreter makes the instance in the thread that is to end, which is why waiting works.
    """

    def __init__(self) -> None:
        threading.Event().wait()


class _WithoutStops:
    """`sys.unraisablehook` for all but stops that land in a callback (`__del__`, the collector's).

    Such a stop is lost, and the next one ends the call. A hook that says something of it does so in
    the stopped thread, where the next one would land in the hook.
    """

    def __init__(self, hook: Callable[["sys.UnraisableHookArgs"], Any]) -> None:
        self._hook = hook

    def __call__(self, ignored: "sys.UnraisableHookArgs") -> None:
        if not issubclass(ignored.exc_type, _Stop):
            self._hook(ignored)


class _Worker:
    """A daemon thread that runs one call at a time, handed over with two locks (about 20 us)."""

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._call: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self._clock_id: int | None = None
        self._cpu_start = 0.0
        self._stopped = False
        self.called: _Called | None = None
        self.outcome = Outcome(None, None, False, 0.0)
        self._thread = threading.Thread(target=self._run, name="guarded call", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether the thread is there to take a call; False in the child of a fork."""
        return self._thread.is_alive()

    def start(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._call = (function, args)
        self._cpu_start = self._cpu_now() or 0.0
        self._go.release()

    def finished(self, timeout_s: float) -> bool:
        """Waits for the call's end for at most `timeout_s` seconds."""
        return self._done.acquire(timeout=timeout_s)

    def cpu_s(self) -> float | None:
        """CPU seconds since `start`, read from outside; None where the OS cannot tell."""
        now = self._cpu_now()
        return None if now is None else max(0.0, now - self._cpu_start)

    def late(self) -> PartError | None:
        """Why the part that is at work now is to be stopped, or None."""
        part = self.called
        if part is None:
            return None
        now = self._cpu_now()
        cpu_s = 0.0 if now is None else now - part.cpu_start
        wall_s = time.monotonic() - part.wall_start
        if cpu_s < part.limit_s and wall_s < BACKSTOP * part.limit_s:
            return None
        return PartError(f"your {part.name} {describe_timeout(cpu_s, part.limit_s)}")

    def stop(self) -> None:
        """Ends the call, or puts its thread to sleep, or leaves it blocked where it is.

        The worker takes no further call: an injected exception may arrive late.
        """
        self._stopped = True
        if not isinstance(sys.unraisablehook, _WithoutStops):
            sys.unraisablehook = _WithoutStops(sys.unraisablehook)
        for exception in (_Stop, _Park):
            until = time.monotonic() + _GRACE_S
            self._inject(exception)
            while time.monotonic() < until:
                if self.finished(_INJECT_EVERY_S) or not self.is_alive():
                    return
                if exception is _Stop:  # again: the function may have swallowed it
                    self._inject(exception)

    def _inject(self, exception: type[BaseException]) -> None:
        ident = self._thread.ident
        if ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(ident), ctypes.py_object(exception)
            )

    def _cpu_now(self) -> float | None:
        if self._clock_id is None:
            return None
        try:
            return time.clock_gettime(self._clock_id)
        except OSError:  # the thread has ended
            return None

    def _run(self) -> None:
        with contextlib.suppress(_Stop):  # one that arrives after its call ends the thread alone
            self._serve()

    def _serve(self) -> None:
        # Read here, in the thread itself: asking for a thread that has ended is undefined in C.
        get_clock = getattr(time, "pthread_getcpuclockid", None)
        self._clock_id = None if get_clock is None else get_clock(threading.get_ident())
        while not self._stopped:
            self._go.acquire()
            assert self._call is not None
            function, args = self._call
            start = time.thread_time()
            value, error = None, None
            try:
                value = function(*args)
            except BaseException as caught:  # SystemExit and MemoryError too are the function's own
                error = caught
            self.outcome = Outcome(value, error, False, time.thread_time() - start)
            self._call = function = args = value = error = None  # keep no memory while idle
            self._done.release()


# Threads waiting for the next call: starting one costs more than most calls.
_idle: deque[_Worker] = deque()
# In the thread of a run with many parts' calls: the worker that it belongs to.
_run_of = threading.local()


def call_limited(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], limit_s: float
) -> Outcome:
    """A part's call: in the thread of a watched run where it is made in one, else in its own."""
    run: _Worker | None = getattr(_run_of, "worker", None)
    if run is None:
        return run_limited(function, args, limit_s=limit_s)
    run.called = _Called(name, limit_s, time.thread_time(), time.monotonic())
    try:
        return Outcome(function(*args), None, False, 0.0)
    except _Stop:
        raise
    except BaseException as error:
        return Outcome(None, error, False, 0.0)
    finally:
        run.called = None


def run_limited(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    limit_s: float = 2.0,
    wall_s: float | None = None,
) -> Outcome:
    """`function(*args)` in a worker thread, stopped after `limit_s` seconds of computing.

    Computing is the thread's CPU time; a call that waits (sleep, lock) is given up after `wall_s`
    on the wall, four times `limit_s` unless it is said, which is also the only limit where the OS
    has no clock per thread. An error of any kind comes back in the outcome; KeyboardInterrupt in
    the caller passes through.
    """
    worker = _take_worker()
    wall_s = BACKSTOP * limit_s if wall_s is None else wall_s
    deadline = time.monotonic() + wall_s
    worker.start(function, args)
    try:
        wait_s = min(_POLL_S, limit_s, wall_s)
        while not worker.finished(wait_s):
            cpu_s = worker.cpu_s()
            if time.monotonic() >= deadline or (cpu_s is not None and cpu_s >= limit_s):
                worker.stop()
                return Outcome(None, None, True, cpu_s or worker.outcome.cpu_s)
    except BaseException:  # the caller was interrupted: do not leave the call running behind it
        worker.stop()
        raise
    outcome = worker.outcome
    worker.outcome = Outcome(None, None, False, 0.0)
    _idle.append(worker)
    return outcome


def run_watched(run: Callable[[], Value]) -> Value:
    """`run()` in a thread in which guarded parts are called without being handed over, but watched.

    Handing a call over costs up to 0.1 ms, and a simulation makes 25,000. A part beyond its limit
    ends the run. Raises: PartError for such a part, and whatever `run` raises.
    """

    def marked() -> Value:
        _run_of.worker = worker
        try:
            return run()
        finally:
            _run_of.worker = None

    worker = _take_worker()
    worker.start(marked, ())
    try:
        while not worker.finished(_POLL_S):
            if late := worker.late():
                raise late
    except BaseException:  # a part that is late, or the caller was interrupted
        worker.stop()
        raise
    outcome = worker.outcome
    worker.outcome = Outcome(None, None, False, 0.0)
    _idle.append(worker)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _take_worker() -> _Worker:
    """An idle worker whose thread is alive (a fork's child inherits dead ones), or a new one."""
    while True:
        try:
            worker = _idle.pop()
        except IndexError:
            return _Worker()
        if worker.is_alive():
            return worker


def describe_timeout(cpu_s: float, limit_s: float) -> str:
    """Why the call was stopped, as the end of a sentence: it computed too long, or it waited."""
    if cpu_s >= limit_s:
        return f"took longer than {limit_s:g} s of computing and was stopped"
    wall = f"had not finished after {BACKSTOP * limit_s:g} s"
    if cpu_s >= 0.1 * limit_s:  # a busy machine, or both
        return f"{wall}, {cpu_s:.1f} s of them computing, and was stopped"
    return f"{wall}, nearly all of it waiting (a sleep, a lock, an input?), and was given up"
