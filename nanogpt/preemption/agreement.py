"""How ranks agree to leave a pass: all of them at the same attention op, or none.

A rank that leaves alone leaves the others waiting in the next collective for ever. So what one rank
has read in shared memory is only its vote. Three ways to make the votes one decision, each with
the same face:

    "vote"    one all_reduce(MAX) of the votes at every attention op; leave at once
    "carried" the votes ride on the attention output's own all_reduce; leave one layer later
    "epoch"   no collective: the first rank to see the target names the next checkpoint in shared
              memory, and all leave there; leave one layer later

Source: the SLO post for the first; FlowPrefill (arXiv 2602.16603), its repository, for the last.
"""

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from nanogpt.preemption.collectives import Collectives
from nanogpt.preemption.hold_points import Place, PointName, pass_by
from nanogpt.preemption.shared_state import SharedState, checkpoint_number
from nanogpt.slo.policy import refuses_preemption

Move: TypeAlias = tuple[Literal["max"], int] | tuple[Literal["leave"]]
"""What a rank does at a checkpoint: ("max", vote) is the collective, ("leave",) leaves the pass."""

Checkpoint: TypeAlias = Generator[Move, int, None]


def local_vote(target: int, step: int, layer: int, num_layers: int) -> int:
    """1 when this rank wants to leave pass `step` at the attention op of `layer`, else 0.

    The target names the step that it means, so one that was written for another step, however
    late it lands, is not ours. With more than 90 % of the layers done it is too late to leave.
    """
    return int(target == step and not refuses_preemption(layer, num_layers))


def checkpoint(vote: int) -> Checkpoint:
    """Take part in the collective, whatever the own vote; leave if any rank voted to."""
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
    """How a wish to preempt travels: what the monitor writes, how a rank reads it, what the engine
    does about it after a pass.
    """

    write: Callable[[SharedState, int], None] = write_step
    local_vote: Callable[[int, int, int, int], int] = local_vote
    after_pass: Callable[[SharedState], None] = keep_target


BY_STEP = Signal()
"""The target names the step that it means."""


@dataclass(frozen=True, slots=True)
class RankParts:
    """The exchangeable pieces of a rank; functions of modules, since they travel by name."""

    signal: Signal = BY_STEP
    checkpoint: Callable[[int], Checkpoint] = checkpoint
    at_point: Callable[[Place], None] = pass_by


RANK_PARTS = RankParts()
"""The reference."""


def check_rank_parts(parts: RankParts) -> None:
    """Raises: ValueError naming a part that another process could not import."""
    signal = parts.signal
    functions: tuple[Callable[..., Any], ...] = (
        signal.write, signal.local_vote, signal.after_pass, parts.checkpoint, parts.at_point,
    )  # fmt: skip
    for function in functions:
        module, name = function.__module__, function.__qualname__
        if module == "__main__" or getattr(sys.modules[module], name, None) is not function:
            raise ValueError(
                f"the rank part {name} travels to other processes by name; it must be a function "
                "of a module that they can import"
            )


@dataclass(slots=True)
class Ballot:
    """What one rank needs to vote in one pass; `last` is the vote that it cast last."""

    shared: SharedState
    collectives: Collectives
    parts: RankParts
    step: int
    num_layers: int
    last: int = 0

    def cast(self, layer: int) -> int:
        """Read the target and make it this rank's vote."""
        self._at("read", layer)
        vote = self.parts.signal.local_vote
        self.last = vote(self.shared.target, self.step, layer, self.num_layers)
        self._at("agree", layer)
        return self.last

    def _at(self, name: PointName, layer: int) -> None:
        rank = self.collectives.rank
        number = checkpoint_number(self.step, layer, self.num_layers)
        self.parts.at_point(Place(self.shared, rank, name, number))


class Agreement(Protocol):
    """One pass's way to agree."""

    def leave(self, layer: int) -> bool:
        """Whether every rank leaves at this attention op; the same answer on all of them."""
        ...

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum the attention output over the ranks. Shapes: (N, C) -> (N, C)."""
        ...


class NoVote:
    """No look and no vote: what a pass costs when no monitor is on."""

    def __init__(self, ballot: Ballot) -> None:
        self.ballot = ballot

    def leave(self, layer: int) -> bool:
        """No."""
        return False

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum and nothing else."""
        return self.ballot.collectives.sum(partial)


class Vote(NoVote):
    """A collective of its own for every vote."""

    def leave(self, layer: int) -> bool:
        """Do what `checkpoint` says, move by move."""
        moves = self.ballot.parts.checkpoint(self.ballot.cast(layer))
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
        """What the sum of the layer below said; the vote of this layer goes with its own sum."""
        self.vote = self.ballot.cast(layer)
        return self.agreed

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum, with the vote behind the last channel."""
        vote = partial.new_tensor([self.vote])  # (1,)
        total = self.ballot.collectives.sum(torch.cat([partial.flatten(), vote]))  # (N * C + 1,)
        self.agreed = bool(total[-1] > 0)
        return total[:-1].view(partial.shape)


class EpochStop(NoVote):
    """The first to see the target names the next checkpoint; no rank can be past it already.

    Why not: a rank comes to checkpoint e + 1 only through the sums of layer e, and those wait for
    every rank, also for the one that stands at checkpoint e and has just written e + 1. Two ranks
    that write at once write the same number. After the last layer the number named belongs to no
    layer, so it stops no pass.
    """

    def leave(self, layer: int) -> bool:
        """Whether this is the checkpoint that a rank named; else name the next, if need be."""
        ballot = self.ballot
        here = checkpoint_number(ballot.step, layer, ballot.num_layers)
        vote = ballot.cast(layer)
        if ballot.shared.stop == here:
            return True
        if vote:
            ballot.shared.stop = here + 1
        return False


AGREEMENTS: dict[str, Callable[[Ballot], Agreement]] = {
    "vote": Vote,
    "carried": CarriedVote,
    "epoch": EpochStop,
}
