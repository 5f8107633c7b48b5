"""`learn.py contest`: your policies, the report card, and leaderboards that are verified."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import need_sandbox

from course.__main__ import main
from course.calling.jobs import run
from course.launcher.failure import Failure
from course.leaderboard.board import BoardEntry, board_rows, read_board, with_entry, write_board
from course.leaderboard.contest_tables import card_sentence, contest_table
from course.leaderboard.own_policies import card_of, find_own, read_policies
from course.saved_answers import answer_path
from nanogpt.contest import bound, workload

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
SALT = "a secret of this class"


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


@pytest.mark.process
def test_with_nothing_passed_the_reference_plays_and_it_says_so(work: Path, capsys: Any):
    assert contest() == 0
    said = capsys.readouterr().out
    assert "No policy is yours yet, so the reference plays" in said
    assert "12 of 24 SLOs" in said and "no schedule can meet more than 20" in said
    rows = [line.split() for line in said.splitlines() if line.strip().startswith(("mine", "ref"))]
    assert rows == [["reference", "12", "12"], ["mine", "12", "12"]]


@pytest.mark.process
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
    text = own.texts["plan_step"]
    assert "def in_order" in text and "HEAD = 1" in text and "random" not in text
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


@pytest.mark.process
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


@pytest.mark.process
def test_what_cannot_be_played_is_refused_in_a_sentence(
    work: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(work)
    for said, words in {
        "there is no workload 'chess'": ("--workload", "chess"),
        "the salt has 5 characters; it must have at least 16": ("--salt", "short"),
        "There is no file nowhere.py": ("--file", "nowhere.py"),
        "--plot: ": ("--plot", "x.pdf"),
        "the name of an entry has 1 to 60": ("--name", "a\nb"),
        "b.json": ("--score", "b.json"),
        "--seeds is 1 to 20, and this is 21": ("--seeds", "21"),
    }.items():
        assert contest(*words) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert not (work / "b.json").exists()
    with pytest.raises(SystemExit):
        contest("--seed", "-1")
    assert "'-1' is not a whole number of at least 0" in capsys.readouterr().err


@pytest.mark.process
def test_a_board_has_what_it_takes_to_verify_it(work: Path):
    (work / "contest.py").write_text(SHORTEST)
    board = work / "board.json"
    assert contest("--board", board, "--name", "ann") == 0
    (line,) = read_board(board)
    assert (line.name, line.first_seed, line.salt, line.total) == ("ann", 0, None, 18)
    assert line.points == {"documents": [18]}
    assert line.bounds == {"documents": [bound(workload("documents", 0))]}
    assert list(line.policies) == ["plan_step"]
    before = board.read_bytes()
    assert contest("--board", board, "--name", "ann") == 0
    assert board.read_bytes() == before  # the same name, the same seeds, the same bytes


@pytest.mark.process
def test_an_entry_is_played_again_contained_and_reaches_nothing(work: Path, capsys: Any):
    need_sandbox()
    mark, board = work / "mark", work / "board.json"
    (work / "contest.py").write_text(SHORTEST)
    assert contest("--board", board, "--name", "ann") == 0
    (line,) = read_board(board)
    change = msgspec.structs.replace
    lied = change(line, name="liar", points={"documents": [19]})
    write_board(board, [line, lied, change(line, name="swapped", policies={})])
    reaching = SHORTEST.replace("    used =", f"    open({str(mark)!r}, 'w').close()\n    used =")
    (work / "contest.py").write_text(reaching)
    assert contest("--board", board, "--name", "reaches") == 0
    mark.unlink()  # one's own policies run here
    capsys.readouterr()
    assert main(["contest", "--verify", str(board)]) == 1
    said = capsys.readouterr().out
    assert not mark.exists()
    assert "'ann' holds: 18 points." in said
    assert "'liar' says [19] in documents, and played again it is [18]." in said
    assert "'swapped' says [18] in documents, and played again it is [12]." in said
    assert "'reaches' says [18] in documents, and played again it is [0]" in said
    assert "1 of 4 entries hold." in said


@pytest.mark.nightly
@pytest.mark.process
def test_entries_are_scored_under_a_salt_that_the_board_does_not_tell(work: Path, capsys: Any):
    need_sandbox()
    (work / "contest.py").write_text(SHORTEST)
    board, hidden = work / "board.json", work / "hidden.json"
    assert contest("--board", board, "--name", "ann") == 0
    words = ["--salt", SALT, "--seeds", "1", "--board", str(hidden)]
    assert main(["contest", "--score", str(board), *words]) == 0
    (line,) = read_board(hidden)
    assert line.first_seed is None and SALT not in hidden.read_text()
    assert set(line.points) == {"chat", "documents", "bursts", "urgent"}
    assert main(["contest", "--verify", str(hidden)]) == 1
    assert "was scored under a hidden salt, and --salt gives it" in capsys.readouterr().out
    assert main(["contest", "--verify", str(hidden), "--salt", SALT]) == 0


def an_entry(**changes: Any) -> BoardEntry:
    scores = {"chat": [3, 4]}
    usual = {"name": "ann", "first_seed": 0, "salt": None, "policies": {}}
    return BoardEntry(**{**usual, "points": scores, "bounds": scores, **changes})


def test_an_entry_that_cannot_have_been_played_is_refused(tmp_path: Path):
    problems: dict[str, dict[str, Any]] = {
        "either a first seed or a salt": {"salt": "x"},
        "the contest has no 'chess'": {"points": {"chess": [1]}},
        "same number of seeds, 1 to 20": {"points": {}},
        "the same number of seeds": {"points": {"chat": [1], "bursts": [1, 2]}},
        "the name of an entry": {"name": "\x1b[2J"},
    }
    for words, changes in problems.items():
        with pytest.raises(ValueError, match=words):
            an_entry(**changes)
    path = tmp_path / "board.json"
    for text in (b"[1]", b'[{"name": 3}]', b"[" * 100_000, b""):
        path.write_bytes(text)
        with pytest.raises(Failure, match=r"board\.json: "):
            read_board(path)


def test_a_board_is_ranked_by_points_then_by_name(tmp_path: Path):
    entries = [an_entry(name="bob"), an_entry(name="cy", points={"chat": [5, 4]}), an_entry()]
    write_board(tmp_path / "b", entries)
    assert [each.name for each in read_board(tmp_path / "b")] == ["cy", "ann", "bob"]
    assert [row[0] for row in board_rows(entries)] == ["entry", "cy", "ann", "bob"]
    assert len(with_entry(entries, an_entry(name="bob", first_seed=9))) == 4
    assert len(with_entry(entries, an_entry(name="bob"))) == 3


@pytest.mark.process
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


@pytest.mark.process
def test_a_notebook_gets_the_same_as_markdown():
    said = contest_table({"plan_step": shortest_first()}, ["documents"])
    assert said.startswith("| documents | seed 0 | all |\n| --- | ---: | ---: |\n| FCFS | 6 | 6 |")
    with pytest.raises(ValueError, match="the contest has no policy 'pack'; it has priority_key, "):
        contest_table({"pack": shortest_first()})
