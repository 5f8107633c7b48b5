"""What a fleet is given: loads, costs, settings."""

import dataclasses
import random
import statistics
from itertools import pairwise
from typing import Any

import pytest
from fleets import load, request

from nanogpt.fleet import ADAPTIVE, CALIBRATED_COST, PRESETS, SOURCE_COST, make_workload
from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.prefixes import SLOT_KEY_TOKENS, make_cache
from nanogpt.fleet.speculating import Drafts, break_even, may_speculate

MANY = make_workload("steady", 300, 20, 1).requests

# ---------------------------------------------------------------- the load


def test_the_same_seed_gives_the_same_load_and_another_one_another():
    assert make_workload("burst", 30, 9, 7) == make_workload("burst", 30.0, 9.0, 7)
    assert make_workload("burst", 30, 9, 7) != make_workload("burst", 30, 9, 8)


def test_each_kind_of_draw_has_its_own_stream():
    """Another rate or acceptance leaves every other draw of the n-th request as it was."""
    slow, fast = make_workload("steady", 30, 20, 3).requests, make_workload("steady", 60, 10, 3)
    other = make_workload("steady", 30, 20, 3, acceptance=0.5).requests
    for a, b, c in zip(slow, fast.requests, other, strict=False):
        assert (a.prompt, a.max_new_tokens, a.priority) == (b.prompt, b.max_new_tokens, b.priority)
        assert a == dataclasses.replace(c, acceptance=a.acceptance)
        assert abs(a.arrival_us - 2 * b.arrival_us) <= 1
    assert statistics.fmean(each.acceptance for each in other) == pytest.approx(0.5, abs=0.03)


def test_the_load_is_the_sources():
    lengths = [len(each.prompt) for each in MANY]
    assert len(MANY) == pytest.approx(6000, rel=0.03)
    assert (min(lengths), max(lengths)) == (10, 1500)
    assert statistics.median(lengths) == pytest.approx(244, rel=0.05)
    outputs = [each.max_new_tokens for each in MANY]
    assert (min(outputs), max(outputs)) == (20, 256)
    slo = {each.priority: each.deadline_us - each.arrival_us for each in MANY}
    assert sorted(slo.items()) == [
        (priority, 500_000 if priority < 3 else 2_000_000 if priority < 6 else 5_000_000)
        for priority in range(10)
    ]
    urgent = sum(each.priority < 3 for each in MANY) / len(MANY)
    assert urgent == pytest.approx((1 + 2 + 5) / 80, abs=0.01)
    assert statistics.fmean(each.acceptance for each in MANY) == pytest.approx(0.85, abs=0.01)


def test_prompts_share_openings_of_which_a_flat_key_sees_only_the_first_part():
    pool = sorted({each.prompt[:400] for each in MANY if len(each.prompt) >= 400})
    assert len(pool) == 200
    common = [
        next(at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
        for a, b in pairwise(pool)
    ]
    assert sum(each > SLOT_KEY_TOKENS for each in common) > 100  # the tree finds more
    assert any(10 < each < SLOT_KEY_TOKENS for each in common)  # and here the key finds nothing
    assert max(common) <= 320


@pytest.mark.parametrize(
    ("scenario", "quiet", "loud", "span"),
    [("steady", 30, 30, (5, 10)), ("burst", 5, 200, (5, 10)), ("mixed_priority", 30, 80, (4, 11))],
)
def test_the_scenarios_are_the_sources_at_its_rate(
    scenario: Any, quiet: int, loud: int, span: tuple[int, int]
):
    duration_s = 15
    start, end = (duration_s / 4, duration_s * 3 / 4) if scenario == "mixed_priority" else span
    inside = outside = 0
    for seed in range(20):
        for each in make_workload(scenario, 30, duration_s, seed).requests:
            if start <= each.arrival_us / 1e6 < end:
                inside += 1
            else:
                outside += 1
    assert inside / 20 / (end - start) == pytest.approx(loud, rel=0.08)
    assert outside / 20 / (duration_s - end + start) == pytest.approx(quiet, rel=0.12)


@pytest.mark.parametrize("scenario", ["burst", "mixed_priority"])
def test_the_scenarios_are_one_stream_of_arrivals_stretched_by_the_rate(scenario: Any):
    """By its n-th arrival, every scenario has expected the same number of them."""
    steady = make_workload("steady", 30, 60, 5).requests
    phases = {
        "burst": ((5, 6.0), (200, 11.0), (5, 18.0)),
        "mixed_priority": ((30, 4.5), (80, 13.5), (30, 18.0)),
    }[scenario]
    for a, b in zip(steady, make_workload(scenario, 30, 18, 5).requests, strict=False):
        expected, start_s = 0.0, 0.0
        for rate, end_s in phases:
            expected += rate * max(0.0, min(b.arrival_us / 1e6, end_s) - start_s)
            start_s = end_s
        assert expected == pytest.approx(30 * a.arrival_us / 1e6, abs=0.001)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steady", 0, 5, 1), "the rate is 0; it must be a number above 0"),
        (("steady", 3, float("nan"), 1), "the duration is nan"),
        (("calm", 3, 5, 1), "no scenario 'calm'; choose from steady, burst, mixed_priority"),
        (("steady", 3, 5, 1, 1.5), "the acceptance is 1.5; it must be from 0 to 1"),
    ],
)
def test_a_load_that_cannot_be_made_is_refused(arguments: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make_workload(*arguments)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([request(0, prompt=0)], "request 0 has 0 prompt tokens"),
        ([request(0, new=0)], "max_new_tokens 0; both must be at least 1"),
        ([request(0, -1)], "request 0 arrives at -1 us"),
        ([request(0, acceptance=1.1)], "acceptance 1.1"),
        ([request(1), request(0)], "request 0 .* follows request 1"),
        ([request(0, 5), request(1, 4)], "in order of arrival, with ids that rise"),
    ],
)
def test_a_load_by_hand_is_looked_at(requests: Any, message: str):
    with pytest.raises(ValueError, match=message):
        load(*requests)


