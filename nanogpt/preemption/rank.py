"""One tensor-parallel rank: a process with a share of the model, which runs the engine's calls.

    python -m nanogpt.preemption.rank LINK RANK NUM_RANKS SHARED_FD

The engine starts it as a `ChildProcess` that inherits the shared memory's file. When the engine is
gone the rank ends at once.
"""

import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from nanogpt.child_process import end_with_parent, parent_link
from nanogpt.preemption import rank_messages
from nanogpt.preemption.agreement import AGREEMENTS, Ballot, Collectives, NoVote, RankPolicies
from nanogpt.preemption.rank_messages import CheckRecord, Crashed, Done, Left, Ready, Reply
from nanogpt.preemption.sharded_model import PassRow, RankStorage, Shard, forward_pass
from nanogpt.preemption.shared_state import Place, SharedState, checkpoint_number


@dataclass
class RunningPass:
    """A pass that a rank is running or has suspended. Mutable: `resume` gives it a new agreement.

    `stages` yields at every attention op.
    """

    agreement: NoVote
    suspend: bool
    num_collectives_before: int
    stages: Generator[int, None, Tensor]
    checks: list[CheckRecord] = field(default_factory=list[CheckRecord])
    layer: int = 0

    @property
    def ballot(self) -> Ballot:
        """This rank's votes."""
        return self.agreement.ballot


class Rank:
    """Runs the engine's calls. Mutable: the share of the model, its K/V, and the suspended passes.

    The public methods up to `drop` are what the engine calls. They raise whatever goes wrong.
    """

    shard: Shard
    storage: RankStorage
    agreement: str
    policies: RankPolicies

    def __init__(self, rank: int, num_ranks: int, shared: SharedState) -> None:
        self.rank = rank
        self.shared = shared
        self.collectives = Collectives(rank, num_ranks)
        self.suspended: dict[int, RunningPass] = {}
        self.running: RunningPass | None = None

    def join(self, store: str, timeout_s: float) -> Reply:
        """Meet the other ranks through a file; a collective may take `timeout_s` seconds."""
        self.collectives.join(Path(store), timeout_s)
        return Ready(self.rank)

    def load(self, shard: Shard, num_slots: int, agreement: str, policies: RankPolicies) -> Reply:
        """Serve this share of a model, with K/V for `num_slots` requests."""
        self.shard, self.agreement, self.policies = shard, agreement, policies
        self.storage = RankStorage(shard, num_slots)
        self.suspended.clear()
        return Ready(self.rank)

    def run(self, step: int, rows: tuple[PassRow, ...], vote: bool, suspend: bool) -> Reply:
        """Run the pass `step`. Without `vote` no rank checks whether to leave.

        With `suspend`, a rank that leaves keeps the pass to resume it.
        """
        stages = forward_pass(
            self.shard,
            self.storage,
            rows,
            lambda partial: running.agreement.add_up(partial),  # resumed, it has another agreement
            self.collectives.sum,
        )
        count = self.collectives.count
        running = RunningPass(self._agreement(step, vote), suspend, count, stages)
        return self._drive(running)

    def resume(self, step: int, suspended_step: int, vote: bool, suspend: bool) -> Reply:
        """Resume a suspended pass under the new number `step`: the old one may be a target."""
        running = self.suspended.pop(suspended_step)
        running.agreement, running.suspend = self._agreement(step, vote), suspend
        running.checks, running.num_collectives_before = [], self.collectives.count
        return self._drive(running)

    def drop(self, suspended_step: int) -> None:
        """Discard a suspended pass."""
        self.suspended.pop(suspended_step, None)

    def crashed(self, error: BaseException) -> Crashed:
        """The reply to an order that failed."""
        running = self.running
        step, layer = (running.ballot.step, running.layer) if running else (-1, -1)
        text = f"{type(error).__name__}: {error}"
        return Crashed(self.rank, step, layer, text, self.collectives.waiting)

    def _agreement(self, step: int, vote: bool) -> NoVote:
        num_layers = self.shard.config.num_layers
        ballot = Ballot(self.shared, self.collectives, self.policies, step, num_layers)
        return AGREEMENTS[self.agreement](ballot) if vote else NoVote(ballot)

    def _drive(self, running: RunningPass) -> Reply:
        """Go from attention op to attention op, until all ranks leave or the pass is complete."""
        self.running = running
        try:
            while True:
                running.layer = next(running.stages)
                if self._leaves(running):
                    return self._left(running)
        except StopIteration as finished:
            hidden: Tensor = finished.value  # (R, C)
        logits = self.shard.logits(hidden) if self.rank == 0 else None  # (R, V)
        self._before_reply(running)
        checks, spent = tuple(running.checks), self._spent(running)
        return Done(self.rank, running.ballot.step, logits, checks, spent)

    def _leaves(self, running: RunningPass) -> bool:
        """Agree at a checkpoint, and record it."""
        ballot, layer = running.ballot, running.layer
        self.shared.reached[self.rank] = checkpoint_number(ballot.step, layer, ballot.num_layers)
        reached_ns = time.perf_counter_ns()
        leaves = running.agreement.leave(layer)
        agree_ns = time.perf_counter_ns() - reached_ns
        running.checks.append(CheckRecord(layer, reached_ns, ballot.last, agree_ns))
        return leaves

    def _left(self, running: RunningPass) -> Left:
        step = running.ballot.step
        if running.suspend:
            self.suspended[step] = running
        else:
            running.stages.close()
        self._before_reply(running)
        checks, spent = tuple(running.checks), self._spent(running)
        return Left(self.rank, step, running.layer, running.suspend, checks, spent)

    def _spent(self, running: RunningPass) -> int:
        return self.collectives.count - running.num_collectives_before

    def _before_reply(self, running: RunningPass) -> None:
        """The last point of a pass; its number follows the last layer's."""
        ballot = running.ballot
        after = checkpoint_number(ballot.step, ballot.num_layers, ballot.num_layers)
        self.shared.reached[self.rank] = after
        ballot.policies.at_point(Place(self.shared, self.rank, "reply", after))
        self.running = None


def serve(rank: Rank, link: Connection) -> None:
    """Run the engine's calls until it hangs up, or until one fails."""
    rank_messages.send(link, Ready(rank.rank))
    while True:
        try:
            method, arguments = rank_messages.receive(link)
        except (EOFError, OSError):
            return
        try:
            reply = getattr(rank, method)(*arguments)
        except Exception as error:
            rank_messages.send(link, rank.crashed(error))
            return
        if reply is not None:
            rank_messages.send(link, reply)


def main(arguments: list[str]) -> None:
    """Set the process up and serve."""
    index, num_ranks, shared_fd = map(int, arguments)
    link = Connection(parent_link().detach())
    end_with_parent()  # the main thread may be waiting for another rank when the engine goes
    torch.set_num_threads(1)  # ranks share the machine; more threads would only get in their way
    shared = SharedState(shared_fd, num_ranks)
    try:
        with torch.inference_mode():
            serve(Rank(index, num_ranks, shared), link)
    except (BrokenPipeError, ConnectionResetError):
        return  # the engine is gone: no reply
    finally:
        link.close()


if __name__ == "__main__":
    main(sys.argv[2:])
