"""The source's eleven defects, one test each: ours does not have them.

Numbered as they were found when the source was run; docs/fleet.md has the table.
"""

import random
from dataclasses import replace

import pytest
from fleets import SECOND, decisions_of, load, plain, request, run, runs_of, small_load

from nanogpt.fleet import (
    AS_SOURCE,
    CALIBRATED_COST,
    FIFO,
    PRESETS,
    SOURCE_COST,
    make_workload,
    simulate,
)
from nanogpt.fleet.costs import decode_us, prefill_us
from nanogpt.fleet.decisions import bump, bump_source, on_event, source_score
from nanogpt.fleet.speculating import Drafts
from nanogpt.fleet.views import WorkerView
from nanogpt.parts.acceptance import expected_tokens, speedup


def test_1_the_first_preemption_does_not_end_the_scheduler():
    """An undefined set ended it there: 266 of 1942 requests were completed."""
    result = simulate(AS_SOURCE, make_workload("steady", 300, 3, 42))
    assert result.totals.preemptions > 20
    assert result.totals.completed == result.totals.arrived > 800


def test_2_a_victim_that_goes_elsewhere_is_in_one_place_and_time_goes_on():
    moved = 0
    for seed in range(40):
        given_load = small_load(random.Random(f"victims {seed}"), gap_us=400)
        simulation = run(AS_SOURCE, given_load, num_workers=2, batch_size=2, kv_tokens=300)
        trace = simulation.result().trace
        assert trace is not None and not simulation.result().stopped
        for visit in trace.visits:
            others = [
                each for each in trace.visits
                if each.request_id == visit.request_id and each.worker != visit.worker
            ]  # fmt: skip
            moved += len(others)
            assert all(
                each.end_us <= visit.dispatched_us or visit.end_us <= each.dispatched_us
                for each in others
            )
    assert moved > 10


def test_3_a_removed_entry_stays_dead_when_its_request_comes_back():
    heap, generations, _ = on_event([], {}, ("push", 1, (5,)))
    heap, generations, _ = on_event(heap, generations, ("remove", 1))
    heap, generations, _ = on_event(heap, generations, ("push", 1, (7,)))
    heap, generations, first = on_event(heap, generations, ("pop",))
    heap, generations, second = on_event(heap, generations, ("pop",))
    assert (first, second) == (1, None)


def test_4_a_step_takes_what_the_model_says_whatever_the_machine_does():
    simulation = run(plain(), load(request(0, new=101)))
    assert runs_of(simulation)[-1][2:5] == (700, 700 + 100 * 150, 100)


def test_5_running_requests_hold_kv_tokens_and_the_budget_binds():
    given_load = make_workload("steady", 300, 1, 42)
    simulation = run(AS_SOURCE, given_load)
    trace = simulation.result().trace
    assert trace is not None
    reserved = [each.reserved_tokens for each in trace.runs]
    assert 1800 < max(reserved) <= 2048
    assert max(each.reserved_tokens + each.cached_tokens for each in trace.runs) <= 2048


def test_6_utilisation_is_the_share_of_the_batch_and_not_of_the_cache():
    idle_but_full = WorkerView(0, 0, 0, 32, 2048, 2048)
    assert source_score(idle_but_full, 0) == pytest.approx(0.1 * 2048 + 0.5 * 32)
    opener = request(0, prompt=1900, new=1)
    later = request(1, SECOND, new=22, acceptance=1.0, deadline_us=9 * SECOND)
    config = plain(speculation=True, prefix_cache="radix", kv_tokens=2048)
    simulation = run(config, load(opener, later))
    trace = simulation.result().trace
    assert trace is not None
    last = trace.runs[-2]
    assert last.cached_tokens > 0.8 * 2048 and last.num_steps == 4  # 5 tokens a pass


def test_7_the_baseline_is_naive():
    assert (FIFO.prefix_cache, FIFO.speculation, FIFO.preemption_gap) == ("none", False, None)
    result = simulate(FIFO, make_workload("steady", 30, 5, 42), trace=True)
    assert result.totals.kv_hit_share == 0.0 and result.totals.preemptions == 0
    assert result.trace is not None
    arrivals = sorted(
        (d for d in result.trace.decisions if d.kind == "dispatch"), key=lambda d: d.request_id
    )
    assert [d.worker for d in arrivals] == [number % 4 for number in range(len(arrivals))]
    steps = sum(
        each.num_steps * len(each.request_ids) for each in result.trace.runs
        if each.kind == "decode"
    )  # fmt: skip
    # One token per step and request: no drafts.
    assert steps == sum(each.generated - 1 for each in result.outcomes)


