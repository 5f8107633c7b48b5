"""Making a case that fails small, so that it can be shown."""

from collections.abc import Callable, Iterator
from typing import TypeVar

Case = TypeVar("Case")


def shrink(
    case: Case, smaller: Callable[[Case], Iterator[Case]], still_bad: Callable[[Case], bool]
) -> Case:
    """Take any smaller case that is still bad, again and again; at most 200 tries."""
    tries, found = 200, True
    while found and tries > 0:
        found = False
        for candidate in smaller(case):
            tries -= 1
            if tries < 0:
                break
            if still_bad(candidate):
                case, found = candidate, True
                break
    return case


def smaller_numbers(number: int, least: int = 1) -> list[int]:
    """The least, half of it, one less: smaller numbers to try, the boldest first."""
    return sorted({n for n in (least, number // 2, number - 1) if least <= n < number})
