"""The fleets to compare: adaptive, the source's adaptive, and naive."""

from dataclasses import replace

from nanogpt.fleet.fleet_config import FleetConfig

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
