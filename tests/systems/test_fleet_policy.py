"""A fleet's pure decisions: the heap that forgets nothing, urgency, keys, routing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet.decisions import (
    bump,
    bump_source,
    on_event,
    queue_key,
    route,
    route_source,
    source_score,
)
from nanogpt.fleet.views import WaitingView, WorkerView

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 4), st.tuples(st.integers(0, 3))),
        st.tuples(st.just("remove"), st.integers(0, 4)),
        st.just(("pop",)),
    ),
    max_size=40,
)


@given(EVENTS)
def test_the_heap_gives_out_who_is_in_the_queue_each_once_in_order_of_the_keys(events):
    heap, generations = [], {}
    queue = {}
    for event in events:
        before = (list(heap), dict(generations))
        entries, latest, popped = on_event(heap, generations, event)
        assert (heap, generations) == before
        heap, generations = entries, latest
        match event:
            case ("push", request_id, key):
                queue[request_id] = key
                assert popped is None
            case ("remove", request_id):
                queue.pop(request_id, None)
                assert popped is None
            case _:
                best = min(queue, key=lambda i: (queue[i], i), default=None)
                assert popped == best
                queue.pop(popped, None)


def test_an_unknown_event_is_refused():
    with pytest.raises(ValueError, match=r"no event .*peek"):
        on_event([], {}, ("peek",))


def test_only_who_can_still_be_saved_is_lifted_and_only_once():
    now = 1_000_000
    assert [bump(5, now, now + 60_000, work) for work in (9_999, 10_000, 60_000, 60_001)] == [
        5, 3, 3, 5,
    ]  # fmt: skip
    assert bump(1, now, now + 50_000, 0) == 0
    assert bump(5, now, now - 1, 0) == 5


def test_the_sources_urgency_lifts_the_late_again_and_again():
    priority = 9
    for tick in range(6):
        priority = bump_source(priority, 2_000_000 + 1_000 * tick, 1_000_000)
    assert priority == 0


def waiting(request_id, priority, arrival_us, deadline_us):
    return WaitingView(request_id, priority, arrival_us, deadline_us, 10, 5, 1_000)


def test_with_ageing_enough_waiting_makes_up_for_a_level():
    old, new = waiting(0, 5, 0, 9_000_000), waiting(1, 3, 900_000, 9_000_000)
    assert queue_key(new, 3, None) < queue_key(old, 5, None)
    assert queue_key(new, 3, 500_000) < queue_key(old, 5, 500_000)
    assert queue_key(old, 5, 400_000) < queue_key(new, 3, 400_000)


def worker(worker_id, backlog, running=0, free=2048):
    return WorkerView(worker_id, backlog, running, 32, free, 2048)


def test_a_hit_is_worth_the_tokens_that_it_saves_and_no_more():
    workers = [worker(0, 900), worker(1, 0)]
    assert route(workers, {0: 800}) == 1
    assert route(workers, {0: 1000}) == 0
    assert route_source(workers, {0: 800}) == 0


def test_equal_workers_are_told_apart_by_load_and_then_by_id():
    assert route([worker(2, 0), worker(1, 0, 3), worker(0, 0, 3)], {}) == 2
    assert route([worker(2, 0), worker(1, 0)], {}) == 1
    assert route_source([worker(2, 0), worker(1, 0)], {}) == 1


def test_the_sources_score_prefers_a_full_worker_for_a_hit_of_33_tokens():
    full, idle = worker(0, 0, 32, 0), worker(1, 0)
    assert source_score(full, 0) == -100
    assert source_score(idle, 0) == pytest.approx(220.8)
    assert route_source([full, idle], {0: 33}) == 0
