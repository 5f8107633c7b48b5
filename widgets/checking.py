"""What every widget asks of its input, and the sentence it answers with. Knows no widget."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

Record = Mapping[str, Any]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a finite number and not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < float("inf")


def record(value: object, what: str, fields: Sequence[str]) -> dict[str, Any]:
    """`value` as a dict that has `fields`. Raises: ValueError saying what is missing."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is a {type(value).__name__}; it must be a dict")
    found = dict(cast(Record, value))
    missing = [field for field in fields if field not in found]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}; it needs {', '.join(fields)}")
    return found


def items(value: object, what: str, at_least: int = 0) -> list[Any]:
    """`value` as a list of at least so many. Raises: ValueError naming the count."""
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"{what} is a {type(value).__name__}; it must be a list")
    found = list(cast(Sequence[Any], value))
    if len(found) < at_least:
        raise ValueError(f"{what} has {len(found)} entries; it needs at least {at_least}")
    return found


def text(value: object, what: str, *, empty: bool = True) -> str:
    """`value` as a string. Raises: ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {value!r}; it must be text")
    if not empty and not value.strip():
        raise ValueError(f"{what} is empty; it must say something")
    return value


def whole(value: object, what: str, least: int = 0) -> int:
    """`value` as an integer of at least `least`. Raises: ValueError naming both."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{what} is {value!r}; it must be a whole number of at least {least}")
    return value


def amount(value: object, what: str) -> float:
    """`value` as a finite number of at least 0. Raises: ValueError naming it."""
    if not is_number(value) or value < 0:
        raise ValueError(f"{what} is {value!r}; it must be a number of at least 0")
    return value
