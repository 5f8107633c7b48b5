"""The fleet's decisions that may be replaced, and what they may answer.

An answer that a run could not go on with is refused in one sentence; every other one acts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.decisions import Entry, Event
from nanogpt.fleet.views import FleetSnapshot, WorkerView
from nanogpt.validate import PartError, refused, validated


class OnEvent(Protocol):
    """One operation on a heap with lazy deletion; see `policy.on_event`."""

    def __call__(
        self, heap: Sequence[Entry], generations: Mapping[int, int], event: Event, /
    ) -> tuple[list[Entry], dict[int, int], int | None]:
        """The new heap, the new generations, and what was popped."""
        ...


class Bump(Protocol):
    """A waiting request's priority at this moment; see `policy.bump`."""

    def __call__(self, priority: int, now: int, deadline: int, remaining: int, /) -> int:
        """Times in microseconds."""
        ...


class Route(Protocol):
    """Which worker gets a request; see `policy.route`."""

    def __call__(self, workers: Sequence[WorkerView], hits: Mapping[int, int], /) -> int:
        """Name one of the workers, all of which have room, by id."""
        ...


class Decide(Protocol):
    """A whole policy: what goes where next."""

    def __call__(self, snapshot: FleetSnapshot, /) -> tuple[int, int] | None:
        """(request id, worker id) of one dispatch, or None when none is to go now."""
        ...


@dataclass(frozen=True, slots=True)
class FleetParts:
    """The fleet's policy as functions; each defaults to the reference.

    `bump` is asked with urgency "savable", `route` with routing "backlog", `on_event` wherever
    there is one queue. `decide` takes the place of order, urgency, routing and preemption: it is
    asked again and again in every dispatch round until it answers None.
    """

    on_event: OnEvent = policy.on_event
    bump: Bump = policy.bump
    route: Route = policy.route
    decide: Decide | None = None


REFERENCE = FleetParts()


def validated_fleet_parts(parts: FleetParts) -> FleetParts:
    """The same parts, with the answers of those that are not the reference validated."""
    return validated(parts, _ANSWERS)


def _on_event(answer: Any, heap: Any, generations: Any, event: Event) -> Any:
    match answer:
        case (list() as entries, dict() as latest, popped) if (
            popped is None or type(popped) is int
        ) and all(isinstance(entry, list | tuple) and len(entry) == 3 for entry in entries):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return entries, latest, popped  # pyright: ignore[reportUnknownVariableType]
        case _:
            wanted = "(a list of (key, id, generation), a dict of generations, an id or None)"
            raise refused(f"on_event for {event!r}", answer, wanted)


def _bump(value: Any, *args: int) -> int:
    if type(value) is not int or value < 0:
        raise refused(f"bump{args}", value, "a whole number, at least 0")
    return value


def routed(chosen: Any, workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
    """The answer of a `route`. Raises: PartError unless it is the id of one of the workers."""
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
        raise PartError(f"decide dispatched request {request_id}, which is not waiting")
    if worker is None:
        ids = [each.id for each in snapshot.workers]
        raise PartError(f"decide dispatched to worker {worker_id}; the workers are {ids}")
    if worker.num_running >= worker.batch_size:
        raise PartError(
            f"decide dispatched request {request_id} to worker {worker_id}, whose batch of "
            f"{worker.batch_size} is full"
        )
    if waiting.kv_tokens_needed > worker.kv_free_tokens:
        raise PartError(
            f"decide dispatched request {request_id}, which needs {waiting.kv_tokens_needed} KV "
            f"tokens, to worker {worker_id}, which has {worker.kv_free_tokens} free"
        )
    return request_id, worker_id


_ANSWERS: dict[str, Callable[..., Any]] = {
    "on_event": _on_event, "bump": _bump, "route": routed, "decide": _decided,
}  # fmt: skip
