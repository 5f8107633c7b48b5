"""The results of a function's last calls as it returned them, to see whether a later one changes.

Checks see copies alone, which say nothing of a buffer or a list that every call hands out anew.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from course.called import Opaque
from course.observed_call import plain
from course.same_values import same

_MOST = 64  # results, of which each may hold a tensor


class KeptResults:
    """The last results, each with a copy from when it was returned. Mutable."""

    def __init__(self) -> None:
        self._kept: deque[tuple[Any, Any]] = deque(maxlen=_MOST)

    def keep(self, value: Any) -> Any:
        """Keep a result that was just returned; its copy in plain data."""
        copied = plain(value)
        if not isinstance(copied, Opaque):
            self._kept.append((value, copied))
        return copied

    def changed(self) -> tuple[Any, Any] | None:
        """The first result that is not as it was, in plain data: as it was, and as it is."""
        for value, before in self._kept:
            now = plain(value)
            if not same(before, now):
                return before, now
        return None


class Keeping:
    """A function whose results are kept on their way. Its errors still name a line of its own."""

    def __init__(self, function: Callable[..., Any], results: KeptResults) -> None:
        self._function = function
        self._results = results
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any) -> Any:
        """Call it, and keep what it returns, if that is no generator, which changes as it goes."""
        value = self._function(*args)
        if not isinstance(value, Generator):
            self._results.keep(value)
        return value
