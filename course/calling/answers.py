"""Answers: a learner's functions in a child process, asked in plain data.

A check knows a `RemoteAnswer` and never a function. What a check would run beside the answer runs
here, where the verdict is made, and asks the answer call by call.
"""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from course.calling.channel import Channel, LostError, Reply, TooSlowError
from course.calling.errors import BACKSTOP, place_in
from course.calling.processes import Starter, own_starter
from course.calling.results import CallResult, Raised
from course.calling.values import plain
from course.source.answer import Answer

Wrap: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes of an answer's function what the checks ask: one question may be many calls of it."""

_LOAD_S = 10.0  # of computing, for what a lesson's file does when it is read
_ASIDE_S = 2.0  # for a question that is no call
_LEAST_S = 0.02  # for one of many calls, when nearly all is used up
_MAX_WORDS = 2_000  # characters of what an answer's process says in words
_MAX_STDOUT = 10_100


class RemoteAnswer:
    """A function at the other end of a channel.

    `origin` is its text, or the same function in this process, which is never called. `wrap` is
    what a check asks it through.
    Mutable: `most_s`, seconds of computing that no call may exceed, whatever limit it is given.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        arguments: Sequence[str],
        origin: Answer | Callable[..., Any] | None = None,
        wrap: Wrap | None = None,
    ) -> None:
        self._channel = channel
        self._name = name
        self._arguments = arguments
        self._origin = origin
        self._wrap = wrap
        self.most_s = math.inf

    def call(
        self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int = 0
    ) -> CallResult:
        """One question on copies of `args`, within `limit_s` of computing and `wall_s` on the wall.

        It is one call, or as many as the wrap makes. Raises: LostError.
        """
        given = copy.deepcopy(args)
        question = _Question(
            self._channel, self._name, given, min(limit_s, self.most_s), wall_s, seed
        )
        value, error = None, None
        try:
            if self._wrap is None:
                return question.put(given, shared=False)
            value = plain(self._wrap(question.ask)(*given))
        except _RaisedError as caught:
            error = caught.raised
        except TooSlowError as slow:
            where = place_in(slow.dump, self._origin)
            cpu_s = question.cpu_s + slow.cpu_s
            return CallResult(None, (), None, True, question.stdout, cpu_s, where)
        except LostError as lost:
            raise LostError(lost.status, lost.words + place_in(lost.dump, self._origin)) from None
        after = () if error else tuple(plain(item) for item in question.left)
        return CallResult(value, after, error, False, question.stdout, question.cpu_s)

    def asked_as(self, wrap: Wrap) -> RemoteAnswer:
        """The same answer, asked through what `wrap` makes of it, which runs here."""
        asked = RemoteAnswer(self._channel, self._name, self._arguments, self._origin, wrap)
        asked.most_s = self.most_s
        return asked

    def plain_result(self, value: Any) -> Any:
        """The result as a report shows it, without the wrap's additions."""
        plain_result = getattr(self._wrap, "plain_result", None)
        return value if plain_result is None else plain_result(value)

    def argument(self, index: int) -> str:
        """The function's own name for its argument number `index`."""
        if index < len(self._arguments):
            return self._arguments[index]
        return f"argument {index + 1}"

    def changed_result(self) -> tuple[Any, Any] | None:
        """A result that a later call changed, as it was and as it is; None if there is none."""
        message = {"do": "changed_result", "name": self._name}
        try:
            reply = self._channel.exchange(message, _ASIDE_S, BACKSTOP * _ASIDE_S)
        except (LostError, TooSlowError):
            return None
        said = reply.value("value")
        return said if isinstance(said, tuple) and len(said) == 2 else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def callees(self, names: Sequence[str]) -> list[tuple[str, RemoteAnswer]]:
        """The functions with these names that this one calls; none once its process has ended."""
        message = {"do": "callees", "name": self._name, "names": list(names)}
        try:
            reply = self._channel.exchange(message, _ASIDE_S, BACKSTOP * _ASIDE_S)
        except (LostError, TooSlowError):
            return []
        arguments = _arguments(reply)
        called = [(name, f"{self._name}.{name}") for name in names]
        return [
            (name, RemoteAnswer(self._channel, path, arguments[path]))
            for name, path in called
            if path in arguments
        ]


@dataclass(frozen=True, slots=True)
class Loaded:
    """Answers by name; and by the same names, sentences on what they need and did not get."""

    answers: dict[str, RemoteAnswer]
    problems: dict[str, list[str]]


