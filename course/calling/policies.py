"""A learner's function as a policy of an engine, in a child process."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Policy:
    """A learner's function whose results come as plain data, so that one rule holds for types."""

    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        """Call it. A generator goes on as it is."""
        from course.calling.values import plain  # and torch, which opening a lesson waits for

        value = self.function(*args)
        return value if isinstance(value, Generator) else plain(value, cloned=False)
