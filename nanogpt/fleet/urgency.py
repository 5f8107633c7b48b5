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


def first_look_us(config: FleetConfig, state: RequestState, now_us: int) -> int | None:
    """When to look at a request that waits from now on; None: never."""
    if config.urgency == "off":
        return None
    if config.urgency == "savable":
        return now_us
    return max(now_us, state.request.deadline_us - URGENT_US) if state.priority else None


def next_look_us(config: FleetConfig, state: RequestState, now_us: int) -> int | None:
    """When to look at it again after this look; None: never.

    As long as it waits its remaining work stays the same: it becomes urgent at one moment and is
    lost at another. The source's form goes on at every tick until there is no higher priority.
    """
    if config.urgency == "source":
        return now_us + TICK_US if state.priority else None
    assert state.view is not None
    start_by_us = state.request.deadline_us - state.view.remaining_us
    if now_us < start_by_us - URGENT_US:
        return start_by_us - URGENT_US
    return start_by_us + 1 if now_us <= start_by_us else None


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
