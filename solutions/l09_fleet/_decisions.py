"""Illegal decisions: no such request or worker, or no room."""

from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from course.harness import Failure
from nanogpt.fleet.decisions import route
from nanogpt.views.fleet_views import FleetSnapshot
from solutions.l09_fleet._policies import pairs, reference

Decision = tuple[int, int] | None


def any_worker(snapshot: FleetSnapshot) -> Decision:
    if not snapshot.waiting:
        return None
    request = snapshot.waiting[0]
    return request.id, route(snapshot.workers, snapshot.hit_tokens.get(request.id, {}))


def any_place_in_a_batch(snapshot: FleetSnapshot) -> Decision:
    for request in snapshot.waiting:
        for worker in snapshot.workers:
            if worker.num_running < worker.batch_size:
                return request.id, worker.id
    return None


def places_in_the_lists(snapshot: FleetSnapshot) -> Decision:
    for request, worker in pairs(snapshot):
        return snapshot.waiting.index(request), snapshot.workers.index(worker)
    return None


def numbered_from_the_last(snapshot: FleetSnapshot) -> Decision:
    decision = reference(snapshot)
    return decision and (decision[0], decision[1] + len(snapshot.workers))


NOT_A_PAIR = Misconception(
    "not_a_pair",
    "A decision is a request and a worker.",
    lambda kind: f"Return `(request_id, worker_id)` or None, not {kind}.",
    examples=((lambda snapshot: next(iter(pairs(snapshot)), None)),),
)
SWAPPED = Misconception(
    "swapped",
    "The worker comes first.",
    "The request comes first, then the worker: `(request_id, worker_id)`.",
    examples=(lambda snapshot: (reference(snapshot) or ())[::-1] or None,),
)
UNKNOWN_REQUEST = Misconception(
    "unknown_request",
    "A request is named by its place in `waiting`.",
    lambda id: f"No request {id} waits: return the `id` of one of `snapshot.waiting`, or None.",
    examples=(places_in_the_lists,),
)
UNKNOWN_WORKER = Misconception(
    "unknown_worker",
    "A worker is named by its place in a list.",
    lambda id: (
        f"There is no worker {id}: return the `id` of one of `snapshot.workers`, not its place in "
        "the list."
    ),
    examples=(numbered_from_the_last,),
)
FULL_BATCH = Misconception(
    "full_batch",
    "The best worker always has room.",
    lambda id: (
        f"The batch of worker {id} is full: only a worker with `num_running` below its "
        "`batch_size` can take another request."
    ),
    examples=(any_worker,),
)
NO_ROOM = Misconception(
    "no_room",
    "A free slot in the batch is room enough.",
    lambda id, needed, worker_id, free: (
        f"Request {id} needs {needed} KV tokens and worker {worker_id} has only {free} free. "
        "Compare them before you send it."
    ),
    examples=(any_place_in_a_batch,),
)
ILLEGAL = (NOT_A_PAIR, SWAPPED, UNKNOWN_REQUEST, UNKNOWN_WORKER, FULL_BATCH, NO_ROOM)


def pair_of(decision: Any) -> Decision:
    """The decision's two ids; None for anything else."""
    ids = [as_whole(part) for part in as_items(decision) or ()]
    return (ids[0], ids[1]) if len(ids) == 2 and ids[0] is not None and ids[1] is not None else None


def illegal(snapshot: FleetSnapshot, decision: Any) -> Failure | None:
    """Why the decision is illegal; None for a legal one."""
    if decision is None:
        return None
    pair = pair_of(decision)
    if pair is None:
        return NOT_A_PAIR.failure(
            (), a_kind(decision) if as_items(decision) is None else "this one"
        )
    request_id, worker_id = pair
    waiting = {each.id: each for each in snapshot.waiting}
    workers = {each.id: each for each in snapshot.workers}
    if request_id not in waiting or worker_id not in workers:
        if worker_id in waiting and request_id in workers:
            return SWAPPED.failure(())
        if request_id not in waiting:
            return UNKNOWN_REQUEST.failure((), request_id)
        return UNKNOWN_WORKER.failure((), worker_id)
    request, worker = waiting[request_id], workers[worker_id]
    if worker.num_running >= worker.batch_size:
        return FULL_BATCH.failure((), worker_id)
    if request.kv_tokens_needed > worker.kv_free_tokens:
        needed, free = request.kv_tokens_needed, worker.kv_free_tokens
        return NO_ROOM.failure((), request_id, needed, worker_id, free)
    return None
