"""The fleet's exchangeable decisions, and checks of their answers.

An answer that a run cannot go on with is refused in one sentence; every other answer takes effect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.decisions import Entry
from nanogpt.validate import PolicyError, refused, show, validated
from nanogpt.views.fleet_views import FleetSnapshot, WorkerView

PopLive = Callable[[list[Entry], dict[int, int]], tuple[int | None, list[Entry]]]
"""(heap, newest generations) -> the first live request or None, and the heap after its pop."""
BoostedPriority = Callable[[int, int, int, int], int]
"""(priority, now, deadline, remaining) -> priority; times in microseconds."""
Route = Callable[[Sequence[WorkerView], Mapping[int, int]], int]
"""(workers with room, hit tokens by worker id) -> the id of one of the workers."""
Decide = Callable[[FleetSnapshot], tuple[int, int] | None]
"""One dispatch as (request id, worker id), or None for no dispatch now."""


@dataclass(frozen=True, slots=True)
class FleetPolicies:
    """The fleet's policy as functions; each defaults to the reference.

    `pop_live` pops from every queue. `boosted_priority` is called with urgency "savable", `route`
    with routing "backlog". `decide` replaces order, urgency, routing and preemption: every dispatch
    round calls it until it returns None.
    """

    pop_live: PopLive = policy.pop_live
    boosted_priority: BoostedPriority = policy.boosted_priority
    route: Route = policy.route
    decide: Decide | None = None


REFERENCE = FleetPolicies()


def validated_fleet_policies(policies: FleetPolicies) -> FleetPolicies:
    """The same policies; those that are not the reference have their answers validated."""
    return validated(policies, _ANSWERS)


def _popped(answer: Any, heap: Any, newest: Any) -> Any:
    match answer:
        case (popped, list() as entries) if (popped is None or type(popped) is int) and all(
            isinstance(entry, list | tuple) and len(entry) == 3  # pyright: ignore[reportUnknownArgumentType]
            for entry in entries  # pyright: ignore[reportUnknownVariableType]
        ):
            return popped, entries  # pyright: ignore[reportUnknownVariableType]
        case _:
            raise refused("pop_live", answer, "(an id or None, a list of (key, id, generation))")


def _boosted_priority(value: Any, *args: int) -> int:
    if type(value) is not int or value < 0:
        raise refused(f"boosted_priority{args}", value, "a whole number, at least 0")
    return value


def routed(chosen: Any, workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
    """The answer of a `route`. Raises: PolicyError unless it is the id of one of the workers."""
    ids = [worker.id for worker in workers]
    if type(chosen) is not int or chosen not in ids:
        raise refused("route", chosen, f"one of {ids}, the workers with room")
    return chosen


def _decided(answer: Any, snapshot: FleetSnapshot) -> tuple[int, int] | None:
    match answer:
        case None:
            return None
        case (request_id, worker_id) if type(request_id) is type(worker_id) is int:
            pass
        case _:
            raise refused("decide", answer, "(request id, worker id) or None")
    waiting = next((each for each in snapshot.waiting if each.id == request_id), None)
    worker = next((each for each in snapshot.workers if each.id == worker_id), None)
    if waiting is None:
        raise PolicyError(f"decide dispatched request {show(request_id)}, which is not waiting")
    if worker is None:
        ids = [each.id for each in snapshot.workers]
        raise PolicyError(f"decide dispatched to worker {show(worker_id)}; the workers are {ids}")
    if worker.num_running >= worker.batch_size:
        raise PolicyError(
            f"decide dispatched request {request_id} to worker {worker_id}, whose batch of "
            f"{worker.batch_size} is full"
        )
    if waiting.kv_tokens_needed > worker.kv_free_tokens:
        raise PolicyError(
            f"decide dispatched request {request_id}, which needs {waiting.kv_tokens_needed} KV "
            f"tokens, to worker {worker_id}, which has {worker.kv_free_tokens} free"
        )
    return request_id, worker_id


_ANSWERS: dict[str, Callable[..., Any]] = {
    "pop_live": _popped,
    "boosted_priority": _boosted_priority,
    "route": routed,
    "decide": _decided,
}
