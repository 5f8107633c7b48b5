"""A fleet's decisions, exchanged for others."""

import random
from typing import Any

import pytest
import tiers
from fleets import SECOND, load, plain, request, run, small_load
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet.costs import CALIBRATED_COST, SOURCE_COST
from nanogpt.fleet.fleet_config import ADAPTIVE
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.simulation import simulate
from nanogpt.validate import PolicyError
from nanogpt.views.fleet_views import FleetSnapshot, WorkerView

FLEETS = st.fixed_dictionaries(
    {
        "num_workers": st.integers(1, 6),
        "batch_size": st.integers(1, 4),
        "kv_tokens": st.sampled_from([150, 250, 400, 700]),
        "cost": st.sampled_from([SOURCE_COST, CALIBRATED_COST]),
        "preemption_gap": st.sampled_from([None, 1, 3]),
        "prefix_cache": st.sampled_from(["none", "radix", "slots"]),
    }
)


@tiers.examples(0.5)
@given(changes=FLEETS, seed=st.integers(0, 10**6))
def test_a_route_sees_only_workers_with_room_and_their_hits(changes: Any, seed: int):
    asked = 0

    def own_route(workers: Any, hits: Any) -> int:
        nonlocal asked
        asked += 1
        ids = [each.id for each in workers]
        assert ids == sorted(ids) and list(hits) == sorted(hits) and set(hits) <= set(ids)
        assert all(each.num_running < each.batch_size for each in workers)
        assert min(hits.values(), default=1) > 0
        return max(workers, key=lambda each: (hits.get(each.id, 0) - each.num_running, each.id)).id

    given_load = small_load(random.Random(seed), most=25)
    run(ADAPTIVE, given_load, FleetPolicies(route=own_route), **changes)
    fit = sum(each.kv_tokens_needed <= changes["kv_tokens"] for each in given_load.requests)
    assert bool(asked) == bool(fit)


@pytest.mark.parametrize(
    ("field", "part", "message"),
    [
        (
            "boosted_priority",
            lambda *_: "high",
            r"boosted_priority\(5, 0, .*\) returned 'high'; it must be a whole",
        ),
        ("route", lambda workers, hits: 7, r"route returned 7; it must be one of \[0, 1, 2, 3\]"),
        ("route", lambda workers, hits: True, "route returned True; it must be one of"),
        ("pop_live", lambda heap, newest: heap, r"pop_live returned \[.*\]; it must be"),
        ("pop_live", lambda heap, newest: (None, heap), "popped nothing although 1 requests wait"),
        ("pop_live", lambda heap, newest: (99, heap), "popped request 99, which is not waiting"),
        ("decide", lambda snapshot: 5, r"decide returned 5; it must be \(request id, worker"),
        ("decide", lambda snapshot: (8, 0), "decide dispatched request 8, which is not wait"),
        ("decide", lambda snapshot: (0, 9), "to worker 9; the workers are"),
    ],
)
def test_a_part_that_fails_is_refused_in_one_sentence(field: str, part: Any, message: str):
    with pytest.raises(PolicyError, match=message) as caught:
        simulate(ADAPTIVE, load(request(0)), FleetPolicies(**{field: part}))
    assert "\n" not in str(caught.value)


def test_a_decision_for_which_there_is_no_room_is_refused():
    policies = FleetPolicies(decide=lambda snapshot: (snapshot.waiting[0].id, 0))
    for config, message in (
        ({"batch_size": 1}, "request 1 to worker 0, whose batch of 1 is full"),
        ({"kv_tokens": 15}, "request 1, which needs 12 KV tokens, to worker 0, which has 3 free"),
    ):
        with pytest.raises(PolicyError, match=message):
            simulate(plain(num_workers=2, **config), load(request(0), request(1)), policies)


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
            run(ADAPTIVE, given_load, FleetPolicies(decide=decide), **changes).result()
            for decide in (first_come_least_running, spoil)
        )
        assert not clean.stopped and clean.totals.preemptions == 0
        assert spoiled.outcomes == clean.outcomes
    never = FleetPolicies(decide=lambda snapshot: None)
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
    run(config, load(*requests), FleetPolicies(decide=watch))
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
    run(plain(), load(*(request(number) for number in range(90))), FleetPolicies(decide=watch))
    lengths = [len(each.waiting) for each in seen]
    assert max(lengths) == 64
    assert [each.id for each in seen[lengths.index(64)].waiting] == list(range(64))
