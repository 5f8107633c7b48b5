"""Parts of policies, and the reference that a learner's policy is measured against."""

from collections.abc import Callable
from typing import Any

from nanogpt.fleet.decisions import route
from nanogpt.views.fleet_views import FleetSnapshot, WaitingView, WorkerView


def has_room(request: WaitingView, worker: WorkerView) -> bool:
    """Whether the worker could take the request now."""
    return (
        worker.num_running < worker.batch_size and request.kv_tokens_needed <= worker.kv_free_tokens
    )


def is_lost(snapshot: FleetSnapshot, request: WaitingView) -> bool:
    """Whether the request misses its deadline whatever happens."""
    return snapshot.now_us + request.remaining_us > request.deadline_us


def pairs(snapshot: FleetSnapshot) -> list[tuple[WaitingView, WorkerView]]:
    """Every request with each worker that has room for it."""
    return [
        (request, worker)
        for request in snapshot.waiting
        for worker in snapshot.workers
        if has_room(request, worker)
    ]


def to_compute(snapshot: FleetSnapshot, request: WaitingView, worker: WorkerView) -> int:
    """The worker's backlog minus its hit for this request."""
    return worker.backlog_tokens - snapshot.hit_tokens.get(request.id, {}).get(worker.id, 0)


def reference(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """The nearest deadline that can still be met, then the others; by backlog minus hit."""
    for request in sorted(
        snapshot.waiting, key=lambda each: (is_lost(snapshot, each), each.deadline_us)
    ):
        able = [worker for worker in snapshot.workers if has_room(request, worker)]
        if able:
            return request.id, route(able, snapshot.hit_tokens.get(request.id, {}))
    return None


def first_by(rank: Callable[[FleetSnapshot, WaitingView], Any]) -> Callable[..., Any]:
    """The request with the smallest rank, at the worker with the least to compute."""

    def policy(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        ranks = [
            (rank(snapshot, request), to_compute(snapshot, request, worker), worker.id, request.id)
            for request, worker in pairs(snapshot)
        ]
        return (min(ranks)[3], min(ranks)[2]) if ranks else None

    return policy
