"""A channel to the process that runs an answer, seen from the one that judges it.

A message is four bytes of length and a frame (see `wire`). Time is measured from outside: the
process may say of itself what it likes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from course.answering import LostError, LostStatus
from course.grading.isolation.wire import Storages, WireError, decode, encode
from course.grading.isolation.wire_records import RECORDS

MOST_REPLY_BYTES = 8 << 20
"""Of a reply: what a check asks for is a thousandth of it."""
_LENGTH = struct.Struct(">I")
_POLL_S = 0.02


class TooSlowError(Exception):
    """The process was ended because its time was up, `cpu_s` of it computing."""

    def __init__(self, cpu_s: float) -> None:
        super().__init__(f"{cpu_s:.1f} s")
        self.cpu_s = cpu_s


class Channel:
    """One process at the other end. Mutable: its time so far; dead after the first error.

    `pid` is its number as this process sees it, and `why_it_ended` gives LostError's arguments.
    """

    def __init__(
        self, end: socket.socket, pid: int, why_it_ended: Callable[[], tuple[LostStatus, str]]
    ) -> None:
        self._end = end
        self._pid = pid
        self._handle = os.pidfd_open(pid)
        self._why_it_ended = why_it_ended
        self._lost: LostError | TooSlowError | None = None
        self._cpu_s = 0.0
        end.setblocking(False)

    def cpu_s(self) -> float:
        """CPU seconds of all its threads, which Linux tells under a clock made from the pid."""
        with contextlib.suppress(OSError):  # it has ended
            self._cpu_s = time.clock_gettime((~self._pid << 3) | 2)
        return self._cpu_s

    def exchange(self, message: dict[str, Any], limit_s: float, wall_s: float) -> Reply:
        """Send a message and return the reply.

        Raises: TooSlowError beyond `limit_s` of computing or `wall_s` on the wall, LostError when
        the process ended or talked nonsense. Either ends the process, and comes again at the next
        call.
        """
        if self._lost is not None:
            raise self._lost
        try:
            return self._exchange(message, _Clock(self, limit_s, wall_s))
        except (LostError, TooSlowError) as error:
            self._lost = error
            self.end()
            raise
        except BaseException:  # a limit of the check's own: the process is in mid-call
            self._lost = LostError("protocol", "was left in the middle of a call")
            self.end()
            raise

    def end(self) -> None:
        """End the process and give the channel up; as often as one likes."""
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
            self._handle = -1
            self._end.close()

    def _exchange(self, message: dict[str, Any], clock: _Clock) -> Reply:
        frame = encode(message, RECORDS, outward=True)
        self._send(frame.content, clock)
        return Reply(self._said(frame.storages, clock), clock.used_s())

    def _said(self, storages: Storages, clock: _Clock) -> dict[str, Any]:
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, clock))
        if length > MOST_REPLY_BYTES:
            raise _nonsense(f"came back with more than {MOST_REPLY_BYTES >> 20} MB")
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
            clock.wait(self._end, select.POLLOUT)
            try:
                rest = rest[self._end.send(rest) :]
            except OSError:
                raise LostError(*self._why_it_ended()) from None

    def _receive(self, length: int, clock: _Clock) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            clock.wait(self._end, select.POLLIN)
            try:
                part = self._end.recv(min(length - len(parts), 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise LostError(*self._why_it_ended())
            parts += part
        return bytes(parts)


class Reply:
    """What came back, of which nothing is believed: every field is looked at when it is read.

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

    def __init__(self, channel: Channel, limit_s: float, wall_s: float) -> None:
        self._channel = channel
        self._limit_s = limit_s
        self._cpu_start = channel.cpu_s()
        self._until = time.monotonic() + wall_s

    def used_s(self) -> float:
        """CPU seconds since the exchange began."""
        return max(0.0, self._channel.cpu_s() - self._cpu_start)

    def wait(self, end: socket.socket, event: int) -> None:
        """Wait until the channel is ready. Raises: TooSlowError."""
        poll = select.poll()
        poll.register(end, event)
        while not poll.poll(1000 * _POLL_S):
            used_s = self.used_s()
            if used_s >= self._limit_s or time.monotonic() >= self._until:
                raise TooSlowError(used_s)
        # What always has something to say is no less late.
        if time.monotonic() >= self._until:
            raise TooSlowError(self.used_s())


def _nonsense(words: str) -> LostError:
    return LostError("protocol", words)
