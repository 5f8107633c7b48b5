"""What ranks the waiting: a policy's name, a key of a request, or a key that changes with time."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from nanogpt.parts import Parts
from nanogpt.parts.request_view import RequestView
from nanogpt.parts.validate_policies import checked_key

Key = tuple[float, ...]
KeyOf = Callable[[RequestView], Key]


@dataclass(frozen=True, slots=True)
class TimedKey:
    """A policy whose keys change with time: `key(request, step)`.

    A heap whose keys change in place is no heap any more, so it is rebuilt at every step: of n that
    wait every one is ranked anew, in O(n), where a step under any other policy looks at a few.
    """

    key: Callable[[RequestView, int], Key]


Policy: TypeAlias = str | KeyOf | TimedKey


def check_policy(policy: Policy) -> None:
    """Raises: ValueError for what is neither a known name nor a key."""
    if isinstance(policy, TimedKey) and not callable(policy.key):
        raise ValueError(f"the key of a TimedKey is {policy.key!r}; it must be callable")
    known = policy in ("fcfs", "priority") or isinstance(policy, TimedKey) or callable(policy)
    if not known:
        raise ValueError(f"there is no policy {policy!r}; choose 'fcfs', 'priority' or a key")


def key_under(policy: Policy, view: RequestView, step: int, parts: Parts) -> Key:
    """The request's rank at this step; smaller goes first. Raises: PartError for no tuple."""
    if isinstance(policy, str):
        return parts.sort_key(policy, view)
    key = policy.key(view, step) if isinstance(policy, TimedKey) else policy(view)
    return checked_key("policy", key, view)


def in_order(heap: Sequence[Any], top: int = 0) -> Iterator[Any]:
    """The entries of a heap, the smallest first, as they stand: the first k of n in O(k log n).

    A heap is its top entry and two smaller heaps, which begin at 2 * top + 1 and 2 * top + 2.
    """
    if top < len(heap):
        yield heap[top]
        yield from heapq.merge(in_order(heap, 2 * top + 1), in_order(heap, 2 * top + 2))
