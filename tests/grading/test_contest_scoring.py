"""The contest's workloads and scores: fixed by name and seed, and by nothing else."""

import hashlib
import os
import re
import sys
from itertools import pairwise

import pytest
from contests import call, of_calls, random_entry
from support import ROOT, run

from nanogpt.contest import (
    BASELINES,
    NAMES,
    Call,
    Entry,
    Round,
    hidden_seeds,
    play,
    play_round,
    workload,
)
from nanogpt.contest.draws import Draws
from nanogpt.contest.scoring import FCFS, MOST_STEPS, REFERENCE, first_times
from nanogpt.figures import contest_scores
from nanogpt.parts import Parts
from nanogpt.policies import Resumed
from nanogpt.trace import StepRecord, WorkRecord

THREE = of_calls(
    call(0, 12, 3),
    call(1, 5, 4, at=6_000),
    call(2, 3, 2, at=400_000),  # after all others are done: the machine waits for it
)


def test_draws_are_those_of_sha_256():
    digest = hashlib.sha256(b"a key\x000").digest()
    assert Draws("a key").below(1_000) == int.from_bytes(digest[:8], "big") % 1_000
    draw = Draws("another")
    assert {draw.between(3, 5) for _ in range(50)} == {3, 4, 5}


def test_a_workload_is_a_function_of_its_name_and_seed():
    assert workload("chat", 3) == workload("chat", 3)
    made = {repr(workload(name, seed).calls) for name in NAMES for seed in range(3)}
    assert len(made) == 3 * len(NAMES)


def test_workloads_are_what_their_names_say():
    chat, bursts = workload("chat", 0).calls, workload("bursts", 0).calls
    assert len({each.prompt_tokens[:40] for each in chat}) == 3
    gaps = [b.arrival_us - a.arrival_us for a, b in pairwise(bursts)]
    assert sum(gap > 100_000 for gap in gaps) == 3
    assert max(len(each.prompt_tokens) for each in workload("documents", 0).calls) > 200
    urgent = workload("urgent", 0).calls
    tightest = [max(each.ttft_us for each in urgent if each.priority == level) for level in (0, 2)]
    assert tightest == [50_000, 400_000]
    for name in NAMES:
        calls = workload(name, 1).calls
        assert [each.id for each in calls] == list(range(len(calls)))
        assert sorted(each.arrival_us for each in calls) == [each.arrival_us for each in calls]


def test_a_salt_fixes_seeds_that_another_salt_does_not():
    salt = "sixteen letters!"
    assert hidden_seeds(salt, 3) == hidden_seeds(salt, 5)[:3]
    assert not set(hidden_seeds(salt, 50)) & set(hidden_seeds("sixteen letters?", 50))
    assert all(seed > 10**6 for seed in hidden_seeds(salt, 50))  # no public seed by chance
    with pytest.raises(ValueError, match="the salt has 5 characters; it must have at least 16"):
        hidden_seeds("short", 1)


@pytest.mark.parametrize(
    ("name", "seed", "words"),
    [("chess", 0, "there is no workload 'chess'; choose from chat,"), ("chat", -1, "is -1")],
)
def test_what_is_no_workload_is_refused(name: str, seed: int, words: str):
    with pytest.raises(ValueError, match=re.escape(words)):
        workload(name, seed)


def test_a_workload_by_hand_takes_what_its_passes_cost():
    """One pass over 12 tokens; one with the second prompt and a decode; and so on."""
    score = play(THREE, FCFS)
    assert (score.points, score.problem) == (3, "")
    first = 500 + 12 * 512 + 12
    second = 500 + 5 * 512 + 32  # below the floor of 4,800 us
    assert second < 500 + 4_800
    last = 400_000 + (5_300 + 3) + (5_300 + 4)
    assert score.duration_us == last
    just = of_calls(call(0, 12, 3, ttft=first), *THREE.calls[1:])
    assert play(just, FCFS).kept == (0, 1, 2)
    late = of_calls(call(0, 12, 3, ttft=first - 1), *THREE.calls[1:])
    assert play(late, FCFS).kept == (1, 2)


