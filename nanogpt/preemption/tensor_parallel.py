"""The executor whose forward passes run on tensor-parallel ranks and can be preempted.

It looks like every other executor to the engine, but for one thing: a pass may come back as
`Preempted`. The engine's cache then only counts; the K/V itself lies with the ranks, slot by slot.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import torch

from nanogpt.executors.base import forward_record, row_mask
from nanogpt.kv_cache import KVCache
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies
from nanogpt.preemption.agreement import RANK_POLICIES, RankPolicies
from nanogpt.preemption.pass_outcome import Abandoned, Complete
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow

PassMode: TypeAlias = Literal["plain", "abort", "suspend"]
"""Whether ranks look at the target at all, and what becomes of a pass that they leave."""

WayBack: TypeAlias = Literal["resume", "abort"]
"""What becomes of a suspended pass in the end."""


class Preempted(Exception):
    """The ranks left the pass: nothing that it computed counts, or it sleeps if `suspended`."""

    def __init__(self, outcome: Abandoned, rows: Sequence[Row]) -> None:
        super().__init__(f"pass {outcome.step} was left at layer {outcome.layer}")
        self.outcome = outcome
        self.step = outcome.step
        self.layer = outcome.layer
        self.suspended = outcome.suspended
        self.rows = tuple(rows)


class Watch(Protocol):
    """Who is told of every pass, at the end of scheduling, and says whether it may be preempted."""

    def begin_pass(self, step: int, rows: Sequence[Row]) -> PassMode:
        """A pass is about to run."""
        ...

    def end_pass(self) -> None:
        """No pass is running any more, however it ended."""
        ...

    def while_suspended(self, preempted: Preempted) -> WayBack:
        """The pass sleeps: do what it was suspended for, then say what becomes of it."""
        ...


class Unwatched:
    """Nothing is told, and no pass can be preempted."""

    def begin_pass(self, step: int, rows: Sequence[Row]) -> PassMode:
        """Run it plainly: without a vote."""
        return "plain"

    def end_pass(self) -> None:
        """Nothing to do."""

    def while_suspended(self, preempted: Preempted) -> WayBack:
        """It was not asked for."""
        return "resume"


class TensorParallelExecutor:
    """Runs rows on the ranks of a runner. Mutable: `watch`, which is told of every pass."""

    verifies_drafts = False
    reads_cache = False  # each rank has its own

    def __init__(self, runner: Runner, cache: KVCache, policies: Policies) -> None:
        self.runner = runner
        self.cache = cache
        self.policies = policies
        self.name = f"tensor parallel, {runner.num_ranks} ranks"
        self.watch: Watch = Unwatched()

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`.

        A suspended pass sleeps inside this call: the watch may run others meanwhile, and it then
        goes on to its end. Raises: Preempted when the pass was aborted; RanksFailed when a rank is
        lost.
        """
        if not rows:
            return ModelOutput(torch.empty(0, 0), ())
        step = self.runner.new_step()
        mode = self.watch.begin_pass(step, rows)
        try:
            outcome = self.runner.run(
                step, self._pass_rows(rows), vote=mode != "plain", suspend=mode == "suspend"
            )
        finally:
            self.watch.end_pass()
        if isinstance(outcome, Abandoned):
            outcome = self._way_back(Preempted(outcome, rows))
        num_tokens = sum(len(row.input_ids) for row in rows)
        return ModelOutput(outcome.logits, (forward_record(rows, self.cache, num_tokens),))

    def _way_back(self, preempted: Preempted) -> Complete:
        """See a suspended pass to its end. Raises: Preempted for an aborted one."""
        if not preempted.suspended:
            raise preempted
        way: WayBack = "abort"
        try:
            way = self.watch.while_suspended(preempted)
        finally:
            if way == "abort" and self.runner.is_open:
                self.runner.drop(preempted.step)
        if way == "abort":
            raise preempted
        # Without a vote: what has slept once is not put to sleep again.
        outcome = self.runner.resume(self.runner.new_step(), preempted.step)
        assert isinstance(outcome, Complete), "it was not asked to leave"
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
    """What to give an engine as `make_executor`, so that it runs on these ranks.

    Raises (when the engine is made): ValueError under a sliding window, which ranks do not know,
    for heads that do not split, and for an unknown agreement.
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
