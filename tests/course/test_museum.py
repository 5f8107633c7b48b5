"""The museums of the lessons: what is exhibited as broken is broken, and can be repaired.

Lesson 4, as it is shipped, and with the solutions in place of its exhibits. The
exhibits of all lessons that have a check are held to it.
"""

import ast
import importlib
import inspect
import re
from typing import Any

import pytest
import torch
from notebooks import MUSEUMS, Notebooks, Visit

from course.registry import exercise
from course.stories import l01_chunks, l01_exhibits, l02_exhibits, l03_exhibits
from course.stories.l05_ladder import gate_by
from nanogpt import Trace, generate, load_model
from nanogpt.policies import choose_victim


@pytest.fixture(scope="module")
def shipped_4(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l04_sliding_window")


@pytest.fixture(scope="module")
def repaired_4(notebooks: Notebooks) -> Visit:
    return notebooks.repaired("l04_sliding_window")


def num_preempted(trace: Trace) -> int:
    return sum(len(step.preempted) for step in trace.steps)


def finished(trace: Trace) -> list[int]:
    return [request_id for step in trace.steps for request_id in step.finished]


# ---- the checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stem", "exhibit", "name", "misconception"),
    [(stem, *each) for stem, exhibits in MUSEUMS.items() for each in exhibits],
)
def test_a_check_says_what_is_wrong_with_an_exhibit(stem, exhibit, name, misconception):
    lesson = importlib.import_module(f"lessons.{stem}")
    whole = gate_by if stem == "l05_slo_policy" else lambda piece: piece
    for seed in range(3):
        judged = whole(getattr(lesson, exhibit))
        report = exercise(f"{stem[:3]}.{name}").check(judged, seed=seed)
        assert (report.status, report.misconception) == ("failed", misconception)


def test_a_check_names_the_misconception_of_each_exhibit_of_lesson_1():
    """They stand in its stories: a mask, and a plan that is local to its run."""
    [source] = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(l01_exhibits.late_guest)))
        if isinstance(node, ast.FunctionDef) and node.name == "blind"
    ]
    names: dict[str, Any] = dict(vars(l01_exhibits))
    exec(ast.unparse(source), names)
    for name, exhibit, misconception in (
        ("chunk_mask", l01_chunks.unmasked_later, "all_true"),
        ("plan_step", names["blind"], "arrivals_wait"),
    ):
        report = exercise(f"l01.{name}").check(exhibit)
        assert (report.status, report.misconception) == ("failed", misconception)


@pytest.mark.parametrize("stem", MUSEUMS)
def test_the_cards_of_a_museum_turn_green_when_its_exhibits_are_repaired(stem, notebooks):
    exercises = [(f"{stem[:3]}.{name}", key) for _, name, key in MUSEUMS[stem]]
    broken, whole = notebooks.solved(stem).reports, notebooks.repaired(stem).reports
    assert broken == [(each, "failed", key) for each, key in exercises]
    assert whole == [(each, "passed", None) for each, _ in exercises]


# ---- the symptoms of lesson 2 --------------------------------------------------------------------


def test_a_check_names_the_misconception_of_each_exhibit_of_lesson_2():
    for name, exhibit, misconception in (
        ("choose_victim", l02_exhibits.oldest, "oldest"),
        ("resume", l02_exhibits.start_over, "restarts"),
        ("record", l02_exhibits.along_the_active, "records_active"),
    ):
        report = exercise(f"l02.{name}").check(exhibit)
        assert (report.status, report.misconception) == ("failed", misconception)


def test_exhibit_a_is_a_livelock_and_the_right_victim_ends_it():
    stuck, free = (l02_exhibits.twins(rule) for rule in (l02_exhibits.oldest, choose_victim))
    assert stuck.error and "stopped after 40 steps" in stuck.error
    assert all(step.work for step in stuck.steps)  # always busy, and neither gets done
    assert finished(stuck) == []
    assert num_preempted(stuck) > 15
    assert free.error is None
    assert (len(free.steps), num_preempted(free), finished(free)) == (20, 1, [0, 1])
    assert l02_exhibits.steps_if_kept() == 19


