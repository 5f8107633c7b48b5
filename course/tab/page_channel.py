"""A check's channel to answers that run in the same interpreter: the one of a page.

Nothing can end a call from outside but the page, which ends the whole interpreter. So a call's time
is watched from within, wherever the answer's code jumps back or begins a function.
"""

import re
import sys
import time
import traceback
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, Self

from course.calling.channel import MOST_REPLY_BYTES, Channel, LostError, Reply, TooSlowError
from course.calling.child import Answers
from course.calling.errors import FILE
from course.calling.values import plain

_MONITORING: Any = getattr(sys, "monitoring", None)  # new in Python 3.12; a page has 3.14
_TOOL = 4  # of those that sys.monitoring tells apart, one that no debugger takes
_IN_RUN = re.compile(r"\w+\.py")  # the file of an answer that a run calls: `loading.file_of`
_EVERY = 200  # events from one look at the clock to the next
_SIGN_S = 0.25


class PageStarter:
    """Starts checks in this interpreter."""

    def start(self) -> "PageChannel":
        """A channel of its own."""
        return PageChannel()


class PageChannel(Channel):
    """Answers of this interpreter. Mutable: dead after the first call that was stopped.

    A message to the page, a few times a second, says that a check goes on.
    """

    def __init__(self) -> None:
        self.answers = Answers()
        self._stopped: TooSlowError | None = None
        self._signed = 0.0

    def end(self) -> None:
        """Nothing is left behind."""

    def exchange(
        self,
        message: dict[str, Any],
        limit_s: float,
        wall_s: float,
        *,
        most: int = MOST_REPLY_BYTES,
    ) -> Reply:
        """The answers' reply. Raises: TooSlowError beyond the limits, then at every call."""
        if self._stopped is not None:
            raise self._stopped
        if (now := time.perf_counter()) > self._signed + _SIGN_S:
            self._signed = now
            import_module("js").postMessage(0)
        args = {"args": plain(message["args"])} if "args" in message else {}
        said: dict[str, Any] = {}
        with _TimeLimit(limit_s) as limit:
            try:
                said = self.answers.reply({**message, **args})
            except _TimeIsUpError:
                pass
            except RecursionError:
                raise LostError("crashed", "came back with a value too deep to read") from None
        used_s = limit.used_s()
        if used_s >= limit_s:
            self._stopped = TooSlowError(used_s, limit.dump)
            raise self._stopped
        return Reply(said, used_s)


class _TimeIsUpError(BaseException):
    pass


class _TimeLimit:
    """Stops the code in its block after so many seconds. Mutable: `dump` says where it was."""

    def __init__(self, limit_s: float) -> None:
        self._began = time.perf_counter()
        self._until = self._began + limit_s
        self._left = _EVERY
        self.dump = ""

    def used_s(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def __enter__(self) -> Self:
        _MONITORING.use_tool_id(_TOOL, "time limit")
        for event in (_MONITORING.events.JUMP, _MONITORING.events.PY_START):
            _MONITORING.register_callback(_TOOL, event, self._look)
        _MONITORING.set_events(_TOOL, _MONITORING.events.JUMP | _MONITORING.events.PY_START)
        return self

    def __exit__(self, *_: object) -> None:
        _MONITORING.set_events(_TOOL, 0)
        _MONITORING.free_tool_id(_TOOL)

    def _look(self, code: CodeType, *_offsets: int) -> object:
        if code.co_filename != FILE and not _IN_RUN.fullmatch(code.co_filename):
            return _MONITORING.DISABLE
        self._left -= 1
        if self._left > 0 or time.perf_counter() < self._until:
            self._left = self._left if self._left > 0 else _EVERY
            return None
        self.dump = self.dump or _dump_of(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        raise _TimeIsUpError


def _dump_of(frame: FrameType | None) -> str:
    """The frames as Python's fault handler writes them."""
    codes = [(each.f_code, line) for each, line in traceback.walk_stack(frame)]
    return "\n".join(f'File "{it.co_filename}", line {at} in {it.co_name}' for it, at in codes)
