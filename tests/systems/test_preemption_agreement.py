"""How ranks agree, without processes: votes, the moves of a checkpoint, every order of reading."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from nanogpt.preemption.agreement import (
    AGREEMENTS,
    RANK_PARTS,
    Ballot,
    NoVote,
    checkpoint,
    local_vote,
)
from nanogpt.preemption.races import leave_alone, leave_first
from nanogpt.preemption.shared_state import NOTHING, SharedState, checkpoint_number, shared_file

LAYERS, STEP = 3, 5


class ThreadCollectives:
    """The collectives among threads: each waits for all."""

    def __init__(self, rank: int, num_ranks: int, common: "Meeting") -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        self.common = common
        self.count = 0

    def max(self, vote: int) -> int:
        return max(self.common.exchange(self.rank, vote))

    def sum(self, partial: Tensor) -> Tensor:
        return torch.stack(self.common.exchange(self.rank, partial)).sum(0)


class Meeting:
    def __init__(self, num_ranks: int) -> None:
        self.barrier = threading.Barrier(num_ranks, timeout=60)
        self.brought: list[object] = [None] * num_ranks

    def exchange(self, rank: int, value: object) -> list:
        self.brought[rank] = value
        self.barrier.wait()
        everything = list(self.brought)
        self.barrier.wait()
        return everything


class ScriptedState:
    """Shared memory whose target a rank sees from its `sees_from`-th reading on."""

    def __init__(self, real: SharedState, sees_from: int) -> None:
        self.real = real
        self.sees_from = sees_from
        self.readings = 0

    @property
    def target(self) -> int:
        self.readings += 1
        return STEP if self.readings > self.sees_from else NOTHING

    @property
    def stop(self) -> int:
        return self.real.stop

    @stop.setter
    def stop(self, checkpoint: int) -> None:
        self.real.stop = checkpoint


@pytest.fixture
def shared() -> Iterator[SharedState]:
    with shared_file(3) as file:
        state = SharedState(file.fileno(), 3)
    state.clear()
    yield state
    state.close()


def layer_left(agreement: str, shared: SharedState, sees_from: tuple[int, ...]) -> set[int]:
    """Run the ranks as threads; return at which layers they left (LAYERS: not at all)."""
    meeting = Meeting(len(sees_from))

    def one_rank(rank: int) -> int:
        state = ScriptedState(shared, sees_from[rank])
        collectives = ThreadCollectives(rank, len(sees_from), meeting)
        ballot = Ballot(state, collectives, RANK_PARTS, STEP, LAYERS)
        agreed = AGREEMENTS[agreement](ballot)
        for layer in range(LAYERS):
            if agreed.leave(layer):
                return layer
            agreed.add_up(torch.ones(2))
            collectives.sum(torch.ones(2))
        return LAYERS

    with ThreadPoolExecutor(len(sees_from)) as pool:
        return set(pool.map(one_rank, range(len(sees_from))))


@pytest.mark.parametrize("agreement", sorted(AGREEMENTS))
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_whenever_each_rank_sees_the_target_all_leave_at_one_layer(
    agreement: str, num_ranks: int, shared: SharedState
):
    later = 0 if agreement == "vote" else 1
    for sees_from in itertools.product(range(LAYERS + 1), repeat=num_ranks):
        shared.clear()
        left = layer_left(agreement, shared, sees_from)
        assert left == {min(min(sees_from) + later, LAYERS)}, sees_from


def test_a_stop_named_after_the_last_layer_stops_no_later_pass(shared: SharedState):
    assert layer_left("epoch", shared, (LAYERS - 1, LAYERS)) == {LAYERS}
    assert shared.stop == checkpoint_number(STEP, LAYERS, LAYERS)
    assert shared.stop < checkpoint_number(STEP + 1, 0, LAYERS)


def test_the_carried_vote_does_not_change_the_sum(shared: SharedState):
    meeting = Meeting(2)

    def one_rank(rank: int) -> Tensor:
        state = ScriptedState(shared, 0)
        ballot = Ballot(state, ThreadCollectives(rank, 2, meeting), RANK_PARTS, STEP, LAYERS)
        agreement = AGREEMENTS["carried"](ballot)
        agreement.leave(0)
        return agreement.add_up(torch.arange(6.0).view(2, 3))

    with ThreadPoolExecutor(2) as pool:
        for total in pool.map(one_rank, range(2)):
            assert total.equal(2 * torch.arange(6.0).view(2, 3))


def test_no_vote_does_not_even_read_the_target():
    state = ScriptedState(None, 0)
    agreement = NoVote(Ballot(state, None, RANK_PARTS, STEP, LAYERS))
    assert [agreement.leave(layer) for layer in range(LAYERS)] == [False] * LAYERS
    assert state.readings == 0


def test_a_vote_is_for_the_own_step_alone():
    assert local_vote(7, 7, 0, 32) == 1
    assert local_vote(6, 7, 0, 32) == 0
    assert local_vote(8, 7, 0, 32) == 0
    assert local_vote(NOTHING, 7, 0, 32) == 0


@pytest.mark.parametrize(("num_layers", "last"), [(1, 0), (4, 3), (10, 9), (12, 10), (32, 28)])
def test_past_nine_tenths_of_its_layers_a_pass_refuses(num_layers: int, last: int):
    votes = [local_vote(7, 7, layer, num_layers) for layer in range(num_layers)]
    assert votes == [1] * (last + 1) + [0] * (num_layers - last - 1)


def played(rule, votes: list[int]) -> list[str]:
    """Play the ranks' moves in lockstep; say what became of each: left, stayed, or hangs."""
    moves = [rule(vote) for vote in votes]
    standing = [next(each, None) for each in moves]
    ends = ["" for _ in votes]
    while True:
        for rank, move in enumerate(standing):
            if not ends[rank] and (move is None or move[0] == "leave"):
                ends[rank] = "stayed" if move is None else "left"
        if all(ends):
            return ends
        if any(ends):  # one is gone, and the others wait for it
            return [end or "hangs" for end in ends]
        agreed = max(move[1] for move in standing if move is not None)
        for rank, each in enumerate(moves):
            try:
                standing[rank] = each.send(agreed)
            except StopIteration:
                standing[rank] = None


@pytest.mark.parametrize("votes", list(itertools.product([0, 1], repeat=3)))
def test_at_a_checkpoint_either_everybody_leaves_or_nobody(votes: tuple[int, ...]):
    assert played(checkpoint, list(votes)) == ["left" if any(votes) else "stayed"] * 3


def test_leaving_before_the_collective_hangs_whoever_voted_otherwise():
    assert played(leave_first, [1, 1]) == ["left", "left"]
    assert played(leave_first, [1, 0]) == ["left", "hangs"]
    assert played(leave_first, [0, 0]) == ["stayed", "stayed"]


def test_leaving_without_a_vote_tears_the_ranks_apart():
    assert played(leave_alone, [1, 0]) == ["left", "stayed"]
