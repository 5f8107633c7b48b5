"""The settings of a simulated fleet: one frozen, validated record."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from nanogpt.fleet.costs import SOURCE_COST, CostModel
from nanogpt.fleet.decisions import PREEMPTION_GAP
from nanogpt.validate import check_int

Order = Literal["priority", "fifo"]
Urgency = Literal["off", "source", "savable"]
Routing = Literal["round_robin", "least_running", "source", "backlog"]
PrefixCacheKind = Literal["none", "slots", "radix"]
Batching = Literal["continuous", "static"]


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """A fleet and its rules.

    `kv_tokens` and `batch_size` are per worker. `order` ranks the waiting requests. `urgency`:
    never, as the source (every millisecond, past the deadline too), or only for a request that can
    still meet its deadline. `ageing_us`: this much waiting makes up for one level of priority.
    `preemption_gap`: levels by which a waiting request must be above a running one to preempt it.
    Both are off when None. `kv_swap`: a preempted request's K/V moves to the host instead of being
    lost. `routing` "round_robin" gives each arrival to the next worker, which has its own queue;
    the others share one queue, with dispatch rounds at least `dispatch_us` apart. `prefix_cache`:
    "slots" knows a prompt by its first tokens, "radix" token by token. `speculation`: drafts of
    `num_draft_tokens`, each at `draft_cost` of a decode, behind the source's gates; with `backoff`
    a request stops once its own drafts do not pay. `batching` "static" fills a batch only when the
    last one has finished.

    Raises: ValueError naming a value and its limit.
    """

    name: str = "adaptive"
    num_workers: int = 4
    batch_size: int = 32
    kv_tokens: int = 2048
    cost: CostModel = SOURCE_COST
    order: Order = "priority"
    urgency: Urgency = "savable"
    ageing_us: int | None = 250_000
    preemption_gap: int | None = PREEMPTION_GAP
    kv_swap: bool = False
    routing: Routing = "backlog"
    prefix_cache: PrefixCacheKind = "radix"
    speculation: bool = True
    backoff: bool = True
    num_draft_tokens: int = 4
    draft_cost: float = 0.1
    batching: Batching = "continuous"
    dispatch_us: int = 1000

    def __post_init__(self) -> None:
        for name in ("num_workers", "batch_size", "kv_tokens", "num_draft_tokens"):
            check_int(name, getattr(self, name), 1)
        for name in ("ageing_us", "preemption_gap"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        check_int("dispatch_us", self.dispatch_us, 0)
        if not (math.isfinite(self.draft_cost) and self.draft_cost >= 0):
            raise ValueError(f"draft_cost is {self.draft_cost}; it must be a number, at least 0")
        for name, choices in (
            ("order", Order),
            ("urgency", Urgency),
            ("routing", Routing),
            ("prefix_cache", PrefixCacheKind),
            ("batching", Batching),
        ):
            value = getattr(self, name)
            if value not in get_args(choices):
                among = ", ".join(get_args(choices))
                raise ValueError(f"there is no {name} {value!r}; choose from {among}")
