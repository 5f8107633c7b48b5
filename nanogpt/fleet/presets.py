"""The fleets that are compared: adaptive and mended, adaptive as its source has it, and naive."""

from dataclasses import replace

from nanogpt.fleet.fleet_config import FleetConfig

ADAPTIVE = FleetConfig()
"""Everything on, and mended: only what can be saved becomes urgent, waiting counts, work is spread
by backlog, prefixes are shared token by token, drafts stop where they do not pay."""

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
"""The baseline, truly naive: round-robin at arrival, in order of arrival, nothing shared."""

SOURCE_FIFO = replace(FIFO, name="fifo as the source", prefix_cache="slots", speculation=True)
"""The baseline that the source compared itself with: prefix cache and speculation in it, too."""

STATIC = FleetConfig(
    name="static",
    order="fifo",
    urgency="off",
    ageing_us=None,
    preemption_gap=None,
    routing="round_robin",
    prefix_cache="none",
    speculation=False,
    backoff=False,
    dispatch_us=0,
    batching="static",
)
"""The baseline with static batching: a batch is filled when all of the last one have left."""

PRESETS: dict[str, FleetConfig] = {
    config.name: config for config in (ADAPTIVE, AS_SOURCE, FIFO, STATIC)
}
