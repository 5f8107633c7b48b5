"""Where an answer is, and the one way to ask it: plain data in, plain data out.

A check knows an `Answer` and never a function. `Here` is a function of this process.
"""

import dis
import inspect
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Literal, Protocol, TypeAlias

from course.called import Called
from course.kept_results import Keeping, KeptResults
from course.limited_call import call
from course.observed_call import plain
from nanogpt.parts.guard import code_inside

LostStatus: TypeAlias = Literal["crashed", "memory", "protocol"]
Wrap: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes of an answer's function what the checks ask: one question may be many calls of it."""


class LostError(Exception):
    """An answer's process is gone: what a report says of it, `words` as the end of a sentence."""

    def __init__(self, status: LostStatus, words: str) -> None:
        super().__init__(words)
        self.status: LostStatus = status
        self.words = words


class Answer(Protocol):
    """A function that a check asks, wherever it is."""

    def call(self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int) -> Called:
        """What the function makes of copies of `args`, with at most so many seconds for it.

        Raises: LostError, where the function has a process of its own.
        """
        ...

    def asked_as(self, wrap: Wrap) -> "Answer":
        """The same, asked through what `wrap` makes of it."""
        ...

    def argument(self, index: int) -> str:
        """The function's own name for its argument number `index`."""
        ...

    def changed_result(self) -> tuple[Any, Any] | None:
        """A result that a later call changed, as it was and as it is; None if there is none."""
        ...

    def callees(self, names: Sequence[str]) -> "Sequence[tuple[str, Answer]]":
        """The functions with these names that this one calls, each with its name."""
        ...


class Here:
    """An answer in this process: a notebook's, or a test's."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._results = KeptResults()
        self._copied: Callable[[Any], Any] = self._results.keep

    def call(self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int) -> Called:
        """Calls it in a thread with limits."""
        return call(
            self.function, args, limit_s=limit_s, wall_s=wall_s, seed=seed, copied=self._copied
        )

    def asked_as(self, wrap: Wrap) -> "Here":
        """What `wrap` makes of it runs in the same thread, under one limit."""
        wrapped = Here(self.function)
        wrapped.function = wrap(Keeping(self.function, wrapped._results))
        wrapped._copied = plain
        return wrapped

    def argument(self, index: int) -> str:
        """From its signature."""
        return pick_name(argument_names(self.function), index)

    def changed_result(self) -> tuple[Any, Any] | None:
        """Of what it returned itself, also where it is asked through what was made of it."""
        return self._results.changed()

    def callees(self, names: Sequence[str]) -> "Sequence[tuple[str, Here]]":
        """Those that it names among its globals."""
        return [(name, Here(function)) for name, function in called_by(self.function, names)]


def argument_names(function: Callable[..., Any]) -> list[str]:
    """The function's own names for its arguments; none where it has no signature."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def pick_name(names: Sequence[str], index: int) -> str:
    """The name of argument number `index`, in words where it has none."""
    return names[index] if index < len(names) else f"argument {index + 1}"


def called_by(
    function: Callable[..., Any], names: Sequence[str]
) -> list[tuple[str, Callable[..., Any]]]:
    """The functions of these names that this one names among its globals."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return []
    named = {
        each.argval
        for part in code_inside(code)
        for each in dis.get_instructions(part)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")  # an attribute may have the same name
    }
    space: dict[str, Any] = getattr(function, "__globals__", {})
    found = [(name, space.get(name)) for name in names if name in named]
    return [(name, it) for name, it in found if callable(it) and it is not function]