# ---------------------------------------------------------------- costs


def test_the_sources_formulas():
    assert prefill_us(SOURCE_COST, 400, 1, 0) == 20_200
    assert prefill_us(SOURCE_COST, 400, 32, 0) == 825
    assert [decode_us(SOURCE_COST, batch, 0) for batch in (1, 8, 32)] == [150, 850, 3250]


def gain_of_batching(cost: Any) -> float:
    return 32 * decode_us(cost, 1, 500) / decode_us(cost, 32, 32 * 500)


def test_batching_gains_little_at_the_sources_costs_and_nearly_everything_at_calibrated_ones():
    assert gain_of_batching(SOURCE_COST) == pytest.approx(1.48, abs=0.005)
    assert 27 < gain_of_batching(CALIBRATED_COST) < 32


def test_calibrated_passes_are_bound_by_memory_and_then_by_computing():
    assert decode_us(CALIBRATED_COST, 1, 0) == 2000
    assert prefill_us(CALIBRATED_COST, 107, 1, 0) == 2000
    assert prefill_us(CALIBRATED_COST, 1000, 1, 0) == prefill_us(CALIBRATED_COST, 1000, 9, 0)
    assert prefill_us(CALIBRATED_COST, 1000, 1, 0) == 13_600
    assert decode_us(CALIBRATED_COST, 1, 10_000) == 2180


def test_every_draft_token_is_paid_for_and_the_pass_is_rounded_once():
    spec = {"num_speculating": 2, "num_drafts": 4, "draft_cost": 0.1}
    assert decode_us(SOURCE_COST, 3, 0, **spec) == 350 + 4 * 25
    assert decode_us(CALIBRATED_COST, 3, 0, **spec) == 2000 + 4 * 200
    # 40 + 1 new tokens per request: computing, no longer memory, bounds the verifying pass
    wide = {"num_speculating": 3, "num_drafts": 40, "draft_cost": 0.0}
    assert decode_us(CALIBRATED_COST, 3, 0, **wide) == 600 + 13 * 123
    assert decode_us(SOURCE_COST, 1, 0, num_speculating=1, num_drafts=3, draft_cost=0.001) == 150


def test_both_costs_say_that_they_are_modelled():
    assert SOURCE_COST.modelled and CALIBRATED_COST.modelled


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_workers": 0}, "num_workers is 0; it must be at least 1"),
        ({"batch_size": 2.0}, "batch_size is 2.0; it must be a whole number"),
        ({"kv_tokens": -1}, "kv_tokens is -1"),
        ({"ageing_us": 0}, "ageing_us is 0; it must be at least 1"),
        ({"preemption_gap": 0}, "preemption_gap is 0; it must be at least 1"),
        ({"dispatch_us": -1}, "dispatch_us is -1; it must be at least 0"),
        ({"num_draft_tokens": 0}, "num_draft_tokens is 0"),
        ({"draft_cost": -0.1}, "draft_cost is -0.1; it must be a number, at least 0"),
        ({"draft_cost": float("inf")}, "draft_cost is inf"),
        ({"order": "lifo"}, "there is no order 'lifo'; choose from priority, fifo"),
        ({"urgency": "on"}, "there is no urgency 'on'"),
        ({"routing": "random"}, "there is no routing 'random'"),
        ({"prefix_cache": "all"}, "there is no prefix_cache 'all'"),
        ({"batching": "none"}, "there is no batching 'none'"),
    ],
)
def test_settings_outside_their_limits_are_refused(changes: Any, message: str):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(ADAPTIVE, **changes)


