"""What a fleet's policies see: frozen copies of requests and workers, plain data.

Times are integer microseconds of the virtual clock; lengths are tokens. Priority 0 is the highest;
the source's 9 is converted where its loads are made.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitingView:
    """A request in the queue.

    `known_tokens` is its prompt and what it has generated; `left_tokens` what it may still
    generate. `remaining_us` is the least time that it still needs on an idle worker without a
    prefix hit.
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
        """KV tokens to set aside for it: the last generated token needs none."""
        return self.known_tokens + self.left_tokens - 1


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker of the fleet.

    `backlog_tokens` are prompt tokens that it has promised to compute and has not, those of the
    pass that runs included. `kv_free_tokens` counts what is neither held by a running request nor
    set aside for one: cached prefixes give way, so they count as free.
    """

    id: int
    backlog_tokens: int
    num_running: int
    batch_size: int
    kv_free_tokens: int
    kv_tokens: int


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The fleet at one moment: what waits, oldest first, and every worker.

    `hit_tokens[request id][worker id]` is how many of the request's known tokens that worker has
    K/V for; pairs without any are left out.
    """

    now_us: int
    waiting: tuple[WaitingView, ...]
    workers: tuple[WorkerView, ...]
    hit_tokens: dict[int, dict[int, int]]
