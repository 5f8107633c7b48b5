"""Preemption without processes: how ranks agree, and when the monitor looks and what it writes."""

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from launching import wait_for
from preempting import first_hurried, prompt
from torch import Tensor

from nanogpt.preemption import monitor as monitor_module
from nanogpt.preemption.agreement import AGREEMENTS, RANK_POLICIES
from nanogpt.preemption.monitor import Arrival, Monitor, Snapshot, Target, now_us, with_arrivals
from nanogpt.preemption.shared_state import NOTHING, SharedState, point_number, shared_file
from nanogpt.request import Request
from nanogpt.views.slo_view import SloRequest

LAYERS, STEP = 3, 5


@pytest.fixture
def shared() -> Iterator[SharedState]:
    with shared_file(3) as file:
        state = SharedState(file.fileno(), 3)
    state.clear()
    yield state
    state.close()


# --- ranks as threads -----------------------------------------------------------------------------


class Meeting:
    """The collectives among threads: each waits for all."""

    def __init__(self, num_ranks: int) -> None:
        self.barrier = threading.Barrier(num_ranks, timeout=60)
        self.brought: list[Any] = [None] * num_ranks

    def exchange(self, rank: int, value: object) -> list[Any]:
        self.brought[rank] = value
        self.barrier.wait()
        everything = list(self.brought)
        self.barrier.wait()
        return everything


class ThreadCollectives:
    def __init__(self, rank: int, num_ranks: int, common: Meeting) -> None:
        self.rank, self.num_ranks, self.common, self.count = rank, num_ranks, common, 0

    def max(self, vote: int) -> int:
        self.count += 1
        return max(self.common.exchange(self.rank, vote))

    def sum(self, partial: Tensor) -> Tensor:
        self.count += 1
        return torch.stack(self.common.exchange(self.rank, partial)).sum(0)


class ScriptedState:
    """Shared memory whose target a rank sees from its `sees_from`-th reading on."""

    def __init__(self, real: SharedState, sees_from: int) -> None:
        self.real, self.sees_from, self.readings = real, sees_from, 0

    @property
    def target(self) -> int:
        self.readings += 1
        return STEP if self.readings > self.sees_from else NOTHING

    @property
    def stop(self) -> int:
        return self.real.stop

    @stop.setter
    def stop(self, point: int) -> None:
        self.real.stop = point


def layers_left(agreement: str, shared: SharedState, sees_from: tuple[int, ...]) -> set[int]:
    """Run the ranks as threads; return at which layers they left (LAYERS: not at all)."""
    meeting, ones = Meeting(len(sees_from)), torch.ones(2)

    def one_rank(rank: int) -> int:
        state = ScriptedState(shared, sees_from[rank])
        collectives = ThreadCollectives(rank, len(sees_from), meeting)
        agreed = AGREEMENTS[agreement](state, collectives, RANK_POLICIES, STEP, LAYERS)
        for layer in range(LAYERS):
            if agreed.leave(layer):
                return layer
            assert agreed.add_up(ones).equal(len(sees_from) * ones), "a vote changes no sum"
            collectives.sum(ones)
        extra = LAYERS if agreement == "vote" else 0
        assert collectives.count == 2 * LAYERS + extra, "only the plain vote adds collectives"
        return LAYERS

    with ThreadPoolExecutor(len(sees_from)) as pool:
        return set(pool.map(one_rank, range(len(sees_from))))


