"""Clocks: what a cost model charges, by hand, and that modelled time moves by charges only."""

import dataclasses

from nanogpt.clock import CostClock, CostModel, WallClock
from nanogpt.trace import ForwardRecord
from nanogpt.views.step_cost import Link

ROUND = CostModel("round", True, 100.0, 50.0, 10.0, 1.0, 1)


def test_a_forward_costs_fixed_and_token_work_and_context_and_a_small_batch_a_floor():
    assert ROUND.forward_us(ForwardRecord(8, 6, 9, 20)) == 100 + 9 * 10 + 20
    assert ROUND.forward_us(ForwardRecord(2, 0, 2, 0)) == 100 + 50
    assert ROUND.forward_us(ForwardRecord(6, 0, 6, 0)) == 100 + 60
    assert ROUND.step_us(6, 2, 20) == ROUND.forward_us(ForwardRecord(8, 6, 8, 20))


def test_one_prompt_token_may_stand_for_several_and_a_decode_never_does():
    scaled = dataclasses.replace(ROUND, prompt_scale=4)
    assert scaled.forward_us(ForwardRecord(8, 6, 8, 0)) == 100 + (6 * 4 + 2) * 10
    assert scaled.forward_us(ForwardRecord(8, 0, 8, 5)) == 100 + 8 * 10 + 5 * 4
    assert scaled.forward_us(ForwardRecord(8, 6, 14, 0)) == 100 + (6 * 4 + 6 * 4 + 2) * 10


def test_a_cost_clock_moves_by_charges_only():
    clock = CostClock(ROUND)
    assert (clock.now_us(), clock.now_us()) == (0, 0)
    clock.charge([ForwardRecord(6, 6, 6, 0), ForwardRecord(1, 0, 1, 9)])
    assert clock.now_us() == 160 + 159
    clock.charge([])
    assert clock.now_us() == 319
    assert (clock.record.name, clock.record.modelled) == ("round", True)


def test_a_copy_takes_latency_and_bytes_and_policies_see_the_same_costs():
    linked = dataclasses.replace(ROUND, kv_bytes=300, link=Link(7, 100), prompt_scale=2)
    assert [linked.copy_us(tokens) for tokens in (0, 1, 5)] == [0, 7 + 3, 7 + 15]
    assert [linked.step_cost(tokens) for tokens in (1, 2, 9)] == [150, 150, 280]
    assert all(linked.step_cost(n) == linked.step_us(n, 0) for n in range(1, 20))


def test_the_wall_clock_passes_by_itself_in_whole_microseconds():
    clock = WallClock()
    start = clock.now_us()
    clock.charge([ForwardRecord(1000, 0, 1000, 0)])
    while clock.now_us() == start:
        pass
    assert isinstance(clock.now_us(), int)
    assert not clock.record.modelled
