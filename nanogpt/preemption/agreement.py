"""How ranks agree to leave a pass: all of them at the same attention op, or none.

A rank that leaves by itself makes the others wait forever in the next collective. So what one rank
reads in shared memory is only its vote. Three ways make the votes one decision:

    "vote"    one all_reduce(MAX) of the votes at every attention op; leave at once
    "carried" the votes ride on the attention output's own all_reduce; leave one layer later
    "epoch"   no collective: the first rank to see the target names the next preemption point in
              shared memory; leave there, one layer later

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

from nanogpt.preemption.shared_state import PointName, SharedState, pass_by, point_number
from nanogpt.slo.policy import refuses_preemption

Move: TypeAlias = tuple[Literal["max"], int] | tuple[Literal["leave"]]
"""("max", vote) takes part in the collective, ("leave",) leaves the pass."""

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


@dataclass(frozen=True, slots=True)
class RankPolicies:
    """The exchangeable functions of a rank. They are sent to its process by name."""

    local_vote: Callable[[int, int, int, int], int] = local_vote
    preemption_point: Callable[[int], PreemptionPoint] = preemption_point
    at_point: Callable[[SharedState, int, PointName, int], None] = pass_by


RANK_POLICIES = RankPolicies()
"""The reference."""


class Collectives:
    """This rank's membership in the gloo group of all ranks. A group of one sends nothing.

    Mutable: `waiting`, whether this rank is inside a collective.
    """

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank = rank
        self.num_ranks = num_ranks
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
        return tensor


@dataclass(slots=True)
class NoVote:
    """One rank in one pass without a vote, and the base of those with one.

    Mutable: `vote`, this rank's last vote.
    """

    shared: SharedState
    collectives: Collectives
    policies: RankPolicies
    step: int
    num_layers: int
    vote: int = 0

    def leave(self, layer: int) -> bool:
        """Whether every rank leaves at this attention op; the same answer on all of them."""
        return False

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum the attention output over the ranks. Shapes: (N, C) -> (N, C)."""
        return self.collectives.sum(partial)

    def point(self, layer: int) -> int:
        """The number of the preemption point at this attention op."""
        return point_number(self.step, layer, self.num_layers)

    def reach(self, layer: int) -> None:
        """Tell the engine how far this rank is."""
        self.shared.reached[self.collectives.rank] = self.point(layer)

    def at(self, name: PointName, layer: int) -> None:
        """Wait here if the rank is to be held."""
        self.policies.at_point(self.shared, self.collectives.rank, name, self.point(layer))

    def cast_vote(self, layer: int) -> int:
        """Read the target and make it this rank's vote."""
        self.at("read", layer)
        self.vote = self.policies.local_vote(self.shared.target, self.step, layer, self.num_layers)
        self.at("agree", layer)
        return self.vote


class Vote(NoVote):
    """A collective of its own for every vote."""

    def leave(self, layer: int) -> bool:
        """Carry out the moves of the policy's generator."""
        moves = self.policies.preemption_point(self.cast_vote(layer))
        move = next(moves, None)
        while move is not None and move[0] == "max":
            try:
                move = moves.send(self.collectives.max(move[1]))
            except StopIteration:
                return False
        return move is not None


@dataclass(slots=True)
class CarriedVote(NoVote):
    """The vote as one more number in the attention output that is summed anyway."""

    agreed: bool = False

    def leave(self, layer: int) -> bool:
        """The votes of the layer below; this layer's vote goes with its own sum."""
        self.cast_vote(layer)
        return self.agreed

    def add_up(self, partial: Tensor) -> Tensor:
        """Sum, with the vote behind the last channel."""
        vote = partial.new_tensor([self.vote])  # (1,)
        total = self.collectives.sum(torch.cat([partial.flatten(), vote]))  # (N * C + 1,)
        self.agreed = bool(total[-1] > 0)
        return total[:-1].view(partial.shape)


class EpochStop(NoVote):
    """The first rank to see the target names the next point; no rank can be past it yet.

    A rank reaches point e + 1 only through the sums of layer e, and those wait for every rank,
    including the one that is at point e and has just written e + 1. Two ranks that write at once
    write the same number. After the last layer, the named number belongs to no layer.
    """

    def leave(self, layer: int) -> bool:
        """Whether a rank has named this point. If not, a rank that votes 1 names the next."""
        here = self.point(layer)
        vote = self.cast_vote(layer)
        if self.shared.stop == here:
            return True
        if vote:
            self.shared.stop = here + 1
        return False


AGREEMENTS: dict[str, type[NoVote]] = {"vote": Vote, "carried": CarriedVote, "epoch": EpochStop}