def test_exhibit_b_spoils_texts_under_priority_alone():
    table = l02_exhibits.crossed_table(load_model(dtype=torch.float64)).splitlines()[2:]
    rows = [re.findall(r"`(.*?)`", row) for row in table]
    assert len(rows) == 3
    for fcfs, ranked, oracle in rows:
        assert fcfs == oracle
        assert ranked != oracle


# ---- the symptoms of lesson 3 --------------------------------------------------------------------


def test_a_check_names_the_misconception_of_each_exhibit_of_lesson_3():
    for exhibit, misconception in (
        (l03_exhibits.padding_in_sight, "new_padding_visible"),
        (l03_exhibits.rows_that_see_nothing, "all_masked"),
        (l03_exhibits.forgets_the_past, "past_padding_visible"),
    ):
        report = exercise("l03.full_mask").check(exhibit)
        assert (report.status, report.misconception) == ("failed", misconception)


def test_under_exhibit_a_a_neighbours_length_changes_a_text():
    exact = load_model(dtype=torch.float64)
    rows = l03_exhibits.neighbour_table(exact).splitlines()[2:]
    said = dict(re.fullmatch(r"\| (.+?) \| `(.*)` \|", row).groups() for row in rows)
    alone = said.pop("nothing comes")
    assert said.pop("1") == alone  # a chunk of one token is padded by nothing
    assert list(said) == ["2", "4", "8", "16", "32"]
    assert alone not in said.values()
    facts = l03_exhibits.neighbour_facts(exact)
    assert facts[1] == (0, 0)
    flipped, shares = zip(*(facts[n] for n in (2, 8, 32)), strict=True)
    assert min(flipped) > 0
    assert list(shares) == sorted(shares) and shares[0] > 0


def test_exhibit_b_turns_the_short_row_into_nan_from_two_layers_on():
    rows = l03_exhibits.nan_table(load_model(dtype=torch.float64)).splitlines()[2:]
    number, nan, pair = "a number", "**NaN**", "a number and a number"
    cells = [[cell.strip() for cell in row.split("|")[2:-1]] for row in rows]
    assert cells == [[number, number, pair], [nan, number, pair], [nan, number, pair]]


# ---- the symptoms of lesson 4 --------------------------------------------------------------------


def kv_of(trace: Trace) -> list[Any]:
    """What requests held after each step, all in one list."""
    return [each for step in trace.steps for each in step.kv]


def test_exhibit_a_holds_more_than_is_counted_until_it_is_repaired(shipped_4, repaired_4):
    over, kept = shipped_4.trace("overdrawn"), repaired_4.trace("overdrawn")
    assert {each.counted_tokens for each in kv_of(over)} == {20}
    held = {(each.request_id, each.kv_tokens) for each in kv_of(over)}
    assert held == {(0, 39), (1, 46), (2, 43)}  # one went when the prompt came, one in each step
    assert max(step.kv_after for step in over.steps) == 128
    assert {each.kv_tokens for each in kv_of(kept)} == {20}
    assert max(step.kv_after for step in kept.steps) == 60
    exact = load_model().double()
    for request in over.requests:  # and no text betrays it
        oracle = generate(exact, request.prompt_tokens, request.max_new_tokens, sliding_window=20)
        for trace in (over, kept):
            assert list(trace.generated_tokens(request.id)) == oracle


def test_a_window_does_not_help_where_positions_run_out(notebooks):
    shown = notebooks.solved("l04b_window_quality").table(">says<")
    said = {what: words for what, [words] in shown.items()}
    rows = [said[f"row {n} of the position table"] for n in (62, 63, 64)]
    assert rows == ["found", "found", "IndexError: index out of range in self"]
    assert said["our engine, 9 new tokens"] == "9 tokens, and at most 20 held"
    assert "56 + 10 - 1 = 65 positions" in said["our engine, 10 new tokens"]
