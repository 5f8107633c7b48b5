"""The museums of the lessons: what is exhibited as broken is broken, and can be repaired."""

import importlib
import re

import pytest
import torch
from answers import worked
from notebooks import MUSEUMS, WITHOUT_EXERCISE, Notebooks, Visit
from tiers import some

from course.lesson_data import (
    l01_chunks,
    l02_exhibits,
    l03_exhibits,
    l06_races,
    l06_ranks,
    l06_stage_ranks,
    l10_exhibits,
)
from course.lesson_data import l07_exhibits as blocks
from course.registry import exercise
from nanogpt import GPT, Trace, generate, load_model
from nanogpt.policies.queueing import choose_victim, requeue
from nanogpt.preemption import races
from nanogpt.preemption.monitor import write_step
from nanogpt.preemption.runner import Runner

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def exact() -> GPT:
    return load_model(dtype=torch.float64)


# ---- the checks ----------------------------------------------------------------------------------


def test_a_check_names_the_misconception_of_each_exhibit_without_a_card():
    exhibits = [
        ("l01.chunk_mask", l01_chunks.unmasked_later, "all_true"),
        ("l02.choose_victim", l02_exhibits.oldest, "oldest"),
        ("l02.requeue", l02_exhibits.start_over, "restarts"),
        ("l03.full_mask", l03_exhibits.padding_in_sight, "new_padding_visible"),
        ("l06.rollback_step", races.keep_previous_step, "keeps_previous_step"),
        ("l06.local_vote", races.flag_vote, "flag"),
        ("l06.preemption_point", races.leave_alone, "no_collective"),
        ("l06.preemption_point", races.leave_first, "leaves_first"),
    ]
    for name, function, misconception in exhibits:
        report = exercise(name).check(function)
        assert (report.status, report.misconception) == ("failed", misconception), name


@pytest.mark.parametrize("stem", some(MUSEUMS, 3))
def test_the_cards_of_a_museum_turn_green_when_its_exhibits_are_repaired(stem, notebooks):
    exercises = [(f"{stem[:3]}.{name}", key) for _, name, key in MUSEUMS[stem]]
    broken, whole = notebooks.solved(stem).reports, notebooks.repaired(stem).reports
    assert broken == [(each, "failed", key) for each, key in exercises]
    assert whole == [(each, "passed", None) for each, _ in exercises]


# ---- lessons 2 and 3 -----------------------------------------------------------------------------


def finished(trace: Trace) -> list[int]:
    return [request_id for step in trace.steps for request_id in step.finished]


def test_the_oldest_victim_is_a_livelock_and_the_right_one_ends_it():
    stuck, free = (l02_exhibits.twins(rule) for rule in (l02_exhibits.oldest, choose_victim))
    assert stuck.error and "stopped after 40 steps" in stuck.error
    assert all(step.work for step in stuck.steps)  # always busy, and neither gets done
    assert finished(stuck) == []
    assert free.error is None
    assert (len(free.steps), finished(free)) == (20, [0, 1])
    assert len(l02_exhibits.twins(l02_exhibits.oldest, requeue).steps) == 19


def test_tokens_recorded_along_the_active_spoil_texts_only_under_priority(exact):
    table = l03_exhibits.crossed_table(exact).splitlines()[2:]
    rows = [re.findall(r"`(.*?)`", row) for row in table]
    assert [(fcfs == oracle, ranked == oracle) for fcfs, ranked, oracle in rows] == [
        (True, False)
    ] * 3


# ---- lesson 4 ------------------------------------------------------------------------------------


def test_one_eviction_per_call_holds_more_than_is_counted_until_it_is_repaired(notebooks, exact):
    over, kept = (
        visit("l04_sliding_window").names["overdrawn"]
        for visit in (notebooks.solved, notebooks.repaired)
    )
    held = [each for step in over.steps for each in step.kv]
    assert {each.kv_tokens_charged for each in held} == {20}
    # One went when the prompt came, one in each step.
    assert {(each.request_id, each.kv_tokens) for each in held} == {(0, 39), (1, 46), (2, 43)}
    assert {each.kv_tokens for step in kept.steps for each in step.kv} == {20}
    assert [max(step.kv_after for step in run.steps) for run in (over, kept)] == [128, 60]
    for request in over.requests:  # and no text betrays it
        oracle = generate(exact, request.prompt_tokens, request.max_new_tokens, sliding_window=20)
        for trace in (over, kept):
            assert list(trace.generated_tokens(request.id)) == oracle


# ---- lesson 6 ------------------------------------------------------------------------------------


def as_recorded(words: str) -> str:
    """Steps are counted from the start of the ranks, and a busy machine gets more time."""
    return re.sub(r"(?<=step )\d+|\d+(?=ms for )", "n", words)


