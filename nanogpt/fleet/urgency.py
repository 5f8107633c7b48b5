"""When a waiting request's priority is looked at again, and what it then is.

Nothing is polled: a priority can change only at known moments, and only those are events.
"""

from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.decisions import URGENT_US, bump_source
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_parts import FleetParts
from nanogpt.fleet.request_state import RequestState

TICK_US = 1000
"""How often the source looks, and lifts what is near or beyond its deadline once more."""


def urgency_times(config: FleetConfig, state: RequestState, now_us: int) -> list[int]:
    """When to look at a request that waits from now on, this moment included.

    As long as it waits its remaining work stays the same: it becomes urgent at one moment and is
    lost at another. The source's form goes on at every tick until there is no higher priority.
    """
    if config.urgency == "off" or state.view is None:
        return []
    if config.urgency == "savable":
        start_by_us = state.request.deadline_us - state.view.remaining_us
        times = (start_by_us - URGENT_US, start_by_us + 1)
        return [now_us, *(at_us for at_us in times if at_us > now_us)]
    first_us = max(now_us, state.request.deadline_us - URGENT_US)
    return [first_us + tick * TICK_US for tick in range((state.priority + 1) // 2)]


def next_priority(config: FleetConfig, parts: FleetParts, state: RequestState, now_us: int) -> int:
    """The priority at one of those moments."""
    deadline_us = state.request.deadline_us
    if config.urgency == "source":
        return bump_source(state.priority, now_us, deadline_us)
    remaining_us = 0 if state.view is None else state.view.remaining_us
    return parts.bump(state.request.priority, now_us, deadline_us, remaining_us)


def remaining_us(config: FleetConfig, state: RequestState) -> int:
    """The least time that a request still needs: alone on a worker, no prefix hit, no drafts."""
    cost, kv_tokens = config.cost, state.kv_needed
    decodes_us = (state.left_tokens - 1) * decode_us(cost, 1, kv_tokens)
    swapped_tokens = state.swapped_tokens
    computed_tokens = state.known_tokens - swapped_tokens
    return prefill_us(cost, computed_tokens, 1, kv_tokens, swapped_tokens) + decodes_us
