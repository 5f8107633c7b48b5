"""The warm process that answers' processes are forked from, seen from the one that judges."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from course.answering import LostStatus
from course.grading.isolation.channel import Channel
from course.grading.isolation.jail import MEMORY, JailError
from course.grading.record import LAYERS

_WARM = "course.grading.isolation.warm_process"
_START_S = 60.0  # for a process to be there, on a machine that does much else
_END_S = 5.0
_MOST_TRIES = 3


class Zygote:
    """Orders processes from a warm one, and starts another when that is killed. Mutable: which.

    `layers` are those that its children are kept in by.
    """

    def __init__(self, layers: Collection[str] = LAYERS) -> None:
        self.layers = tuple(layer for layer in LAYERS if layer in layers)
        self._launch()

    def _launch(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _WARM, str(there.fileno())],
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
