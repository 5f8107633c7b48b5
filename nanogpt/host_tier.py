"""A second tier behind the pool of blocks: copies of full blocks in host memory, by their hashes.

A full block is copied as soon as it can be found, so an eviction has nothing to copy. A block is
loaded before the step that needs it. A step that fails leaves the tier as it was. Knows neither
tensors nor requests; the decisions are policies (`policies/blocks.py`).
Source: vLLM's OffloadingConnector (v1/kv_offload), SGLang's HiCache.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanogpt.clock import SERVER_CPU, Clock, CostClock
from nanogpt.policies import Policies
from nanogpt.trace import HostRecord


class HostTier:
    """Copies of up to `num_blocks` blocks of `block_size` tokens.

    A `CostClock` is charged for one transfer in each direction and step. Whether a load pays is
    judged by the clock's cost model, on the wall clock by `SERVER_CPU`.
    Mutable: the copies, and what the last step did.
    """

    def __init__(
        self, num_blocks: int, block_size: int, policies: Policies, clock: Clock | None = None
    ) -> None:
        self.num_blocks, self.size, self.policies = num_blocks, block_size, policies
        self.clock = clock if isinstance(clock, CostClock) else None
        self.costs = SERVER_CPU if self.clock is None else self.clock.model
        self.kv_of: dict[str, Any] = {}  # the first to be dropped first; replaced, never changed
        self.begin()

    def match(
        self, hashes: Sequence[str], device: Mapping[str, int], num_tokens: int, size: int
    ) -> tuple[list[int | None], int]:
        """The blocks that a request begins with, None for one to load, and their tokens.

        If loading is not worth it, only blocks of the pool.
        """
        policies, costs = self.policies, self.costs
        blocks, found = policies.match_tiers(hashes, device, self.kv_of.keys(), num_tokens, size)
        if to_load := blocks.count(None) * size:
            answer = policies.load_or_compute(to_load, costs.kv_bytes, costs.link, costs.step_cost)
            if answer == "compute":
                return policies.match_tiers(hashes, device, {}.keys(), num_tokens, size)
        return blocks, found

    def touch(self, hashes: Sequence[str]) -> None:
        """A request begins with these blocks: they are the last to be dropped, the first of all."""
        used = {each: self.kv_of[each] for each in reversed(hashes) if each in self.kv_of}
        self.kv_of = {each: kv for each, kv in self.kv_of.items() if each not in used} | used

    def load(self, request_id: int, block: int, block_hash: str) -> Any:
        """The K/V to put into the request's block."""
        self._loaded.append((request_id, block, block_hash))
        return self.kv_of[block_hash]

    def store(self, blocks: Mapping[str, int], read: Callable[[int], Any]) -> None:
        """Keep copies of a request's full blocks, by hash, as the policy `spill` says."""
        before = self.kv_of
        kept = self.policies.spill([*blocks], [*before], self.num_blocks)
        self.kv_of = {h: before[h] if h in before else read(blocks[h]) for h in kept}
        self._stored += [each for each in kept if each not in before]
        self._dropped += [each for each in before if each not in self.kv_of]

    def begin(self) -> None:
        """Start a step, which may fail."""
        self._saved = self.kv_of
        self._loaded: list[tuple[int, int, str]] = []
        self._stored: list[str] = []
        self._dropped: list[str] = []

    def end(self, *, failed: bool) -> None:
        """End the step: undo it, or let the time pass that its transfers take."""
        if failed:
            self.kv_of = self._saved
        elif self.clock is not None:
            moved = len(self._loaded) * self.size, len(self._stored) * self.size
            self.clock.wait(sum(map(self.costs.copy_us, moved)))

    def record(self, block_bytes: int) -> HostRecord:
        """The copies that are held, and those that the last step made."""
        moved = tuple(self._loaded), tuple(self._stored), tuple(self._dropped)
        return HostRecord(self.num_blocks, block_bytes, tuple(self.kv_of), *moved)
