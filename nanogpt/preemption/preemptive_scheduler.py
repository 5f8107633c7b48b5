"""The scheduler of an engine whose passes can be preempted, and the slots that its ranks keep."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanogpt.config import EngineConfig
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT
from nanogpt.outputs import PrefixHit, Requeue
from nanogpt.planning import Candidates
from nanogpt.policies import Policies
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler


class RanksKVCache(KVCache):
    """The slots of ranks: they hold the K/V, and never read what did not count."""

    def discard_written(self, request_id: int) -> None:
        """Nothing to wipe."""


class PreemptiveScheduler(Scheduler):
    """A scheduler whose candidates go through `allowed` before they are planned."""

    def __init__(self, allowed: Callable[[Candidates], Candidates], *args: Any) -> None:
        super().__init__(*args)
        self._allowed = allowed

    def candidates(
        self,
        preempted: Sequence[Requeue],
        admissible: Sequence[Request],
        hits: Mapping[int, PrefixHit],
    ) -> Candidates:
        """What the plan may choose from, unless the engine wants fewer in this step."""
        return self._allowed(super().candidates(preempted, admissible, hits))


def slots_of_ranks(model: GPT, config: EngineConfig, policies: Policies) -> KVCache | None:
    """A slot for each request; None where the settings want more, which the ranks refuse."""
    if config.sliding_window is not None or config.block_size is not None:
        return None
    weight, num_slots = model.token_embedding.weight, config.max_batch_size
    return RanksKVCache(
        model.config, num_slots, model.config.context_len, weight.dtype, weight.device, policies,
        num_lanes=num_slots,
    )  # fmt: skip
