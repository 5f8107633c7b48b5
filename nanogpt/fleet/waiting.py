"""The queue of waiting requests, and the moments at which a priority may change.

Nothing is polled: a priority can change only at known moments, and only those are events.
"""

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.decisions import URGENT_US, Entry, Key
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_policies import PopLive
from nanogpt.fleet.request_state import RequestState
from nanogpt.validate import PolicyError, show

TICK_US = 1000
"""How often the source looks at a request that is near its deadline or past it."""


class WaitingQueue:
    """A priority queue of request ids with lazy deletion: the smallest key first. Mutable.

    The reference `pop_live` works in place, because copying the heap at every pop is slow.
    """

    def __init__(self, pop_live: PopLive) -> None:
        self._pop_live = pop_live
        self._heap: list[Entry] = []
        self._newest: dict[int, int] = {}
        self._ids: set[int] = set()

    def push(self, request_id: int, key: Key) -> None:
        """Add a request, or change its key."""
        policy.push(self._heap, self._newest, request_id, key)
        self._ids.add(request_id)

    def pop(self) -> int | None:
        """Remove and return the first request. Raises: PolicyError for one that is not waiting."""
        popped = self._pop()
        if popped is None and self._ids:
            raise PolicyError(f"pop_live popped nothing although {len(self)} requests wait")
        if popped is not None:
            if popped not in self._ids:
                raise PolicyError(f"pop_live popped request {show(popped)}, which is not waiting")
            self._ids.remove(popped)
        return popped

    def __len__(self) -> int:
        return len(self._ids)

    def _pop(self) -> int | None:
        if self._pop_live is policy.pop_live:
            return policy.pop_in_place(self._heap, self._newest)
        popped, self._heap = self._pop_live(self._heap, self._newest)
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


def next_priority(config: FleetConfig, state: RequestState, now_us: int) -> int:
    """The priority of a waiting request at such a moment."""
    deadline_us = state.request.deadline_us
    if config.urgency == "source":
        return policy.bump_source(state.priority, now_us, deadline_us)
    return policy.boosted_priority(
        state.request.priority, now_us, deadline_us, state.view.remaining_us
    )


def remaining_us(config: FleetConfig, state: RequestState) -> int:
    """The least time a request still needs: alone on a worker, no prefix hit, no drafts."""
    cost, kv_tokens = config.cost, state.kv_needed
    decodes_us = (state.left_tokens - 1) * decode_us(cost, 1, kv_tokens)
    swapped_tokens = state.swapped_tokens
    computed_tokens = state.known_tokens - swapped_tokens
    return prefill_us(cost, computed_tokens, 1, kv_tokens, swapped_tokens) + decodes_us