@pytest.mark.parametrize("agreement", sorted(AGREEMENTS))
@pytest.mark.parametrize("num_ranks", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_whenever_each_rank_sees_the_target_all_leave_at_one_layer(
    agreement: str, num_ranks: int, shared: SharedState
):
    later = 0 if agreement == "vote" else 1
    for sees_from in itertools.product(range(LAYERS + 1), repeat=num_ranks):
        shared.clear()
        left = layers_left(agreement, shared, sees_from)
        assert left == {min(min(sees_from) + later, LAYERS)}, sees_from


def test_a_stop_named_after_the_last_layer_stops_no_later_pass(shared: SharedState):
    assert layers_left("epoch", shared, (LAYERS - 1, LAYERS)) == {LAYERS}
    assert shared.stop == point_number(STEP, LAYERS, LAYERS)
    assert shared.stop < point_number(STEP + 1, 0, LAYERS)


# --- the monitor ----------------------------------------------------------------------------------


def slo(request_id: int, slo_us: int = 10**12, num_preemptions: int = 0) -> SloRequest:
    return SloRequest(request_id, 10, 0, now_us() + slo_us, slo_us, num_preemptions)


def snapshot(step: int, *waiting: SloRequest) -> Snapshot:
    return Snapshot(step, now_us(), now_us(), waiting, (slo(0),))


def arrival(request_id: int, slo_us: int = 1000) -> Arrival:
    return Arrival(Request(request_id, prompt(5), 1), slo(request_id, slo_us))


def test_the_monitor_writes_the_number_of_the_step_it_looked_at_once_per_step(shared: SharedState):
    with Monitor(shared, first_hurried, []) as monitor:
        monitor.publish(snapshot(41, slo(1, 1000)))
        wait_for(lambda: shared.target == 41)
        assert monitor.decision is not None
        assert monitor.decision.target == Target(41, 1)
        shared.target = NOTHING
        monitor.publish(snapshot(41, slo(1, 1000), slo(2, 1000)))
        time.sleep(0.03)
        assert shared.target == NOTHING
        monitor.publish(snapshot(42, slo(2, 1000)))
        wait_for(lambda: shared.target == 42)


def test_time_alone_can_make_it_write_and_between_passes_it_does_not_look(shared: SharedState):
    looks: list[tuple[int, int]] = []  # when, and the target that was there by then

    def gate(seen: Snapshot) -> Target | None:
        looks.append((seen.now_us, shared.target))
        return Target(seen.step, 1) if seen.now_us > looks[0][0] + 10_000 else None

    with Monitor(shared, gate, []) as monitor:
        monitor.publish(snapshot(3))
        wait_for(lambda: shared.target == 3)
        monitor.publish(None)
        before = len(looks)
        time.sleep(0.05)  # ten polls
        assert len(looks) <= before + 1, "more than the look that had begun"
    assert len(looks) > 1 and looks == sorted(looks)  # a later look sees a later time
    assert {target for _, target in looks[:before]} == {NOTHING}


@pytest.mark.parametrize("wakes", [True, False])
def test_an_arrival_in_mid_pass_is_seen_when_it_wakes_the_monitor_or_at_the_next_poll(
    shared: SharedState, wakes: bool
):
    inbox: list[Arrival] = []
    with Monitor(shared, first_hurried, inbox, poll_s=60.0 if wakes else 0.005) as monitor:
        monitor.publish(snapshot(3))
        inbox.append(arrival(7))
        if wakes:
            monitor.wake()
        wait_for(lambda: shared.target == 3)
        assert monitor.decision is not None and monitor.decision.target.candidate == 7


def test_an_arrival_that_the_snapshot_knows_is_not_seen_twice():
    seen = with_arrivals(snapshot(3, slo(1)), [arrival(0), arrival(1), arrival(2)])
    assert [request.id for request in seen.waiting] == [1, 2]


def test_a_gate_that_fails_is_reported_to_the_engine(shared: SharedState):
    def gate(seen: Snapshot) -> Target | None:
        raise ZeroDivisionError("no deadline")

    with Monitor(shared, gate, []) as monitor:
        monitor.publish(snapshot(3))
        wait_for(lambda: monitor._error is not None)
        with pytest.raises(RuntimeError, match="the monitor has stopped: ZeroDivisionError"):
            monitor.publish(snapshot(4))


def test_a_monitor_ends_with_its_decision_and_names_a_gate_that_never_returns(
    shared: SharedState, monkeypatch: pytest.MonkeyPatch
):
    deciding, go = threading.Event(), threading.Event()

    def gate(seen: Snapshot) -> Target | None:
        deciding.set()
        go.wait(10)
        return Target(seen.step, 1)

    Monitor(shared, gate, []).stop()  # it was never started: there is nothing to end
    monitor = Monitor(shared, gate, [])
    monitor.start()
    monitor.publish(snapshot(3))
    assert deciding.wait(10)
    with monkeypatch.context() as patch:
        patch.setattr(monitor_module, "_STOP_S", 0.05)
        with pytest.raises(RuntimeError, match=r"gate has not returned for 0\.05 s"):
            monitor.stop()
    threading.Timer(0.05, go.set).start()
    monitor.stop()  # waits for the decision that is on its way
    assert shared.target == 3
    assert not monitor._thread.is_alive()
