"""Checks of a widget's input, each with a sentence for what it refuses. Knows no widget.

A check takes a value and its name in a sentence, and returns the value. Raises: ValueError.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

Record = Mapping[str, Any]
T = TypeVar("T")
Check: TypeAlias = Callable[[object, str], T]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a finite number and not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < float("inf")


def record(value: object, what: str, fields: Sequence[str] = ()) -> dict[str, Any]:
    """A dict that has `fields`, as a copy."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is a {type(value).__name__}; it must be a dict")
    found = dict(cast(Record, value))
    missing = [field for field in fields if field not in found]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}; it needs {', '.join(fields)}")
    return found


@dataclass(frozen=True, slots=True)
class Optional:
    """The check of a field that may be left out, and what stands there then."""

    check: Check[Any]
    default: Any

    def __call__(self, value: object, what: str) -> Any:
        """Check what is there."""
        return self.check(value, what)


def shape(**checks: Check[Any]) -> Check[dict[str, Any]]:
    """The check of a dict, field by field; fields without a check are left out."""
    defaults = {name: each.default for name, each in checks.items() if isinstance(each, Optional)}
    needed = [name for name in checks if name not in defaults]

    def check(value: object, what: str) -> dict[str, Any]:
        found = defaults | record(value, what, needed)
        return {name: each(found[name], f"{name} of {what}") for name, each in checks.items()}

    return check


def items(value: object, what: str, at_least: int = 0) -> list[Any]:
    """A list of at least so many."""
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"{what} is a {type(value).__name__}; it must be a list")
    found = list(cast(Sequence[Any], value))
    if len(found) < at_least:
        raise ValueError(f"{what} has {len(found)} entries; it needs at least {at_least}")
    return found


def list_of(check: Check[T], at_least: int = 0) -> Check[list[T]]:
    """The check of a list of at least so many that pass `check`."""

    def check_all(value: object, what: str) -> list[T]:
        head, of, rest = what.partition(" of ")
        found = items(value, what, at_least)
        return [check(entry, f"{head}[{index}]{of}{rest}") for index, entry in enumerate(found)]

    return check_all


def maybe(check: Check[T]) -> Check[T | None]:
    """The check of what may be None."""
    return lambda value, what: None if value is None else check(value, what)


def text(value: object, what: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {value!r}; it must be text")
    return value


def words(value: object, what: str) -> str:
    """A string that says something."""
    if not text(value, what).strip():
        raise ValueError(f"{what} is empty; it must say something")
    return cast(str, value)


def whole(value: object, what: str, least: int = 0) -> int:
    """An integer of at least `least`."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{what} is {value!r}; it must be a whole number of at least {least}")
    return value


def positive(value: object, what: str) -> int:
    """An integer of at least 1."""
    return whole(value, what, 1)


def number(value: object, what: str) -> float:
    """A finite number of either sign."""
    if not is_number(value):
        raise ValueError(f"{what} is {value!r}; it must be a number")
    return value


def amount(value: object, what: str) -> float:
    """A finite number of at least 0."""
    if not is_number(value) or value < 0:
        raise ValueError(f"{what} is {value!r}; it must be a number of at least 0")
    return value


def share(value: object, what: str) -> float:
    """A number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{what} is {value!r}; it must be a share from 0 to 1")
    return value


def flag(value: object, what: str) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {value!r}; it must be True or False")
    return value


def one_of(*choices: str) -> Check[str]:
    """The check of one of `choices`."""

    def check(value: object, what: str) -> str:
        if value not in choices:
            raise ValueError(f"{what} is {value!r}; it must be one of {', '.join(choices)}")
        return str(value)

    return check


def version(value: object, what: str, known: int) -> None:
    """A record of the one version that the widget reads."""
    found = record(value, what, ("version",))["version"]
    if found != known:
        raise ValueError(f"{what} has version {found!r}; this widget reads version {known}")


def differ(values: Sequence[Hashable], what: str) -> None:
    """Values of which no two are equal; `what` says what two would be, "boards are called"."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"two {what} {value!r}; all must differ")


def interval(mean: float, low: float | None, high: float | None, what: str) -> None:
    """Two ends with the mean between them, or None for one of them."""
    if low is not None and high is not None:
        number(low, f"the low end of {what}")
        number(high, f"the high end of {what}")
        if not low <= mean <= high:
            raise ValueError(f"the mean of {what} is {mean}, outside its interval {low} to {high}")
