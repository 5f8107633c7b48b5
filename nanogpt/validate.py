"""Checks of single values at the borders of the package: one sentence, the value, the limit."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from reprlib import Repr
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Record = TypeVar("Record")

MOST_INT = 2**63 - 1
"""The largest whole number that is taken anywhere: what tensors hold, and readers of JSON."""

_SHORT = Repr()
_SHORT.maxother = 60


class PolicyError(Exception):
    """An answer of a policy that would corrupt the state that it decides about.

    The message is one sentence: the policy, its answer, and what the answer must be.
    """


def refused(what: str, answer: object, wanted: str) -> PolicyError:
    """The error for an answer of a policy; `what` names the policy, and what it was asked."""
    return PolicyError(f"{what} returned {show(answer)}; it must be {wanted}")


def is_reference(policies: Any, name: str) -> bool:
    """Whether the function is the record's default, whose answers need no validation."""
    return getattr(policies, name) is policies.__dataclass_fields__[name].default


def validated(policies: Record, answers: Mapping[str, Callable[..., Any]]) -> Record:
    """The same record of functions, those that are not its defaults called on copies of lists.

    `answers` has by name what makes of an answer, and of what was asked, the answer to go on with.
    """
    record: Any = policies
    every = [each.name for each in fields(record)]
    names = [name for name in every if name in answers and not is_reference(record, name)]
    return replace(record, **{n: _validated(getattr(record, n), answers[n]) for n in names})


def _validated(policy: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:
        copies = [each.copy() if isinstance(each, list | dict) else each for each in args]  # pyright: ignore[reportUnknownVariableType]
        return answer(policy(*copies), *args)

    return ask


def is_tensor(value: object) -> TypeGuard["Tensor"]:
    """Whether it is a tensor: none is where nothing has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_int(name: str, value: object, low: int, high: int = MOST_INT) -> None:
    """Refuse what is not a whole number from `low` to `high`.

    Raises: ValueError. True and 1.0 are not whole numbers here: they hide mistakes.
    """
    if type(value) is not int:
        raise ValueError(f"{name} is {show(value)}; it must be a whole number")
    if not low <= value <= high:
        limit = f"at least {low}" if value < low else f"at most {high}"
        raise ValueError(f"{name} is {show(value)}; it must be {limit}")


def check_amount(name: str, value: Any, high: float) -> None:
    """Raises: ValueError for what is not a number from 0 to `high`, a bool or NaN among it."""
    if type(value) is bool or not (isinstance(value, int | float) and 0 <= value <= high):
        raise ValueError(f"{name} is {show(value)}; it must be a number from 0 to {high:,}")


def check_bool(name: str, value: object) -> None:
    """Raises: ValueError for all but True and False; 1 and "yes" are neither."""
    if type(value) is not bool:
        raise ValueError(f"{name} is {show(value)}; it must be True or False")


def check_is(name: str, value: object, kind: type, wanted: str) -> None:
    """Raises: ValueError for a value of another type; `wanted` says in words what it must be."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {show(value)}; it must be {wanted}")


def check_callable(name: str, value: object, wanted: str, *methods: str) -> None:
    """Raises: ValueError for what cannot be called, or lacks one of the `methods`."""
    calls = [getattr(value, method, None) for method in methods] or [value]
    if not all(map(callable, calls)):
        raise ValueError(f"{name} is {show(value)}; it must be {wanted}")


def show(value: object) -> str:
    """A value in one short line, however large it is; of one without words of its own, its type."""
    with suppress(ValueError):  # Python writes no number of more than 4,300 digits
        if type(value).__repr__ is not object.__repr__:
            return " ".join(_SHORT.repr(value).split())
    return f"of type {type(value).__name__}"


def check_limits(**limits: int | None) -> None:
    """Raises: ValueError for a limit that is neither None nor a whole number from 1 up."""
    for name, limit in limits.items():
        if limit is not None:
            check_int(name, limit, 1)


def check_sinks(num_sinks: int, window: int | None) -> None:
    """Raises: ValueError for a number that is none, and for sinks without a window."""
    check_int("num_sinks", num_sinks, 0)
    if num_sinks and window is None:
        raise ValueError(f"num_sinks is {num_sinks}; without a window everything is kept anyway")
