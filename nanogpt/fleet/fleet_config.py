"""What a simulated fleet is made of, and by which rules it serves: one frozen, validated record."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from nanogpt.fleet.costs import SOURCE_COST, CostModel
from nanogpt.fleet.decisions import PREEMPTION_GAP
from nanogpt.validate import check_int

Order = Literal["priority", "fifo"]
Urgency = Literal["off", "source", "savable"]
Routing = Literal["round_robin", "least_running", "source", "backlog"]
PrefixCache = Literal["none", "slots", "radix"]
Batching = Literal["continuous", "static"]


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """A fleet and its rules.

    `kv_tokens` and `batch_size` are per worker. `order`: what is next among the waiting. `urgency`:
    not at all, as the source (again every millisecond, also the dead), or only what can still be
    saved. `ageing_us`: so much waiting makes up for one level of priority; None for never.
    `preemption_gap`: levels by which a waiter must be above a running request to take its place;
    None for never. `kv_swap`: a preempted request's K/V goes to the host instead of being lost.
    `routing` "round_robin" gives every arrival to the next worker, which keeps its own queue; with
    the others there is one queue, and dispatch rounds at least `dispatch_us` apart. `prefix_cache`:
    "slots" knows a prompt by its first tokens, "radix" token by token. `speculation`: drafts of
    `num_draft_tokens`, each at `draft_cost` of a decode, behind the source's gates; with `backoff`
    a request stops once its own drafts no longer pay. `batching` "static" fills a batch only when
    the last one has left.

    Raises: ValueError for a value outside its limits, TypeError for a count that is no int.
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
    prefix_cache: PrefixCache = "radix"
    speculation: bool = True
    backoff: bool = True
    num_draft_tokens: int = 4
    draft_cost: float = 0.1
    batching: Batching = "continuous"
    dispatch_us: int = 1000

    def __post_init__(self) -> None:
        check_int("num_workers", self.num_workers, 1)
        check_int("batch_size", self.batch_size, 1)
        check_int("kv_tokens", self.kv_tokens, 1)
        check_int("num_draft_tokens", self.num_draft_tokens, 1)
        check_int("dispatch_us", self.dispatch_us, 0)
        if self.ageing_us is not None:
            check_int("ageing_us", self.ageing_us, 1)
        if self.preemption_gap is not None:
            check_int("preemption_gap", self.preemption_gap, 1)
        if not (math.isfinite(self.draft_cost) and self.draft_cost >= 0):
            raise ValueError(f"draft_cost is {self.draft_cost}; it must be a number, at least 0")
        for name, choices in (
            ("order", Order),
            ("urgency", Urgency),
            ("routing", Routing),
            ("prefix_cache", PrefixCache),
            ("batching", Batching),
        ):
            value = getattr(self, name)
            if value not in get_args(choices):
                among = ", ".join(get_args(choices))
                raise ValueError(f"there is no {name} {value!r}; choose from {among}")
