"""One tensor-parallel rank: a process with a share of the model, which runs the engine's calls.

    python -m nanogpt.preemption.rank LINK RANK NUM_RANKS SHARED_FD

The engine starts it as a `ChildProcess` that inherits the shared memory's file. When the engine is
gone the rank ends at once.
"""

import os
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanogpt.child_process import end_with_parent, parent_link, receive, send
from nanogpt.preemption.agreement import AGREEMENTS, Collectives, NoVote, RankPolicies
from nanogpt.preemption.rank_messages import CheckRecord, Crashed, Done, Left, Ready, Reply
from nanogpt.preemption.sharded_model import PassRow, Shard, empty_kv, forward_pass
from nanogpt.preemption.shared_state import SharedState


@dataclass
class RunningPass:
    """A pass that a rank is running or has left. Mutable: `layer`, which it has reached.

    `stages` yields at every attention op.
    """

    agreement: NoVote
    stages: Generator[int, None, Tensor]
    checks: list[CheckRecord] = field(default_factory=list[CheckRecord])
    layer: int = 0


class Rank:
    """Runs the engine's calls. Mutable: the share of the model, its K/V, and the running pass.

    The public methods up to `resume` are what the engine calls. They raise whatever goes wrong.
    """

    shard: Shard
    kv: Tensor
    agreement: type[NoVote]
    policies: RankPolicies

    def __init__(self, rank: int, num_ranks: int, shared: SharedState) -> None:
        self.rank = rank
        self.shared = shared
        self.collectives = Collectives(rank, num_ranks)
        self.running: RunningPass | None = None
        self.left: RunningPass | None = None  # kept until another pass is left

    def join(self, store: str, timeout_s: float) -> Reply:
        """Meet the other ranks through a file; a collective may take `timeout_s` seconds."""
        self.collectives.join(Path(store), timeout_s)
        return Ready(self.rank)

    def load(self, shard: Shard, num_slots: int, agreement: str, policies: RankPolicies) -> Reply:
        """Serve this share of a model, with K/V for `num_slots` requests."""
        self.shard, self.agreement, self.policies = shard, AGREEMENTS[agreement], policies
        self.kv = empty_kv(shard, num_slots)
        return Ready(self.rank)

    def run(self, step: int, rows: tuple[PassRow, ...], vote: bool) -> Reply:
        """Run the pass `step`. Without `vote` no rank checks whether to leave."""
        stages = forward_pass(
            self.shard,
            self.kv,
            rows,
            lambda partial: running.agreement.add_up(partial),  # a resumed pass has another one
            self.collectives.sum,
        )
        agreement = self._in_pass(self.agreement if vote else NoVote, step)
        running = RunningPass(agreement, stages)
        return self._drive(running)

    def resume(self, step: int) -> Reply:
        """Run the pass that was left last to its end, without a vote."""
        running, self.left = self.left, None
        assert running is not None and running.agreement.step == step, "no other pass is kept"
        running.agreement = self._in_pass(NoVote, step)
        return self._drive(running)

    def crashed(self, error: BaseException) -> Crashed:
        """The reply to a call that failed."""
        running = self.running
        step, layer = (running.agreement.step, running.layer) if running else (-1, -1)
        text = f"{type(error).__name__}: {error}"
        return Crashed(self.rank, step, layer, text, self.collectives.waiting)

    def _in_pass(self, kind: type[NoVote], step: int) -> NoVote:
        num_layers = len(self.shard.layers)
        return kind(self.shared, self.collectives, self.policies, step, num_layers)

    def _drive(self, running: RunningPass) -> Reply:
        """Go from attention op to attention op, until all ranks leave or the pass is complete."""
        self.running, step = running, running.agreement.step
        try:
            while not self._leaves(running, next(running.stages)):
                pass
        except StopIteration as finished:
            hidden: Tensor = finished.value  # (R, C)
            logits = self.shard.logits(hidden) if self.rank == 0 else None  # (R, V)
            reply = Done(self.rank, step, logits, tuple(running.checks))
        else:
            self.left = running
            reply = Left(self.rank, step, running.layer, tuple(running.checks))
        # The number of the last point of a pass follows the last layer's.
        running.agreement.reach(running.agreement.num_layers)
        running.agreement.at("reply", running.agreement.num_layers)
        self.running = None
        return reply

    def _leaves(self, running: RunningPass, layer: int) -> bool:
        """Agree at a preemption point, and record it."""
        running.layer = layer
        running.agreement.reach(layer)
        reached_ns = time.perf_counter_ns()
        leaves = running.agreement.leave(layer)
        agree_ns = time.perf_counter_ns() - reached_ns
        running.checks.append(CheckRecord(layer, reached_ns, running.agreement.vote, agree_ns))
        return leaves


def serve(rank: Rank, link: "Connection[Any, Any]") -> None:
    """Run the engine's calls until it hangs up, or until one fails."""
    send(link, Ready(rank.rank))
    while True:
        try:
            method, arguments = receive(link)
        except (EOFError, OSError):
            return
        try:
            reply = getattr(rank, method)(*arguments)
        except Exception as error:
            send(link, rank.crashed(error))
            return
        send(link, reply)


def main(arguments: list[str]) -> None:
    """Set the process up and serve."""
    index, num_ranks, shared_fd = map(int, arguments)
    link: Connection[Any, Any] = Connection(parent_link().detach())
    end_with_parent()  # the main thread may be waiting for another rank when the engine goes
    torch.set_num_threads(1)  # ranks share the machine
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
    os._exit(0)  # gloo's own threads may wait for a rank that is gone
