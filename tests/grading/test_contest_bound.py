"""The bound of the contest: no schedule beats it, and it is exact where a hand can work it out."""

import itertools
from collections.abc import Sequence

import pytest
from contests import call, of_calls, random_entry, shortest_first, workloads
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nanogpt.contest import BASELINES, NAMES, Call, Entry, bound, play, workload
from nanogpt.contest.contest_machine import Machine
from nanogpt.contest.scoring import Workload, _Run, first_times
from nanogpt.contest.upper_bound import (
    _moore_hodgson,
    _most_late,
    _needs,
    shareable_tokens,
    spared_tokens,
)
from nanogpt.parts import Parts

GREEDY = Entry("greedy", Parts(plan_step=shortest_first))
ALONE_US = 500 + 10 * 16 * 32 + 10  # a prompt of ten, alone: 5,630
OVERLOADED = of_calls(*(call(i, 10, 2, ttft=24_000, itl=5_400) for i in range(7)))


@given(workloads(), st.integers(0, 10**6))
@example(OVERLOADED, 3)
@settings(max_examples=12, deadline=None)
def test_no_entry_beats_the_bound(drawn: Workload, seed: int):
    entries = [*BASELINES, GREEDY, random_entry(seed), random_entry(seed + 1)]
    most = bound(drawn)
    for entry in entries:
        assert play(drawn, entry).points <= most, entry.name


