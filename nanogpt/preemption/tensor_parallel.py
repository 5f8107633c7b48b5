"""The executor whose forward passes run on tensor-parallel ranks.

The engine's cache only counts; the K/V itself lies with the ranks, slot by slot.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from nanogpt.config import EngineConfig
from nanogpt.executors.base import forward_record, row_mask
from nanogpt.kv_cache import KVCache
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies
from nanogpt.preemption.agreement import RANK_POLICIES, RankPolicies
from nanogpt.preemption.rank_messages import Complete
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow

RunPass: TypeAlias = Callable[[Sequence[Row], Sequence[PassRow]], Complete]
"""Run one pass to its end, given its rows as the engine and as the ranks know them."""


class TensorParallelExecutor:
    """Runs rows on the ranks of a runner. Mutable: `run_pass`, by default a pass without a vote."""

    verifies_drafts = False
    reads_cache = False  # each rank has its own

    def __init__(self, runner: Runner, cache: KVCache, policies: Policies) -> None:
        self.runner = runner
        self.cache = cache
        self.policies = policies
        self.name = f"tensor parallel, {runner.num_ranks} ranks"
        self.run_pass: RunPass = self._run_without_vote

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`.

        Raises: RanksFailed when a rank is lost, and as `run_pass` does.
        """
        if not rows:
            return ModelOutput(torch.empty(0, 0), ())
        outcome = self.run_pass(rows, self._pass_rows(rows))
        num_tokens = sum(len(row.input_ids) for row in rows)
        return ModelOutput(outcome.logits, (forward_record(rows, self.cache, num_tokens),))

    def _run_without_vote(self, rows: Sequence[Row], pass_rows: Sequence[PassRow]) -> Complete:
        outcome = self.runner.run(self.runner.new_step(), pass_rows)
        assert isinstance(outcome, Complete), "no rank leaves a pass without a vote"
        return outcome

    def _pass_rows(self, rows: Sequence[Row]) -> list[PassRow]:
        return [
            PassRow(
                slot=self.cache.slot(row.request_id),
                tokens=tuple(row.input_ids),
                positions=tuple(row.positions),
                context_len=row.context_len,
                mask=row_mask(row, self.cache, self.policies.chunk_mask),
            )
            for row in rows
        ]


def tensor_parallel(
    runner: Runner, agreement: str = "vote", rank_policies: RankPolicies = RANK_POLICIES
) -> Callable[[GPT, KVStore, Policies], TensorParallelExecutor]:
    """A `make_executor` for an engine that runs on these ranks.

    Raises (when the engine is made): ValueError under a sliding window and for blocks, which ranks
    do not know, and as `Runner.load` does.
    """

    def make(model: GPT, cache: KVStore, policies: Policies) -> TensorParallelExecutor:
        if not isinstance(cache, KVCache) or cache.records_blocks:
            raise ValueError(
                "tensor-parallel ranks keep every token in slots: no sliding window and no blocks "
                "with them"
            )
        runner.load(model, len(cache.pool.ref_counts), agreement, rank_policies)
        return TensorParallelExecutor(runner, cache, policies)

    return make


class RanksKVCache(KVCache):
    """The slots of ranks, which hold the K/V and never read what did not count."""

    def discard_written(self, request_id: int) -> None:
        """Nothing to wipe."""


def slots_of_ranks(model: GPT, config: EngineConfig, policies: Policies) -> KVCache | None:
    """A slot for each request; None where the settings want more, which the ranks refuse."""
    if config.sliding_window is not None or config.block_size is not None:
        return None
    weight, num_slots = model.token_embedding.weight, config.max_batch_size
    return RanksKVCache(
        model.config, num_slots, model.config.max_model_len, weight.dtype, weight.device, policies,
        num_lanes=num_slots,
    )  # fmt: skip
