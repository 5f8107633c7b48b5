"""An answer whose calls are noted on their way: what the checks asked, and what came back."""

from collections.abc import Callable, Generator
from typing import Any

from course.calling.answers import Answer, Wrap
from course.calling.results import CallResult

Note = Callable[[tuple[Any, ...], Any], None]
"""Takes the arguments of a call and its result, or a generator's next value."""


class Noted(Answer):
    """The same answer; every call of its function is passed to `note`."""

    def __init__(self, answer: Answer, note: Note) -> None:
        super().__init__(answer._channel, answer._name, answer._arguments, answer._function)
        self._note = note

    def call(
        self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int = 0
    ) -> CallResult:
        """As the answer itself."""
        result = super().call(args, limit_s=limit_s, wall_s=wall_s, seed=seed)
        self._note(args, result.value)
        return result

    def asked_as(self, wrap: Wrap) -> Answer:
        """Every call that one question makes is noted."""
        return super().asked_as(lambda ask: wrap(self._noted(ask)))

    def _noted(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            value = ask(*args)
            if isinstance(value, Generator):
                return self._moves(args, value)
            self._note(args, value)
            return value

        return call

    def _moves(
        self, args: tuple[Any, ...], steps: Generator[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
        told = None
        while True:
            try:
                value = steps.send(told)
            except StopIteration:
                return
            self._note(args, value)
            told = yield value
