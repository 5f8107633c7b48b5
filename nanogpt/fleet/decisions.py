"""A fleet's decisions as pure functions: the queue's order, urgency, routing.

Source: adaptive_scheduler.txt. Its urgency and its routing score stand beside the mended forms.
Priority 0 is the most urgent, so the source's "+2" is 2 levels down.
"""

import heapq
from collections.abc import Mapping, Sequence

from nanogpt.fleet.fleet_views import WaitingView, WorkerView

URGENT_US = 50_000
"""How close to its deadline a request becomes urgent, in the source."""
URGENCY_LEVELS = 2
"""By how many levels urgency raises a request, in the source."""
PREEMPTION_GAP = 3
"""Levels by which a waiting request must be above a running one to preempt it, in the source."""

Key = tuple[float, ...]
Entry = tuple[Key, int, int]
"""(key, request id, generation): an entry of the heap."""
Event = tuple[str, int, Key] | tuple[str, int] | tuple[str]
"""("push", id, key), ("remove", id) or ("pop",)."""


def apply_in_place(entries: list[Entry], generations: dict[int, int], event: Event) -> int | None:
    """Apply one event to a heap with lazy deletion; return the popped id, None of an empty heap.

    An entry is live while its generation is the request's latest. Every push, removal and pop of a
    request increments its generation; generations never fall and are never forgotten, so a stale
    entry cannot become live again. Stale entries stay until a pop meets them.

    Raises: ValueError for another event.
    """
    match event:
        case ("push", request_id, key):
            generations[request_id] = generations.get(request_id, 0) + 1
            heapq.heappush(entries, (key, request_id, generations[request_id]))
        case ("remove", request_id):
            generations[request_id] = generations.get(request_id, 0) + 1
        case ("pop",):
            while entries:
                _, request_id, generation = heapq.heappop(entries)
                if generations[request_id] == generation:
                    generations[request_id] += 1
                    return request_id
        case _:
            raise ValueError(f"there is no event {event!r}; choose from push, remove, pop")
    return None


def apply_event(
    heap: Sequence[Entry], generations: Mapping[int, int], event: Event
) -> tuple[list[Entry], dict[int, int], int | None]:
    """Apply one event to copies: the new heap, the new generations, the popped id.

    Raises: ValueError for another event.
    """
    entries, latest = list(heap), dict(generations)
    popped = apply_in_place(entries, latest, event)
    return entries, latest, popped


def boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int:
    """The request's priority at the moment `now`: two levels higher when it is about to be late.

    About to be late is a slack of at most 50 ms, and not below 0: what cannot be saved gains
    nothing. `priority` is the request's own, never the outcome of an earlier call. At least 0.
    """
    slack = deadline - now - remaining
    return max(0, priority - URGENCY_LEVELS) if 0 <= slack <= URGENT_US else priority


def bump_source(priority: int, now: int, deadline: int) -> int:
    """The source's urgency: it forgets the work, goes on after the deadline, and is called with
    its own outcome at every tick.
    """
    return max(0, priority - URGENCY_LEVELS) if deadline - now <= URGENT_US else priority


def queue_key(request: WaitingView, priority: int, ageing_us: int | None) -> Key:
    """The rank among the waiting, smallest first: priority, then deadline, then arrival.

    With `ageing_us`, that much waiting makes up for one level. All ages grow alike, so that the
    order is that of arrival + ageing_us * priority, which never changes in a heap.
    """
    if ageing_us is None:
        return (priority, request.deadline_us, request.arrival_us)
    return (request.arrival_us + ageing_us * priority, request.deadline_us)


def route(workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
    """The worker that gets to the end of this request's prefill with the least computing.

    That is the smallest backlog minus hit, in tokens; among equals the one with fewer running
    requests, then the lower id. `workers` all have room; `hits` leaves out those without a hit.
    """
    return min(
        workers,
        key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id),
    ).id


def source_score(worker: WorkerView, hit: int) -> float:
    """The source's score of a worker, highest wins: a hit of 33 tokens outweighs a full worker.

    Utilisation is taken as the share of its batch in use, since the source's own is the fullness
    of its cache.
    """
    utilisation = worker.num_running / worker.batch_size
    slots = worker.batch_size - worker.num_running
    return 10 * hit - 100 * utilisation + 0.1 * worker.kv_free_tokens + 0.5 * slots


def route_source(workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
    """The worker with the source's highest score; among equals the lower id."""
    return max(workers, key=lambda w: (source_score(w, hits.get(w.id, 0)), -w.id)).id