@given(workloads(), st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_no_token_comes_sooner_than_alone(drawn: Workload, seed: int):
    run = _Run(drawn, random_entry(seed))
    run.serve()
    times = first_times(drawn.calls, run.steps)
    for each in drawn.calls:
        now_us = each.arrival_us + drawn.machine.pass_us(
            _needs(each, drawn).num_prefill, 0, len(each.prompt_tokens)
        )
        for index in range(each.max_new_tokens):
            assert times[each.id][index] >= now_us
            now_us += drawn.machine.pass_us(0, 1, len(each.prompt_tokens) + index + 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_of_a_recorded_workload_is_above_the_baselines_and_not_above_its_calls(name: str):
    made = workload(name, 0)
    scores = [play(made, entry).points for entry in BASELINES]
    assert max(scores) <= bound(made) <= len(made.calls)


def test_alone_the_bound_is_exact_to_the_microsecond():
    assert bound(of_calls(call(0, ttft=ALONE_US))) == 1
    assert play(of_calls(call(0, ttft=ALONE_US)), GREEDY).points == 1
    assert bound(of_calls(call(0, ttft=ALONE_US - 1))) == 0


def test_later_tokens_have_to_be_in_time_too():
    """Alone the tokens come at 5,630, then after 5,311 and 5,312 more."""
    just = of_calls(call(0, new=3, ttft=ALONE_US + 1, itl=5_311))
    assert (bound(just), play(just, GREEDY).points) == (1, 1)
    assert bound(of_calls(call(0, new=3, ttft=ALONE_US, itl=5_311))) == 0


def test_of_two_prompts_that_need_the_machine_at_once_one_is_late():
    pair = of_calls(*(call(i, ttft=ALONE_US) for i in range(2)))
    assert (bound(pair), play(pair, GREEDY).points) == (1, 1)
    roomy = of_calls(*(call(i, ttft=10_760) for i in range(2)))  # both in one pass
    assert (bound(roomy), play(roomy, BASELINES[0]).points) == (2, 2)


def test_windows_that_do_not_overlap_add_up():
    calls = [call(i, at=50_000 * (i // 3), ttft=ALONE_US) for i in range(9)]
    assert bound(of_calls(*calls)) == 3
    assert play(of_calls(*calls), GREEDY).points == 3


def test_a_full_batch_of_decodes_is_what_a_pass_can_hold():
    """Sixteen requests of one prompt token and 20 new ones; two batches of eight take turns."""
    calls = [call(i, 1, 20, ttft=10_000, itl=6_000) for i in range(16)]
    assert bound(of_calls(*calls)) < 16
    assert bound(of_calls(*calls[:8])) == 8 == play(of_calls(*calls[:8]), BASELINES[0]).points


def test_memory_bounds_too():
    """Two that fill the KV budget each cannot decode side by side."""
    calls = [call(i, 20, 12, ttft=22_000, itl=5_400) for i in range(2)]
    wide, narrow = Machine(max_kv_tokens=64), Machine(max_kv_tokens=32)
    assert bound(of_calls(*calls, machine=wide)) == 2
    assert bound(of_calls(*calls, machine=narrow)) == 1


def test_what_another_prompt_begins_with_may_be_spared():
    def of(prompt: Sequence[int], number: int) -> Call:
        return Call(number, 0, tuple(prompt), 1, 0, 1, 1)

    mine = of([1, 2, 3, 4], 0)
    assert spared_tokens(mine, []) == 0
    assert spared_tokens(mine, [of([1, 2, 9], 1)]) == 2
    assert spared_tokens(mine, [of([1, 2, 3, 4], 1)]) == 3  # the last is always computed
    assert spared_tokens(mine, [of([1, 2], 1)]) == 3  # its text may go on like mine


def test_what_another_may_hold_too_is_charged_to_neither():
    """Four that begin alike fit into a KV budget that two of them would fill."""

    def of(prompt: Sequence[int], number: int) -> Call:
        arrival_us, ttft_us = (21_500, 22_000) if number else (0, 27_000)
        return Call(number, arrival_us, tuple(prompt), 12, 0, ttft_us, 5_400)

    mine = of([1, 2, 3, 4], 0)
    assert shareable_tokens(mine, []) == 0
    assert shareable_tokens(mine, [of([1, 2, 9], 1)]) == 2
    assert shareable_tokens(mine, [of([1, 2], 1)]) == 4 + 12  # its text may go on like mine
    assert shareable_tokens(mine, [of([1, 2, 3, 4, 5], 1)]) == 4 + 12  # and mine like it
    four = of_calls(
        *(of([*range(40), 50 + i], i) for i in range(4)),
        machine=Machine(max_kv_tokens=40 + 4 * 12, block_size=1),
    )
    assert play(four, BASELINES[0]).points == 4 == bound(four)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), max_size=7))
def test_moore_and_hodgsons_rule_is_right_for_every_due_time(jobs: list[tuple[int, int]]):
    for due, late in dict(_moore_hodgson(jobs, 0, 1)).items():
        inside = [job for job in jobs if job[0] <= due]
        assert late == len(inside) - _most_on_time(inside)


def _most_on_time(jobs: list[tuple[int, int]]) -> int:
    """Of all subsets, the largest that is in time one after the other by due time."""
    best = 0
    for chosen in itertools.product([False, True], repeat=len(jobs)):
        taken = sorted(job for job, is_in in zip(jobs, chosen, strict=True) if is_in)
        ends = itertools.accumulate(length for _, length in taken)
        if all(end <= due for end, (due, _) in zip(ends, taken, strict=True)):
            best = max(best, len(taken))
    return best


WINDOW = st.tuples(st.integers(0, 8), st.integers(1, 5)).map(lambda pair: (pair[0], sum(pair)))


@given(st.dictionaries(WINDOW, st.integers(1, 4), max_size=7))
def test_the_best_row_of_windows_is_found(late: dict[tuple[int, int], int]):
    rows = itertools.product([False, True], repeat=len(late))
    best = 0
    for row in rows:
        taken = sorted(window for window, is_in in zip(late, row, strict=True) if is_in)
        if all(a[1] <= b[0] for a, b in itertools.pairwise(taken)):
            best = max(best, sum(late[window] for window in taken))
    assert _most_late(late) == best


def test_a_machine_with_broken_costs_is_refused():
    from nanogpt.experiments.machines import LARGE_GPU

    with pytest.raises(ValueError, match=r"has a cost of 0\.64 us; the contest counts in whole"):
        Machine(LARGE_GPU)
