"""The fleet's decisions that may be replaced, and what stands between them and a run.

A part that is not the reference runs under a time limit, and its answer is looked at before it
counts. Every refusal is one sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.decisions import Entry, Event
from nanogpt.fleet.views import FleetSnapshot, WorkerView
from nanogpt.parts.guard import guard_fields
from nanogpt.validate import PartError


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


def guard_fleet_parts(parts: FleetParts) -> FleetParts:
    """The same parts, those that are not the reference wrapped in a time limit and checks."""
    return guard_fields(parts, REFERENCE, CHECKS)


def _checked_on_event(on_event_of: Callable[..., Any]) -> OnEvent:
    def on_event(
        heap: Sequence[Entry], generations: Mapping[int, int], event: Event, /
    ) -> tuple[list[Entry], dict[int, int], int | None]:
        # Copies: one that changes what it is given has changed nothing of ours.
        answer = on_event_of(list(heap), dict(generations), event)
        match answer:
            case (list() as entries, dict() as latest, popped) if (
                popped is None or type(popped) is int
            ) and all(isinstance(entry, tuple) and len(entry) == 3 for entry in entries):
                return entries, latest, popped
            case _:
                raise PartError(
                    f"your on_event returned {_short(answer)} for {event!r}; it must be (heap, "
                    "generations, popped): a list of (key, id, generation), a dict, an id or None"
                )

    return on_event


def _checked_bump(bump_of: Callable[..., Any]) -> Bump:
    def bump(priority: int, now: int, deadline: int, remaining: int, /) -> int:
        value = bump_of(priority, now, deadline, remaining)
        if type(value) is not int or value < 0:
            raise PartError(
                f"your bump({priority}, {now}, {deadline}, {remaining}) returned {value!r}; "
                "it must be a whole number, at least 0"
            )
        return value

    return bump


def _checked_route(route_of: Callable[..., Any]) -> Route:
    def route(workers: Sequence[WorkerView], hits: Mapping[int, int], /) -> int:
        chosen = route_of(list(workers), dict(hits))
        ids = [worker.id for worker in workers]
        if type(chosen) is not int or chosen not in ids:
            raise PartError(f"your route named {_short(chosen)}; it must be one of {ids}")
        return chosen

    return route


def _checked_decide(decide_of: Callable[..., Any]) -> Decide:
    def decide(snapshot: FleetSnapshot, /) -> tuple[int, int] | None:
        answer = decide_of(snapshot)
        if answer is None:
            return None
        name = "your policy"
        match answer:
            case (request_id, worker_id) if type(request_id) is type(worker_id) is int:
                pass
            case _:
                raise PartError(
                    f"{name} returned {_short(answer)}; it must be (request id, worker id) or None"
                )
        waiting = next((each for each in snapshot.waiting if each.id == request_id), None)
        worker = next((each for each in snapshot.workers if each.id == worker_id), None)
        if waiting is None:
            raise PartError(f"{name} dispatched request {request_id}, which is not waiting")
        if worker is None:
            ids = [each.id for each in snapshot.workers]
            raise PartError(f"{name} dispatched to worker {worker_id}; the workers are {ids}")
        if worker.num_running >= worker.batch_size:
            raise PartError(
                f"{name} dispatched request {request_id} to worker {worker_id}, whose batch of "
                f"{worker.batch_size} is full"
            )
        if waiting.kv_tokens_needed > worker.kv_free_tokens:
            raise PartError(
                f"{name} dispatched request {request_id}, which needs "
                f"{waiting.kv_tokens_needed} KV tokens, to worker {worker_id}, which has "
                f"{worker.kv_free_tokens} free"
            )
        return request_id, worker_id

    return decide


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


CHECKS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "on_event": _checked_on_event,
    "bump": _checked_bump,
    "route": _checked_route,
    "decide": _checked_decide,
}
