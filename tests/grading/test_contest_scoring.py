"""The contest's workloads and scores, fixed by name and seed, and the bound that none exceeds."""

import random
import re
from itertools import pairwise
from typing import Any

import pytest
import torch
from fakes import any_legal_plan
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

from nanogpt.contest import (
    BASELINES,
    NAMES,
    Call,
    Entry,
    Workload,
    bound,
    play,
    play_round,
    workload,
)
from nanogpt.contest.scoring import FCFS, first_times
from nanogpt.contest.workloads import MODEL, Machine
from nanogpt.policies import Policies
from nanogpt.policies.queueing import ResumeState, requeue
from nanogpt.trace import StepRecord, WorkRecord

ROOMY = {"at": 0, "ttft": 10**6, "itl": 10**6}


def of_calls(*calls: Call, **limits: Any) -> Workload:
    """A workload made by hand."""
    return Workload("by hand", 0, Machine(**limits), calls)


def call(number: int, length: int = 10, new: int = 1, **promises: int) -> Call:
    """A call whose prompt no other one shares a token with."""
    at, ttft, itl = (promises.get(name, most) for name, most in ROOMY.items())
    prompt = tuple((number + i) % MODEL.vocab_size for i in range(length))
    return Call(number, at, prompt, new, 0, ttft, itl)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Up to seven calls on a small machine, with promises about as long as they take."""
    machine = Machine(
        token_budget=draw(st.integers(1, 24)),
        max_kv_tokens=draw(st.integers(24, 64)),
        max_batch_size=draw(st.integers(1, 4)),
        block_size=draw(st.sampled_from([None, 1, 2, 4])),
    )
    now_us, calls = 0, list[Call]()
    shared = (1, 2, 3, 4, 5, 6)
    for number in range(draw(st.integers(1, 7))):
        now_us += draw(st.sampled_from([0, 0, 3_000, 12_000]))
        prompt = shared[: draw(st.integers(0, 6))]
        prompt += tuple(draw(st.lists(st.integers(0, 64), min_size=1, max_size=12)))
        ttft_us, itl_us = draw(st.integers(5_300, 40_000)), draw(st.integers(4_000, 9_000))
        calls.append(
            Call(number, now_us, prompt, draw(st.integers(1, 5)), number % 3, ttft_us, itl_us)
        )
    return Workload("drawn", 0, machine, tuple(calls))


def begun_anew(request: Any) -> ResumeState:
    """A request that throws away what it was given."""
    return ResumeState(list(request.prompt_tokens), 0, request.arrival_time, 0)


def random_entry(seed: int) -> Entry:
    """Any legal plan, any order, any victim; it may throw away what a request was given."""
    rng = random.Random(seed)
    policies = Policies(
        plan_step=any_legal_plan(seed),
        choose_victim=lambda active: rng.choice(active).id,
        requeue=lambda request: rng.choice([requeue, begun_anew])(request),
    )
    return Entry(f"random {seed}", policies, lambda *_: (rng.random(),))


def shortest_first(decodes: Any, prefilling: Any, waiting: Any, _: int) -> list[tuple[int, int]]:
    """Decodes, then one whole prompt, the shortest: what a hand would do."""
    offered = sorted([*prefilling, *waiting], key=lambda pair: pair[1])
    return [(i, 1) for i in decodes] + offered[:1]


THREE = of_calls(
    call(0, 12, 3),
    call(1, 5, 4, at=6_000),
    call(2, 3, 2, at=400_000),  # after all others are done: the machine waits for it
)


def test_a_workload_is_a_function_of_its_name_and_seed_and_is_what_its_name_says():
    assert workload("chat", 3) == workload("chat", 3)
    assert len({repr(workload(name, seed).calls) for name in NAMES for seed in range(2)}) == 8
    for name in NAMES:
        calls = workload(name, 1).calls
        assert [each.id for each in calls] == list(range(len(calls)))
        assert sorted(each.arrival_us for each in calls) == [each.arrival_us for each in calls]
    chat, documents, bursts, urgent = (workload(name, 0).calls for name in NAMES)
    assert len({each.prompt_tokens[:40] for each in chat}) == 3
    assert max(len(each.prompt_tokens) for each in documents) > 200
    assert sum(b.arrival_us - a.arrival_us > 100_000 for a, b in pairwise(bursts)) == 3
    tightest = [max(each.ttft_us for each in urgent if each.priority == level) for level in (0, 2)]
    assert tightest == [50_000, 400_000]
    assert [call(0, at=100, new=3, ttft=50, itl=7).due_us(i) for i in range(3)] == [150, 157, 164]


def test_a_workload_by_hand_takes_what_its_passes_cost():
    """One pass over 12 tokens; one with the second prompt and a decode; and so on."""
    score = play(THREE, FCFS)
    assert (score.points, score.problem) == (3, "")
    assert score.duration_us == 400_000 + (5_300 + 3) + (5_300 + 4)
    first = 500 + 12 * 512 + 12
    for ttft, kept in ((first, (0, 1, 2)), (first - 1, (1, 2))):
        assert play(of_calls(call(0, 12, 3, ttft=ttft), *THREE.calls[1:]), FCFS).kept == kept
    # One late token misses the SLO.
    assert play(of_calls(call(0, 4, 4, itl=5_310)), FCFS).points == 1
    assert play(of_calls(call(0, 4, 4, ttft=5_304, itl=5_304)), FCFS).points == 0


def test_a_token_counts_from_when_it_was_first_there():
    """Request 0 is given its first token twice: it was preempted and began its text anew."""

    def step(number: int, end_us: int, end: int) -> StepRecord:
        work = (WorkRecord(0, "prefill", 0, end, 7),)
        return StepRecord(
            number, 0, end_us, 16, work, (), (), (), (), (), 0, 0, 0, (), (), None, ()
        )

    steps = [step(0, 10, 4), step(1, 20, 5), step(2, 30, 4), step(3, 40, 5), step(4, 50, 6)]
    assert first_times([call(0, 4, 3)], steps) == {0: {0: 10, 1: 20, 2: 50}}


def test_a_wrong_text_or_a_failing_part_scores_nothing_and_says_why():
    first_only = Policies(
        chunk_mask=lambda past, new: (torch.arange(past + new) < 1).expand(new, -1)
    )
    for entry, words in (
        (Entry("mask", first_only), "the text of request 0 is wrong: "),
        (Entry("plan", Policies(plan_step=lambda *_: 1 // 0)), "a policy raised ZeroDivision"),
        (
            Entry("key", priority_key=lambda *_: None),
            "returned None; it must be a tuple of numbers",
        ),
    ):
        score = play(workload("documents", 0), entry)
        assert score.points == 0 and score.kept == ()
        assert words in score.problem


def test_a_run_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch):
    """Any run that takes longer than it may: two that push each other out in turns do."""
    monkeypatch.setattr("nanogpt.contest.scoring.MOST_STEPS", 40)
    score = play(workload("urgent", 0), FCFS)
    assert score.points == 0
    assert re.fullmatch(r"after 40 steps \d+ requests are not done", score.problem)


def test_a_text_that_is_begun_anew_or_scheduled_at_random_is_still_right():
    anew = Entry("anew", Policies(requeue=begun_anew), "priority")
    assert play(workload("urgent", 0), anew).problem == ""
    assert play(workload("bursts", 0), random_entry(5)).problem == ""


def test_the_baselines_score_what_they_scored_when_this_was_written():
    """A change of the engine that changes this changes every leaderboard: say so, and why.

    In each row, the bound lies between the best baseline and the number of calls.
    """
    rounds = [play_round(name, 0, 0, BASELINES) for name in NAMES]
    assert [
        (each.workload, each.num_calls, each.most, [each.points(e.name) for e in BASELINES])
        for each in rounds
    ] == [
        ("chat", 32, 32, [20, 20, 26]),
        ("documents", 24, 20, [6, 7, 12]),
        ("bursts", 33, 32, [21, 21, 24]),
        ("urgent", 32, 32, [16, 17, 24]),
    ]


GREEDY = Entry("greedy", Policies(plan_step=shortest_first))
ALONE_US = 500 + 10 * 16 * 32 + 10  # a prompt of ten, alone: 5,630
OVERLOADED = of_calls(*(call(i, 10, 2, ttft=24_000, itl=5_400) for i in range(7)))


@examples(0.2)
@example(OVERLOADED, 3)
@given(workloads(), st.integers(0, 10**6))
def test_no_entry_beats_the_bound(drawn: Workload, seed: int):
    most = bound(drawn)
    for entry in [*BASELINES, GREEDY, random_entry(seed)]:
        assert play(drawn, entry).points <= most, entry.name


def test_alone_the_bound_is_exact_to_the_microsecond():
    """The later tokens of the second call come 5,311 and then 5,312 after the first."""
    three = {"new": 3, "itl": 5_311}
    for kept, made in (
        (1, call(0, ttft=ALONE_US)),
        (0, call(0, ttft=ALONE_US - 1)),
        (1, call(0, ttft=ALONE_US + 1, **three)),
        (0, call(0, ttft=ALONE_US, **three)),
    ):
        assert bound(of_calls(made)) == play(of_calls(made), GREEDY).points == kept


def test_of_prompts_that_need_the_machine_at_once_one_is_late_and_windows_apart_add_up():
    roomy = of_calls(*(call(i, ttft=10_760) for i in range(2)))  # both in one pass
    assert bound(roomy) == play(roomy, BASELINES[0]).points == 2
    calls = [call(i, at=50_000 * (i // 3), ttft=ALONE_US) for i in range(9)]
    assert bound(of_calls(*calls)) == play(of_calls(*calls), GREEDY).points == 3


def test_the_batch_size_and_the_memory_bound_too():
    """Sixteen take turns in two batches of eight; two that fill the KV budget cannot decode."""
    calls = [call(i, 1, 20, ttft=10_000, itl=6_000) for i in range(16)]
    assert bound(of_calls(*calls)) < 16
    assert bound(of_calls(*calls[:8])) == 8 == play(of_calls(*calls[:8]), BASELINES[0]).points
    calls = [call(i, 20, 12, ttft=22_000, itl=5_400) for i in range(2)]
    assert bound(of_calls(*calls, max_kv_tokens=64)) == 2
    assert bound(of_calls(*calls, max_kv_tokens=32)) == 1


def test_what_prompts_share_is_charged_to_none_of_them():
    def of(prompt: list[int], number: int = 1) -> Call:
        arrival_us, ttft_us = (21_500, 22_000) if number else (0, 27_000)
        return Call(number, arrival_us, tuple(prompt), 12, 0, ttft_us, 5_400)

    four = of_calls(  # they fit into a KV budget that two of them would fill
        *(of([*range(40), 50 + i], i) for i in range(4)),
        max_kv_tokens=40 + 4 * 12,
        block_size=1,
    )
    assert play(four, BASELINES[0]).points == 4 == bound(four)
