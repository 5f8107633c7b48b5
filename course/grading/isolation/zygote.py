"""A warm process that answers' processes are forked from: it has torch, and nothing to hide.

`python -m course.grading.isolation.zygote FD` is told over the socket FD what to start; a start is
one message with two ends to pass on: the channel, and a pipe for what becomes of the process.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from course.answering import LostStatus
from course.grading.isolation import kernel
from course.grading.isolation.channel import Channel
from course.grading.isolation.jail import MEMORY, Jail, JailError
from course.grading.record import LAYERS

Serve: TypeAlias = Callable[[int, Mapping[str, Callable[..., Any]]], None]

_START_S = 60.0  # for a process to be there, on a machine that does much else
_END_S = 5.0
_MOST_TRIES = 3
_MOST_FILES = 64  # that the warm process has open


class Zygote:
    """The warm process, seen from the one that judges. Mutable: what it has started.

    `layers` are those that its children are kept in by.
    """

    def __init__(self, layers: Collection[str] = LAYERS) -> None:
        self.layers = tuple(layer for layer in LAYERS if layer in layers)
        self._launch()

    def _launch(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=Path(__file__).parents[3],
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )
        self._socket = here

    @property
    def is_alive(self) -> bool:
        """Whether it has not been killed from outside, and with it what it had started."""
        return self._process.poll() is None

    def start(self) -> Channel:
        """A new process at the other end of a channel.

        Raises: JailError where a layer is missing, RuntimeError where the warm process is killed
        again and again.
        """
        for _ in range(_MOST_TRIES):
            here, fate = self._order()
            first = fate.next(_START_S)
            if "pid" in first:
                return Channel(here, int(first["pid"]), fate.why_it_ended)
            here.close()
            if "problem" in first:
                raise JailError(first["problem"])
            self.close()
            self._launch()
        raise RuntimeError("the process that answers are forked from was killed")

    def _order(self) -> tuple[socket.socket, _Fate]:
        """Our end of a new channel, and where it is told what becomes of the process there."""
        here, there = socket.socketpair()
        told, tells = os.pipe()
        said = json.dumps(self.layers).encode()
        with there, contextlib.suppress(OSError):  # it has ended, as its fate then tells
            socket.send_fds(self._socket, [said], [there.fileno(), tells])
        os.close(tells)
        return here, _Fate(told)

    def close(self) -> None:
        """End it, and with it whatever it has started."""
        self._socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def layers_that_hold() -> tuple[str, ...]:
    """The layers that this machine gives, each tried by itself."""
    zygote = Zygote(())
    held: list[str] = []
    try:
        for layer in LAYERS:
            zygote.layers = (layer,)
            with contextlib.suppress(JailError):
                zygote.start().end()
                held.append(layer)
    finally:
        zygote.close()
    return tuple(held)


class _Fate:
    """What its supervisor says of a process: its pid once it is kept in, and how it ended."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._heard = b""

    def next(self, limit_s: float) -> dict[str, Any]:
        """The next line, {} when there is none."""
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._pipe], [], [], limit_s)
            part = os.read(self._pipe, 4096) if ready else b""
            if not part:
                return {}
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def why_it_ended(self) -> tuple[LostStatus, str]:
        """For a process that ended by itself: the status, and the end of a sentence."""
        fate = self.next(_END_S)
        ended_by, most = fate.get("signal"), fate.get("most_bytes", 0)
        if isinstance(most, int) and ended_by and most > 0.8 * MEMORY:
            return "memory", f"took more than {MEMORY >> 30} GB of memory and was stopped"
        if isinstance(ended_by, int) and ended_by:
            return "crashed", f"crashed the Python process ({signal.Signals(ended_by).name})"
        return "crashed", "ended the whole Python process (`os._exit`?)"

    def __del__(self) -> None:
        os.close(self._pipe)


# --- the warm process ------------------------------------------------------------------------


def main(orders: socket.socket) -> None:
    """Start what is ordered, until there are no more orders."""
    from course.grading.isolation import child  # which brings torch along

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that judges
    gc.collect()
    gc.freeze()  # what is here is no garbage, and a look at it would copy it all
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        said, places, _, _ = socket.recv_fds(orders, 4096, 2)
        if not said:
            return
        channel, tells = places
        if os.fork() == 0:
            orders.close()
            _supervise(channel, tells, json.loads(said), child.serve)
        os.close(channel)
        os.close(tells)


def _supervise(channel: int, tells: int, layers: Collection[str], serve: Serve) -> None:
    """Leave the namespaces, start the process that serves, and tell what becomes of it."""
    try:
        jail = Jail(layers)
        jail.leave()
        kernel.end_with_parent(signal.SIGKILL)  # now: it is forgotten when rights are given up
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            os.close(tells)
            _be_kept_in(jail, channel, go, serve)
        os.close(channel)
        os.close(go)
        problem = os.read(ready, 4096)
        if problem != b"ready":
            raise JailError(problem.decode() or "the process ended before it began.")
        _tell(tells, {"pid": pid})
        _, status, used = os.wait4(pid, 0)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        _tell(tells, {"signal": ended_by, "most_bytes": used.ru_maxrss << 10})
    except JailError as error:
        _tell(tells, {"problem": str(error)})
    finally:
        os._exit(0)


def _be_kept_in(jail: Jail, channel: int, go: int, serve: Serve) -> None:
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        for number in set(range(3, _MOST_FILES)) - {channel, go, *jail.places}:
            with contextlib.suppress(OSError):
                os.close(number)
        jail.close()
        os.write(go, b"ready")
    except (JailError, OSError) as error:
        os.write(go, str(error).encode())
        os._exit(1)
    os.close(go)
    serve(channel, {})


def _tell(tells: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(tells, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
