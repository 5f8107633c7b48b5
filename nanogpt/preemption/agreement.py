"""How ranks agree to leave a pass: all of them at the same attention op, or none.

A rank that leaves by itself makes the others wait forever in the next collective. So what one rank
reads in shared memory is only its vote. Three ways make the votes one decision:

    "vote"    one all_reduce(MAX) of the votes at every attention op; leave at once
    "carried" the votes ride on the attention output's own all_reduce; leave one layer later
    "epoch"   no collective: the first rank to see the target names the next checkpoint in shared
              memory, and all leave there; leave one layer later

Source: the SLO post for the first; FlowPrefill (arXiv 2602.16603), its repository, for the last.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from nanogpt.preemption.shared_state import (
    Place,
    PointName,
    SharedState,
    checkpoint_number,
    pass_by,
)
from nanogpt.slo.policy import refuses_preemption

Move: TypeAlias = tuple[Literal["max"], int] | tuple[Literal["leave"]]
"""What a rank does at a checkpoint: ("max", vote) is the collective, ("leave",) leaves the pass."""

PreemptionPoint: TypeAlias = Generator[Move, int, None]


def local_vote(target: int, step: int, layers_done: int, num_layers: int) -> int:
    """1 when this rank wants to leave pass `step` once `layers_done` are computed, else 0.

    A target names the step that it means, so a late one stops no other step. With more than 90 %
    of the layers done it is too late to leave.
    """
    return int(target == step and not refuses_preemption(layers_done, num_layers))


def preemption_point(vote: int) -> PreemptionPoint:
    """Take part in the collective, whatever this rank's vote is; leave if any rank voted to."""
    agreed = yield ("max", vote)
    if agreed:
        yield ("leave",)


def write_step(shared: SharedState, step: int) -> None:
    """Ask for the preemption of pass `step`."""
    shared.target = step


def keep_target(shared: SharedState) -> None:
    """Leave the target as it is once its pass is over: no later pass has its number."""


@dataclass(frozen=True, slots=True)
class Signal:
    """How the monitor asks for a preemption: what it writes, how a rank reads it, and what the
    engine does with it after a pass.
    """

    write: Callable[[SharedState, int], None] = write_step
    local_vote: Callable[[int, int, int, int], int] = local_vote
    after_pass: Callable[[SharedState], None] = keep_target


BY_STEP = Signal()
"""The target names the step that it means."""


@dataclass(frozen=True, slots=True)
class RankPolicies:
    """The exchangeable functions of a rank. They are sent to its process by name."""

    signal: Signal = BY_STEP
    preemption_point: Callable[[int], PreemptionPoint] = preemption_point
    at_point: Callable[[Place], None] = pass_by


RANK_POLICIES = RankPolicies()
"""The reference."""


class Collectives:
    """This rank's membership in the gloo group of all ranks. A group of one sends nothing.

    Mutable: `count`, the collectives so far, and `waiting`, whether it is inside one.
    """

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        self.count = 0
        self.waiting = False

    def join(self, store: Path, timeout_s: float) -> None:
        """Meet the other ranks through a file; each collective may take `timeout_s` seconds.

        Raises: RuntimeError when the others do not come.
        """
        if self.num_ranks > 1:
            dist.init_process_group(
                "gloo", init_method=store.as_uri(), rank=self.rank, world_size=self.num_ranks,
                timeout=timedelta(seconds=timeout_s),
            )  # fmt: skip

    def sum(self, partial: Tensor) -> Tensor:
        """Sum `partial` over the ranks, in place."""
        return self._all_reduce(partial, dist.ReduceOp.SUM)

    def max(self, vote: int) -> int:
        """The largest vote of all ranks."""
        return int(self._all_reduce(torch.tensor(vote, dtype=torch.int32), dist.ReduceOp.MAX))

    def _all_reduce(self, tensor: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        """Raises: RuntimeError when another rank does not come in time, or is gone."""
        if self.num_ranks > 1:
            self.waiting = True
            dist.all_reduce(tensor, operation)
            self.waiting = False
            self.count += 1
        return tensor


@dataclass(slots=True)
class Ballot:
    """What one rank needs to vote in one pass; `last` is its last vote."""

    shared: SharedState
    collectives: Collectives
    policies: RankPolicies
    step: int
    num_layers: int
    last: int = 0

    def cast(self, layer: int) -> int:
        """Read the target and make it this rank's vote."""
        self._at("read", layer)
        vote = self.policies.signal.local_vote
        self.last = vote(self.shared.target, self.step, layer, self.num_layers)
        self._at("agree", layer)
        return self.last

    def _at(self, name: PointName, layer: int) -> None:
        number = checkpoint_number(self.step, layer, self.num_layers)
        self.policies.at_point(Place(self.shared, self.collectives.rank, name, number))


class NoVote:
    """A pass without a vote, and the base of those with one."""

    def __init__(self, ballot: Ballot) -> None:
        self.ballot = ballot

    def leave(self, layer: int) -> bool:
        """Whether every rank leaves at this attention op; the same answer on all of them."""
        return False

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum the attention output over the ranks. Shapes: (N, C) -> (N, C)."""
        return self.ballot.collectives.sum(partial)


class Vote(NoVote):
    """A collective of its own for every vote."""

    def leave(self, layer: int) -> bool:
        """Carry out the moves of the policy's generator."""
        moves = self.ballot.policies.preemption_point(self.ballot.cast(layer))
        move = next(moves, None)
        while move is not None:
            if move[0] == "leave":
                moves.close()
                return True
            agreed = self.ballot.collectives.max(move[1])
            try:
                move = moves.send(agreed)
            except StopIteration:
                return False
        return False


class CarriedVote(NoVote):
    """The vote as one more number in the attention output that is summed anyway."""

    def __init__(self, ballot: Ballot) -> None:
        super().__init__(ballot)
        self.vote = 0
        self.agreed = False

    def leave(self, layer: int) -> bool:
        """The votes of the layer below; this layer's vote goes with its own sum."""
        self.vote = self.ballot.cast(layer)
        return self.agreed

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum, with the vote behind the last channel."""
        vote = partial.new_tensor([self.vote])  # (1,)
        total = self.ballot.collectives.sum(torch.cat([partial.flatten(), vote]))  # (N * C + 1,)
        self.agreed = bool(total[-1] > 0)
        return total[:-1].view(partial.shape)


class EpochStop(NoVote):
    """The first rank to see the target names the next checkpoint; no rank can be past it yet.

    A rank reaches checkpoint e + 1 only through the sums of layer e, and those wait for every rank,
    including the one that is at checkpoint e and has just written e + 1. Two ranks that write at
    once write the same number. After the last layer, the named number belongs to no layer.
    """

    def leave(self, layer: int) -> bool:
        """Whether a rank has named this checkpoint. If not, a rank that votes 1 names the next."""
        ballot = self.ballot
        here = checkpoint_number(ballot.step, layer, ballot.num_layers)
        vote = ballot.cast(layer)
        if ballot.shared.stop == here:
            return True
        if vote:
            ballot.shared.stop = here + 1
        return False


AGREEMENTS: dict[str, Callable[[Ballot], NoVote]] = {
    "vote": Vote,
    "carried": CarriedVote,
    "epoch": EpochStop,
}
