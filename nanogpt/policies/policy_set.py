"""`Policies`: one function for each decision of the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from nanogpt import planning
from nanogpt.policies import acceptance, blocks, fusing, grammars, masks, queueing, sliding_window
from nanogpt.validate import check_callable

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Policies:
    """One function for each decision; a field that is left out is the reference.

    `Engine(model, config, Policies(plan_step=my_plan_step))`: the engine calls the function with
    positional arguments, on copies of its lists, and refuses an answer that would corrupt its
    state (`validate_policies`). Signatures are those of the references.
    """

    plan_step: Callable[..., planning.Plan] = planning.plan_step
    chunk_inputs: Callable[..., tuple[list[int], list[int], bool]] = planning.chunk_inputs
    chunk_mask: Callable[[int, int], Tensor] = masks.chunk_mask
    sort_key: Callable[..., tuple[float, ...]] = queueing.sort_key
    admit: Callable[..., queueing.Verdict] = queueing.admit
    choose_victim: Callable[..., int] = queueing.choose_victim
    requeue: Callable[..., queueing.ResumeState] = queueing.requeue
    assign_tokens: Callable[..., dict[int, int]] = queueing.assign_tokens
    prepare_inputs: Callable[..., Any] = fusing.prepare_inputs
    full_mask: Callable[..., Tensor] = fusing.full_mask
    split_kv: Callable[..., list[Tensor]] = fusing.split_kv
    pack: Callable[..., tuple[list[int], list[int], Tensor]] = fusing.pack
    visible: Callable[[int, int, int | None, int], bool] = sliding_window.visible
    evict: Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor]] = sliding_window.evict
    kv_usage: Callable[[int, int, int | None, int], tuple[int, int]] = sliding_window.kv_usage
    rolling_buffer_index: Callable[[int, int, int], int] = sliding_window.rolling_buffer_index
    rejection_sample: Callable[..., tuple[bool, int]] = acceptance.rejection_sample
    roll_back_kv: Callable[[int, int, int], int] = acceptance.roll_back_kv
    allocate: Callable[..., list[int] | None] = blocks.allocate
    free_table: Callable[..., list[int]] = blocks.free_table
    block_hashes: Callable[..., list[str]] = blocks.block_hashes
    longest_match: Callable[..., tuple[list[int], int]] = blocks.longest_match
    evict_order: Callable[..., list[int]] = blocks.evict_order
    match_tiers: Callable[..., tuple[list[int | None], int]] = blocks.match_tiers
    load_or_compute: Callable[..., str] = blocks.load_or_compute
    spill: Callable[..., list[str]] = blocks.spill
    allowed: Callable[..., list[bool]] = grammars.allowed
    advance: Callable[..., int | None] = grammars.advance
    draft_masks: Callable[..., list[int | None]] = grammars.draft_masks
    must_close: Callable[[int, int], bool] = grammars.must_close

    def __post_init__(self) -> None:
        for policy in fields(self):
            name = f"the policy {policy.name}"
            check_callable(name, getattr(self, policy.name), "a function; leave it out for ours")

    @property
    def are_references(self) -> bool:
        """Whether every field is the reference, by identity."""
        return all(getattr(self, policy.name) is policy.default for policy in fields(self))
