"""Answers in another process: a check asks them through a channel, and never meets their code.

What a check would run beside an answer of its own process runs here, where the verdict is made,
and asks the answer decision by decision.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course.answering import LostError, Wrap, pick_name
from course.called import Called, Raised
from course.grading.isolation.channel import Channel, Reply, TooSlowError
from course.observed_call import plain

_LOAD_S = 10.0  # of computing, for what a lesson's file does when it is read
_BACKSTOP = 4.0  # wall seconds for each of them
_LEAST_S = 0.02  # for one of many calls, when nearly all is used up
_MAX_WORDS = 2_000  # characters of what an answer's process says in words
_MAX_STDOUT = 10_100
_ASIDE_S = 2.0  # for a question that is no call


class There:
    """A function at the other end of a channel."""

    def __init__(self, channel: Channel, name: str, arguments: Sequence[str]) -> None:
        self._channel = channel
        self._name = name
        self._arguments = arguments

    def call(self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int) -> Called:
        """Calls it under limits that are kept from here. Raises: LostError."""
        given = copy.deepcopy(args)
        question = _Question(self._channel, self._name, given, limit_s, wall_s, seed)
        try:
            return question.put(given, shared=False)
        except TooSlowError as error:
            return Called(None, (), None, True, "", error.cpu_s)

    def asked_as(self, wrap: Wrap) -> _Wrapped:
        """What `wrap` makes of it runs here."""
        return _Wrapped(self, wrap, self._channel, self._name)

    def argument(self, index: int) -> str:
        """As its process says."""
        return pick_name(self._arguments, index)

    def changed_result(self) -> tuple[Any, Any] | None:
        """As its process says, which has the results themselves."""
        message = {"do": "changed_result", "name": self._name}
        try:
            reply = self._channel.exchange(message, _ASIDE_S, _BACKSTOP * _ASIDE_S)
        except (LostError, TooSlowError):
            return None
        said = reply.value("value")
        return said if isinstance(said, tuple) and len(said) == 2 else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def callees(self, names: Sequence[str]) -> list[tuple[str, There]]:
        """Those that its process says it calls; none once that has ended."""
        message = {"do": "callees", "name": self._name, "names": list(names)}
        try:
            reply = self._channel.exchange(message, _ASIDE_S, _BACKSTOP * _ASIDE_S)
        except (LostError, TooSlowError):
            return []
        arguments = _arguments(reply)
        called = [(name, f"{self._name}.{name}") for name in names]
        return [
            (name, There(self._channel, path, arguments[path]))
            for name, path in called
            if path in arguments
        ]


class _Wrapped:
    """A function at the other end, asked through what the exercise makes of it."""

    def __init__(self, there: There, wrap: Wrap, channel: Channel, name: str) -> None:
        self._there = there
        self._wrap = wrap
        self._channel = channel
        self._name = name

    def call(self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int) -> Called:
        """One question of the check: as many calls as it takes, under one limit."""
        given = copy.deepcopy(args)
        question = _Question(self._channel, self._name, given, limit_s, wall_s, seed)
        value, error = None, None
        try:
            value = plain(self._wrap(question.ask)(*given))
        except _RaisedError as caught:
            error = caught.raised
        except TooSlowError as slow:
            return Called(None, (), None, True, question.stdout, question.cpu_s + slow.cpu_s)
        after = () if error else tuple(plain(item) for item in question.left)
        return Called(value, after, error, False, question.stdout, question.cpu_s)

    def asked_as(self, wrap: Wrap) -> _Wrapped:
        """The function as another exercise asks it."""
        return self._there.asked_as(wrap)

    def argument(self, index: int) -> str:
        """The function's own."""
        return self._there.argument(index)

    def changed_result(self) -> tuple[Any, Any] | None:
        """The function's own."""
        return self._there.changed_result()

    def callees(self, names: Sequence[str]) -> list[tuple[str, There]]:
        """The function's own."""
        return self._there.callees(names)


def load(channel: Channel, text: str, names: Sequence[str]) -> Loaded:
    """Has the process take functions out of a lesson's text. Raises: LostError, TooSlowError."""
    message = {"do": "load", "text": text, "names": list(names)}
    reply = channel.exchange(message, _LOAD_S, _BACKSTOP * _LOAD_S)
    arguments = _arguments(reply)
    found = {name: There(channel, name, arguments[name]) for name in names if name in arguments}
    said = reply.take("problems", dict)
    problems = {name: _texts(said.get(name, [])) for name in names}
    return Loaded(found, problems)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Answers by name; and by the same names, sentences on what they need and did not get."""

    answers: dict[str, There]
    problems: dict[str, list[str]]


class _RaisedError(Exception):
    """Goes through what runs here in place of the error that the answer raised there."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.told)
        self.raised = raised


