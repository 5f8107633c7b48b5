"""One tensor-parallel rank: a process that holds a share of the model and runs passes as ordered.

    python -m nanogpt.preemption.rank LINK RANK NUM_RANKS SHARED_FD

The engine starts it as a `ChildProcess`, with a piece of shared memory as an inherited file. Once
the engine is gone the rank ends, at once and whatever it is doing.
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
from nanogpt.preemption.agreement import AGREEMENTS, Agreement, Ballot, NoVote
from nanogpt.preemption.collectives import Collectives
from nanogpt.preemption.forward import RankStorage, forward_pass
from nanogpt.preemption.hold_points import Place
from nanogpt.preemption.rank_messages import (
    CheckRecord,
    Crashed,
    Done,
    Drop,
    Join,
    Left,
    Load,
    Order,
    Ready,
    Reply,
    Resume,
    Run,
)
from nanogpt.preemption.shared_state import SharedState, checkpoint_number


@dataclass
class RunningPass:
    """A pass on its way. Mutable: resumed, it gets another ballot and agreement."""

    ballot: Ballot
    agreement: Agreement
    suspend: bool
    checks: list[CheckRecord] = field(default_factory=list[CheckRecord])
    num_collectives_before: int = 0
    layer: int = 0

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum the attention output in the way of whichever agreement is on."""
        return self.agreement.add_up(partial)


class Rank:
    """Carries out orders. Mutable: the share of the model, its K/V, and the suspended passes."""

    def __init__(self, rank: int, num_ranks: int, shared: SharedState) -> None:
        self.rank = rank
        self.shared = shared
        self.collectives = Collectives(rank, num_ranks)
        self.loaded: Load | None = None
        self.storage: RankStorage | None = None
        self.suspended: dict[int, tuple[RunningPass, Generator[int, None, Tensor]]] = {}
        self.running: RunningPass | None = None

    def carry_out(self, order: Order) -> Reply | None:
        """Do what is asked; None when no reply is due. Raises: whatever goes wrong."""
        match order:
            case Join():
                self.collectives.join(Path(order.store), order.timeout_s)
                return Ready(self.rank)
            case Load():
                self.loaded = order
                self.storage = RankStorage(order.shard, order.num_slots)
                self.suspended.clear()
                return Ready(self.rank)
            case Run():
                return self._run(order)
            case Resume():
                running, stages = self.suspended.pop(order.suspended_step)
                self._start(running, order)
                return self._drive(running, stages)
            case Drop():
                self.suspended.pop(order.suspended_step, None)
                return None

    def crashed(self, error: BaseException) -> Crashed:
        """What to reply when an order failed."""
        running = self.running
        step, layer = (running.ballot.step, running.layer) if running else (-1, -1)
        text = f"{type(error).__name__}: {error}"
        return Crashed(self.rank, step, layer, text, self.collectives.waiting)

    def _run(self, order: Run) -> Reply:
        load, storage = self.loaded, self.storage
        if load is None or storage is None:
            raise RuntimeError("a pass was ordered before any weights came")
        ballot = self._ballot(load, order.step)
        running = RunningPass(ballot, NoVote(ballot), order.suspend)
        self._start(running, order)
        stages = forward_pass(load.shard, storage, order.rows, running.add_up, self.collectives.sum)
        return self._drive(running, stages)

    def _ballot(self, load: Load, step: int) -> Ballot:
        num_layers = load.shard.config.num_layers
        return Ballot(self.shared, self.collectives, load.parts, step, num_layers)

    def _start(self, running: RunningPass, order: Run | Resume) -> None:
        """Begin, or begin again, to drive a pass as pass `order.step`."""
        assert self.loaded is not None
        running.ballot = self._ballot(self.loaded, order.step)
        make = AGREEMENTS[self.loaded.agreement] if order.vote else NoVote
        running.agreement = make(running.ballot)
        running.suspend = order.suspend
        running.checks = []
        running.num_collectives_before = self.collectives.count
        self.running = running

    def _drive(self, running: RunningPass, stages: Generator[int, None, Tensor]) -> Reply:
        """From attention op to attention op, until all ranks leave or the pass is complete."""
        try:
            while True:
                running.layer = next(stages)
                if self._leaves(running):
                    return self._left(running, stages)
        except StopIteration as finished:
            hidden: Tensor = finished.value  # (R, C)
        assert self.loaded is not None
        logits = self.loaded.shard.logits(hidden) if self.rank == 0 else None  # (R, V)
        self._before_reply(running)
        return Done(
            self.rank, running.ballot.step, logits, tuple(running.checks), self._spent(running)
        )

    def _leaves(self, running: RunningPass) -> bool:
        """Come to a checkpoint, agree, and note what happened there."""
        ballot, layer = running.ballot, running.layer
        reached = checkpoint_number(ballot.step, layer, ballot.num_layers)
        self.shared.set_reached(self.rank, reached)
        reached_ns = time.perf_counter_ns()
        leaves = running.agreement.leave(layer)
        agree_ns = time.perf_counter_ns() - reached_ns
        running.checks.append(CheckRecord(layer, reached_ns, ballot.last, agree_ns))
        return leaves

    def _left(self, running: RunningPass, stages: Generator[int, None, Tensor]) -> Left:
        if running.suspend:
            self.suspended[running.ballot.step] = (running, stages)
        else:
            stages.close()
        self._before_reply(running)
        return Left(
            self.rank,
            running.ballot.step,
            running.layer,
            running.suspend,
            tuple(running.checks),
            self._spent(running),
        )

    def _spent(self, running: RunningPass) -> int:
        return self.collectives.count - running.num_collectives_before

    def _before_reply(self, running: RunningPass) -> None:
        """The last point of a pass, whose number lies behind its last layer's."""
        ballot = running.ballot
        after = checkpoint_number(ballot.step, ballot.num_layers, ballot.num_layers)
        self.shared.set_reached(self.rank, after)
        ballot.parts.at_point(Place(self.shared, self.rank, "reply", after))
        self.running = None


def serve(rank: Rank, link: Connection) -> None:
    """Carry out orders until the engine hangs up, or until one fails."""
    rank_messages.send(link, Ready(rank.rank))
    while True:
        try:
            order: Order = rank_messages.receive(link)
        except (EOFError, OSError):
            return
        try:
            reply = rank.carry_out(order)
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
