"""The museums of the lessons: what is exhibited as broken is broken, and can be repaired.

Lessons 2 to 4, as they are shipped, and with the solutions in place of their exhibits. The
exhibits of all lessons that have a check are held to it.
"""

import ast
import importlib
import inspect
import re
from typing import Any

import pytest
from notebooks import MUSEUMS, Notebooks, Visit

from course.registry import exercise
from course.stories import l01_chunks, l01_exhibits
from course.stories.l05_ladder import gate_by
from nanogpt import Trace, generate, load_model

EVERYONE = [0, 1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def shipped(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l02_scheduling")


@pytest.fixture(scope="module")
def repaired(notebooks: Notebooks) -> Visit:
    return notebooks.unsolved("l02_scheduling")


@pytest.fixture(scope="module")
def shipped_3(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l03_interleaving")


@pytest.fixture(scope="module")
def repaired_3(notebooks: Notebooks) -> Visit:
    return notebooks.unsolved("l03_interleaving")


@pytest.fixture(scope="module")
def shipped_4(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l04_sliding_window")


@pytest.fixture(scope="module")
def repaired_4(notebooks: Notebooks) -> Visit:
    return notebooks.unsolved("l04_sliding_window")


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
    broken, whole = notebooks.solved(stem).reports, notebooks.unsolved(stem).reports
    assert broken == [(each, "failed", key) for each, key in exercises]
    assert whole == [(each, "passed", None) for each, _ in exercises]


# ---- the symptoms of lesson 2 --------------------------------------------------------------------


def test_exhibit_a_is_a_livelock_until_it_is_repaired(shipped, repaired):
    stuck, free = shipped.trace("politeness"), repaired.trace("politeness")
    assert stuck.error and "stopped after 40 steps" in stuck.error
    assert all(step.work for step in stuck.steps)  # always busy, and nobody gets done
    assert finished(stuck) == []
    assert num_preempted(stuck) > 15
    assert free.error is None
    assert (len(free.steps), num_preempted(free), finished(free)) == (20, 1, [0, 1])


def test_exhibit_b_lets_later_requests_overtake_until_it_is_repaired(shipped, repaired):
    assert finished(shipped.trace("fair")) == EVERYONE
    assert sorted(finished(shipped.trace("rude"))) == EVERYONE
    assert finished(shipped.trace("rude")).index(2) > finished(shipped.trace("rude")).index(5)
    assert num_preempted(shipped.trace("rude")) > num_preempted(shipped.trace("fair"))
    assert repaired.trace("rude").steps == repaired.trace("fair").steps


def test_exhibit_c_spoils_texts_under_priority_alone_until_it_is_repaired(shipped, repaired):
    def columns(visit):
        texts = visit.text(">under FCFS<").split("<code>")[1:]
        texts = [each.split("</code>")[0] for each in texts]
        return texts[0::3], texts[1::3], texts[2::3]

    fcfs, ranked, oracle = columns(shipped)
    assert fcfs == oracle
    assert len(oracle) == 3 and all(a != b for a, b in zip(ranked, oracle, strict=True))
    fcfs, ranked, oracle = columns(repaired)
    assert fcfs == ranked == oracle


def test_exhibit_d_is_refused_by_the_engine_until_it_is_repaired(shipped, repaired):
    orphaned, whole = shipped.trace("orphaned"), repaired.trace("orphaned")
    assert orphaned.error and "keeps 6 generated ones" in orphaned.error
    assert finished(orphaned) == []
    assert whole == repaired.trace("tragedy")
    assert finished(whole) == [1, 0]


def test_exhibit_e_blocks_the_queue_until_it_is_repaired(shipped, repaired):
    blocked, warned = shipped.trace("crowded"), repaired.trace("crowded")
    assert blocked.error and "nothing can ever run again" in blocked.error
    assert finished(blocked) == [0]
    assert warned.steps == ()
    assert warned.error and "request 1 needs 18 + 8 - 1 = 25 KV tokens" in warned.error


# ---- the symptoms of lesson 3 --------------------------------------------------------------------


def test_a_neighbours_length_changes_a_text_until_exhibit_a_is_repaired(shipped_3, repaired_3):
    said = shipped_3.table(">what Romeo says<")
    alone = said.pop("nobody comes")
    assert said.pop("1") == alone  # a chunk of one token is padded by nothing
    assert list(said) == ["2", "4", "8", "16", "32"]
    assert alone not in said.values()
    facts = shipped_3.names["neighbour_facts"]
    assert facts[1] == (0, 0)
    flipped, shares = zip(*(facts[n] for n in (2, 8, 32)), strict=True)
    assert min(flipped) > 0
    assert list(shares) == sorted(shares) and shares[0] > 0

    assert list(repaired_3.table(">what Romeo says<").values()) == [alone] * 7
    assert set(repaired_3.names["neighbour_facts"].values()) == {(0, 0)}


def test_exhibit_b_turns_the_short_row_into_nan_until_it_is_repaired(shipped_3, repaired_3):
    number, nan, pair = "a number", "NaN", "a number and a number"
    names = ["1 layer, random weights", "2 layers, random weights", "the trained model, 4 layers"]
    broken, whole = (each.table(">row of 3 tokens<") for each in (shipped_3, repaired_3))
    assert broken == dict(
        zip(names, [[number, number, pair], [nan, number, pair], [nan, number, pair]], strict=True)
    )
    assert whole == {name: [number, number, pair] for name in names}


def test_exhibit_c_shifts_positions_until_it_is_repaired(shipped_3, repaired_3):
    def right(visit):
        return {who: got == oracle for who, (got, oracle) in visit.table("Juliet</td>").items()}

    assert right(shipped_3) == {"Romeo": False, "Juliet": True}
    assert right(repaired_3) == {"Romeo": True, "Juliet": True}
    changed = [
        [int(n) for n in re.findall(r"\d+", each.names["shift_facts"])]
        for each in (shipped_3, repaired_3)
    ]
    assert 0 < changed[0][0] < changed[0][2] < 60  # first letters, and whole texts, of 60
    assert (changed[1][0], changed[1][2]) == (0, 0)


def test_exhibit_d_crosses_texts_from_the_third_arrival_on_until_it_is_repaired(
    shipped_3, repaired_3
):
    def texts(visit):
        return [(got, oracle) for _, got, oracle in visit.table(">arrives<").values()]

    *running, (hamlet, his) = texts(shipped_3)
    for got, oracle in running:  # a letter in each of the steps 0 to 5, and then somebody else's
        assert (got[:6], got[6] == oracle[6]) == (oracle[:6], False)
    assert hamlet[0] != his[0]
    whole = texts(repaired_3)
    assert [oracle for _, oracle in whole] == [oracle for _, oracle in running] + [his]
    assert all(got == oracle for got, oracle in whole)


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
