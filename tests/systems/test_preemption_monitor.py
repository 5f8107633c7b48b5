"""The monitor's thread: what it sees, when it looks, what it writes, and that it ends in time."""

import dataclasses
import threading
import time
from collections.abc import Iterator

import pytest
from preempting import first_hurried, prompt, wait_for

from nanogpt.preemption import monitor as monitor_module
from nanogpt.preemption.monitor import (
    Arrival,
    Inbox,
    Monitor,
    Snapshot,
    Target,
    now_us,
    with_arrivals,
)
from nanogpt.preemption.shared_state import NOTHING, SharedState, shared_file
from nanogpt.request import Request
from nanogpt.slo.slo_view import SloRequest


def slo(request_id: int, slo_us: int = 10**12, num_preemptions: int = 0) -> SloRequest:
    return SloRequest(request_id, 10, 0, now_us() + slo_us, slo_us, num_preemptions)


def snapshot(step: int, *waiting: SloRequest) -> Snapshot:
    return Snapshot(step, now_us(), now_us(), waiting, (slo(0),))


def arrival(request_id: int, slo_us: int = 1000) -> Arrival:
    return Arrival(Request(request_id, prompt(5), 1), slo(request_id, slo_us), now_us())


@pytest.fixture
def shared() -> Iterator[SharedState]:
    with shared_file(1) as file:
        state = SharedState(file.fileno(), 1)
    state.clear()
    yield state
    state.close()


def test_it_writes_the_number_of_the_step_that_it_looked_at(shared: SharedState):
    with Monitor(shared, first_hurried, Inbox()) as monitor:
        monitor.publish(snapshot(41, slo(1, 1000)))
        wait_for(lambda: shared.target == 41)
        assert monitor.decision is not None
        assert monitor.decision.target == Target(41, 1)


def test_it_writes_nothing_while_nobody_is_urgent(shared: SharedState):
    looks: list[int] = []

    def gate(seen: Snapshot) -> Target | None:
        looks.append(seen.now_us)
        return first_hurried(seen)

    with Monitor(shared, gate, Inbox()) as monitor:
        monitor.publish(snapshot(3, slo(1)))
        wait_for(lambda: len(looks) > 3)
        assert shared.target == NOTHING
        assert looks == sorted(looks)  # a later look sees a later time


def test_time_alone_can_make_it_write(shared: SharedState):
    looks: list[tuple[int, int]] = []  # when, and the target that was there by then

    def gate(seen: Snapshot) -> Target | None:
        looks.append((seen.now_us, shared.target))
        return Target(seen.step, 1) if seen.now_us > looks[0][0] + 10_000 else None

    with Monitor(shared, gate, Inbox()) as monitor:
        monitor.publish(snapshot(3))
        wait_for(lambda: shared.target == 3)
    assert len(looks) > 1
    assert {target for _, target in looks} == {NOTHING}


def test_an_arrival_in_mid_pass_is_seen_without_waiting_for_the_next_poll(shared: SharedState):
    inbox = Inbox()
    with Monitor(shared, first_hurried, inbox, poll_s=60.0) as monitor:
        monitor.publish(snapshot(3))
        inbox.add(arrival(7))
        monitor.wake()
        wait_for(lambda: shared.target == 3)
        assert monitor.decision is not None
        assert monitor.decision.target.waiter == 7


def test_it_polls_even_if_nobody_wakes_it(shared: SharedState):
    inbox = Inbox()
    with Monitor(shared, first_hurried, inbox) as monitor:
        monitor.publish(snapshot(3))
        inbox.add(arrival(7))
        wait_for(lambda: shared.target == 3)


def test_it_asks_once_per_step(shared: SharedState):
    with Monitor(shared, first_hurried, Inbox()) as monitor:
        monitor.publish(snapshot(3, slo(1, 1000)))
        wait_for(lambda: shared.target == 3)
        shared.target = NOTHING
        monitor.publish(snapshot(3, slo(1, 1000), slo(2, 1000)))
        time.sleep(0.03)
        assert shared.target == NOTHING
        monitor.publish(snapshot(4, slo(2, 1000)))
        wait_for(lambda: shared.target == 4)


def test_between_passes_it_does_not_look_at_all(shared: SharedState):
    looks: list[Snapshot] = []

    def gate(seen: Snapshot) -> Target | None:
        looks.append(seen)
        return None

    with Monitor(shared, gate, Inbox()) as monitor:
        monitor.publish(snapshot(3))
        wait_for(lambda: len(looks) > 1)
        monitor.publish(None)
        before = len(looks)
        time.sleep(0.05)  # ten polls
        assert len(looks) <= before + 1, "more than the look that had begun"


def test_a_snapshot_cannot_be_changed_by_anyone():
    seen = snapshot(3, slo(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.step = 4  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.waiting[0].num_preemptions = 1  # type: ignore[misc]


def test_an_arrival_that_the_snapshot_knows_is_not_seen_twice():
    seen = with_arrivals(snapshot(3, slo(1)), [arrival(0), arrival(1), arrival(2)])
    assert [waiter.id for waiter in seen.waiting] == [1, 2]


def test_an_inbox_loses_and_doubles_nothing_under_many_threads():
    inbox, taken = Inbox(), []
    going = threading.Event()

    def add(first: int) -> None:
        going.wait()
        for i in range(first, first + 200):
            inbox.add(arrival(i))

    threads = [threading.Thread(target=add, args=(200 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    going.set()
    while any(thread.is_alive() for thread in threads):
        taken += inbox.take()
    taken += inbox.take()
    assert sorted(each.request.id for each in taken) == list(range(800))


def test_a_gate_that_fails_is_reported_to_the_engine(shared: SharedState):
    def gate(seen: Snapshot) -> Target | None:
        raise ZeroDivisionError("no deadline")

    with Monitor(shared, gate, Inbox()) as monitor:
        monitor.publish(snapshot(3))
        wait_for(lambda: monitor._error is not None)
        with pytest.raises(RuntimeError, match="the monitor has stopped: ZeroDivisionError"):
            monitor.publish(snapshot(4))


def test_once_stopped_it_never_touches_the_shared_memory_again(shared: SharedState):
    deciding, go = threading.Event(), threading.Event()

    def gate(seen: Snapshot) -> Target | None:
        deciding.set()
        go.wait(10)
        return Target(seen.step, 1)

    monitor = Monitor(shared, gate, Inbox())
    monitor.start()
    monitor.publish(snapshot(3))
    assert deciding.wait(10)
    threading.Timer(0.05, go.set).start()
    monitor.stop()  # waits for the decision that is on its way
    assert shared.target == 3
    assert not monitor._thread.is_alive()


def test_a_gate_that_never_returns_is_named(shared: SharedState, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(monitor_module, "_STOP_S", 0.05)
    deciding, go = threading.Event(), threading.Event()

    def gate(seen: Snapshot) -> Target | None:
        deciding.set()
        go.wait(10)
        return None

    monitor = Monitor(shared, gate, Inbox())
    monitor.start()
    monitor.publish(snapshot(3))
    assert deciding.wait(10)
    with pytest.raises(RuntimeError, match=r"gate has not returned for 0\.05 s"):
        monitor.stop()
    go.set()
    monitor.stop()


def test_stopping_a_monitor_that_was_never_started_is_fine(shared: SharedState):
    Monitor(shared, first_hurried, Inbox()).stop()
