"""A channel to a process that runs answers, seen from the process that asks them.

A message is four bytes of length and a frame (see `wire`). Time is measured from outside: the
process may say of itself what it likes.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self, TypeAlias

from course.calling.results import Raised
from course.calling.wire import Storages, WireError, decode, encode
from nanogpt.views import records
from nanogpt.views.fleet_views import FleetSnapshot

RECORDS: Mapping[str, type[Any]] = {"Raised": Raised} | records()
"""The records that travel between a check and an answer: a closed list.

They and what serves its calls are all of the project that an answer's process has. No module here
may hold a function that an exercise asks for: the answer can reach every module of its process.
"""
PACKED: Mapping[str, type[Any]] = {"FleetSnapshot": FleetSnapshot}
"""Goes out a thousand times for one load, and is whole numbers all through."""

LostStatus: TypeAlias = Literal["crashed", "memory", "protocol"]
MOST_REPLY_BYTES = 8 << 20
"""Of a reply to a check: it needs a thousandth of it."""
_LENGTH = struct.Struct(">I")
_POLL_S = 0.02


class LostError(Exception):
    """The process ended or sent nonsense. `words` says so as the end of a sentence.

    `dump` is what Python's fault handler wrote of where it crashed.
    """

    def __init__(self, status: LostStatus, words: str, dump: str = "") -> None:
        super().__init__(words)
        self.status: LostStatus = status
        self.words = words
        self.dump = dump


class TooSlowError(Exception):
    """The process was ended because its time was up, after `cpu_s` of computing.

    `dump` is what Python's fault handler wrote of where it was.
    """

    def __init__(self, cpu_s: float, dump: str = "") -> None:
        super().__init__(f"{cpu_s:.1f} s")
        self.cpu_s = cpu_s
        self.dump = dump


class Process(Protocol):
    """A process that answers, seen from outside."""

    def cpu_s(self) -> float:
        """CPU seconds of all its threads so far."""
        ...

    def takes_too_much(self) -> bool:
        """Whether it has more memory than it may have, where the system does not limit it."""
        ...

    def where(self) -> str:
        """Where each of its threads is, from Python's fault handler; "" where it cannot tell."""
        ...

    def why_it_ended(self) -> LostError:
        """The error for a process that ended by itself."""
        ...

    def end(self, *, healthy: bool) -> None:
        """End it and its children; `healthy` if it waits for the next message."""
        ...


class Channel:
    """One process at the other end. Mutable: dead after the first error."""

    def __init__(self, end: socket.socket, process: Process) -> None:
        self._end = end
        self._process = process
        self._lost: LostError | TooSlowError | None = None
        self._is_open = True
        self._unread = bytearray()
        end.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def cpu_s(self) -> float:
        """CPU seconds of the process so far."""
        return self._process.cpu_s()

    def exchange(
        self,
        message: dict[str, Any],
        limit_s: float,
        wall_s: float,
        *,
        most: int = MOST_REPLY_BYTES,
    ) -> Reply:
        """Send a message and return the reply, of at most so many bytes.

        Raises: TooSlowError beyond `limit_s` of computing or `wall_s` on the wall, LostError when
        the process ended or sent nonsense. Either ends the process, and comes again at the next
        call.
        """
        if self._lost is not None:
            raise self._lost
        try:
            return self._exchange(message, _Clock(self._process, limit_s, wall_s), most)
        except (LostError, TooSlowError) as error:
            self._lost = error
            self._close(healthy=False)
            raise
        except BaseException:  # the check was interrupted: the process is in mid-call
            self._lost = LostError("protocol", "was left in the middle of a call")
            self._close(healthy=False)
            raise

    def end(self) -> None:
        """End the process and give the channel up; as often as one likes."""
        self._close(healthy=True)

    def _close(self, *, healthy: bool) -> None:
        if self._is_open:
            self._is_open = False
            self._process.end(healthy=healthy)
            if not healthy:
                self._end.close()

    def _exchange(self, message: dict[str, Any], clock: _Clock, most: int) -> Reply:
        frame = encode(message, RECORDS, packed=PACKED)
        self._send(frame.content, clock)
        return Reply(self._said(frame.storages, clock, most), clock.used_s())

    def _said(self, storages: Storages, clock: _Clock, most: int) -> dict[str, Any]:
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, clock))
        if length > most:
            raise _nonsense(f"came back with more than {most >> 20} MB")
        try:
            said, _ = decode(self._receive(length, clock), RECORDS, storages)
        except WireError:
            raise _nonsense("came back with what is no answer at all") from None
        if not isinstance(said, dict):
            raise _nonsense("came back with what is no answer at all")
        return said  # pyright: ignore[reportUnknownVariableType]

    def _send(self, content: bytes, clock: _Clock) -> None:
        rest = memoryview(_LENGTH.pack(len(content)) + content)
        while rest:
            try:
                rest = rest[self._end.send(rest) :]
            except BlockingIOError:
                clock.wait_for(writable=self._end)
            except OSError:
                raise self._process.why_it_ended() from None

    def _receive(self, length: int, clock: _Clock) -> bytes:
        while len(self._unread) < length:
            clock.wait_for(readable=self._end)
            try:
                part = self._end.recv(1 << 20)
            except OSError:
                part = b""
            if not part:
                raise self._process.why_it_ended()
            self._unread += part
        content = bytes(self._unread[:length])
        del self._unread[:length]
        return content


class Reply:
    """What came back. Every field is checked when it is read, because the process may lie.

    `cpu_s` is what the exchange took the process.
    """

    def __init__(self, said: dict[str, Any], cpu_s: float) -> None:
        self._said = said
        self.cpu_s = cpu_s

    def take(self, name: str, *kinds: type) -> Any:
        """The field, of one of these types. Raises: LostError."""
        value = self._said.get(name)
        if type(value) not in kinds:
            raise _nonsense("came back with what is no answer at all")
        return value

    def value(self, name: str) -> Any:
        """The field, whatever it is: None where it is left out."""
        return self._said.get(name)


class _Clock:
    """How long an exchange may take, on the process's own clock and on the wall."""

    def __init__(self, process: Process, limit_s: float, wall_s: float) -> None:
        self._process = process
        self._limit_s = limit_s
        self._cpu_start = process.cpu_s()
        self._until = time.monotonic() + wall_s

    def used_s(self) -> float:
        """CPU seconds since the exchange began."""
        return max(0.0, self._process.cpu_s() - self._cpu_start)

    def wait_for(
        self, *, readable: socket.socket | None = None, writable: socket.socket | None = None
    ) -> None:
        """Wait until the socket is ready. Raises: TooSlowError, LostError."""
        reading, writing = [readable] if readable else [], [writable] if writable else []
        while not any(select.select(reading, writing, [], _POLL_S)):
            if self._process.takes_too_much():
                raise LostError("memory", "took too much memory and was stopped")
            used_s = self.used_s()
            if used_s >= self._limit_s or time.monotonic() >= self._until:
                raise TooSlowError(used_s, self._process.where())
        # A process that never stops sending is late too.
        if time.monotonic() >= self._until:
            raise TooSlowError(self.used_s(), self._process.where())


def _nonsense(words: str) -> LostError:
    return LostError("protocol", words)
