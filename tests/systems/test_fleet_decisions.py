"""A fleet's decisions: as pure functions, out of an index, and as somebody else's functions."""

import random
from typing import Any

import pytest
import tiers
from fleets import SECOND, load, plain, request, run, small_load
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet import (
    ADAPTIVE,
    CALIBRATED_COST,
    SOURCE_COST,
    FleetParts,
    FleetSnapshot,
    WorkerView,
    decisions,
    simulate,
)
from nanogpt.fleet.decisions import bump, on_event, route
from nanogpt.fleet.open_workers import OpenWorkers
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.worker import Worker
from nanogpt.validate import PartError

# --- pure functions -------------------------------------------------------------------------------

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 4), st.tuples(st.integers(0, 3))),
        st.tuples(st.just("remove"), st.integers(0, 4)),
        st.just(("pop",)),
    ),
    max_size=40,
)


@given(EVENTS)
def test_the_heap_gives_out_who_is_in_the_queue_each_once_in_order_of_the_keys(events: Any):
    heap: Any = []
    generations: Any = {}
    queue: dict[int, tuple[int]] = {}
    for event in events:
        before = (list(heap), dict(generations))
        entries, latest, popped = on_event(heap, generations, event)
        assert (heap, generations) == before, "it is pure"
        heap, generations = entries, latest
        expected = None
        if event[0] == "push":
            queue[event[1]] = event[2]
        elif event[0] == "remove":
            queue.pop(event[1], None)
        else:
            expected = min(queue, key=lambda i: (queue[i], i), default=None)
            queue.pop(expected, None)
        assert popped == expected


# --- out of an index ------------------------------------------------------------------------------

FLEETS = st.fixed_dictionaries(
    {
        "num_workers": st.integers(1, 6),
        "batch_size": st.integers(1, 4),
        "kv_tokens": st.sampled_from([150, 250, 400, 700]),
        "cost": st.sampled_from([SOURCE_COST, CALIBRATED_COST]),
        "order": st.sampled_from(["priority", "fifo"]),
        "urgency": st.sampled_from(["off", "source", "savable"]),
        "ageing_us": st.sampled_from([None, 20_000, 250_000]),
        "preemption_gap": st.sampled_from([None, 1, 3]),
        "kv_swap": st.booleans(),
        "prefix_cache": st.sampled_from(["none", "radix", "radix", "slots"]),
        "speculation": st.booleans(),
        "batching": st.sampled_from(["continuous", "continuous", "static"]),
        "dispatch_us": st.sampled_from([0, 1000]),
    }
)


def fresh_view(worker: Worker) -> WorkerView:
    config = worker.config
    return WorkerView(
        worker.id, worker.backlog_tokens, worker.num_running, config.batch_size,
        config.kv_tokens - worker.reserved_tokens, config.kv_tokens,
    )  # fmt: skip


def scan(
    workers: Any, state: RequestState, kept_free: Worker | None
) -> tuple[list[WorkerView], dict[int, int]]:
    """Those with room and what they know of the prompt, every worker and its own cache asked."""
    roomy = [
        each
        for each in workers
        if each.is_open and each is not kept_free and each.kv_free_tokens >= state.kv_needed
    ]
    hits = {each.id: each.hit(state) for each in roomy}
    return [fresh_view(each) for each in roomy], {i: hit for i, hit in hits.items() if hit}


def num_that_fit(given_load: Any, changes: Any) -> int:
    return sum(each.kv_tokens_needed <= changes["kv_tokens"] for each in given_load.requests)


@tiers.examples(0.5)
@given(changes=FLEETS, seed=st.integers(0, 10**6))
def test_the_choice_out_of_the_index_is_that_of_a_scan_over_all_workers(changes: Any, seed: int):
    best, num_choices = OpenWorkers.best, 0

    def compared(self: OpenWorkers, state: RequestState, kept_free: Worker | None) -> Worker | None:
        nonlocal num_choices
        num_choices += 1
        chosen = best(self, state, kept_free)
        views, hits = scan(self.all, state, kept_free)
        assert (chosen and chosen.id) == (decisions.route(views, hits) if views else None)
        assert self.any_besides(kept_free) == any(
            each.is_open and each is not kept_free for each in self.all
        )
        return chosen

    changes = {**changes, "prefix_cache": changes["prefix_cache"].replace("slots", "radix")}
    given_load = small_load(random.Random(seed), most=40, gap_us=2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenWorkers, "best", compared)
        run(ADAPTIVE, given_load, **changes)
    assert num_choices >= num_that_fit(given_load, changes)


@tiers.examples(0.5)
@given(changes=FLEETS, seed=st.integers(0, 10**6))
def test_a_route_of_ones_own_sees_every_worker_with_room_as_it_is(changes: Any, seed: int):
    asked, seen = list[Any](), list[Any]()
    find_hits = OpenWorkers.hits

    def watched(self: OpenWorkers, state: RequestState, among: Any) -> dict[int, int]:
        # At most one worker has room and is not among them: the one that is kept free.
        left_out = [each for each in self.all if each not in among]
        kept_free, _ = scan(left_out, state, None)
        assert len(kept_free) <= 1
        others = [each for each in self.all if each.id not in [view.id for view in kept_free]]
        seen.append(scan(others, state, None))
        return find_hits(self, state, among)

    def own_route(workers: Any, hits: Any) -> int:
        asked.append((list(workers), dict(hits)))
        assert list(hits) == sorted(hits), "in the order of the workers"
        return max(workers, key=lambda each: (hits.get(each.id, 0) - each.num_running, each.id)).id

    given_load = small_load(random.Random(seed), most=25)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenWorkers, "hits", watched)
        run(ADAPTIVE, given_load, FleetParts(route=own_route), **changes)
    assert asked == seen and bool(asked) == bool(num_that_fit(given_load, changes))


