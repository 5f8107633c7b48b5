"""The exchangeable parts of the engine: named functions, each with its reference as the default.

Another function is given by name: `Parts(plan_step=my_plan_step)`. The engine calls it on copies
and refuses an answer that would corrupt its state, see `validate_policies`.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from nanogpt import planning, policies
from nanogpt.parts.masks import chunk_mask
from nanogpt.parts.request_view import RequestView
from nanogpt.validate import check_callable

if TYPE_CHECKING:
    from nanogpt.parts import feature_protocols as features


class PlanStep(Protocol):
    """Who computes how many tokens this step; see `planning.plan_step`."""

    def __call__(
        self,
        decodes: Sequence[int],
        prefilling: Sequence[tuple[int, int]],
        waiting: Sequence[tuple[int, int]],
        budget: int,
        /,
    ) -> planning.Plan:
        """Plan one step."""
        ...


class ChunkInputs(Protocol):
    """Ids, positions and whether to sample, of one chunk; see `planning.chunk_inputs`."""

    def __call__(
        self, tokens: Sequence[int], cursor: int, num_tokens: int, /
    ) -> tuple[list[int], list[int], bool]:
        """Cut one chunk."""
        ...


class ChunkMask(Protocol):
    """Which keys each token of a chunk may see; see `masks.chunk_mask`."""

    def __call__(self, num_past: int, num_new: int, /) -> Tensor:
        """Build one mask."""
        ...


class SortKey(Protocol):
    """A request's rank among the waiting: smaller goes first; see `policies.sort_key`."""

    def __call__(self, policy: str, request: RequestView, /) -> tuple[float, ...]:
        """Rank one request."""
        ...


class Admit(Protocol):
    """Whether the head of the queue may start; see `policies.admit`."""

    def __call__(
        self,
        candidate: RequestView,
        held: int,
        kv_budget: int | None,
        num_running: int,
        max_batch_size: int,
        /,
    ) -> policies.Verdict:
        """Judge one request."""
        ...


class ChooseVictim(Protocol):
    """Whose K/V to release when memory is short; see `policies.choose_victim`."""

    def __call__(self, active: Sequence[RequestView], /) -> int:
        """Name one running request by id."""
        ...


class Resume(Protocol):
    """What a preempted request goes back to the queue with; see `policies.resume`."""

    def __call__(self, request: RequestView, /) -> policies.Resumed:
        """Send one request back."""
        ...


class Record(Protocol):
    """Whose sampled token is whose; see `policies.record`."""

    def __call__(
        self, forwarded: Sequence[int], active_now: Sequence[int], sampled: Sequence[int], /
    ) -> dict[int, int]:
        """Assign one step's tokens."""
        ...


class _Later:
    """A reference that is imported when it is first called: the core loads no feature."""

    def __init__(self, name: str) -> None:
        self._name = name

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        return resolve_name(f"nanogpt.parts.{self._name}")

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a lesson may exchange; whatever is left out is the reference."""

    plan_step: PlanStep = planning.plan_step
    chunk_inputs: ChunkInputs = planning.chunk_inputs
    chunk_mask: ChunkMask = chunk_mask
    sort_key: SortKey = policies.sort_key
    admit: Admit = policies.admit
    choose_victim: ChooseVictim = policies.choose_victim
    resume: Resume = policies.resume
    record: Record = policies.record
    fused_rows: "features.FusedRows" = _Later("fusing:fused_rows")
    full_mask: "features.FullMask" = _Later("fusing:full_mask")
    split_kv: "features.SplitKV" = _Later("fusing:split_kv")
    pack: "features.Pack" = _Later("fusing:pack")
    visible: "features.Visible" = _Later("sliding_window:visible")
    evict: "features.Evict" = _Later("sliding_window:evict")
    held: "features.Held" = _Later("sliding_window:held")
    ring_slot: "features.RingSlot" = _Later("sliding_window:ring_slot")
    accept: "features.Accept" = _Later("acceptance:accept")
    roll_back_kv: "features.RollBackKV" = _Later("acceptance:roll_back_kv")
    allocate: "features.Allocate" = _Later("blocks:allocate")
    release: "features.Release" = _Later("blocks:release")
    block_hashes: "features.BlockHashes" = _Later("blocks:block_hashes")
    longest_match: "features.LongestMatch" = _Later("blocks:longest_match")
    writable: "features.Writable" = _Later("blocks:writable")
    evict_order: "features.EvictOrder" = _Later("blocks:evict_order")

    def __post_init__(self) -> None:
        for part in fields(self):
            name = f"the part {part.name}"
            check_callable(name, getattr(self, part.name), "a function; leave it out for ours")

    @property
    def are_references(self) -> bool:
        """Whether nothing was exchanged. By identity: a part may say that it equals anything."""
        return all(getattr(self, part.name) is part.default for part in fields(self))
