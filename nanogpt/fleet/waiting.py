"""The queue of waiting requests, and the moments at which a priority may change.

Nothing is polled: a priority can change only at known moments, and only those are events.
"""

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.decisions import URGENT_US, Entry, Event, Key
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_policies import ApplyEvent, FleetPolicies
from nanogpt.fleet.request_state import RequestState
from nanogpt.validate import PolicyError

TICK_US = 1000
"""How often the source looks at a request that is near its deadline or past it."""


class WaitingQueue:
    """Request ids by rank, the smallest key first, each at most once. Mutable.

    The reference `apply_event` works in place, another one on copies.
    """

    def __init__(self, apply_event: ApplyEvent) -> None:
        self._apply_event = apply_event
        self._heap: list[Entry] = []
        self._generations: dict[int, int] = {}
        self._ids: set[int] = set()

    def push(self, request_id: int, key: Key) -> None:
        """Add a request, or change its rank."""
        self._apply(("push", request_id, key))
        self._ids.add(request_id)

    def pop(self) -> int | None:
        """Remove and return the first request. Raises: PolicyError for one that is not waiting."""
        popped = self._apply(("pop",))
        if popped is None and self._ids:
            raise PolicyError(f"apply_event popped nothing although {len(self)} requests wait")
        if popped is not None:
            if popped not in self._ids:
                raise PolicyError(f"apply_event popped request {popped}, which is not waiting")
            self._ids.remove(popped)
        return popped

    def __len__(self) -> int:
        return len(self._ids)

    def _apply(self, event: Event) -> int | None:
        if self._apply_event is policy.apply_event:
            return policy.apply_in_place(self._heap, self._generations, event)
        answer = self._apply_event(self._heap, self._generations, event)
        self._heap, self._generations, popped = answer
        return popped


def next_look_us(config: FleetConfig, state: RequestState, now_us: int) -> int | None:
    """When to look at a waiting request again after this look; None: never.

    Its remaining work stays the same while it waits: it becomes urgent at one moment and is lost
    at another. The source's form goes on at every tick until there is no higher priority.
    """
    is_source = config.urgency == "source"
    start_by_us = state.request.deadline_us - (0 if is_source else state.view.remaining_us)
    if now_us < start_by_us - URGENT_US:
        return start_by_us - URGENT_US
    if is_source:
        return now_us + TICK_US if state.priority else None
    return start_by_us + 1 if now_us <= start_by_us else None


def next_priority(
    config: FleetConfig, policies: FleetPolicies, state: RequestState, now_us: int
) -> int:
    """The priority of a waiting request at such a moment."""
    deadline_us = state.request.deadline_us
    if config.urgency == "source":
        return policy.bump_source(state.priority, now_us, deadline_us)
    return policies.boosted_priority(
        state.request.priority, now_us, deadline_us, state.view.remaining_us
    )


def remaining_us(config: FleetConfig, state: RequestState) -> int:
    """The least time a request still needs: alone on a worker, no prefix hit, no drafts."""
    cost, kv_tokens = config.cost, state.kv_needed
    decodes_us = (state.left_tokens - 1) * decode_us(cost, 1, kv_tokens)
    swapped_tokens = state.swapped_tokens
    computed_tokens = state.known_tokens - swapped_tokens
    return prefill_us(cost, computed_tokens, 1, kv_tokens, swapped_tokens) + decodes_us