# --- somebody else's functions --------------------------------------------------------------------


def test_parts_that_do_the_same_give_the_same_run():
    parts = FleetParts(lambda *a: on_event(*a), lambda *a: bump(*a), lambda *a: route(*a))
    changes: Any = {"num_workers": 2, "batch_size": 2, "kv_tokens": 300}
    for seed in range(3):
        given_load = small_load(random.Random(seed))
        theirs = run(ADAPTIVE, given_load, parts, **changes).result()
        ours = run(ADAPTIVE, given_load, **changes).result()
        assert (theirs.outcomes, theirs.trace) == (ours.outcomes, ours.trace)


@pytest.mark.parametrize(
    ("field", "part", "message"),
    [
        ("bump", lambda *_: "high", r"bump\(5, 0, .*\) returned 'high'; it must be a whole"),
        ("route", lambda workers, hits: 7, r"route returned 7; it must be one of \[0, 1, 2, 3\]"),
        ("on_event", lambda heap, generations, event: heap, r"on_event for .* returned \[\]; it"),
        ("on_event", lambda h, g, e: (h, g, None), "popped nothing although 1 requests wait"),
        ("on_event", lambda h, g, e: (h, g, 99), "popped request 99, which is not waiting"),
        ("decide", lambda snapshot: 5, r"decide returned 5; it must be \(request id, worker"),
        ("decide", lambda snapshot: (8, 0), "decide dispatched request 8, which is not wait"),
        ("decide", lambda snapshot: (0, 9), "to worker 9; the workers are"),
    ],
)
def test_a_part_that_fails_is_refused_in_one_sentence(field: str, part: Any, message: str):
    with pytest.raises(PartError, match=message) as caught:
        simulate(ADAPTIVE, load(request(0)), FleetParts(**{field: part}))
    assert "\n" not in str(caught.value)


def test_a_decision_for_which_there_is_no_room_is_refused():
    parts = FleetParts(decide=lambda snapshot: (snapshot.waiting[0].id, 0))
    for config, message in (
        ({"batch_size": 1}, "request 1 to worker 0, whose batch of 1 is full"),
        ({"kv_tokens": 15}, "request 1, which needs 12 KV tokens, to worker 0, which has 3 free"),
    ):
        with pytest.raises(PartError, match=message):
            simulate(plain(num_workers=2, **config), load(request(0), request(1)), parts)


def first_come_least_running(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    for waiting in snapshot.waiting:
        roomy = [
            worker
            for worker in snapshot.workers
            if worker.num_running < worker.batch_size
            and worker.kv_free_tokens >= waiting.kv_tokens_needed
        ]
        if roomy:
            return waiting.id, min(roomy, key=lambda each: (each.num_running, each.id)).id
    return None


def test_a_policy_of_ones_own_serves_everybody_and_cannot_change_the_fleet():
    def spoil(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        answer = first_come_least_running(snapshot)
        snapshot.hit_tokens.clear()
        return answer

    changes: Any = {"num_workers": 2, "batch_size": 3, "kv_tokens": 300}
    for seed in range(10):
        given_load = small_load(random.Random(seed))
        clean, spoiled = (
            run(ADAPTIVE, given_load, FleetParts(decide=decide), **changes).result()
            for decide in (first_come_least_running, spoil)
        )
        assert not clean.stopped and clean.totals.preemptions == 0
        assert spoiled.outcomes == clean.outcomes
    never = FleetParts(decide=lambda snapshot: None)
    result = run(ADAPTIVE, load(request(0), request(1, 50)), never).result()
    assert (result.stopped, result.end_us, result.totals.violations) == (True, 1000, 2)


def test_a_policy_sees_the_fleet_as_it_is_and_of_those_that_wait_the_64_oldest():
    seen: list[FleetSnapshot] = []

    def watch(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        seen.append(snapshot)
        return first_come_least_running(snapshot)

    tokens = tuple(range(50))
    requests = [
        request(0, 0, tokens=tokens), request(1, 90_000, prompt=20, new=5),
        request(2, 90_001, tokens=tokens, new=4, priority=2, deadline_us=SECOND),
    ]  # fmt: skip
    config = plain(num_workers=2, prefix_cache="radix", kv_tokens=100)
    run(config, load(*requests), FleetParts(decide=watch))
    last = seen[-1]
    assert (last.now_us, last.hit_tokens) == (90_001, {2: {0: 49}})
    view = last.waiting[0]
    assert (view.id, view.priority, view.known_tokens, view.left_tokens) == (2, 2, 50, 4)
    assert view.remaining_us == 2500 + 200 + 3 * 150
    assert view.kv_tokens_needed == 53
    assert last.workers == (
        WorkerView(0, 20, 1, 32, 100 - 24, 100),
        WorkerView(1, 0, 0, 32, 100, 100),
    )
    run(plain(), load(*(request(number) for number in range(90))), FleetParts(decide=watch))
    lengths = [len(each.waiting) for each in seen]
    assert max(lengths) == 64
    assert [each.id for each in seen[lengths.index(64)].waiting] == list(range(64))