def load(channel: Channel, text: str, names: Sequence[str]) -> Loaded:
    """Have the process take functions out of a lesson's text. Raises: LostError, TooSlowError."""
    message = {"do": "load", "text": text, "names": list(names)}
    reply = channel.exchange(message, _LOAD_S, BACKSTOP * _LOAD_S)
    arguments = _arguments(reply)
    found = {
        name: RemoteAnswer(channel, name, arguments[name], Answer(text, name))
        for name in names
        if name in arguments
    }
    said = reply.take("problems", dict)
    return Loaded(found, {name: _texts(said.get(name, [])) for name in names})


def send(channel: Channel, function: Callable[..., Any], name: str) -> RemoteAnswer:
    """Have the process take over a function of this one, with all that it uses.

    Raises: TypeError for a function that cannot travel, LostError, TooSlowError.
    """
    from course.calling.functions import packed  # needs cloudpickle

    message = {"do": "unpickle", "name": name, **packed(function)}
    reply = channel.exchange(message, _LOAD_S, BACKSTOP * _LOAD_S)
    error = _raised(reply)
    if error is not None:
        raise TypeError(f"`{name}` could not be read in the process that checks it: {error.told}")
    return RemoteAnswer(channel, name, _arguments(reply)[name], function)


@contextmanager
def answering(
    function: Answer | Callable[..., Any], name: str, starter: Starter | None = None
) -> Generator[RemoteAnswer]:
    """An answer, or a function of this process, in a process of its own, which ends afterwards.

    Raises: as `send` does, and TypeError for a text without the function.
    """
    with (starter or own_starter()).start() as channel:
        if not isinstance(function, Answer):
            yield send(channel, function, name)
            return
        loaded = load(channel, function.text, [function.name])
        if function.name not in loaded.answers:
            raise TypeError(" ".join(loaded.problems[function.name]))
        yield loaded.answers[function.name]


class _RaisedError(Exception):
    """Carries the exception that an answer raised there through the code that runs here."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.told)
        self.raised = raised


class _Question:
    """One question of a check, and the time that its calls have used. Mutable."""

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
        result = self.put(args, shared=True)
        if result.error is not None:
            raise _RaisedError(result.error)
        if self._is_given(args):
            self.left = result.args_after
        return result.value

    def put(self, given: tuple[Any, ...], *, shared: bool) -> CallResult:
        """One call. With `shared`, results view the arguments' storages, and generators go on."""
        left = self._is_given(given)
        message = {
            "do": "call",
            "name": self._name,
            "args": given,
            "seed": self._seed,
            "grad": _is_grad_enabled(),
            "shared": shared,
            "left": left,
        }
        reply = self._exchange(message)
        stdout = reply.take("stdout", str)[:_MAX_STDOUT]
        error = _raised(reply)
        if error is not None:
            return CallResult(None, (), error, False, stdout, reply.cpu_s)
        after = reply.take("args_after", tuple, type(None))
        if not left:
            after = ()  # of one of many calls, which nothing asks for
        elif after is None or len(after) != len(given):
            after = tuple(plain(item) for item in given)
        number = reply.take("generator", int, type(None))
        value = reply.value("value") if number is None else RemoteGenerator(self._go_on, number)
        return CallResult(value, after, None, False, stdout, reply.cpu_s)

    def _is_given(self, args: tuple[Any, ...]) -> bool:
        """Whether these are the check's own arguments, and not those of one of many calls."""
        given = self._given
        return len(args) == len(given) and all(a is b for a, b in zip(args, given, strict=True))

    def _go_on(self, number: int, how: str, args: tuple[Any, ...]) -> Any:
        """The next value of a generator of the answer's. Raises: StopIteration at its end."""
        reply = self._exchange({"do": "go_on", "generator": number, "how": how, "args": args})
        error = _raised(reply)
        if error is not None:
            raise _RaisedError(error)
        if reply.take("ended", bool):
            raise StopIteration
        return reply.value("value")

    def _exchange(self, message: dict[str, Any]) -> Reply:
        left_s = max(_LEAST_S, self._limit_s - self.cpu_s)
        wall_s = self._until - time.monotonic()
        if wall_s <= 0:  # many calls, each of which takes next to no time
            raise TooSlowError(0.0)
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
        """Its next value."""
        return self._go_on(self._number, "send", (value,))

    def throw(self, *_: Any) -> Any:
        """Not asked of an answer."""
        raise NotImplementedError

    def close(self) -> None:
        """End it."""
        self._go_on(self._number, "close", ())


RemoteGenerator.__name__ = "generator"  # as a sentence about a result names it


def _is_grad_enabled() -> bool:
    torch = sys.modules.get("torch")  # whoever has turned it off has imported it
    return torch is None or torch.is_grad_enabled()


def _raised(reply: Reply) -> Raised | None:
    """The exception that the answer raised, or None. Raises: LostError for a malformed record."""
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
