"""The records of pictures: plain data that msgspec checks and fills in. Knows no widget."""

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Amount = Annotated[float, Meta(ge=0, le=1e300)]
Share = Annotated[float, Meta(ge=0, le=1)]
Words = Annotated[str, Meta(pattern=r"\S")]
OneOrMore = Annotated[list[T], Meta(min_length=1)]


def read(value: object, kind: Any, what: str) -> Any:
    """`value` as plain data of `kind`, with its defaults and without fields of another name.

    Raises: ValueError naming the place and the type or the limit.
    """
    try:
        return msgspec.to_builtins(msgspec.convert(value, kind), str_keys=True)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"{what}: {error}") from error


def all_differ(values: Sequence[Hashable], what: str) -> None:
    """Raises: ValueError for two equal values; `what` says what they are, "labels"."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"two {what} are {value!r}; all must differ")