def test_8_the_first_token_is_stamped_once_when_it_is_there_and_gaps_are_measured():
    given_load = load(request(0, 0, new=9, priority=7), request(1, 760, new=2, priority=4))
    simulation = run(plain(batch_size=1, preemption_gap=3), given_load)
    assert simulation.result().outcomes[0].preemptions == 1
    assert simulation.result().outcomes[0].first_token_us == 700  # the end of its prefill
    assert len(simulation.meter.total().ttfts_us) == 2
    assert simulation.meter.total().gaps_us[1650] == 1  # the time that it was away
    prefills = [each[3] - each[2] for each in runs_of(simulation) if each[1] == "prefill"]
    assert prefills[2] == 50 * (10 + 2) + 200  # what it had generated is computed again


def test_9_a_hit_never_covers_more_than_the_prompts_have_in_common():
    short, long = request(0, tokens=tuple(range(500))), request(1, SECOND, tokens=(*range(70), 9))
    for cache, hit in (("slots", 64), ("radix", 70)):
        simulation = run(plain(), load(short, long), prefix_cache=cache)
        assert simulation.result().outcomes[1].hit_tokens == hit
    opener, other = request(0, tokens=(*range(40), 8)), request(1, SECOND, tokens=(*range(40), 9))
    for cache, hit in (("slots", 0), ("radix", 40)):
        simulation = run(plain(), load(opener, other), prefix_cache=cache)
        assert simulation.result().outcomes[1].hit_tokens == hit


def test_10_urgency_is_for_who_can_be_saved_does_not_add_up_and_equals_go_by_arrival():
    late = 10**6
    assert bump_source(5, late, 0) == 3 and bump(5, late, 0, 0) == 5
    once = bump(5, 0, 40_000, 0)
    assert once == 3  # asked again, it is asked with the 5, not with the 3
    simulation = run(
        plain(batch_size=1, urgency="savable"),
        load(request(0, new=300), request(1, 10, priority=9, deadline_us=500)),
    )
    assert decisions_of(simulation, "bump") == []
    equals = [request(number, number, deadline_us=9 * SECOND) for number in range(9)]
    simulation = run(plain(batch_size=1), load(*equals))
    assert [who for _, who, _ in decisions_of(simulation, "dispatch")] == list(range(9))
    # A promise of the same length made earlier falls due earlier: deadlines are moments.
    early, late_one = request(1, 10, deadline_us=900_000), request(2, 20, deadline_us=900_010)
    simulation = run(plain(batch_size=1), load(request(0, new=50), early, late_one))
    assert [who for _, who, _ in decisions_of(simulation, "dispatch")] == [0, 1, 2]


def test_11_a_calibrated_cost_a_shared_verifying_pass_and_violations_over_all_arrivals():
    # A prefill costs what its tokens cost, and 32 decodes hardly more than one.
    assert prefill_us(CALIBRATED_COST, 800, 32, 0) == prefill_us(CALIBRATED_COST, 800, 1, 0)
    assert decode_us(CALIBRATED_COST, 32, 0) == decode_us(CALIBRATED_COST, 1, 0)
    # Who speculates and who does not share one pass, of one cost.
    assert decode_us(SOURCE_COST, 5, 0, num_speculating=2, num_drafts=4, draft_cost=0.1) == 650
    for config in PRESETS.values():
        overload = simulate(replace(config, num_workers=1), make_workload("steady", 200, 1, 1))
        outcomes = overload.outcomes
        missed = sum(not each.attained for each in outcomes)
        assert overload.totals.slo_violation_share == missed / len(outcomes)
    stopped = simulate(FIFO, make_workload("steady", 900, 3, 1), until_us=3 * SECOND)
    unfinished_and_late = sum(
        each.finished_us is None and given.deadline_us < 3 * SECOND
        for given, each in zip(stopped.workload.requests, stopped.outcomes, strict=True)
    )
    assert unfinished_and_late > 0
    assert stopped.totals.violations >= unfinished_and_late


def test_the_claims_about_speculation_come_out_as_they_should():
    """2.71 are the accepted drafts; tokens per pass are 3.71, and 4.0 times is 2.65 times."""
    assert expected_tokens(0.85, 4) == pytest.approx(3.709, abs=0.001)
    assert speedup(0.85, 4, 0.1) == pytest.approx(2.65, abs=0.005)
    drafts = [Drafts(request(n, new=256), 1, 4, None) for n in range(200)]
    passes = [each.passes(1) - 2 for each in drafts]
    tokens = [each.advance(n) - 1 for each, n in zip(drafts, passes, strict=True)]
    assert sum(tokens) / sum(passes) == pytest.approx(3.709, abs=0.05)
