"""Lesson 7, the fleet: worked answers, other right ones, known wrong ones."""

import bisect
import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView
from solutions.wrong import WrongAnswer

Entry = tuple[tuple, int, int]

# --- on_event --------------------------------------------------------------------------------


def on_event(
    heap: list[tuple[tuple, int, int]], generations: dict[int, int], event: tuple
) -> tuple[list[tuple[tuple, int, int]], dict[int, int], int | None]:
    """Return `(heap, generations, popped)` as they are after one event in a queue of requests.

    `heap` is a list as `heapq` keeps it. Its entries are `(key, id, generation)`, smallest first;
    `generations[id]` is the newest generation of that request, 0 if it is missing. An entry is
    live while its generation is the newest of its request, and stale from then on. Stale entries
    lie in the heap until a pop meets them. There are three events:
    `("push", id, key)`: the request waits, with this key. Count its generation up by 1 and push an
    entry with the new one. If it waited already, the older entry is stale by that.
    `("remove", id)`: it waits no more. Count its generation up by 1; the heap stays as it is.
    `("pop",)`: take entries off the top, up to and with the first live one. Count the generation of
    its request up by 1; the stale ones change nothing. `popped` is its id, None if none was live.
    For the other two events, `popped` is None. A generation is never forgotten or counted down.
    Leave the arguments as they are, and work on copies: somebody else still needs them.
    """
    # What lies in the heap cannot be found, only outdated. That takes a number which goes one way:
    # once it is forgotten, a push begins at 1 again, and an entry from long ago is live.
    heap, generations = list(heap), dict(generations)
    if event[0] == "push":
        _, request_id, key = event
        generations[request_id] = generations.get(request_id, 0) + 1
        heapq.heappush(heap, (key, request_id, generations[request_id]))
    elif event[0] == "remove":
        generations[event[1]] = generations.get(event[1], 0) + 1
    else:
        while heap:
            _, request_id, generation = heapq.heappop(heap)
            if generation == generations[request_id]:
                generations[request_id] += 1
                return heap, generations, request_id
    return heap, generations, None


def on_event_by_matching(
    heap: list[Entry], generations: dict[int, int], event: tuple
) -> tuple[list[Entry], dict[int, int], int | None]:
    newest = defaultdict(int, generations)
    entries = heap.copy()
    match event:
        case ("push", request_id, key):
            newest[request_id] += 1
            heapq.heappush(entries, (key, request_id, newest[request_id]))
        case ("remove", request_id):
            newest[request_id] += 1
        case ("pop",):
            while entries and entries[0][2] != newest[entries[0][1]]:
                heapq.heappop(entries)
            if entries:
                popped = heapq.heappop(entries)[1]
                newest[popped] += 1
                return entries, dict(newest), popped
    return entries, dict(newest), None


def on_event_in_a_sorted_list(
    heap: list[Entry], generations: dict[int, int], event: tuple
) -> tuple[list[Entry], dict[int, int], int | None]:
    # A sorted list is a heap as well.
    entries = sorted(heap)
    kind, *rest = event
    if kind == "pop":
        live = [n for n, (_, i, number) in enumerate(entries) if number == generations[i]]
        if not live:
            return [], dict(generations), None
        _, popped, number = entries[live[0]]
        return entries[live[0] + 1 :], {**generations, popped: number + 1}, popped
    number = generations.get(rest[0], 0) + 1
    if kind == "push":
        bisect.insort(entries, (rest[1], rest[0], number))
    return entries, generations | {rest[0]: number}, None


def on_event_by_popping_to_the_end(
    heap: list[Entry], generations: dict[int, int], event: tuple
) -> tuple[list[Entry], dict[int, int], int | None]:
    if len(event) > 1:
        request_id = event[1]
        newest = generations | {request_id: generations.get(request_id, 0) + 1}
        new = [(key, request_id, newest[request_id]) for key in event[2:]]
        entries = [*heap, *new]
        heapq.heapify(entries)
        return entries, newest, None
    entries = [*heap]
    try:
        newest = heapq.heappop(entries)[1:]
        if newest in generations.items():
            return entries, generations | {newest[0]: newest[1] + 1}, newest[0]
    except IndexError:
        return entries, generations.copy(), None
    return on_event_by_popping_to_the_end(entries, generations, event)


