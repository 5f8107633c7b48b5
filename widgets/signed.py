"""What pictures of SLO decisions ask of their input beyond `checking`: signs, shares, choices."""

from collections.abc import Sequence

from widgets import checking


def number(value: object, what: str) -> float:
    """`value` as a finite number of either sign. Raises: ValueError naming it."""
    if not checking.is_number(value):
        raise ValueError(f"{what} is {value!r}; it must be a number")
    return value


def share(value: object, what: str) -> float:
    """`value` as a number from 0 to 1. Raises: ValueError naming it."""
    if not checking.is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{what} is {value!r}; it must be a share from 0 to 1")
    return value


def one_of(value: object, what: str, choices: Sequence[str]) -> str:
    """`value` as one of `choices`. Raises: ValueError naming them."""
    if value not in choices:
        raise ValueError(f"{what} is {value!r}; it must be one of {', '.join(choices)}")
    return str(value)


def flag(value: object, what: str) -> bool:
    """`value` as a truth value. Raises: ValueError naming it."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {value!r}; it must be True or False")
    return value
