"""Blocks of which the order does not matter: they are compared by their numbers."""

from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items, as_whole


class Sorted:
    """An answer whose list comes sorted. Its errors still name a line of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__wrapped__ = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any) -> Any:
        """Ask the function; what it gives that is no list of numbers stays as it is."""
        value = self._function(*args)
        items = as_items(value)
        numbers = [as_whole(item) for item in items or ()]
        whole = [number for number in numbers if number is not None]
        return value if items is None or len(whole) < len(numbers) else sorted(whole)
