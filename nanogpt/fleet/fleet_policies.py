"""The fleet's exchangeable decisions, and checks of their answers.

An answer that a run cannot go on with is refused in one sentence; every other answer takes effect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.decisions import Entry, Event
from nanogpt.fleet.fleet_views import FleetSnapshot, WorkerView
from nanogpt.validate import PolicyError, refused, validated

ApplyEvent = Callable[
    [Sequence[Entry], Mapping[int, int], Event], tuple[list[Entry], dict[int, int], int | None]
]
"""(heap, generations, event) -> the new heap, the new generations, the popped request or None."""
BoostedPriority = Callable[[int, int, int, int], int]
"""(priority, now, deadline, remaining) -> priority; times in microseconds."""
Route = Callable[[Sequence[WorkerView], Mapping[int, int]], int]
"""(workers with room, hit tokens by worker id) -> the id of one of the workers."""
Decide = Callable[[FleetSnapshot], tuple[int, int] | None]
"""One dispatch as (request id, worker id), or None for no dispatch now."""


@dataclass(frozen=True, slots=True)
class FleetPolicies:
    """The fleet's policy as functions; each defaults to the reference.

    `boosted_priority` is asked with urgency "savable", `route` with routing "backlog",
    `apply_event` wherever there is one queue. `decide` takes the place of order, urgency, routing
    and preemption: it is asked again and again in every dispatch round until it answers None.
    """

    apply_event: ApplyEvent = policy.apply_event
    boosted_priority: BoostedPriority = policy.boosted_priority
    route: Route = policy.route
    decide: Decide | None = None


REFERENCE = FleetPolicies()


def validated_fleet_policies(policies: FleetPolicies) -> FleetPolicies:
    """The same policies; those that are not the reference have their answers validated."""
    return validated(policies, _ANSWERS)


def _apply_event(answer: Any, heap: Any, generations: Any, event: Event) -> Any:
    match answer:
        case (list() as entries, dict() as latest, popped) if (
            popped is None or type(popped) is int
        ) and all(isinstance(entry, list | tuple) and len(entry) == 3 for entry in entries):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return entries, latest, popped  # pyright: ignore[reportUnknownVariableType]
        case _:
            wanted = "(a list of (key, id, generation), a dict of generations, an id or None)"
            raise refused(f"apply_event for {event!r}", answer, wanted)


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
        raise PolicyError(f"decide dispatched request {request_id}, which is not waiting")
    if worker is None:
        ids = [each.id for each in snapshot.workers]
        raise PolicyError(f"decide dispatched to worker {worker_id}; the workers are {ids}")
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
    "apply_event": _apply_event,
    "boosted_priority": _boosted_priority,
    "route": routed,
    "decide": _decided,
}