def _eventful(
    push: Callable[..., Any] | None = None,
    remove: Callable[..., Any] | None = None,
    pop: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The right answer but for what is given: push(heap, generations, id, key) and so on.

    Each works on copies, in place, and returns who is popped.
    """

    def answer(heap: list[Entry], generations: dict[int, int], event: tuple) -> Any:
        mine = {"push": push, "remove": remove, "pop": pop}[event[0]]
        if mine is None:
            return on_event(heap, generations, event)
        heap, generations = list(heap), dict(generations)
        popped = mine(heap, generations, *event[1:])
        return heap, generations, popped

    return answer


def _drops(heap: list[Entry], generations: dict[int, int], request_id: int) -> None:
    generations.pop(request_id, None)


def _drops_what_it_pops(heap: list[Entry], generations: dict[int, int]) -> int | None:
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generations.get(request_id) == generation:
            del generations[request_id]
            return request_id
    return None


def _pushes_as(number: Callable[[dict[int, int], int], int]) -> Callable[..., None]:
    def push(heap: list[Entry], generations: dict[int, int], request_id: int, key: tuple) -> None:
        generations[request_id] = number(generations, request_id)
        heapq.heappush(heap, (key, request_id, generations[request_id]))

    return push


def _counts_afterwards(
    heap: list[Entry], generations: dict[int, int], request_id: int, key: tuple
) -> None:
    heapq.heappush(heap, (key, request_id, generations.get(request_id, 0)))
    generations[request_id] = generations.get(request_id, 0) + 1


def _pushes_only_newcomers(
    heap: list[Entry], generations: dict[int, int], request_id: int, key: tuple
) -> None:
    if (request_id, generations.get(request_id, 0)) not in [entry[1:] for entry in heap]:
        generations[request_id] = generations.get(request_id, 0) + 1
        heapq.heappush(heap, (key, request_id, generations[request_id]))


def _appends(heap: list[Entry], generations: dict[int, int], request_id: int, key: tuple) -> None:
    generations[request_id] = generations.get(request_id, 0) + 1
    heap.append((key, request_id, generations[request_id]))


def _looks_for_it(heap: list[Entry], generations: dict[int, int], request_id: int) -> None:
    heap[:] = [entry for entry in heap if entry[1] != request_id]
    heapq.heapify(heap)
    generations[request_id] = generations.get(request_id, 0) + 1


def _replaces(heap: list[Entry], generations: dict[int, int], request_id: int, key: tuple) -> None:
    heap[:] = [entry for entry in heap if entry[1] != request_id]
    heap.append((key, request_id, generations.get(request_id, 0) + 1))
    heapq.heapify(heap)
    generations[request_id] = generations.get(request_id, 0) + 1


def _sweeps(heap: list[Entry], generations: dict[int, int]) -> int | None:
    heap[:] = sorted(entry for entry in heap if generations[entry[1]] == entry[2])
    if not heap:
        return None
    _, request_id, _ = heap.pop(0)
    generations[request_id] += 1
    return request_id


def _believes_the_top(heap: list[Entry], generations: dict[int, int]) -> int | None:
    if not heap:
        return None
    _, request_id, _ = heapq.heappop(heap)
    generations[request_id] += 1
    return request_id


def _looks_once(heap: list[Entry], generations: dict[int, int]) -> int | None:
    if not heap:
        return None
    _, request_id, generation = heapq.heappop(heap)
    if generation != generations[request_id]:
        return None
    generations[request_id] += 1
    return request_id


def _takes_the_live_one_out(heap: list[Entry], generations: dict[int, int]) -> int | None:
    for entry in sorted(heap):
        if entry[2] == generations[entry[1]]:
            heap.remove(entry)
            heapq.heapify(heap)
            generations[entry[1]] += 1
            return entry[1]
    return None


def _looks_only(heap: list[Entry], generations: dict[int, int]) -> int | None:
    while heap and heap[0][2] != generations[heap[0][1]]:
        heapq.heappop(heap)
    return heap[0][1] if heap else None


def _does_not_count(heap: list[Entry], generations: dict[int, int]) -> int | None:
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generation == generations[request_id]:
            return request_id
    return None


def _counts_every_one(heap: list[Entry], generations: dict[int, int]) -> int | None:
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        generations[request_id] += 1
        if generation == generations[request_id] - 1:
            return request_id
    return None


def _forgets_the_stale(heap: list[Entry], generations: dict[int, int]) -> int | None:
    while heap:
        _, request_id, generation = heapq.heappop(heap)
        if generation == generations.get(request_id):
            generations[request_id] += 1
            return request_id
        generations.pop(request_id, None)
    return None


def _pops_in_the_order_of(rank: Callable[[Entry], Any]) -> Callable[..., int | None]:
    def pop(heap: list[Entry], generations: dict[int, int]) -> int | None:
        heap.sort(key=rank)
        while heap:
            _, request_id, generation = heap.pop(0)
            if generation == generations[request_id]:
                generations[request_id] += 1
                heapq.heapify(heap)
                return request_id
        return None

    return pop


def _never_looks_whether_it_is_empty(heap: list[Entry], generations: dict[int, int]) -> int | None:
    while True:
        _, request_id, generation = heapq.heappop(heap)
        if generation == generations[request_id]:
            generations[request_id] += 1
            return request_id


def _instead_of_none(value: Any) -> Callable[..., Any]:
    def pop(heap: list[Entry], generations: dict[int, int]) -> Any:
        after, newest, popped = on_event(heap, generations, ("pop",))
        heap[:] = after
        generations.update(newest)
        return value if popped is None else popped

    return pop


def _gives_the_whole_entry(heap: list[Entry], generations: dict[int, int], event: tuple) -> Any:
    after, newest, popped = on_event(heap, generations, event)
    found = [entry for entry in heap if entry[1:] == (popped, generations.get(popped))]
    return after, newest, found[0] if found else None


def _says_whom(heap: list[Entry], generations: dict[int, int], event: tuple) -> Any:
    after, newest, popped = on_event(heap, generations, event)
    return after, newest, popped if event[0] == "pop" else event[1]


def _pushes_into_the_heap(heap: list[Entry], generations: dict[int, int], event: tuple) -> Any:
    after, newest, popped = on_event(heap, generations, event)
    heap[:] = after
    return heap, newest, popped


def _counts_in_the_generations(heap: list[Entry], generations: dict[int, int], event: tuple) -> Any:
    after, newest, popped = on_event(heap, generations, event)
    generations.update(newest)
    return after, generations, popped


# --- bump ------------------------------------------------------------------------------------


def bump(priority: int, now: int, deadline: int, remaining: int) -> int:
    """Return the priority that a request has at the moment `now`: urgent ones are lifted.

    0 is the highest priority. A request is urgent if its slack is at most 50 ms but not below 0:
    what is left of the time until `deadline` when the `remaining` time, which it needs at the very
    least, is taken off. It is lifted by 2 levels, and never above 0. All others stay as they are,
    and so do those who are too late: who cannot be saved gains nothing.
    `priority` is the request's own. The queue asks at every tick, always with this one, and the
    answer depends on nothing but the arguments.
    All times are in microseconds.
    """
    # A deadline alone does not say who is about to be late: the work that is left does. Below 0
    # the race is lost, and a lift would be paid for by somebody who can still win theirs.
    slack = deadline - now - remaining
    if 0 <= slack <= 50_000:
        return max(0, priority - 2)
    return priority


def bump_by_the_latest_start(priority: int, now: int, deadline: int, remaining: int) -> int:
    latest_start = deadline - remaining
    if latest_start < now or latest_start - 50_000 > now:
        return priority
    return max(priority, 2) - 2


def bump_in_a_range(priority: int, now: int, deadline: int, remaining: int) -> int:
    urgent = deadline - remaining - now in range(50_001)
    return sorted((0, priority - 2 * urgent, priority))[1]


def bump_by_levels(priority: int, now: int, deadline: int, remaining: int) -> int:
    finish = now + remaining
    levels = 2 if finish <= deadline <= finish + 50_000 else 0
    return priority - min(levels, priority)


def bump_by_cases(priority: int, now: int, deadline: int, remaining: int) -> int:
    slack = deadline - (now + remaining)
    if slack < 0:
        return priority
    if slack > 50_000:
        return priority
    return 0 if priority < 2 else priority - 2


def _bumping(
    when: Callable[[int], bool] = lambda slack: 0 <= slack <= 50_000,
    to: Callable[[int], int] = lambda priority: max(0, priority - 2),
) -> Callable[..., int]:
    """The right answer but for when(slack) a request is lifted, and to(priority) which level."""

    def answer(priority: int, now: int, deadline: int, remaining: int) -> int:
        return to(priority) if when(deadline - now - remaining) else priority

    return answer


def _by_the_deadline(when: Callable[[int], bool]) -> Callable[..., int]:
    return lambda priority, now, deadline, remaining: (
        max(0, priority - 2) if when(deadline - now) else priority
    )


def _until_the_deadline_is_past(priority: int, now: int, deadline: int, remaining: int) -> int:
    if now <= deadline and deadline - now - remaining <= 50_000:
        return max(0, priority - 2)
    return priority


def _at_every_millisecond(priority: int, now: int, deadline: int, remaining: int) -> int:
    slack = deadline - now - remaining
    while 0 <= slack <= 50_000 and priority > 0:
        priority = max(0, priority - 2)
        slack += 1000
    return priority


def _remembers() -> Callable[..., int]:
    """Begins where its last answer for the same deadline ended."""
    lifted: dict[int, int] = {}

    def answer(priority: int, now: int, deadline: int, remaining: int) -> int:
        before = lifted.get(deadline, priority)
        lifted[deadline] = bump(min(before, priority), now, deadline, remaining)
        return lifted[deadline]

    return answer


def _worse_for_the_late(priority: int, now: int, deadline: int, remaining: int) -> int:
    if deadline - now < remaining:
        return priority + 2
    return bump(priority, now, deadline, remaining)


# --- route -----------------------------------------------------------------------------------


def route(workers: "list[WorkerView]", hits: dict[int, int]) -> int:
    """Return the `id` of the worker to send a request to: where its prefill is done first.

    `workers` are those with room for it, at least one, in any order. Each has its `id`, its
    `backlog_tokens` (prompt tokens that it has promised to compute before this request's), its
    `num_running` requests, and more.
    `hits[id]` is how many tokens of the prompt that worker has in its cache and need not compute.
    Who has none is left out; a worker without room may be named, but cannot be chosen.
    Send the request where the backlog minus the hit is smallest. That may be below 0. Among equals
    take the worker with fewer running requests, and then the one with the lower id.
    Leave `workers` and `hits` as they are.
    """
    # Both are tokens to compute, so they can be weighed one to one. A hit that counts ten times
    # calls everybody with the same beginning to one worker, long after its queue has eaten it up.
    return min(
        workers,
        key=lambda worker: (
            worker.backlog_tokens - hits.get(worker.id, 0),
            worker.num_running,
            worker.id,
        ),
    ).id


def route_by_loop(workers: list[WorkerView], hits: dict[int, int]) -> int:
    best = None
    for worker in workers:
        left = worker.backlog_tokens
        if worker.id in hits:
            left -= hits[worker.id]
        rank = (left, worker.num_running, worker.id)
        if best is None or rank < best:
            best = rank
    return best[2]


def route_by_narrowing(workers: list[WorkerView], hits: dict[int, int]) -> int:
    left = {worker.id: worker.backlog_tokens - hits.get(worker.id, 0) for worker in workers}
    least = [worker for worker in workers if left[worker.id] == min(left.values())]
    fewest = min(worker.num_running for worker in least)
    return min(worker.id for worker in least if worker.num_running == fewest)


def route_from_a_heap(workers: list[WorkerView], hits: dict[int, int]) -> int:
    known = defaultdict(int, hits)
    order = [(w.backlog_tokens - known[w.id], w.num_running, w.id) for w in workers]
    heapq.heapify(order)
    return order[0][-1]


def route_by_stable_sorts(workers: list[WorkerView], hits: dict[int, int]) -> int:
    order = sorted(workers, key=lambda worker: worker.id)
    order.sort(key=lambda worker: worker.num_running)
    order.sort(key=lambda worker: hits.get(worker.id, 0) - worker.backlog_tokens, reverse=True)
    return order[0].id


def _source_s_score(worker: WorkerView, hit: int) -> float:
    utilisation = worker.num_running / worker.batch_size
    free_slots = worker.batch_size - worker.num_running
    return 10 * hit - 100 * utilisation + 0.1 * worker.kv_free_tokens + 0.5 * free_slots


def _routing(
    rank: Callable[[WorkerView, int], Any],
) -> Callable[[list[WorkerView], dict[int, int]], int]:
    """The worker with the smallest rank(worker, hit)."""
    return lambda workers, hits: min(workers, key=lambda w: rank(w, hits.get(w.id, 0))).id


def _knows_nobody_without_a_hit(workers: list[WorkerView], hits: dict[int, int]) -> int:
    return min(workers, key=lambda w: (w.backlog_tokens - hits[w.id], w.num_running, w.id)).id


def _one_of_those_with_a_hit(workers: list[WorkerView], hits: dict[int, int]) -> int:
    return route([worker for worker in workers if worker.id in hits] or workers, hits)


def _wherever_the_hit_is(workers: list[WorkerView], hits: dict[int, int]) -> int:
    if hits:
        return max(sorted(hits), key=lambda worker_id: hits[worker_id])
    return route(workers, hits)


def _the_place_in_the_list(workers: list[WorkerView], hits: dict[int, int]) -> int:
    ranks = [(w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id) for w in workers]
    return ranks.index(min(ranks))


def _sorts_the_workers(workers: list[WorkerView], hits: dict[int, int]) -> int:
    workers.sort(key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id))
    return workers[0].id


def _fills_in_the_hits(workers: list[WorkerView], hits: dict[int, int]) -> int:
    for worker in workers:
        hits.setdefault(worker.id, 0)
    return route(workers, hits)


# --- my_policy -------------------------------------------------------------------------------


def my_policy(snapshot: "FleetSnapshot") -> tuple[int, int] | None:
    """Return `(request_id, worker_id)`: who is given to which worker now. None ends the round.

    In a dispatch round you are asked again and again, each time with a new snapshot, until you
    answer None. The next round comes when somebody arrives or a worker ends what it runs.
    `snapshot.now_us` is the time, in microseconds like all times here.
    `snapshot.waiting` are those who wait, the oldest first, at most 64 of them. Each has its `id`,
    `priority` (0 is the highest), `arrival_us` and `deadline_us`, `known_tokens` and `left_tokens`
    (to generate), `remaining_us` (what it needs at least) and `kv_tokens_needed`.
    `snapshot.workers` have an `id`, `backlog_tokens`, `num_running` of `batch_size`, and
    `kv_free_tokens` of `kv_tokens`.
    `snapshot.hit_tokens[request_id][worker_id]` is how many tokens of the request that worker
    knows; whatever is 0 is left out, whole requests too.
    A worker has room for a request if `num_running` is below its `batch_size` and the request's
    `kv_tokens_needed` are at most its `kv_free_tokens`. Where there is no room nobody may be sent.

    Your policy serves 4 loads of 135 requests that you cannot see, with 3 workers. They come in
    waves, priorities 0 to 2 mixed, and have 200 ms, 500 ms or 1 s. What counts is attainment: the
    share of all requests that finish by their deadline. It passes if it is at least 20 percentage
    points above FIFO's on average, on no load more than 2 below, and no request waits longer than
    2 s for its first token. FIFO has the same workers and caches, sends each arrival to the next
    worker in turn, and lets it queue there.
    """
    # Time is given where it helps: the nearest deadline goes first, since those with more time can
    # wait for it, and what is too late already goes behind all others.

    def rank(request: WaitingView) -> tuple[bool, int]:
        is_lost = snapshot.now_us + request.remaining_us > request.deadline_us
        return is_lost, request.deadline_us

    for request in sorted(snapshot.waiting, key=rank):
        hits = snapshot.hit_tokens.get(request.id, {})
        able = [
            worker
            for worker in snapshot.workers
            if worker.num_running < worker.batch_size
            and request.kv_tokens_needed <= worker.kv_free_tokens
        ]
        if able:
            return request.id, route(able, hits)
    return None


def _pairs(snapshot: FleetSnapshot) -> list[tuple[WaitingView, WorkerView]]:
    return [
        (request, worker)
        for request in snapshot.waiting
        for worker in snapshot.workers
        if worker.num_running < worker.batch_size
        and worker.kv_free_tokens >= request.kv_tokens_needed
    ]


def _to_compute(snapshot: FleetSnapshot, request: WaitingView, worker: WorkerView) -> int:
    return worker.backlog_tokens - snapshot.hit_tokens.get(request.id, {}).get(worker.id, 0)


def my_policy_by_slack(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    best = None
    for request, worker in _pairs(snapshot):
        slack_us = request.deadline_us - snapshot.now_us - request.remaining_us
        waited_us = snapshot.now_us - request.arrival_us
        rank = (1 if slack_us >= 0 else 2, slack_us)
        if waited_us > 800_000:
            rank = (0, -waited_us)
        candidate = (rank, _to_compute(snapshot, request, worker), request.id, worker.id)
        best = candidate if best is None else min(best, candidate)
    return None if best is None else best[2:]


def my_policy_by_least_running(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """No prefixes, no backlog: the order alone is worth most of it."""
    now_us = snapshot.now_us
    order = sorted(
        _pairs(snapshot),
        key=lambda pair: (
            now_us - pair[0].arrival_us < 750_000,
            now_us + pair[0].remaining_us > pair[0].deadline_us,
            pair[0].deadline_us,
            pair[1].num_running,
        ),
    )
    return (order[0][0].id, order[0][1].id) if order else None


def my_policy_by_the_nearest_deadline(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    pairs = _pairs(snapshot)
    if not pairs:
        return None
    request, worker = min(pairs, key=lambda pair: (pair[0].deadline_us, pair[1].backlog_tokens))
    return request.id, worker.id


def my_policy_by_aged_priority(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """The order of the lesson's own fleet: a level is worth a quarter of a second of waiting."""
    waiting = sorted(snapshot.waiting, key=lambda r: r.arrival_us + 250_000 * r.priority)
    for request in waiting:
        for worker in sorted(snapshot.workers, key=lambda each: each.num_running):
            if (request, worker) in _pairs(snapshot):
                return request.id, worker.id
    return None


def my_policy_by_points(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """One number for everything: level, age, and what the worker has to compute first."""

    def points(pair: tuple[WaitingView, WorkerView]) -> float:
        request, worker = pair
        waited_ms = (snapshot.now_us - request.arrival_us) / 1000
        can_make_it = snapshot.now_us + request.remaining_us <= request.deadline_us
        value = 600 * can_make_it + 200 * (2 - request.priority)
        if waited_ms > 850:
            value += 2000 + waited_ms
        return value - _to_compute(snapshot, request, worker) / 20

    pairs = _pairs(snapshot)
    if not pairs:
        return None
    request, worker = max(pairs, key=points)
    return request.id, worker.id


def _first_by(rank: Callable[[FleetSnapshot, WaitingView], Any]) -> Callable[..., Any]:
    """Whoever has the smallest rank(snapshot, request), where there is least to compute."""

    def policy(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        ranks = [
            (rank(snapshot, request), _to_compute(snapshot, request, worker), worker.id, request.id)
            for request, worker in _pairs(snapshot)
        ]
        return min(ranks)[:1:-1] if ranks else None

    return policy


def _is_lost(snapshot: FleetSnapshot, request: WaitingView) -> bool:
    return snapshot.now_us + request.remaining_us > request.deadline_us


def _the_nearest_deadline_of_all(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    request = min(snapshot.waiting, key=lambda request: request.deadline_us)
    for worker in snapshot.workers:
        if (request, worker) in _pairs(snapshot):
            return request.id, worker.id
    return None


def _anybody_anywhere(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    if not snapshot.waiting:
        return None
    request = snapshot.waiting[0]
    return request.id, route(list(snapshot.workers), snapshot.hit_tokens.get(request.id, {}))


def _a_place_in_the_batch(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    for request in snapshot.waiting:
        for worker in snapshot.workers:
            if worker.num_running < worker.batch_size:
                return request.id, worker.id
    return None


def _where_it_is_known(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    for request, worker in _pairs(snapshot):
        if worker.id in snapshot.hit_tokens.get(request.id, {}):
            return request.id, worker.id
    return None


def _in_turn(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    for request, worker in _pairs(snapshot):
        if worker is snapshot.workers[request.id % len(snapshot.workers)]:
            return request.id, worker.id
    return None


def _one_worker(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    least = min(snapshot.workers, key=lambda worker: worker.kv_tokens - worker.id)
    alone = my_policy(replace(snapshot, workers=(least,)))
    return alone or (None if len(snapshot.waiting) > 1 else my_policy(snapshot))


def _places_in_the_lists(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    pairs = _pairs(snapshot)
    if not pairs:
        return None
    return snapshot.waiting.index(pairs[0][0]), snapshot.workers.index(pairs[0][1])


def _a_number_of_the_worker(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    decision = my_policy(snapshot)
    return None if decision is None else (decision[0], decision[1] + len(snapshot.workers))


# --- the lists that tests read ---------------------------------------------------------------

RIGHT: dict[str, tuple[Callable[..., Any], ...]] = {
    "l07.on_event": (
        on_event,
        on_event_by_matching,
        on_event_in_a_sorted_list,
        on_event_by_popping_to_the_end,
    ),
    "l07.bump": (bump, bump_by_the_latest_start, bump_in_a_range, bump_by_levels, bump_by_cases),
    "l07.route": (
        route,
        route_by_loop,
        route_by_narrowing,
        route_from_a_heap,
        route_by_stable_sorts,
    ),
    "l07.my_policy": (
        my_policy,
        my_policy_by_slack,
        my_policy_by_least_running,
        my_policy_by_the_nearest_deadline,
        my_policy_by_aged_priority,
        my_policy_by_points,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l07.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


def _on_event(
    key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return _wrong("on_event", key, misconception, function, name)


def _bump(
    key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return _wrong("bump", key, misconception, function, name)


def _route(
    key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return _wrong("route", key, misconception, function, name)


def _my_policy(
    key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return _wrong("my_policy", key, misconception, function, name)


_WRONG_EVENTS = (
    _on_event("drops_the_counter", "Who is gone needs no number.", _eventful(remove=_drops)),
    _on_event(
        "drops_the_counter",
        "Gone is gone, removed or popped.",
        _eventful(remove=_drops, pop=_drops_what_it_pops),
        "drops the counter always",
    ),
    _on_event(
        "drops_the_counter",
        "Nobody there is generation 0.",
        _eventful(remove=lambda heap, generations, i: generations.update({i: 0})),
        "sets it to 0",
    ),
    _on_event(
        "drops_the_counter",
        "What a push counts up, a removal counts down.",
        _eventful(remove=lambda heap, generations, i: generations.update({i: generations[i] - 1})),
        "counts down",
    ),
    _on_event(
        "removes_only_what_it_knows",
        "Nothing is to be removed that was never there.",
        _eventful(
            remove=lambda heap, generations, i: generations.update(
                {i: generations[i] + 1} if i in generations else {}
            )
        ),
    ),
    _on_event(
        "key_error",
        "Only what was pushed is ever removed.",
        _eventful(remove=lambda heap, generations, i: generations.update({i: generations[i] + 1})),
    ),
    _on_event(
        "pop_drops_the_counter",
        "Who was served needs no number.",
        _eventful(pop=_drops_what_it_pops),
    ),
    _on_event(
        "reuses_the_generation",
        "Only a removal makes an entry stale.",
        _eventful(_pushes_as(lambda generations, i: generations.get(i, 1))),
    ),
    _on_event(
        "reuses_the_generation",
        "A new entry is generation 1.",
        _eventful(_pushes_as(lambda generations, i: 1)),
        "begins at 1",
    ),
    _on_event(
        "one_counter_for_all",
        "The newest push has the highest number.",
        _eventful(_pushes_as(lambda generations, i: max(generations.values(), default=0) + 1)),
    ),
    _on_event("stale_at_once", "Push, then count.", _eventful(_counts_afterwards)),
    _on_event("keeps_the_old_key", "It waits already.", _eventful(_pushes_only_newcomers)),
    _on_event(
        "removed_is_live",
        "The pop will notice.",
        _eventful(remove=lambda heap, generations, i: None),
    ),
    _on_event("not_lazy", "Removed is removed.", _eventful(remove=_looks_for_it)),
    _on_event(
        "not_lazy", "One entry for each request.", _eventful(_replaces), "replaces the old entry"
    ),
    _on_event("not_lazy", "Tidy up before every pop.", _eventful(pop=_sweeps), "sweeps"),
    _on_event("pops_the_stale", "The top is the next one.", _eventful(pop=_believes_the_top)),
    _on_event("gives_up", "If the top is stale, nobody waits.", _eventful(pop=_looks_once)),
    _on_event(
        "leaves_the_stale",
        "Only the one that is popped leaves.",
        _eventful(pop=_takes_the_live_one_out),
    ),
    _on_event("still_in_the_heap", "The top is heap[0].", _eventful(pop=_looks_only)),
    _on_event(
        "pop_does_not_count", "It is out of the heap anyway.", _eventful(pop=_does_not_count)
    ),
    _on_event("stale_counts", "Every pop counts.", _eventful(pop=_counts_every_one)),
    _on_event(
        "stale_forgotten",
        "What is stale can be forgotten.",
        _eventful(pop=_forgets_the_stale),
    ),
    _on_event(
        "not_the_smallest",
        "Ids say who came first.",
        _eventful(pop=_pops_in_the_order_of(lambda entry: entry[1])),
    ),
    _on_event(
        "not_the_smallest",
        "The highest priority is the highest number.",
        _eventful(pop=_pops_in_the_order_of(lambda entry: [-part for part in entry[0]])),
        "largest first",
    ),
    _on_event("not_a_heap", "A heap is a list.", _eventful(_appends)),
    _on_event(
        "empty_raises", "A pop finds somebody.", _eventful(pop=_never_looks_whether_it_is_empty)
    ),
    _on_event("empty_gives_something", "-1 is nobody.", _eventful(pop=_instead_of_none(-1))),
    _on_event("gives_the_entry", "Whoever pops knows what to do.", _gives_the_whole_entry),
    _on_event("only_a_pop", "Say whom it was about.", _says_whom),
    _on_event("in_place", "heapq works in place.", _pushes_into_the_heap),
    _on_event(
        "in_place", "A counter is there to count.", _counts_in_the_generations, "counts in place"
    ),
    _on_event(
        "not_three",
        "The generations are changed as well.",
        lambda heap, generations, event: on_event(heap, generations, event)[::2],
    ),
    _on_event(
        "not_an_entry",
        "The id comes first.",
        lambda heap, generations, event: (
            [(entry[1], entry[0], entry[2]) for entry in on_event(heap, generations, event)[0]],
            *on_event(heap, generations, event)[1:],
        ),
    ),
    _on_event("no_return", "The heap is changed.", lambda heap, generations, event: None),
)

_WRONG_BUMPS = (
    _bump("bumps_the_dead", "The later, the more urgent.", _bumping(lambda slack: slack <= 50_000)),
    _bump(
        "bumps_the_dead",
        "Around the deadline.",
        _bumping(lambda slack: abs(slack) <= 50_000),
        "around the deadline",
    ),
    _bump(
        "bumps_the_dead",
        "Late is late when the deadline is past.",
        _until_the_deadline_is_past,
        "until the deadline is past",
    ),
    _bump(
        "ignores_the_work",
        "50 ms before the deadline it gets urgent.",
        _by_the_deadline(lambda left: 0 <= left <= 50_000),
    ),
    _bump(
        "ignores_the_work",
        "Less than 50 ms, as in the source.",
        _by_the_deadline(lambda left: left <= 50_000),
        "source's urgency",
    ),
    _bump("wrong_direction", "More urgent is more.", _bumping(to=lambda priority: priority + 2)),
    _bump(
        "wrong_direction",
        "9 is the most urgent, as in the source.",
        _bumping(to=lambda priority: min(9, priority + 2)),
        "up to 9",
    ),
    _bump("below_zero", "Two levels are two levels.", _bumping(to=lambda priority: priority - 2)),
    _bump(
        "not_at_the_top",
        "Without two levels of room there is no lift.",
        _bumping(to=lambda priority: priority - 2 if priority >= 2 else priority),
    ),
    _bump("wrong_levels", "One up.", _bumping(to=lambda priority: max(0, priority - 1))),
    _bump("wrong_levels", "Urgent goes first.", _bumping(to=lambda priority: 0), "to the top"),
    _bump("compounds", "The longer, the more urgent.", _at_every_millisecond),
    _bump("compounds", "It was lifted before.", _remembers(), "remembers"),
    _bump("wrong_unit", "Times are in milliseconds.", _bumping(lambda slack: 0 <= slack <= 50)),
    _bump(
        "wrong_unit",
        "Times are in seconds.",
        _bumping(lambda slack: 0 <= slack <= 0.05),
        "seconds",
    ),
    _bump("edge_of_50_ms", "Less than 50 ms.", _bumping(lambda slack: 0 <= slack < 50_000)),
    _bump("slack_of_0", "No slack is too late.", _bumping(lambda slack: 0 < slack <= 50_000)),
    _bump("punishes_the_dead", "Who is late can wait.", _worse_for_the_late),
    _bump("turned_round", "Lift those with time.", _bumping(lambda slack: slack > 50_000)),
    _bump(
        "sign",
        "Its work comes on top.",
        lambda priority, now, deadline, remaining: bump(priority, now, deadline, -remaining),
    ),
    _bump(
        "sign_of_the_time",
        "What is left from the deadline.",
        lambda priority, now, deadline, remaining: bump(priority, deadline, now, remaining),
    ),
    _bump("only_the_dead", "Who is late needs help.", _bumping(lambda slack: slack < 0)),
    _bump("always", "Lift it.", _bumping(lambda slack: True)),
    _bump("never", "Priorities are fixed.", _bumping(lambda slack: False)),
    _bump(
        "by_how_much",
        "By how much is it lifted?",
        lambda priority, *times: priority - bump(priority, *times),
    ),
    _bump(
        "rounded",
        "In milliseconds it is easier.",
        lambda priority, now, deadline, remaining: (
            max(0, priority - 2) if 0 <= (deadline - now - remaining) // 1000 <= 50 else priority
        ),
    ),
    _bump("no_return", "Lifted in place.", lambda priority, *times: None),
)

_WRONG_ROUTES = (
    _route(
        "hotspot", "As in the source.", _routing(lambda w, hit: (-_source_s_score(w, hit), w.id))
    ),
    _route(
        "hotspot",
        "A hit counts ten times.",
        _routing(lambda w, hit: (w.backlog_tokens - 10 * hit, w.num_running, w.id)),
        "ten times",
    ),
    _route(
        "hotspot",
        "A hit counts twice.",
        _routing(lambda w, hit: (w.backlog_tokens - 2 * hit, w.num_running, w.id)),
        "twice",
    ),
    _route(
        "chases_hits",
        "The longest hit.",
        _routing(lambda w, hit: (-hit, w.num_running, w.id)),
    ),
    _route(
        "chases_hits",
        "The longest hit, and among equals the shorter backlog.",
        _routing(lambda w, hit: (-hit, w.backlog_tokens, w.num_running, w.id)),
        "longest hit first",
    ),
    _route("only_those_with_a_hit", "A hit is a hit.", _one_of_those_with_a_hit),
    _route(
        "ignores_hits",
        "The shortest queue.",
        _routing(lambda w, hit: (w.backlog_tokens, w.num_running, w.id)),
    ),
    _route(
        "adds_the_running",
        "Every request takes its time.",
        _routing(lambda w, hit: (w.backlog_tokens - hit + w.num_running, w.id)),
    ),
    _route(
        "hits_by_place",
        "The first worker is number 0.",
        lambda workers, hits: min(
            (w.backlog_tokens - hits.get(place, 0), w.num_running, w.id)
            for place, w in enumerate(workers)
        )[2],
    ),
    _route(
        "hit_only_among_equals",
        "The shortest queue, and among equals the longest hit.",
        _routing(lambda w, hit: (w.backlog_tokens, -hit, w.num_running, w.id)),
    ),
    _route(
        "sign",
        "Add both up.",
        _routing(lambda w, hit: (w.backlog_tokens + hit, w.num_running, w.id)),
    ),
    _route(
        "the_last",
        "The largest wins.",
        _routing(lambda w, hit: (hit - w.backlog_tokens, w.num_running, w.id)),
        "largest",
    ),
    _route(
        "clamped",
        "Less than nothing is nothing.",
        _routing(lambda w, hit: (max(0, w.backlog_tokens - hit), w.num_running, w.id)),
    ),
    _route(
        "by_the_running",
        "The least running.",
        _routing(lambda w, hit: (w.num_running, w.backlog_tokens - hit, w.id)),
    ),
    _route(
        "by_the_running",
        "The least running, whatever they do.",
        _routing(lambda w, hit: (w.num_running, w.id)),
        "least running",
    ),
    _route(
        "by_the_free_kv",
        "Where there is most room.",
        _routing(lambda w, hit: (-w.kv_free_tokens, w.id)),
    ),
    _route(
        "tie",
        "Ids are as good as anything.",
        _routing(lambda w, hit: (w.backlog_tokens - hit, w.id)),
    ),
    _route(
        "tie",
        "Among equals the first in the list.",
        _routing(lambda w, hit: w.backlog_tokens - hit),
        "first of the list",
    ),
    _route(
        "tie",
        "Among equals the longer hit.",
        _routing(lambda w, hit: (w.backlog_tokens - hit, -hit, w.num_running, w.id)),
        "longer hit",
    ),
    _route("no_room_there", "Where the hit is.", _wherever_the_hit_is),
    _route("key_error", "Every worker has a hit.", _knows_nobody_without_a_hit),
    _route("list_order", "One after the other.", lambda workers, hits: workers[0].id),
    _route("index", "Which one of the list?", _the_place_in_the_list),
    _route(
        "the_worker_itself",
        "A worker is wanted.",
        lambda workers, hits: next(w for w in workers if w.id == route(workers, hits)),
    ),
    _route("not_an_id", "There may be several.", lambda workers, hits: [route(workers, hits)]),
    _route("in_place", "Sort them, take the first.", _sorts_the_workers),
    _route("in_place", "Fill in what is missing.", _fills_in_the_hits, "fills in"),
    _route("no_return", "Sent is sent.", lambda workers, hits: None),
)

_WRONG_POLICIES = (
    _my_policy("never", "Nobody has to go.", lambda snapshot: None),
    _my_policy("never", "Only where the prompt is known.", _where_it_is_known, "where it is known"),
    _my_policy(
        "never",
        "The first worker is enough.",
        lambda snapshot: my_policy(
            replace(snapshot, workers=tuple(each for each in snapshot.workers if each.id == 0))
        ),
        "worker 0 only",
    ),
    _my_policy("empty_raises", "Somebody waits.", _the_nearest_deadline_of_all),
    _my_policy("full_batch", "The best worker of all.", _anybody_anywhere),
    _my_policy("no_room", "A place in the batch is enough.", _a_place_in_the_batch),
    _my_policy(
        "swapped", "Worker first.", lambda snapshot: (my_policy(snapshot) or ())[::-1] or None
    ),
    _my_policy("unknown_request", "Which of those who wait?", _places_in_the_lists),
    _my_policy("unknown_worker", "Workers count on.", _a_number_of_the_worker),
    _my_policy(
        "not_a_pair",
        "A request and a worker.",
        lambda snapshot: next(iter(_pairs(snapshot)), None),
    ),
    _my_policy(
        "not_a_pair", "Who is next?", lambda snapshot: (my_policy(snapshot) or [None])[0], "id"
    ),
    _my_policy(
        "left_out",
        "What is too late is not worth a place.",
        lambda snapshot: my_policy(
            replace(
                snapshot,
                waiting=tuple(each for each in snapshot.waiting if not _is_lost(snapshot, each)),
            )
        ),
    ),
    _my_policy(
        "takes_the_patient",
        "The shortest first.",
        _first_by(lambda snapshot, request: request.remaining_us),
        "shortest first",
    ),
    _my_policy(
        "takes_the_patient",
        "The newest first: the old ones are late anyway.",
        _first_by(lambda snapshot, request: -request.arrival_us),
        "newest first",
    ),
    _my_policy(
        "takes_the_patient",
        "A large slack is a good one.",
        _first_by(lambda snapshot, request: snapshot.now_us - request.deadline_us),
        "most time first",
    ),
    _my_policy(
        "takes_the_patient",
        "The oldest that can still make it.",
        _first_by(lambda snapshot, request: (_is_lost(snapshot, request), request.arrival_us)),
        "savable by arrival",
    ),
    _my_policy(
        "arrival_order",
        "First come, first served, where it fits.",
        _first_by(lambda snapshot, request: request.arrival_us),
    ),
    _my_policy("holds_back", "Each worker in turn.", _in_turn),
    _my_policy("holds_back", "One worker is enough.", _one_worker, "one worker"),
    _my_policy(
        "serves_the_lost",
        "A level is worth a tenth of a second.",
        _first_by(lambda snapshot, request: request.arrival_us + 100_000 * request.priority),
        "a little priority",
    ),
)

WRONG: tuple[WrongAnswer, ...] = (
    *_WRONG_EVENTS,
    *_WRONG_BUMPS,
    *_WRONG_ROUTES,
    *_WRONG_POLICIES,
)

# What a weaker answer is still right about, and why: exercise: {weakening: reason}.
STILL_RIGHT = {"l07.route": {"workers: reversed": "they come in any order"}}