def test_a_token_counts_from_when_it_was_first_there():
    """Request 0 is given its first token twice: it was preempted and began its text anew."""

    def step(number: int, end_us: int, end: int) -> StepRecord:
        work = (WorkRecord(0, "prefill", 0, end, 7),)
        return StepRecord(number, 0, end_us, 16, work, (), (), (), (), (), 0, 0, 0, ())

    steps = [step(0, 10, 4), step(1, 20, 5), step(2, 30, 4), step(3, 40, 5), step(4, 50, 6)]
    assert first_times([call(0, 4, 3)], steps) == {0: {0: 10, 1: 20, 2: 50}}


def test_a_promise_is_broken_by_one_late_token():
    assert play(of_calls(call(0, 4, 4, itl=5_310)), FCFS).points == 1
    tight = call(0, 4, 4, ttft=5_304, itl=5_304)
    assert play(of_calls(tight), FCFS).points == 0


def _see_nothing(num_past: int, num_new: int):
    import torch

    mask = torch.zeros(num_new, num_past + num_new, dtype=torch.bool)
    mask[:, 0] = True
    return mask


def _broken_plan(*offer: object) -> list[tuple[int, int]]:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            Entry("mask", Parts(chunk_mask=_see_nothing)),
            "the text of request 0 is wrong: ",
        ),
        (Entry("plan", Parts(plan_step=_broken_plan)), "your plan_step raised ZeroDivisionError"),
        (Entry("rank", rank=lambda request, due_us, now_us: None), "your rank returned None for"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_wrong_text_or_a_failing_part_scores_nothing_and_says_why(entry: Entry, words: str):
    score = play(workload("documents", 0), entry)
    assert score.points == 0 and score.kept == ()
    assert words in score.problem


def test_a_run_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch):
    """Any run that takes longer than it may: two that push each other out in turns do."""
    monkeypatch.setattr("nanogpt.contest.scoring.MOST_STEPS", 40)
    score = play(workload("urgent", 0), FCFS)
    assert score.points == 0 and MOST_STEPS > 40
    assert re.fullmatch(r"after 40 steps \d+ requests are not done", score.problem)


def test_a_text_that_is_begun_anew_is_still_right():
    def anew(request):
        return Resumed(list(request.prompt_tokens), 0, request.arrival_time, 0)

    score = play(workload("urgent", 0), Entry("anew", Parts(resume=anew), "priority"))
    assert score.problem == ""


def test_random_entries_give_right_texts_too():
    score = play(workload("bursts", 0), random_entry(5))
    assert score.problem == ""


def test_scores_are_the_same_bytes_in_another_process_with_another_order_of_sets():
    code = "from nanogpt.contest import *; print(play_round('chat', 0, 1, BASELINES))"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    there = run([sys.executable, "-c", code], cwd=ROOT, env=environment).stdout
    assert there == f"{play_round('chat', 0, 1, BASELINES)}\n"


def test_the_baselines_score_what_they_scored_when_this_was_written():
    """A change of the engine that changes this changes every leaderboard: say so, and why."""
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


def test_the_chart_counts_kept_promises_below_the_bound():
    score = play(THREE, REFERENCE)
    chart = contest_scores([Round("by hand", 0, 3, 3, (("mine", score),))], "A title")
    (panel,) = chart.panels
    assert panel.lines[0].points == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert panel.marks[0].value == 3
    with pytest.raises(ValueError, match="no round was played"):
        contest_scores([], "A title")


def test_a_call_has_a_due_time_for_each_token():
    made = Call(0, 100, (1,), 3, 0, 50, 7)
    assert [made.due_us(i) for i in range(3)] == [150, 157, 164]
