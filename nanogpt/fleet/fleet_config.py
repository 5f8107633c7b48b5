"""The settings of a simulated fleet, and the fleets to compare: adaptive, the source's, naive."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from nanogpt.fleet.costs import MOST_US, SOURCE_COST, CostModel
from nanogpt.fleet.decisions import PREEMPTION_GAP
from nanogpt.validate import check_int, check_limits, show

Order = Literal["priority", "fifo"]
Urgency = Literal["off", "source", "savable"]
Routing = Literal["round_robin", "least_running", "source", "backlog"]
PrefixCacheKind = Literal["none", "slots", "radix"]
Batching = Literal["continuous", "static"]

MOST_WORKERS = 10_000
MOST = 10**9
"""Of a worker's batch and of its KV tokens."""


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
    "slots" knows a prompt by its first tokens, "radix" token by token. `speculation`: drafts behind
    the source's gates; with `backoff` a request stops once its own drafts do not pay. `batching`
    "static" fills a batch only when the last one has finished. The first `num_prefill_workers` only
    compute prompts; a prompt's K/V goes to one of the others at `link_us_per_token`, and takes up
    room with its sender until then.

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
    batching: Batching = "continuous"
    dispatch_us: int = 1000
    num_prefill_workers: int = 0
    link_us_per_token: float = 0.0

    def __post_init__(self) -> None:
        check_int("num_workers", self.num_workers, 1, MOST_WORKERS)
        for name in ("batch_size", "kv_tokens"):
            check_int(name, getattr(self, name), 1, MOST)
        check_limits(ageing_us=self.ageing_us, preemption_gap=self.preemption_gap)
        check_int("dispatch_us", self.dispatch_us, 0, MOST_US)
        check_int("num_prefill_workers", self.num_prefill_workers, 0, self.num_workers - 1)
        if not 0 <= self.link_us_per_token <= MOST_US:
            link = show(self.link_us_per_token)
            raise ValueError(f"link_us_per_token is {link}; it must be 0 to {MOST_US}")
        shared = self.routing != "round_robin" and self.batching == "continuous"
        if self.num_prefill_workers and (self.preemption_gap is not None or not shared):
            raise ValueError(
                "two pools need one queue, continuous batching and no preemption, so routing may "
                'not be "round_robin"'
            )
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


ADAPTIVE = FleetConfig()
"""Every technique, mended: urgency only for a request that can meet its deadline, ageing, routing
by backlog, prefixes shared token by token, drafts only where they pay."""

AS_SOURCE = FleetConfig(
    name="source",
    urgency="source",
    ageing_us=None,
    routing="source",
    prefix_cache="slots",
    backoff=False,
)
"""The source's policies as it describes them, without the defects that end it."""

FIFO = FleetConfig(
    name="fifo",
    order="fifo",
    urgency="off",
    ageing_us=None,
    preemption_gap=None,
    routing="round_robin",
    prefix_cache="none",
    speculation=False,
    backoff=False,
    dispatch_us=0,
)
"""The naive baseline: round-robin on arrival, in order of arrival, nothing shared."""

SOURCE_FIFO = replace(FIFO, name="fifo as the source", prefix_cache="slots", speculation=True)
"""The baseline that the source compares itself with: it has a prefix cache and speculation."""

STATIC = replace(FIFO, name="static", batching="static")
"""The baseline with static batching: a batch is filled when the last one has finished."""

PRESETS: dict[str, FleetConfig] = {
    config.name: config for config in (ADAPTIVE, AS_SOURCE, FIFO, STATIC)
}
