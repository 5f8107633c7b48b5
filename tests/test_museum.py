"""The museums of the lessons: what is exhibited as broken is broken, and can be repaired.

Lesson 2 is run as it is, and with the solutions in place of its exhibits.
"""

import ast
import importlib
from dataclasses import dataclass
from typing import Any

import marimo
import pytest
import torch
from support import ROOT

from course.registry import exercise
from course.report import Report
from nanogpt import Trace, masks, planning
from solutions import l02_scheduling as solutions

LESSON_2 = [  # exhibit, what it should have been, and what its check says of it
    ("exhibit_a", "choose_victim", "oldest"),
    ("exhibit_b", "resume", "loses_its_place"),
    ("exhibit_c", "record", "records_active"),
    ("exhibit_d", "resume", "orphans"),
    ("exhibit_e", "admit", "never_refuses"),
]
LESSON_1 = [
    ("specimen_a", "chunk_mask", "all_true"),
    ("_specimen", "plan_step", "arrivals_wait"),
]
REPAIRS = {exhibit: getattr(solutions, name) for exhibit, name, _ in LESSON_2}
EVERYONE = [0, 1, 2, 3, 4, 5]


@dataclass(frozen=True, slots=True)
class Visit:
    """One run of lesson 2: the traces that its cells name, and what they show."""

    names: dict[str, Any]
    outputs: list[Any]

    def trace(self, name: str) -> Trace:
        assert isinstance(self.names[name], Trace)
        return self.names[name]

    @property
    def reports(self) -> list[tuple[str, str, str | None]]:
        """The verdicts on the exhibits, in the order of the cells."""
        cards = [each for each in self.outputs if isinstance(each, Report)]
        return [(card.exercise, card.status, card.misconception) for card in cards]

    def text(self, words: str) -> str:
        """The one output that has these words in it."""
        [found] = [o.text for o in self.outputs if isinstance(o, marimo.Html) and words in o.text]
        return found


def visit(folder, answers) -> Visit:
    lesson = importlib.import_module("lessons.l02_scheduling")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVING_NANOGPT_WORK", str(folder))
        outputs, names = lesson.app.run(defs=answers)
    return Visit(dict(names), list(outputs))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    return visit(tmp_path_factory.mktemp("shipped"), {})


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    return visit(tmp_path_factory.mktemp("repaired"), REPAIRS)


def num_preempted(trace: Trace) -> int:
    return sum(len(step.preempted) for step in trace.steps)


def finished(trace: Trace) -> list[int]:
    return [request_id for step in trace.steps for request_id in step.finished]


# ---- the checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("exhibit", "name", "misconception"), LESSON_2)
def test_a_check_names_the_misconception_of_an_exhibit(exhibit, name, misconception):
    lesson = importlib.import_module("lessons.l02_scheduling")
    for seed in range(3):
        report = exercise(f"l02.{name}").check(getattr(lesson, exhibit), seed=seed)
        assert (report.status, report.misconception) == ("failed", misconception)


@pytest.mark.parametrize(("specimen", "name", "misconception"), LESSON_1)
def test_a_check_names_the_misconception_of_a_specimen(specimen, name, misconception):
    """A specimen is local to its cell, so it is read from the text of the lesson."""
    tree = ast.parse((ROOT / "lessons" / "l01_chunked_prefill.py").read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    [source] = [node for node in functions if node.name == specimen]
    names: dict[str, Any] = {"torch": torch, "masks": masks, "planning": planning}
    exec(ast.unparse(source), names)
    report = exercise(f"l01.{name}").check(names[specimen])
    assert (report.status, report.misconception) == ("failed", misconception)


def test_the_cards_of_the_museum_turn_green_when_its_exhibits_are_repaired(shipped, repaired):
    assert shipped.reports == [(f"l02.{name}", "failed", key) for _, name, key in LESSON_2]
    assert repaired.reports == [(f"l02.{name}", "passed", None) for _, name, _ in LESSON_2]


# ---- the symptoms --------------------------------------------------------------------------------


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
