"""Frozen views of requests and workers for a fleet's policies.

Times are integer microseconds of the virtual clock; lengths are tokens. Priority 0 is the most
urgent.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitingView:
    """A waiting request.

    `known_tokens`: its prompt and generated tokens; `left_tokens`: tokens it may still generate.
    `remaining_us`: the least time it still needs on an idle worker without a prefix hit.
    """

    id: int
    priority: int
    arrival_us: int
    deadline_us: int
    known_tokens: int
    left_tokens: int
    remaining_us: int

    @property
    def kv_tokens_needed(self) -> int:
        """KV tokens to reserve: the last generated token needs none."""
        return self.known_tokens + self.left_tokens - 1


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker of the fleet.

    `backlog_tokens`: prompt tokens dispatched to it and not yet computed, those of the running
    pass included. `kv_free_tokens`: KV tokens that no request has reserved; cached prefixes are
    evicted on demand, so they count as free.
    """

    id: int
    backlog_tokens: int
    num_running: int
    batch_size: int
    kv_free_tokens: int
    kv_tokens: int


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The fleet at one moment: the waiting requests, oldest first, and every worker.

    `hit_tokens[request id][worker id]`: how many of the request's known tokens have K/V on that
    worker; pairs without a hit are left out.
    """

    now_us: int
    waiting: tuple[WaitingView, ...]
    workers: tuple[WorkerView, ...]
    hit_tokens: dict[int, dict[int, int]]


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """Requests per second, and the tokens of the mean prompt and of the mean answer."""

    requests_per_s: float
    prompt_tokens: float
    new_tokens: float


@dataclass(frozen=True, slots=True)
class PoolCosts:
    """Microseconds of a worker per prompt token, per new token, and per token sent.

    Both workers of a transfer are busy while it lasts.
    """

    prefill_us: float
    decode_us: float
    transfer_us: float
