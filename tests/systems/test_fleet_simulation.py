"""The fleet's simulation: runs by hand, invariants on random loads, determinism, metrics."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import tiers
from fleets import SECOND, check, decisions_of, load, plain, request, run, runs_of, small_load
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet.costs import CALIBRATED_COST, SOURCE_COST
from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO, PRESETS
from nanogpt.fleet.metrics import percentile
from nanogpt.fleet.simulated_worker import SimulatedWorker
from nanogpt.fleet.simulation import Simulation, simulate
from nanogpt.fleet.workload import make_workload

COSTS = [SOURCE_COST, CALIBRATED_COST]


def times(simulation: Simulation) -> list[tuple[int | None, int | None]]:
    return [(each.first_token_us, each.finished_us) for each in simulation.result().outcomes]


# --- by hand --------------------------------------------------------------------------------------


def test_a_lone_request_by_hand():
    simulation = run(plain(), load(request(0, 100, prompt=10, new=3)))
    # 10 tokens at 50 us and 200 us; then two decode steps of 150 us.
    assert runs_of(simulation) == [
        (0, "prefill", 100, 800, 1, (0,)),
        (0, "decode", 800, 1100, 2, (0,)),
    ]
    assert times(simulation) == [(800, 1100)]
    result = simulation.result()
    assert (result.end_us, result.stopped, result.totals.generated_tokens) == (1100, False, 3)
    assert (result.totals.ttft_p50_ms, result.totals.itl_mean_ms) == (0.7, 0.15)
    assert result.totals.throughput_tokens_per_s == pytest.approx(3 / 0.0011)


def test_a_newcomer_joins_at_the_next_boundary_and_its_prefill_holds_everyone_up():
    simulation = run(plain(), load(request(0, 0, new=5), request(1, 760, new=2)))
    assert runs_of(simulation) == [
        (0, "prefill", 0, 700, 1, (0,)),
        (0, "decode", 700, 850, 1, (0,)),  # the step that was under way at 760
        (0, "prefill", 850, 1300, 1, (1,)),  # shared by two: 250 + 200
        (0, "decode", 1300, 1550, 1, (0, 1)),
        (0, "decode", 1550, 1850, 2, (0,)),
    ]
    assert simulation.result().outcomes[0].max_gap_us == 700  # a prefill and a step
    on_a_boundary = run(plain(), load(request(0, 0, new=5), request(1, 850, new=2)))
    assert runs_of(on_a_boundary)[2] == (0, "prefill", 850, 1300, 1, (1,))
    together = run(plain(), load(request(0), request(1), request(2)))
    assert runs_of(together)[0] == (0, "prefill", 0, 700, 1, (0, 1, 2))


def test_kv_tokens_make_the_next_one_wait_and_are_set_aside_at_the_dispatch():
    a_full_batch = run(plain(batch_size=1), load(request(0), request(1)))
    assert times(a_full_batch) == [(700, 1000), (1700, 2000)]
    # Each needs 10 + 3 - 1 = 12 tokens.
    assert times(run(plain(kv_tokens=24), load(request(0), request(1)))) == [(700, 1200)] * 2
    two = times(run(plain(kv_tokens=23), load(request(0), request(1))))
    assert two == [(700, 1000), (1700, 2000)]
    assert times(run(plain(kv_tokens=10), load(request(0, new=1)))) == [(700, 700)]


def test_who_can_never_be_served_is_refused_at_once_and_holds_up_nobody():
    simulation = run(plain(kv_tokens=12), load(request(0, 5, prompt=11, priority=0), request(1, 6)))
    assert decisions_of(simulation, "refuse") == [(5, 0, None)]
    outcomes = simulation.result().outcomes
    assert outcomes[0].refused and outcomes[0].first_token_us is None
    assert outcomes[1].finished_us == 1006
    totals = simulation.result().totals
    assert (totals.refused, totals.violations, totals.slo_violation_share) == (1, 1, 0.5)


def test_static_batching_fills_a_batch_only_when_the_last_one_has_left():
    given_load = load(request(0, 0, new=9), request(1, 10, new=2), request(2, 20, new=2))
    static = run(plain(batching="static"), given_load)
    assert times(static)[1] == times(static)[2] == (2600, 2850)
    continuous = run(plain(), given_load)
    assert times(continuous)[2][1] < 2000  # type: ignore[operator]


def test_dispatch_rounds_keep_their_distance():
    given_load = load(*(request(number, 100 * number) for number in range(5)))
    for dispatch_us, times_us in ((1000, [0, *[1000] * 4]), (0, [0, 100, 200, 300, 400])):
        simulation = run(plain(dispatch_us=dispatch_us, num_workers=9), given_load)
        assert [at for at, _, _ in decisions_of(simulation, "dispatch")] == times_us


def test_fifo_serves_in_order_of_arrival_even_where_others_would_fit():
    requests = [request(0, 0, new=60), request(1, 1, prompt=60), request(2, 2, prompt=5)]
    kept = run(FIFO, load(*requests), num_workers=1, kv_tokens=100)
    skipped = run(plain(), load(*requests), kv_tokens=100)
    assert [who for _, who, _ in decisions_of(kept, "dispatch")] == [0, 1, 2]
    assert [who for _, who, _ in decisions_of(skipped, "dispatch")] == [0, 2, 1]


def test_priority_then_deadline_then_arrival_rank_the_waiting():
    requests = [
        request(0, 0, new=50), request(1, 1, priority=5, deadline_us=9000),
        request(2, 2, priority=5, deadline_us=8000), request(3, 3, priority=4),
        request(4, 4, priority=5, deadline_us=8000),
    ]  # fmt: skip
    simulation = run(plain(batch_size=1), load(*requests))
    assert [who for _, who, _ in decisions_of(simulation, "dispatch")] == [0, 3, 2, 4, 1]
    equals = [request(number, number, deadline_us=9 * SECOND) for number in range(9)]
    simulation = run(plain(batch_size=1), load(*equals))
    assert [who for _, who, _ in decisions_of(simulation, "dispatch")] == list(range(9))


def test_ageing_lets_the_low_pass_the_high_after_so_long():
    def order(ageing_us: int | None) -> list[int]:
        urgent = [request(number, 2000 * number, new=20, priority=0) for number in range(1, 20)]
        given_load = load(request(0, 0, new=60), *urgent[:1], request(2, 2001, priority=4),
                          *(replace(each, id=each.id + 10) for each in urgent[2:]))  # fmt: skip
        simulation = run(plain(batch_size=1, ageing_us=ageing_us), given_load)
        return [who for _, who, _ in decisions_of(simulation, "dispatch")]

    assert order(None)[-1] == 2
    assert order(2000).index(2) < 10


# --- prefixes -------------------------------------------------------------------------------------


def shared(request_id: int, arrival_us: int, own: int, **fields: Any) -> Any:
    """A request that opens like all of its kind with 100 tokens, and goes on on its own."""
    tokens = (*range(100), *((500 + request_id,) * own))
    return request(request_id, arrival_us, tokens=tokens, **fields)


def hits(simulation: Simulation) -> list[int]:
    return [each.hit_tokens for each in simulation.result().outcomes]


@pytest.mark.parametrize(("cache", "hit"), [("none", 0), ("slots", 64), ("radix", 100)])
def test_a_hit_is_as_long_as_the_cache_can_vouch_for(cache: Any, hit: int):
    given_load = load(shared(0, 0, 20), shared(1, 50_000, 30))
    simulation = run(plain(prefix_cache=cache), given_load)
    assert hits(simulation) == [0, hit]
    second = [each for each in runs_of(simulation) if each[1] == "prefill"][1]
    assert second[3] - second[2] == 50 * (130 - hit) + 200


def test_a_flat_key_finds_nothing_of_an_opening_shorter_than_itself():
    opener = request(0, tokens=tuple(range(500)))
    later = request(1, SECOND, tokens=(*range(40), 900))
    for cache, hit in (("slots", 0), ("radix", 40)):
        assert hits(run(plain(), load(opener, later), prefix_cache=cache)) == [0, hit]


def test_the_whole_prompt_again_leaves_one_token_to_go_on_from():
    given_load = load(shared(0, 0, 0), shared(1, 50_000, 0), shared(2, 90_000, 0, new=1))
    assert hits(run(plain(), given_load, prefix_cache="radix")) == [0, 99, 99]


def test_a_prefix_is_published_when_its_pass_has_ended_and_not_before():
    # Request 1 is in the same pass, request 2 is dispatched while it runs and joins after it.
    given_load = load(shared(0, 0, 20), shared(1, 0, 20), shared(2, 3000, 20))
    assert hits(run(plain(), given_load, prefix_cache="radix")) == [0, 0, 100]


def test_cached_prefixes_give_way_to_what_is_set_aside_the_hit_aside():
    given_load = load(
        shared(0, 0, 20), request(1, 50_000, prompt=100), shared(2, 99_000, 20, new=100)
    )
    simulation = run(plain(kv_tokens=221), given_load, prefix_cache="radix")
    result = simulation.result()
    assert [(each.reserved_tokens, each.cached_tokens) for each in result.runs] == [
        (122, 0), (122, 99), (102, 119), (102, 119), (219, 2), (219, 2),
    ]  # fmt: skip
    assert hits(simulation) == [0, 0, 19]


def test_routing_by_backlog_weighs_a_hit_against_the_work_before_it():
    first, busy = shared(0, 0, 0, new=1), request(1, 100_000, prompt=90, new=200)
    near, far = shared(2, 100_001, 50), shared(3, 100_002, 50)
    config = plain(num_workers=2, prefix_cache="radix", routing="backlog")
    simulation = run(config, load(first, busy, near, far))
    where = [where for _, _, where in decisions_of(simulation, "dispatch")]
    # The hit of 100 is at worker 0; then 50 tokens wait there, which is still less.
    assert where == [0, 0, 0, 0] or where == [0, 0, 0, 1]
    spread = run(replace(config, prefix_cache="none"), load(first, busy, near, far))
    assert [where for _, _, where in decisions_of(spread, "dispatch")] == [0, 0, 1, 0]


# --- preemption -----------------------------------------------------------------------------------


def preempting(**changes: Any) -> Any:
    return plain(batch_size=1, preemption_gap=3, **changes)


def test_a_preempted_request_keeps_its_progress_and_pays_for_its_prefill_again():
    given_load = load(request(0, 0, new=9, priority=7), request(1, 760, new=2, priority=4))
    simulation = run(preempting(), given_load)
    assert runs_of(simulation) == [
        (0, "prefill", 0, 700, 1, (0,)),
        (0, "decode", 700, 850, 1, (0,)),  # until the next boundary: 2 tokens
        (0, "prefill", 850, 1550, 1, (1,)),
        (0, "decode", 1550, 1700, 1, (1,)),
        (0, "prefill", 1700, 2500, 1, (0,)),  # 10 + 2 known tokens
        (0, "decode", 2500, 3400, 6, (0,)),
    ]
    victim = simulation.result().outcomes[0]
    assert (victim.preemptions, victim.generated, victim.first_token_us) == (1, 9, 700)
    assert (victim.computed_prefill_tokens, victim.max_gap_us) == (22, 1650)
    assert simulation.meter.total().gaps_us[1650] == 1  # the time that it was away
    below = load(request(0, 0, new=9, priority=7), request(1, 760, new=2, priority=5))
    assert run(preempting(), below).result().totals.preemptions == 0  # the gap is three levels
    result = simulation.result()
    assert [(v.request_id, v.ended, v.generated_tokens) for v in result.visits] == [
        (0, "preempted", 2), (1, "finished", 2), (0, "finished", 7),
    ]  # fmt: skip


def test_swapping_pays_for_the_transfer_instead():
    given_load = load(request(0, 0, new=9, priority=7), request(1, 760, new=2, priority=4))
    simulation = run(preempting(kv_swap=True), given_load)
    # 11 tokens come back at 5 us, and the last known one is computed.
    assert runs_of(simulation)[4] == (0, "prefill", 1700, 1700 + 55 + 50 + 200, 1, (0,))
    assert simulation.result().outcomes[0].computed_prefill_tokens == 11


def test_as_few_leave_as_it_takes_the_lowest_first():
    running = [request(n, 0, new=50, priority=9 - n % 3) for n in range(6)]
    given_load = load(*running, request(9, 8000, prompt=30, new=3, priority=2))
    config = plain(batch_size=32, kv_tokens=6 * 59 + 10, preemption_gap=3)
    simulation = run(config, given_load)
    assert [who for _, who, _ in decisions_of(simulation, "preempt")] == [0]
    given_load = load(*running, request(9, 8000, prompt=100, new=3, priority=2))
    simulation = run(config, given_load)
    assert [who for _, who, _ in decisions_of(simulation, "preempt")] == [0, 3]


def test_with_ageing_whoever_has_waited_long_is_left_alone():
    def preemptions(ageing_us: int | None) -> int:
        given_load = load(request(0, 0, new=900, priority=9), request(1, 90_000, priority=0))
        simulation = run(preempting(ageing_us=ageing_us), given_load)
        return simulation.result().totals.preemptions

    assert (preemptions(None), preemptions(20_000), preemptions(10_000)) == (1, 1, 0)


# --- urgency --------------------------------------------------------------------------------------


def test_who_can_still_be_saved_rises_two_levels_in_the_last_50_ms_of_slack():
    # 9 steps of 150 us and 700 us of prefill: 1900 us of work.
    waits = request(1, 10, new=9, priority=5, deadline_us=100_000)
    simulation = run(plain(batch_size=1), load(request(0, new=900), waits), urgency="savable")
    assert decisions_of(simulation, "bump") == [(100_000 - 1900 - 50_000, 1, None)]
    lost = load(request(0, new=300), request(1, 10, priority=9, deadline_us=500))
    simulation = run(plain(batch_size=1), lost, urgency="savable")
    assert decisions_of(simulation, "bump") == []


def test_who_is_lost_falls_back_and_lets_others_pass():
    requests = [
        request(0, new=900), request(1, 10, priority=5, deadline_us=60_000),
        request(2, 20, priority=4, deadline_us=10_000_000),
    ]  # fmt: skip
    for urgency, order in (("savable", [0, 2, 1]), ("source", [0, 1, 2])):
        simulation = run(plain(batch_size=1), load(*requests), urgency=urgency)
        assert [who for _, who, _ in decisions_of(simulation, "dispatch")] == order


# --- speculation ----------------------------------------------------------------------------------


def test_a_sure_draft_brings_five_tokens_a_pass_at_its_true_cost():
    sure = request(0, new=22, acceptance=1.0, deadline_us=9 * SECOND)
    simulation = run(plain(speculation=True), load(sure))
    # One token from the prefill, 4 passes of 5 by drafts, then one token is left.
    assert runs_of(simulation)[1:] == [
        (0, "decode", 700, 700 + 4 * 210, 4, (0,)),
        (0, "decode", 1540, 1690, 1, (0,)),
    ]
    assert simulation.result().totals.itl_p99_ms == 0.21


@pytest.mark.parametrize(
    ("fields", "config", "steps"),
    [
        ({"priority": 2}, {}, 21),
        ({"deadline_us": 50_000}, {}, 21),
        ({}, {"batch_size": 1}, 21),
        ({}, {"batch_size": 2}, 5),
    ],
)
def test_the_gates_close(fields: Any, config: Any, steps: int):
    given: Any = {"acceptance": 1.0, "deadline_us": 9 * SECOND, **fields}
    simulation = run(plain(speculation=True, **config), load(request(0, new=22, **given)))
    assert sum(each[4] for each in runs_of(simulation)[1:]) == steps


# --- invariants -----------------------------------------------------------------------------------


def check_run(simulation: Simulation) -> None:
    """What holds of every run to the end, by its outcomes and its records."""
    result = simulation.result()
    config = result.config
    assert not result.stopped and simulation.finished
    for given_request, outcome in zip(result.workload.requests, result.outcomes, strict=True):
        assert outcome.refused == (given_request.kv_tokens_needed > config.kv_tokens)
        if outcome.refused:
            continue
        first_us, finished_us = outcome.first_token_us, outcome.finished_us
        assert first_us is not None and finished_us is not None
        assert given_request.arrival_us < first_us <= finished_us <= result.end_us
        assert outcome.generated == given_request.max_new_tokens
        assert outcome.attained == (finished_us <= given_request.deadline_us)
        visits = [each for each in result.visits if each.request_id == outcome.id]
        assert [each.ended for each in visits] == ["preempted"] * outcome.preemptions + ["finished"]
        assert sum(each.generated_tokens for each in visits) == outcome.generated
        assert all(each.generated_tokens >= 1 for each in visits)  # so every visit is progress
        assert all(a.end_us <= b.dispatched_us for a, b in pairwise(visits))
        assert all(v.dispatched_us <= v.start_us < v.end_us for v in visits)
        known = len(given_request.prompt)
        for visit in visits:
            if not config.kv_swap or visit is visits[0]:
                assert visit.hit_tokens + visit.computed_tokens == known
            known += visit.generated_tokens
    for worker in range(config.num_workers):
        runs = [each for each in result.runs if each.worker == worker]
        assert all(a.end_us <= b.start_us for a, b in pairwise(runs))
        for each in runs:
            assert each.reserved_tokens + each.cached_tokens <= config.kv_tokens
            assert len(set(each.request_ids)) == len(each.request_ids) <= config.batch_size
    dispatched = Counter(who for _, who, _ in decisions_of(simulation, "dispatch"))
    assert dispatched == {
        each.id: each.preemptions + 1 for each in result.outcomes if not each.refused
    }
    assert result.totals.arrived == len(result.outcomes)
    missed = sum(not each.attained for each in result.outcomes)
    assert result.totals.violations == missed
    assert result.totals.slo_violation_share == missed / len(result.outcomes)
    assert result.totals.preemptions == sum(each.preemptions for each in result.outcomes)
    hit = sum(each.hit_tokens for each in result.outcomes)
    computed = sum(each.computed_prefill_tokens for each in result.outcomes)
    assert (result.totals.kv_hit_share or 0) == pytest.approx(hit / max(1, hit + computed))


PRESET_LIST = [*PRESETS.values(), replace(ADAPTIVE, name="swap", kv_swap=True, ageing_us=None)]


def small_fleet(draw: random.Random) -> dict[str, Any]:
    return {
        "num_workers": draw.randint(1, 3),
        "batch_size": draw.choice((1, 2, 5, 32)),
        "kv_tokens": draw.choice((120, 200, 400, 2048)),
        "cost": draw.choice(COSTS),
        "dispatch_us": draw.choice((0, 1000)),
    }


@tiers.examples(0.5)
@given(st.randoms(use_true_random=False), st.sampled_from(PRESET_LIST))
def test_the_invariants_hold_of_every_small_load_and_looking_in_between_changes_nothing(
    draw: random.Random, config: Any
):
    config = replace(config, **small_fleet(draw))
    given_load = small_load(draw, gap_us=draw.choice((300, 3000)))
    simulation = Simulation(config, given_load)
    while not simulation.finished:
        simulation.advance(simulation.now_us + draw.choice((50, 5000, 300_000)))
        check(simulation)
        simulation.result()
    check_run(simulation)
    assert simulation.result().to_json() == simulate(config, given_load).to_json()


# --- the same, always -----------------------------------------------------------------------------


def test_many_steps_at_once_are_the_same_as_one_by_one():
    start, preemptions, refused = SimulatedWorker.start, 0, 0

    def start_one(self: SimulatedWorker, now_us: int) -> bool:
        started = start(self, now_us)
        self._num_steps = min(self._num_steps, 1)  # pyright: ignore[reportPrivateUsage]
        return started

    for seed, config in enumerate(PRESET_LIST * 12):
        draw = random.Random(f"steps {seed}")
        changes, given_load = {**small_fleet(draw), "dispatch_us": 0}, small_load(draw)
        together = run(config, given_load, **changes).result()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SimulatedWorker, "start", start_one)
            one_by_one = run(config, given_load, **changes).result()
        assert together.outcomes == one_by_one.outcomes
        assert (together.totals, together.samples) == (one_by_one.totals, one_by_one.samples)
        preemptions += together.totals.preemptions
        refused += together.totals.refused
    assert preemptions and refused, "these loads are those of the invariants"


def test_a_run_that_is_stopped_says_so_and_has_what_there_is():
    given_load = make_workload("steady", 100, 5, 1)
    simulation = Simulation(ADAPTIVE, given_load)
    simulation.advance(1_234_567)
    result = simulation.result()
    assert result.stopped and result.end_us == 1_234_567
    assert len(result.samples) == 1
    assert 100 < result.totals.arrived < 150 and result.totals.completed > 90
    assert all(each.end_us <= 1_234_567 for each in result.runs)
    assert any(each.ended == "running" for each in result.visits)
    empty = simulate(ADAPTIVE, load())
    assert (empty.end_us, empty.stopped, empty.totals.ttft_p50_ms) == (0, False, None)


# --- metrics --------------------------------------------------------------------------------------


def test_percentiles_are_nearest_rank():
    for counts, expected in (
        ({30: 1, 10: 1, 20: 1}, [10, 10, 20, 20, 30, 30]),
        ({4: 3, 1: 2, 9: 5}, [1, 4, 4, 4, 9, 9]),
        ({}, [None] * 6),
    ):
        found = [percentile(counts, percent) for percent in (1, 33, 34, 50, 99, 100)]
        assert found == expected


def test_the_rolling_metrics_forget_what_is_ten_seconds_old():
    result = simulate(FIFO, load(request(0), request(1, 11_500_000), request(2, 15 * SECOND)))
    rolling = result.samples
    assert [each.completed for each in rolling] == [1] * 10 + [0] + [1] * 4
    assert rolling[0].throughput_tokens_per_s == 3.0
    assert rolling[9].throughput_tokens_per_s == rolling[11].throughput_tokens_per_s == 0.3
    assert rolling[10].ttft_p50_ms is None
    on_a_full_second = simulate(FIFO, load(request(0, 999_000), request(1, 1_500_000)))
    assert on_a_full_second.outcomes[0].finished_us == SECOND
    assert [each.completed for each in on_a_full_second.samples] == [1]


def test_a_violation_counts_when_the_deadline_passes_not_when_it_is_done():
    late = request(0, new=20_000, deadline_us=1_200_000)  # done at about 3 s
    result = simulate(replace(FIFO, kv_tokens=30_000), load(late))
    shares = [each.slo_violation_share for each in result.samples]
    assert shares == [None, 1.0, 1.0]
    assert (result.totals.violations, result.totals.slo_violation_share) == (1, 1.0)
    assert result.outcomes[0].finished_us == 700 + 19_999 * 150


def test_prompts_are_computed_in_one_pool_and_texts_in_the_other_a_link_apart():
    pools: dict[str, Any] = {"num_workers": 2, "num_prefill_workers": 1, "cost": CALIBRATED_COST}
    two = [request(0, prompt=1000, new=3), request(1, prompt=1000, new=3)]
    fast = run(plain(**pools), load(*two)).result()
    slow = run(plain(**pools, link_us_per_token=10.0), load(*two)).result()
    for ran, link_us in ((fast, 0), (slow, 9990)):
        assert {(r.worker, r.kind) for r in ran.runs} == {
            (0, "prefill"), (1, "prefill"), (1, "decode"),
        }  # fmt: skip
        prefill_us, visits = 600 + 2 * 13_000, [v for v in ran.visits if v.worker == 0]
        # Both prompts are one pass; the link takes one after the other.
        assert [(v.ended, v.end_us) for v in visits] == [
            ("sent", prefill_us + link_us), ("sent", prefill_us + 2 * link_us),
        ]  # fmt: skip
        assert [v.computed_tokens for v in ran.visits if v.worker == 1] == [1, 1]
        assert all(outcome.generated == 3 for outcome in ran.outcomes)


@given(st.randoms(use_true_random=False))
def test_two_pools_finish_every_load(draw: random.Random):
    workers = draw.randint(2, 4)
    config = plain(
        num_workers=workers, num_prefill_workers=draw.randint(1, workers - 1),
        kv_tokens=200, batch_size=draw.randint(1, 4), link_us_per_token=draw.choice((0, 0.5, 40)),
        prefix_cache=draw.choice(("none", "radix")),
    )  # fmt: skip
    ran = run(config, small_load(draw))
    assert ran.num_done == len(ran.states)


def test_a_request_that_waits_for_a_decode_worker_holds_up_no_prompt():
    config = plain(num_workers=2, num_prefill_workers=1, batch_size=1, order="fifo")
    ran = run(config, load(*(request(i, prompt=50, new=500) for i in range(3)))).result()
    prefilled_us = [visit.end_us for visit in ran.visits if visit.worker == 0]
    assert len(prefilled_us) == 3 and max(prefilled_us) < (ran.outcomes[0].finished_us or 0)