@pytest.mark.parametrize("race", some(sorted(l06_races.RACES), 2))
def test_a_race_in_real_processes_ends_as_it_was_recorded(race: str):
    with Runner(2, timeout_s=8.0) as runner:
        run = l06_races.RACES[race]
        said = {how: run(runner, how == "wrong") for how in ("right", "wrong")}
    recorded = l06_ranks.recording()["races"][race]
    for how, words in said.items():
        assert as_recorded(words) == as_recorded(recorded[how])


@pytest.mark.nightly
def test_a_solution_in_the_place_of_the_wrong_piece_repairs_the_real_ranks(monkeypatch):
    monkeypatch.setattr(races, "keep_previous_step", worked("l06.rollback_step"))
    monkeypatch.setattr(races, "flag_vote", worked("l06.local_vote"))
    monkeypatch.setattr(races, "write_flag", write_step)
    with Runner(2, timeout_s=5.0) as runner:
        assert l06_races.race_state(runner, True) == "the next step admitted requests [0, 1]"
        late = l06_stage_ranks.race_late_write(runner, True)
        assert as_recorded(late) == "step n was meant; step n was computed to its end"
        left = l06_stage_ranks.race_leaving(runner, worked("l06.preemption_point"))
        assert as_recorded(left) == "step n was left at layer 1 of 4"


# ---- lesson 7 ------------------------------------------------------------------------------------

EXHIBITS = {
    "cached_after_eviction": (blocks.run_after_evictions, [2]),
    "free_whole_table": (blocks.run_one_leaves, [1]),
    "num_findable_blocks": (blocks.run_a_failed_step, [1]),
}


@pytest.mark.parametrize("name", some(EXHIBITS, 3))
def test_an_exhibit_of_blocks_spoils_just_these_texts_until_it_is_repaired(name: str, exact: GPT):
    run, spoiled = EXHIBITS[name]
    repaired = WITHOUT_EXERCISE["l07_blocks"][name]
    said, whole = run(exact, getattr(importlib.import_module("lessons.l07_blocks"), name))
    wrong = re.findall(r"^\| (\d+) .*\*\*differs\*\* \|$", said, re.M)
    assert ([int(number) for number in wrong], whole) == (spoiled, False)
    # Where a block is freed too early, the counts show it before any text does.
    freed = "After step 3 block 0 has a count of 0, but 1 table refers to it." in said
    assert freed is (name == "free_whole_table")
    said, whole = run(exact, repaired)
    assert whole and "**differs**" not in said and "has a count of" not in said
    for answer in (None, 7, [1], "K/V"):
        said, whole = run(exact, lambda *_, answer=answer: answer)
        assert not whole and said.startswith("| request | tokens found |")


# ---- lessons 8 and 9 -----------------------------------------------------------------------------


def test_the_exhibits_of_speculation_are_broken_until_they_are_repaired(notebooks: Notebooks):
    shipped, repaired = notebooks.solved("l08_speculation"), notebooks.repaired("l08_speculation")
    # K/V of rejected tokens spoils the text and lowers the acceptance rate.
    broken, whole = rolled_back_by(shipped), rolled_back_by(repaired)
    assert "The texts differ " in broken[0] and "The texts are equal." in whole[0]
    rejected = 0
    for _, drafted, accepted, kept, known in broken[1]:  # the entries add up
        rejected += drafted - accepted
        assert kept == known + rejected
    assert rejected > 10
    assert all(kept == known for *_, kept, known in whole[1])
    assert broken[2] > 1.2 * whole[2]
    # The draft is fast only with prompts that it knows.
    first, second = shipped.table(">measured<").values()
    assert int(second[0]) < int(first[0]) / 2
    first, second = repaired.table(">measured<").values()
    assert first == second


def test_an_engine_that_keeps_the_tokens_of_a_preempted_request_sends_none_twice(monkeypatch):
    monkeypatch.setattr(l10_exhibits, "start_over", requeue)
    newest_only = importlib.import_module("lessons.l10_capstone").send_newest_token
    assert l10_exhibits.sent_twice(newest_only).count("| the oracle's |") == 4


def rolled_back_by(visit: Visit) -> tuple[str, list[list[int]], int]:
    text = visit.text("The oracle: ")
    rows = text.split("<tr>")[2:]
    numbers = [[int(each) for each in re.findall(r"<td.*?>(\d+)</td>", row)] for row in rows]
    return text, numbers, int(re.findall(r"(\d+) passes\.", text)[0])


def test_the_exhibit_of_the_fleet_is_broken_until_it_is_repaired(notebooks: Notebooks):
    shipped, repaired = notebooks.solved("l09_fleet"), notebooks.repaired("l09_fleet")
    for visit, verdict, order in (
        (shipped, "Still broken", [5, 7, 3, 5]),
        (repaired, "Repaired", [7, 3, 5, None]),
    ):
        said = re.findall(r"(Repaired|Still broken)\.</strong>", "".join(visit.texts))
        assert said == [verdict]
        steps = visit.names["revived_story"]["steps"]
        assert [step["popped"] for step in steps if step["event"][0] == "pop"] == order
