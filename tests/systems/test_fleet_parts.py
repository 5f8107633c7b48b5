"""A fleet served by somebody else's functions: they are asked, limited, and held to their word."""

import heapq
import random
from typing import Any

import pytest
from fleets import SECOND, decisions_of, load, plain, request, run, small_load

from nanogpt.fleet import (
    ADAPTIVE,
    PRESETS,
    FleetParts,
    FleetSnapshot,
    WorkerView,
    decisions,
    make_workload,
    simulate,
)
from nanogpt.validate import PartError


def on_event_by_hand(heap: Any, generations: Any, event: Any) -> Any:
    """The same as the reference in other words."""
    heap, generations = list(heap), dict(generations)
    kind, *rest = event
    if kind != "pop":
        request_id = rest[0]
        generations[request_id] = generations.get(request_id, 0) + 1
        if kind == "push":
            heapq.heappush(heap, (rest[1], request_id, generations[request_id]))
        return heap, generations, None
    for entry in sorted(heap):
        heap.remove(entry)
        heapq.heapify(heap)
        if generations[entry[1]] == entry[2]:
            generations[entry[1]] += 1
            return heap, generations, entry[1]
    return heap, generations, None


def bump_by_hand(priority: int, now: int, deadline: int, remaining: int) -> int:
    slack = deadline - remaining - now
    if slack < 0 or slack > 50_000:
        return priority
    return priority - min(priority, 2)


def route_by_hand(workers: Any, hits: Any) -> int:
    rank = sorted((w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id) for w in workers)
    return rank[0][2]


def test_parts_that_do_the_same_give_the_same_run():
    parts = FleetParts(on_event_by_hand, bump_by_hand, route_by_hand)
    for seed in range(3):
        given_load = small_load(random.Random(seed))
        changes: Any = {"num_workers": 2, "batch_size": 2, "kv_tokens": 300}
        theirs = run(ADAPTIVE, given_load, parts, **changes).result()
        ours = run(ADAPTIVE, given_load, **changes).result()
        assert (theirs.outcomes, theirs.trace) == (ours.outcomes, ours.trace)


def test_the_queue_in_place_does_what_on_event_does():
    """`LazyQueue` against the pure function, on random pushes and pops."""
    from nanogpt.fleet.waiting import LazyQueue, PartQueue

    for seed in range(200):
        draw = random.Random(seed)
        lazy, pure = LazyQueue(), PartQueue(decisions.on_event)
        for _ in range(60):
            if draw.random() < 0.6:
                request_id, key = draw.randrange(8), (draw.randrange(5),)
                lazy.push(request_id, key)
                pure.push(request_id, key)
            else:
                assert lazy.pop() == pure.pop()
            assert len(lazy) == len(pure)


@pytest.mark.parametrize(
    ("field", "part", "message"),
    [
        ("bump", lambda *_: "high", r"your bump\(5, 0, .*\) returned 'high'; it must be a whole"),
        ("bump", lambda *_: -1, "returned -1; it must be a whole number, at least 0"),
        ("bump", lambda *_: 1 / 0, "your bump raised ZeroDivisionError"),
        ("route", lambda workers, hits: 7, r"your route named 7; it must be one of \[0, 1, 2, 3\]"),
        ("route", lambda workers, hits: workers[0], "your route named WorkerView"),
        ("route", lambda workers, hits: None, "your route named None"),
        ("on_event", lambda heap, generations, event: heap, r"your on_event returned \[\] for"),
        ("on_event", lambda h, g, e: (h, g, None), "popped nothing although 1 requests wait"),
        ("on_event", lambda h, g, e: (h, g, 99), "popped request 99, which is not waiting"),
        ("decide", lambda snapshot: 5, r"your policy returned 5; it must be \(request id, worker"),
        ("decide", lambda snapshot: (8, 0), "your policy dispatched request 8, which is not wait"),
        ("decide", lambda snapshot: (0, 9), "to worker 9; the workers are"),
    ],
)
def test_a_part_that_fails_is_refused_in_one_sentence(field: str, part: Any, message: str):
    with pytest.raises(PartError, match=message) as caught:
        simulate(ADAPTIVE, load(request(0)), FleetParts(**{field: part}))
    assert "\n" not in str(caught.value)