def test_the_defaults_are_the_sources():
    config = FleetConfig()
    assert (config.num_workers, config.batch_size, config.kv_tokens) == (4, 32, 2048)
    assert (config.num_draft_tokens, config.draft_cost, config.preemption_gap) == (4, 0.1, 3)
    assert config.dispatch_us == 1000
    assert list(PRESETS) == ["adaptive", "source", "fifo", "static"]


# ---------------------------------------------------------------- prefix caches


@pytest.mark.parametrize(("kind", "length"), [("slots", 64), ("radix", 80)])
def test_what_was_used_longest_ago_is_forgotten_first(kind: str, length: int):
    prompts = [(number,) * 80 for number in range(3)]
    cache = make_cache(kind, 1000)
    for prompt in prompts:
        cache.publish(prompt, 1000)
    assert cache.match(prompts[0], touch=True) == length
    assert cache.match(prompts[1], touch=False) == length  # a look alone is no use
    cache.fit(2 * length)
    assert cache.num_tokens == 2 * length
    assert [cache.match(prompt, touch=False) for prompt in prompts] == [length, 0, length]
    cache.fit(2 * length)
    assert cache.num_tokens == 2 * length
    cache.publish(prompts[1], length)
    assert cache.num_tokens <= length and cache.match(prompts[2], touch=False) == 0


# ---------------------------------------------------------------- drafts


def test_the_gates_are_the_sources_edges_included():
    assert may_speculate(4, 0.79, 50_001, 3)
    assert not may_speculate(3, 0.79, 50_001, 3)
    assert not may_speculate(4, 0.8, 50_001, 3)
    assert not may_speculate(4, 0.79, 50_000, 3)
    assert not may_speculate(4, 0.79, 50_001, 2)


def test_drafting_breaks_even_where_leviathan_says():
    assert break_even(4, 0.1) == pytest.approx(0.29, abs=0.005)
    assert break_even(4, 0.0) == pytest.approx(0.0, abs=1e-6)
    assert break_even(1, 0.3) == pytest.approx(0.3, abs=1e-6)
    assert break_even(4, 2.0) == 1.0


def test_passes_bring_what_the_theory_expects():
    tokens = passes = 0
    for number in range(400):
        drafts = Drafts(request(number, new=256, acceptance=0.85), 5, 4, None)
        some = drafts.passes(1)
        passes += some - 2  # the last ones are cut off by the request's end
        tokens += drafts.advance(some - 2) - 1
    assert tokens / passes == pytest.approx(3.709, abs=0.03)


@pytest.mark.parametrize(("acceptance", "each"), [(0.0, 1), (1.0, 5)])
def test_sure_drafts_bring_all_or_only_the_one_token_of_the_pass(acceptance: float, each: int):
    drafts = Drafts(request(0, new=100, acceptance=acceptance), 0, 4, None)
    assert drafts.passes(1) >= 19
    assert drafts.advance(10) == 1 + 10 * each


def test_what_is_accepted_does_not_depend_on_how_often_one_asks_or_looks():
    one = Drafts(request(3, new=200), 9, 4, None)
    two = Drafts(request(3, new=200), 9, 4, None)
    whole = one.advance(one.passes(1))
    draw, here = random.Random(0), 1
    while steps := two.passes(here):
        here = two.advance(draw.randint(1, steps))
    assert here == whole > 190
    # A step without drafts in between shifts the positions, and nothing else.
    three = Drafts(request(3, new=200), 9, 4, None)
    assert three.passes(1) and three.advance(0) == 1
    assert three.passes(2) > 0


def test_a_request_stops_drafting_when_its_own_drafts_do_not_pay():
    bad, good = request(0, new=200, acceptance=0.1), request(1, new=200, acceptance=0.9)
    least = break_even(4, 0.1)
    assert Drafts(bad, 0, 4, None).passes(1) > 100
    backing_off = Drafts(bad, 0, 4, least)
    stopped = backing_off.advance(backing_off.passes(1))
    assert 8 <= stopped < 60 and backing_off.passes(stopped) == 0
    assert backing_off.passes(stopped + 7) == 0  # for good
    assert Drafts(good, 0, 4, least).passes(1) == Drafts(good, 0, 4, None).passes(1)
