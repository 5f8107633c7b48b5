"""Right results in another type: numpy's, torch's, a list for a tuple. The one rule takes them all.

`course.calling.plain_values` has the rule; here is what it promises, as ways to write a result.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from course.calling.answers import RemoteAnswer, Wrap, answering
from course.calling.results import CallResult
from course.exercise import Exercise, Function

Cast = Callable[[Any], Any]
_DTYPES = {
    torch.bool: torch.uint8, torch.int64: torch.int32, torch.int32: torch.int64,
    torch.float32: torch.float64, torch.float64: torch.float32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to give a result.

    `cast` changes one value, what it holds aside, and returns all that it is not about as it is.
    `matters` says that the type may be part of what was asked, as a mask's dtype is: then a check
    may refuse it, in words that name what came.
    """

    name: str
    cast: Cast
    matters: bool = False


class _Dict(dict[Any, Any]):
    """A dict of a class of its own."""


class _Whole(int):
    """An int of a class of its own."""


class _Tensor(Tensor):
    @staticmethod
    def of(value: Tensor) -> Tensor:
        return value.as_subclass(_Tensor)


class _Pair(NamedTuple):
    first: Any
    second: Any


class _Triple(NamedTuple):
    first: Any
    second: Any
    third: Any


def _numpy_number(value: Any) -> Any:
    return np.int64(value) if type(value) is int else _of(float, value, np.float64)


def _tensor_number(value: Any) -> Any:
    if type(value) is int:
        return torch.tensor(value)
    return _of(float, value, lambda number: torch.tensor(number, dtype=torch.float64))


def _fraction(value: Any) -> Any:
    exact = type(value) in (int, float) and math.isfinite(value)
    return Fraction(value) if exact else value


def _of(kind: type, value: Any, cast: Cast) -> Any:
    """`cast(value)` where the value is just of this kind."""
    return cast(value) if type(value) is kind else value


def _named_tuple(value: Any) -> Any:
    shapes = {2: _Pair, 3: _Triple}
    return _of(
        tuple, value, lambda items: shapes[len(items)](*items) if len(items) in shapes else items
    )


def _one_row(make: Cast) -> Cast:
    def cast(value: Any) -> Any:
        kinds = {type(item) for item in value} if type(value) is list else set()
        return make(value) if kinds in ({int}, {float}) else value

    return cast


def _float_row(value: list[Any]) -> Tensor:
    return torch.tensor(value, dtype=torch.float64 if type(value[0]) is float else None)


def _of_another_dtype(value: Tensor) -> Tensor:
    return value.to(_DTYPES[value.dtype]) if value.dtype in _DTYPES else value


def _with_grad(value: Tensor) -> Tensor:
    return value.detach().requires_grad_() if value.is_floating_point() else value


def _in_columns(value: Tensor) -> Tensor:
    return value.T.contiguous().T if value.dim() == 2 else value


VARIANTS = (
    Variant("numpy's numbers", _numpy_number),
    Variant("tensors for numbers", _tensor_number),
    Variant("floats for ints", lambda value: _of(int, value, float)),
    Variant("a class of ints", lambda value: _of(int, value, _Whole)),
    Variant("fractions for numbers", _fraction),
    Variant("numpy's strings", lambda value: _of(str, value, np.str_)),
    Variant("numpy's truths", lambda value: _of(bool, value, np.bool_)),
    Variant("tensors for truths", lambda value: _of(bool, value, torch.tensor)),
    Variant("tuples for lists", lambda value: _of(list, value, tuple)),
    Variant("lists for tuples", lambda value: _of(tuple, value, list)),
    Variant("named tuples", _named_tuple),
    Variant("arrays for lists", _one_row(np.array)),
    Variant("tensors for lists", _one_row(_float_row)),
    Variant("a class of dicts", lambda value: _of(dict, value, _Dict)),
    Variant("sets for frozensets", lambda value: _of(frozenset, value, set)),
    Variant("a class of tensors", lambda value: _of(Tensor, value, _Tensor.of)),
    Variant("tensors with gradients", lambda value: _of(Tensor, value, _with_grad)),
    Variant("tensors by columns", lambda value: _of(Tensor, value, _in_columns)),
    Variant("another dtype", lambda value: _of(Tensor, value, _of_another_dtype), matters=True),
    Variant("arrays for tensors", lambda value: _of(Tensor, value, Tensor.numpy), matters=True),
)


def recast(value: Any, cast_one: Cast) -> Any:
    """The value with every value in it cast, the innermost first, and itself at last."""

    def inside(item: Any) -> Any:
        return recast(item, cast_one)

    if type(value) in (list, tuple, set, frozenset):
        return cast_one(type(value)(map(inside, value)))
    if type(value) is dict:
        entries = cast("dict[Any, Any]", value).items()
        return cast_one({inside(key): inside(item) for key, item in entries})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return dataclasses.replace(
            value, **{each.name: inside(getattr(value, each.name)) for each in fields}
        )
    return cast_one(value)


Note = Callable[[tuple[Any, ...], Any], None]
"""Takes the arguments of a call and its result, or a generator's next value."""


class Noted(RemoteAnswer):
    """The same answer; every call of its function is passed to `note`."""

    def __init__(self, answer: RemoteAnswer, note: Note) -> None:
        super().__init__(answer._channel, answer._name, answer._arguments, answer._origin)
        self._note = note

    def call(
        self, args: tuple[Any, ...], *, limit_s: float, wall_s: float, seed: int = 0
    ) -> CallResult:
        """As the answer itself."""
        result = super().call(args, limit_s=limit_s, wall_s=wall_s, seed=seed)
        self._note(args, result.value)
        return result

    def asked_as(self, wrap: Wrap) -> RemoteAnswer:
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


def applying(item: Exercise, function: Function) -> list[Variant]:
    """The variants that change anything of what the function returns while it is checked."""
    found: set[str] = set()

    def note(_: Any, value: Any) -> None:
        recast(value, add)

    def add(value: Any) -> Any:
        found.update(each.name for each in VARIANTS if each.cast(value) is not value)
        return value

    with answering(function, item.name) as answer:
        item.judge(Noted(answer, note))
    return [each for each in VARIANTS if each.name in found]


def giving(function: Function, cast_one: Cast) -> Function:
    """The function with its results cast; of a generator, all that it yields and returns."""

    @functools.wraps(function)
    def answer(*args: Any) -> Any:
        return recast(function(*args), cast_one)

    @functools.wraps(function)
    def moves(*args: Any) -> Generator[Any, Any, Any]:
        steps, told = function(*args), None
        while True:
            try:
                told = yield recast(steps.send(told), cast_one)
            except StopIteration as end:
                return recast(end.value, cast_one)

    return moves if inspect.isgeneratorfunction(function) else answer
