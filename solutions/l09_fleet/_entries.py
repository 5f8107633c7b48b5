"""Wrong ideas of what lies in the heap, known by the one that came back beside the right one."""

from collections.abc import Iterable
from typing import Any

from course.exercise import Misconception
from solutions.l09_fleet._queues import handling, push_lower, sweep_all, sweeping


def swept(got: Any, wanted: Any) -> bool:
    """Whether entries are missing, all of them stale."""
    missing, latest = left_of(wanted[0], got[0]), wanted[1]
    stale = [latest.get(id) != generation for _, id, generation in missing or ()]
    return got[1:] == wanted[1:] and bool(stale) and all(stale)


def left_of(entries: Iterable[Any], others: Iterable[Any]) -> list[Any] | None:
    """The entries without the others; None where one of these is not among them."""
    left = list(entries)
    for other in others:
        if other not in left:
            return None
        left.remove(other)
    return left


NEAR = (
    Misconception(
        "sweeps",
        "What is stale may go at any time.",
        "A stale entry stays in the heap until a pop finds it on top: no push, no removal and no "
        "search takes it out.",
        matches=swept,
        examples=(sweeping(sweep_all, "push"),),
    ),
    Misconception(
        "only_the_heap",
        "Generations are all that counts.",
        "The generations and `popped` are right, but the heap is not: work out which entries lie "
        "in it after this event.",
        matches=lambda got, wanted: got[1:] == wanted[1:],
        examples=(handling(push_lower),),
    ),
)