class _Question:
    """One question of a check, and what its calls have used up. Mutable."""

    def __init__(
        self,
        channel: Channel,
        name: str,
        given: tuple[Any, ...],
        limit_s: float,
        wall_s: float,
        seed: int,
    ) -> None:
        self._channel = channel
        self._name = name
        self._given = given
        self.left = given
        self._limit_s = limit_s
        self._until = time.monotonic() + wall_s
        self._seed = seed
        self.stdout = ""
        self.cpu_s = 0.0

    def ask(self, *args: Any) -> Any:
        """The function, as what runs here calls it. Raises: _RaisedError and the channel's."""
        called = self.put(args, shared=True)
        if called.error is not None:
            raise _RaisedError(called.error)
        if self._is_given(args):
            self.left = called.args_after
        return called.value

    def put(self, given: tuple[Any, ...], *, shared: bool) -> Called:
        """One call. With `shared`, results show the arguments' storages, and generators go on."""
        left = self._is_given(given)
        message = {
            "do": "call",
            "name": self._name,
            "args": given,
            "seed": self._seed,
            "grad": torch.is_grad_enabled(),
            "shared": shared,
            "left": left,
        }
        reply = self._exchange(message)
        stdout = reply.take("stdout", str)[:_MAX_STDOUT]
        error = _raised(reply)
        if error is not None:
            return Called(None, (), error, False, stdout, reply.cpu_s)
        after = reply.take("args_after", tuple, type(None))
        if not left:
            after = ()  # of one of many calls, which nothing asks for
        elif after is None or len(after) != len(given):
            after = tuple(plain(item) for item in given)
        number = reply.take("generator", int, type(None))
        value = reply.value("value") if number is None else RemoteGenerator(self._go_on, number)
        return Called(value, after, None, False, stdout, reply.cpu_s)

    def _is_given(self, args: tuple[Any, ...]) -> bool:
        """Whether a call is the check's own question, and not one of many that it takes."""
        given = self._given
        return len(args) == len(given) and all(a is b for a, b in zip(args, given, strict=True))

    def _go_on(self, number: int, how: str, args: tuple[Any, ...]) -> Any:
        """What a generator of the answer's yields next. Raises: StopIteration at its end."""
        reply = self._exchange({"do": "go_on", "generator": number, "how": how, "args": args})
        error = _raised(reply)
        if error is not None:
            raise _RaisedError(error)
        if reply.take("ended", bool):
            raise StopIteration
        return reply.value("value")

    def _exchange(self, message: dict[str, Any]) -> Reply:
        left_s = max(_LEAST_S, self._limit_s - self.cpu_s)
        wall_s = max(_LEAST_S, self._until - time.monotonic())
        reply = self._channel.exchange(message, left_s, wall_s)
        self.cpu_s += reply.cpu_s
        said = reply.value("stdout")
        if isinstance(said, str) and len(self.stdout) < _MAX_STDOUT:
            self.stdout += said[: _MAX_STDOUT - len(self.stdout)]
        return reply


class RemoteGenerator(Generator[Any, Any, None]):
    """A generator at the other end, driven from here."""

    def __init__(self, go_on: Callable[[int, str, tuple[Any, ...]], Any], number: int) -> None:
        self._go_on = go_on
        self._number = number

    def send(self, value: Any) -> Any:
        """What it yields next."""
        return self._go_on(self._number, "send", (value,))

    def throw(self, *_: Any) -> Any:
        """Not asked of an answer."""
        raise NotImplementedError

    def close(self) -> None:
        """End it."""
        self._go_on(self._number, "close", ())


RemoteGenerator.__name__ = "generator"  # as a sentence about a result names it


def _raised(reply: Reply) -> Raised | None:
    """What the answer raised, if it raised. Raises: LostError for what is none."""
    error = reply.take("error", Raised, type(None))
    if error is None:
        return None
    kinds, told, stub = error.kinds, error.told, error.stub
    texts = isinstance(kinds, tuple) and kinds and all(isinstance(each, str) for each in kinds)
    if not texts or not isinstance(told, str) or not isinstance(stub, str | None):
        raise LostError("protocol", "came back with what is no answer at all")
    kinds = tuple(kind[:100] for kind in kinds)
    return Raised(kinds, told[:_MAX_WORDS], error.is_stub is True, stub and stub[:100])


def _arguments(reply: Reply) -> dict[str, list[str]]:
    said = reply.take("arguments", dict)
    return {name: _texts(names) for name, names in said.items() if isinstance(name, str)}


def _texts(said: object) -> list[str]:
    items = said if isinstance(said, list) else []
    return [item[:_MAX_WORDS] for item in items if isinstance(item, str)]  # pyright: ignore[reportUnknownVariableType]
