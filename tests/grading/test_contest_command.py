"""`learn.py contest`: your policies and the report card."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from course.__main__ import main
from course.calling.jobs import run
from course.launcher.failure import Failure
from course.leaderboard.contest_tables import card_sentence, contest_table
from course.leaderboard.own_policies import card_of, find_own, read_policies
from course.saved_answers import answer_path

pytestmark = pytest.mark.process

SHORTEST = """\
from random import *

HEAD = 1


def in_order(pairs):
    return sorted(pairs, key=lambda pair: pair[HEAD])


def plan_step(decodes, prefilling, waiting, budget):
    plan = [(i, 1) for i in decodes[:budget]]
    used = len(plan)
    for i, left in in_order([*prefilling, *waiting]):
        number = min(left, budget - used)
        if number > 0:
            plan.append((i, number))
            used += number
    return plan
"""


def shortest_first() -> Any:
    space: dict[str, Any] = {}
    exec(SHORTEST, space)
    return space["plan_step"]


@pytest.fixture
def work(learner_folder: Path) -> Path:
    """Where the learner's own policies lie."""
    learner_folder.mkdir()
    return learner_folder


def contest(*words: object) -> int:
    return main(["contest", "--workload", "documents", "--seeds", "1", *map(str, words)])


def test_with_nothing_passed_the_reference_plays_and_it_says_so(work: Path, capsys: Any):
    assert contest() == 0
    said = capsys.readouterr().out
    assert "No policy is yours yet, so the reference plays" in said
    assert "12 of 24 SLOs" in said and "no schedule can meet more than 20" in said
    rows = [line.split() for line in said.splitlines() if line.strip().startswith(("mine", "ref"))]
    assert rows == [["reference", "12", "12"], ["mine", "12", "12"]]


def test_a_file_of_parts_plays_and_comes_before_passed_answers(work: Path, capsys: Any):
    path = answer_path("l01.plan_step")
    path.parent.mkdir(parents=True)
    path.write_text(
        SHORTEST.replace("in_order([*prefilling, *waiting])", "[*prefilling, *waiting]")
    )
    step = [3], [(4, 9)], [(5, 1)], 4
    own = find_own(work / "contest.py", is_wanted=False)
    assert own.sentence == "From your lessons: plan_step."
    assert run(own.functions["plan_step"], *step) == [(3, 1), (4, 3)]
    (work / "contest.py").write_text(SHORTEST)
    own = find_own(work / "contest.py", is_wanted=False)
    assert run(own.functions["plan_step"], *step) == [(3, 1), (5, 1), (4, 2)]
    assert contest("--json") == 0
    said = json.loads(capsys.readouterr().out)
    mine = said["rounds"][0]["scores"]["mine"]
    assert said["policies"] == ["plan_step"] and not said["stopped"]
    assert mine["points"] == len(mine["kept"]) == 18
    brought = {
        "policy": "plan_step",
        "workload": "documents",
        "alone": 6,
        "among": 6,
        "problem": "",
    }
    assert said["report_card"] == [brought]


def test_a_file_that_cannot_play_is_refused_in_a_sentence(work: Path):
    for text, words in (
        (
            "def priority_key(:\n",
            "defines no policy; it takes functions called priority_key, plan_step, ",
        ),
        ("priority_key = 3\n", "cannot play: `priority_key` is no function."),
        ("import nanogpt\n\ndef priority_key(*_):\n    return nanogpt.x\n", "comes from nanogpt: "),
    ):
        (work / "contest.py").write_text(text)
        with pytest.raises(Failure) as caught:
            read_policies(work / "contest.py")
        assert words in str(caught.value)


def test_the_report_card_takes_each_part_in_and_out():
    def raises(*_: object) -> None:
        raise ZeroDivisionError

    def exits(*_: object) -> None:
        os._exit(3)

    for broken in (raises, exits):
        card = card_of({"plan_step": shortest_first(), "assign_tokens": broken}, ["documents"], 0)
        by_policy = {each.policy: each for each in card}
        plan, record = by_policy["plan_step"], by_policy["assign_tokens"]
        assert (plan.alone, plan.among) == (6, 0)  # with the other one, nothing is scored at all
        assert (record.alone, record.among) == (-12, -18)
        said = card_sentence(card)
        assert "With assign_tokens a run fails: " in said and "With plan_step" not in said


def test_a_notebook_gets_the_same_as_markdown():
    said = contest_table({"plan_step": shortest_first()}, ["documents"])
    assert said.startswith("| documents | seed 0 | all |\n| --- | ---: | ---: |\n| FCFS | 6 | 6 |")
    with pytest.raises(ValueError, match="the contest has no policy 'pack'; it has priority_key, "):
        contest_table({"pack": shortest_first()})
