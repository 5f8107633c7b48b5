"""A fleet's decisions as pure functions: the queue's order, urgency, routing.

Source: adaptive_scheduler.txt. Its urgency and its routing score stand beside the mended forms.
Priority 0 is the most urgent, so the source's "+2" is 2 levels down.
"""

import heapq
from collections.abc import Mapping, Sequence

from nanogpt.views.fleet_views import WaitingView, WorkerView

URGENT_US = 50_000
"""How close to its deadline a request becomes urgent, in the source."""
URGENCY_LEVELS = 2
"""By how many levels urgency raises a request, in the source."""
PREEMPTION_GAP = 3
"""Levels by which a waiting request must be above a running one to preempt it, in the source."""

Key = tuple[float, ...]
Entry = tuple[Key, int, int]
"""(key, request id, generation): an entry of the heap."""
Newest = dict[int, int]
"""Each request's newest generation. An entry with another generation is stale."""


def push(heap: list[Entry], newest: Newest, request_id: int, key: Key) -> None:
    """Push a request, or give it another key; its older entries become stale."""
    newest[request_id] = newest.get(request_id, 0) + 1
    heapq.heappush(heap, (key, request_id, newest[request_id]))


def remove(newest: Newest, request_id: int) -> None:
    """Make all entries of a request stale; they stay in the heap.

    A generation is never forgotten and never goes down, so a stale entry cannot become live again.
    """
    newest[request_id] = newest.get(request_id, 0) + 1


def pop_in_place(heap: list[Entry], newest: Mapping[int, int]) -> int | None:
    """Pop entries up to and including the first live one; return its request's id, or None."""
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generation == newest.get(request_id):
            return request_id
    return None


def pop_live(heap: Sequence[Entry], newest: Mapping[int, int]) -> tuple[int | None, list[Entry]]:
    """Return (request id or None, heap): the first live request, and the heap after its pop."""
    rest = list(heap)
    return pop_in_place(rest, newest), rest


def boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int:
    """The request's priority at the moment `now`: two levels higher when it is about to be late.

    A request is about to be late if its slack is at most 50 ms and not below 0: a boost cannot help
    a request that misses its deadline in any case. `priority` is the request's own, without earlier
    boosts. The result is at least 0.
    """
    slack = deadline - now - remaining
    return max(0, priority - URGENCY_LEVELS) if 0 <= slack <= URGENT_US else priority


def bump_source(priority: int, now: int, deadline: int) -> int:
    """The source's urgency, which ignores the remaining work and continues after the deadline.

    It is called at every tick with its own last result, so the boosts add up.
    """
    return max(0, priority - URGENCY_LEVELS) if deadline - now <= URGENT_US else priority


def queue_key(request: WaitingView, priority: int, ageing_us: int | None) -> Key:
    """The key of a waiting request, smallest first: priority, then deadline, then arrival.

    With `ageing_us`, that much waiting makes up for one level. All requests age at one rate, so
    the key is arrival + ageing_us * priority, which stays right while the request waits.
    """
    if ageing_us is None:
        return (priority, request.deadline_us, request.arrival_us)
    return (request.arrival_us + ageing_us * priority, request.deadline_us)


def route(workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
    """The id of the worker that finishes this request's prefill first.

    It has the smallest backlog minus hit, in tokens. Ties go to the worker with fewer running
    requests, then to the lower id. All `workers` have room; `hits` omits workers without a hit.
    """
    return min(
        workers, key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id)
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