def test_a_part_that_does_not_end_is_stopped():
    def forever(snapshot: FleetSnapshot) -> None:
        while True:
            pass

    with pytest.raises(PartError, match=r"your decide (took longer than 1 s|had not finished)"):
        simulate(ADAPTIVE, load(request(0)), FleetParts(decide=forever))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"batch_size": 1}, "request 1 to worker 0, whose batch of 1 is full"),
        ({"kv_tokens": 15}, "request 1, which needs 12 KV tokens, to worker 0, which has 3 free"),
    ],
)
def test_a_decision_for_which_there_is_no_room_is_refused(config: Any, message: str):
    parts = FleetParts(decide=lambda snapshot: (snapshot.waiting[0].id, 0))
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


def test_a_policy_of_ones_own_serves_everybody():
    for seed in range(30):
        given_load = small_load(random.Random(seed))
        simulation = run(
            ADAPTIVE, given_load, FleetParts(decide=first_come_least_running),
            num_workers=2, batch_size=3, kv_tokens=300,
        )  # fmt: skip
        assert not simulation.result().stopped
        assert simulation.result().totals.preemptions == 0


def test_a_policy_that_never_decides_ends_with_everybody_a_violation():
    parts = FleetParts(decide=lambda snapshot: None)
    simulation = run(ADAPTIVE, load(request(0), request(1, 50)), parts)
    result = simulation.result()
    assert (result.stopped, result.end_us, result.totals.violations) == (True, 1000, 2)
    assert result.totals.queue_depth == 2


def test_a_policy_sees_the_fleet_as_it_is():
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
    assert last.now_us == 90_001
    assert last.hit_tokens == {2: {0: 49}}
    view = last.waiting[0]
    assert (view.id, view.priority, view.known_tokens, view.left_tokens) == (2, 2, 50, 4)
    assert view.remaining_us == 2500 + 200 + 3 * 150
    assert view.kv_tokens_needed == 53
    assert last.workers == (
        WorkerView(0, 20, 1, 32, 100 - 24, 100),
        WorkerView(1, 0, 0, 32, 100, 100),
    )


def test_a_policy_sees_at_most_the_64_oldest():
    seen: list[int] = []

    def watch(snapshot: FleetSnapshot) -> None:
        seen.append(len(snapshot.waiting))
        assert [each.id for each in snapshot.waiting] == list(range(len(snapshot.waiting)))

    run(plain(), load(*(request(number) for number in range(90))), FleetParts(decide=watch))
    assert max(seen) == 64


def test_the_snapshot_is_a_copy():
    def spoil(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        answer = first_come_least_running(snapshot)
        snapshot.hit_tokens.clear()
        return answer

    given_load = make_workload("steady", 50, 1, 1)
    spoiled = simulate(ADAPTIVE, given_load, FleetParts(decide=spoil))
    clean = simulate(ADAPTIVE, given_load, FleetParts(decide=first_come_least_running))
    assert spoiled.outcomes == clean.outcomes


def test_route_is_asked_only_with_workers_that_have_room():
    asked: list[list[int]] = []

    def watch(workers: Any, hits: Any) -> int:
        asked.append([each.id for each in workers])
        assert all(each.num_running < each.batch_size for each in workers)
        return workers[-1].id

    requests = load(*(request(number, new=50) for number in range(4)))
    simulation = run(plain(num_workers=3, batch_size=1), requests, FleetParts(route=watch))
    assert asked == [[0, 1, 2], [0, 1], [0], [0, 1, 2]]
    assert [where for _, _, where in decisions_of(simulation, "dispatch")] == [2, 1, 0, 2]


def test_bump_is_asked_with_the_requests_own_priority_at_every_moment_that_matters():
    asked: list[tuple[int, ...]] = []

    def watch(*given: int) -> int:
        asked.append(given)
        return decisions.bump(*given)

    waits = request(1, 10, new=9, priority=5, deadline_us=100_000)
    given_load = load(request(0, new=900, deadline_us=9 * SECOND), waits)
    run(plain(batch_size=1), given_load, FleetParts(bump=watch), urgency="savable")
    mine = [each[:2] for each in asked if each[2] == 100_000]
    assert mine == [(5, 10), (5, 100_000 - 1900 - 50_000), (5, 100_000 - 1900 + 1)]


def test_every_preset_is_one_of_the_fleets_settings():
    assert all(config.name == name for name, config in PRESETS.items())
