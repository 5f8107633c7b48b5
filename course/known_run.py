"""A run that a lesson repeats after every edit, and computes anew only where the edit changes it.

What its parts answer, call by call, decides a run. So the calls of the reference's are kept: parts
that answer each of them alike would go the very same way, and need not be sent there.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from course.observed_call import Printed, plain
from course.same_values import same
from nanogpt.parts.limits import run_limited

Parts = TypeVar("Parts")
Value = TypeVar("Value")

_LIMIT_S = 1.0
"""For all calls together, which compute little else; a run has such a limit for each of them."""
_NEVER_CHANGED = frozenset((int, float, bool, str, type(None)))


class _Call(NamedTuple):
    """What a part was called with, in plain data; whether that can be changed in place.

    `inferring`: torch kept no books for gradients meanwhile, which a function may depend on.
    """

    part: str
    given: tuple[Any, ...]
    may_change: bool
    inferring: bool


class KnownRun(Generic[Parts, Value]):
    """`run(parts)`, where parts are a dataclass of functions, and `reference` one of them.

    Each part that is not the reference's is called as the reference's run called that, in the same
    order. Where every answer is alike and nothing was printed or changed in place, the run's value
    is known; otherwise `run(parts)` says. A part may depend on its arguments and earlier calls.
    """

    def __init__(self, run: Callable[[Parts], Value], reference: Parts) -> None:
        self._run = run
        self._reference = reference

    @property
    def reference(self) -> Value:
        """The run's value with the reference."""
        return self._known[0]

    def __call__(self, parts: Parts) -> Value:
        """The run's value with these parts. Raises: whatever `run` raises."""
        value, calls = self._known
        pairs = {
            name: (part, getattr(self._reference, name))
            for name, part in _functions(parts).items()
            if part is not getattr(self._reference, name)
        }
        asked = [call for call in calls if call.part in pairs]
        alike = run_limited(_answer_alike, (pairs, asked), limit_s=_LIMIT_S)
        return value if alike.value is True else self._run(parts)

    @functools.cached_property
    def _known(self) -> tuple[Value, list[_Call]]:
        """The reference's run, and its calls."""
        calls: list[_Call] = []
        noted = {
            name: _noted(name, part, calls) for name, part in _functions(self._reference).items()
        }
        record: Any = self._reference  # a dataclass
        return self._run(replace(record, **noted)), calls


def _functions(parts: Any) -> dict[str, Callable[..., Any]]:
    return {field.name: getattr(parts, field.name) for field in fields(parts)}


def _noted(name: str, part: Callable[..., Any], calls: list[_Call]) -> Callable[..., Any]:
    """The same part; each of its calls is added to `calls`."""

    def call(*args: Any) -> Any:
        may_change = not _NEVER_CHANGED.issuperset(map(type, args))
        given = plain(args) if may_change else args
        calls.append(_Call(name, given, may_change, torch.is_inference_mode_enabled()))
        return part(*args)

    return call


def _answer_alike(
    pairs: dict[str, tuple[Callable[..., Any], Callable[..., Any]]], asked: Sequence[_Call]
) -> bool:
    """Whether both of each pair answer the calls alike, and the first does nothing else."""
    printed = Printed()
    with printed:
        for inferring, calls in groupby(asked, key=lambda call: call.inferring):
            with torch.inference_mode(inferring):
                if not all(_alike(*pairs[call.part], call) for call in calls):
                    return False
    return not printed.text()


def _alike(function: Callable[..., Any], reference: Callable[..., Any], call: _Call) -> bool:
    given = plain(call.given) if call.may_change else call.given
    answer = plain(function(*given), cloned=False)
    if not same(answer, plain(reference(*call.given), cloned=False)):
        return False
    return not call.may_change or same(given, call.given)
