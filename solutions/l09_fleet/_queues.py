"""Queues with lazy deletion, kept in wrong ways.

Heaps that differ only in the order of their array are the same, so every result is put in order.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from nanogpt.fleet.decisions import Entry, Key, apply_event

Generations: TypeAlias = dict[int, int]
Event: TypeAlias = tuple[Any, ...]

# --- results --------------------------------------------------------------------------------------


def settled(value: Any) -> Any:
    """The result with its heap in order, if it holds one."""
    if not isinstance(value, tuple):
        return value
    items = cast("tuple[Any, ...]", value)
    if items and isinstance(items[0], list) and is_heap(items[0]):
        return (sorted(items[0]), *items[1:])
    return items


def in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its results settled."""
    return lambda *args: settled(function(*args))


def is_heap(entries: Sequence[Any]) -> bool:
    try:
        return all(entries[(i - 1) // 2] <= entries[i] for i in range(1, len(entries)))
    except TypeError:
        return False


# --- wrong answers --------------------------------------------------------------------------------


def handling(
    push: Callable[[list[Entry], Generations, int, Key], Any] | None = None,
    remove: Callable[[list[Entry], Generations, int], Any] | None = None,
    pop: Callable[[list[Entry], Generations], Any] | None = None,
) -> Callable[..., Any]:
    """The rules but for the events given: each changes copies, and gives what is popped."""

    def answer(heap: list[Entry], generations: Generations, event: Event) -> Any:
        own = {"push": push, "remove": remove, "pop": pop}[event[0]]
        if own is None:
            return apply_event(heap, generations, event)
        entries, latest = list(heap), dict(generations)
        popped = own(entries, latest, *event[1:])
        return entries, latest, popped

    return in_order(answer)


def changing(
    heap: Callable[[list[Entry]], Any] = lambda heap: heap,
    generations: Callable[[Generations], Any] = lambda generations: generations,
    popped: Callable[[int | None, Event], Any] = lambda popped, event: popped,
) -> Callable[..., Any]:
    """The right result, one of the three changed."""

    def answer(entries: list[Entry], latest: Generations, event: Event) -> Any:
        entries, latest, id = apply_event(entries, latest, event)
        return heap(entries), generations(latest), popped(id, event)

    return in_order(answer)


def push_as(count: Callable[[Generations, int], int]) -> Callable[..., None]:
    """A push whose generation is count(generations, id)."""

    def push(entries: list[Entry], latest: Generations, id: int, key: Key) -> None:
        latest[id] = count(latest, id)
        heapq.heappush(entries, (key, id, latest[id]))

    return push


push = push_as(lambda latest, id: latest.get(id, 0) + 1)


def push_only_new(entries: list[Entry], latest: Generations, id: int, key: Key) -> None:
    if all(entry[1:] != (id, latest.get(id)) for entry in entries):
        push(entries, latest, id, key)


def push_lower(entries: list[Entry], latest: Generations, id: int, key: Key) -> None:
    push(entries, latest, id, (key[0], -key[1]))


def append(entries: list[Entry], latest: Generations, id: int, key: Key) -> None:
    count_up(entries, latest, id)
    entries.append((key, id, latest[id]))


def replace(entries: list[Entry], latest: Generations, id: int, key: Key) -> None:
    take_out(entries, latest, id)
    push(entries, latest, id, key)


def count_up(entries: list[Entry], latest: Generations, id: int) -> None:
    latest[id] = latest.get(id, 0) + 1


def forget(entries: list[Entry], latest: Generations, id: int) -> None:
    latest.pop(id, None)


def take_out(entries: list[Entry], latest: Generations, id: int) -> None:
    entries[:] = sorted(entry for entry in entries if entry[1] != id)


def take_out_and_count(entries: list[Entry], latest: Generations, id: int) -> None:
    take_out(entries, latest, id)
    count_up(entries, latest, id)


def leave(entries: list[Entry], latest: Generations, id: int) -> None:
    pass


def popping(
    *,
    after: Callable[[list[Entry], Generations, int], None] = count_up,
    stale: Callable[[list[Entry], Generations, int], None] = leave,
    gives: Callable[[Entry], Any] = lambda entry: entry[1],
    empty: Any = None,
    believes: bool = False,
    goes_on: bool = True,
) -> Callable[[list[Entry], Generations], Any]:
    """A pop with another thing done `after` it, to a `stale` entry, or when none is there."""

    def pop(entries: list[Entry], latest: Generations) -> Any:
        while entries:
            entry = heapq.heappop(entries)
            if believes or latest.get(entry[1]) == entry[2]:
                after(entries, latest, entry[1])
                return gives(entry)
            stale(entries, latest, entry[1])
            if not goes_on:
                break
        return empty

    return pop


def pop_by(rank: Callable[[Entry], Any]) -> Callable[[list[Entry], Generations], Any]:
    """Takes the live entry that ranks lowest, and those stale ones that rank below it."""

    def pop(entries: list[Entry], latest: Generations) -> int | None:
        ordered = sorted(entries, key=rank)
        while ordered:
            _, id, generation = ordered.pop(0)
            if latest.get(id) == generation:
                latest[id] += 1
                entries[:] = sorted(ordered)
                return id
        entries.clear()
        return None

    return pop


def sweep_all(entries: list[Entry], latest: Generations) -> None:
    entries[:] = sorted(entry for entry in entries if latest.get(entry[1]) == entry[2])


def sweeping(sweep: Callable[[list[Entry], Generations], None], *kinds: str) -> Callable[..., Any]:
    """Right, and then a sweep after each event of these kinds."""

    def answer(heap: list[Entry], generations: Generations, event: Event) -> Any:
        entries, latest, popped = apply_event(heap, generations, event)
        if event[0] in kinds:
            sweep(entries, latest)
        return entries, latest, popped

    return in_order(answer)


def pop_without_looking(entries: list[Entry], latest: Generations) -> int:
    while True:
        _, id, generation = heapq.heappop(entries)
        if generation == latest[id]:
            latest[id] += 1
            return id


def into_the_heap(heap: list[Entry], generations: Generations, event: Event) -> Any:
    heap[:], newest, popped = apply_event(heap, generations, event)
    return heap, newest, popped
