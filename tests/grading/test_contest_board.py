"""`learn.py contest`: one's own parts, the report card, and leaderboards that are played again."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from contests import shortest_first
from support import need_layers

from course.__main__ import main
from course.answers import answer_path
from course.grading.isolation.zygote import Zygote
from course.grading.record import LAYERS
from course.leaderboard.ablation import Brought, report_card
from course.leaderboard.board import BoardError, Line, read_board, rules, with_line, write_board
from course.leaderboard.notebook_face import contest_table
from course.leaderboard.own_parts import PartsError, find_own, read_parts
from course.leaderboard.tables import board_table, card_sentence
from nanogpt.contest import bound, workload
from nanogpt.planning import plan_step

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


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def contest(*words: object) -> int:
    return main(["contest", "--workload", "documents", "--seeds", "1", *map(str, words)])


def test_with_nothing_passed_the_reference_plays_and_it_says_so(work: Path, capsys: Any):
    assert contest() == 0
    said = capsys.readouterr().out
    assert "No part is yours yet, so the reference plays" in said
    assert "12 of 24 promises" in said and "no schedule can keep more than 20" in said
    rows = [line.split() for line in said.splitlines() if line.strip().startswith(("mine", "ref"))]
    assert rows == [["reference", "12", "12"], ["mine", "12", "12"]]


def test_a_file_of_parts_plays_and_its_text_is_whole(work: Path, capsys: Any):
    (work / "contest.py").write_text(SHORTEST)
    assert contest("--json") == 0
    said = json.loads(capsys.readouterr().out)
    scores = said["rounds"][0]["scores"]
    assert said["parts"] == ["plan_step"] and not said["stopped"]
    assert scores["mine"]["points"] == len(scores["mine"]["kept"]) == 18
    (entry,) = said["report_card"]
    assert entry == {
        "part": "plan_step", "workload": "documents", "alone": 6, "among": 6, "problem": "",
    }  # fmt: skip
    text = find_own(work / "contest.py", is_wanted=False).texts["plan_step"]
    assert "def in_order" in text and "HEAD = 1" in text and "random" not in text


def test_passed_answers_play_and_the_file_comes_before_them(work: Path):
    path = answer_path("l01.plan_step")
    path.parent.mkdir(parents=True)
    path.write_text(
        SHORTEST.replace("in_order([*prefilling, *waiting])", "[*prefilling, *waiting]")
    )
    own = find_own(work / "contest.py", is_wanted=False)
    assert own.sentence == "From your lessons: plan_step."
    assert own.functions["plan_step"]([3], [(4, 9)], [(5, 1)], 4) == [(3, 1), (4, 3)]
    assert "def plan_step" in own.texts["plan_step"]
    (work / "contest.py").write_text(SHORTEST)
    own = find_own(work / "contest.py", is_wanted=False)
    assert own.functions["plan_step"]([3], [(4, 9)], [(5, 1)], 4) == [(3, 1), (5, 1), (4, 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "defines no part; it takes functions called rank, plan_step, "),
        ("def rank(:\n", "defines no part"),
        ("rank = 3\n", "cannot play: `rank` is no function."),
        ("from os import sep\nimport nanogpt\n\ndef rank(*_):\n    return nanogpt.x\n",
         "an answer may import the standard library, torch and numpy alone"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_play_is_refused_in_a_sentence(work: Path, text: str, words: str):
    (work / "contest.py").write_text(text)
    with pytest.raises(PartsError) as caught:
        read_parts(work / "contest.py")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workload", "chess"], "there is no workload 'chess'"),
        (["--salt", "short"], "the salt has 5 characters; it must have at least 16"),
        (["--file", "nowhere.py"], "There is no file nowhere.py"),
        (["--plot", "x.pdf"], "--plot: "),
        (["--name", "a\nb", "--board", "b.jsonl"], "has a name that is not 1 to 60 characters"),
        (["--score", "b.jsonl"], "b.jsonl"),
        (["--seeds", "21"], "--seeds is 1 to 20, and this is 21"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(
    work: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
):
    monkeypatch.chdir(work)
    assert main(["contest", "--seeds", "1", "--workload", "documents", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (work / "b.jsonl").exists()


def test_ctrl_c_says_one_sentence_and_leaves_the_board(
    work: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("course.leaderboard.command.play_round", stop)
    board = work / "board.jsonl"
    board.write_text("")
    assert contest("--board", board) == 130
    error = capsys.readouterr().err
    assert error == "Stopped with 0 of 1 workloads played; no leaderboard was changed.\n"
    assert board.read_text() == ""


class Shared(Zygote):
    """A warm process for the commands of all tests, of which none ends it."""

    def close(self) -> None:
        pass

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="module")
def warm() -> Iterator[Shared]:
    need_layers(*LAYERS)
    shared = Shared()
    yield shared
    shared.end()


@pytest.fixture
def contained(warm: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command that plays other people's parts wants all layers, and gets the warm process."""

    def already_started(layers: Collection[str]) -> Shared:
        assert layers == LAYERS
        return warm

    monkeypatch.setattr("course.grading.isolation.zygote.Zygote", already_started)


@pytest.fixture(scope="module")
def anns_board(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What stands in a leaderboard once ann has played."""
    folder = tmp_path_factory.mktemp("ann")
    (folder / "contest.py").write_text(SHORTEST)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SERVING_NANOGPT_WORK", str(folder))
        assert contest("--board", folder / "board.jsonl", "--name", "ann") == 0
    return (folder / "board.jsonl").read_bytes()


@pytest.fixture
def board(work: Path, anns_board: bytes) -> Path:
    (work / "contest.py").write_text(SHORTEST)
    (work / "board.jsonl").write_bytes(anns_board)
    return work / "board.jsonl"


def test_a_board_has_what_it_takes_to_verify_it(board: Path, capsys: Any):
    (line,) = read_board(board)
    assert (line.name, line.first_seed, line.salt, line.total) == ("ann", 0, None, 18)
    assert line.points == {"documents": [18]}
    assert line.bounds == {"documents": [bound(workload("documents", 0))]}
    assert line.rules == rules() and list(line.parts) == ["plan_step"]
    before = board.read_bytes()
    assert contest("--board", board, "--name", "ann") == 0
    assert board.read_bytes() == before  # the same name, the same seeds, the same bytes
    assert contest("--board", board, "--name", "bob", "--seed", "1") == 0
    assert [each.name for each in read_board(board)] == ["ann", "bob"]


@pytest.mark.usefixtures("contained")
def test_an_entry_is_played_again_contained_and_holds_or_does_not(board: Path, capsys: Any):
    (line,) = read_board(board)
    renamed = msgspec.structs.replace
    lied = renamed(line, name="liar", points={"documents": [19]})
    swapped = renamed(
        line,
        name="swapped",
        parts={"plan_step": renamed(line.parts["plan_step"], text=SHORTEST + "\n")},
    )
    write_board(board, [line, lied, swapped])
    capsys.readouterr()
    assert main(["contest", "--verify", str(board)]) == 1
    said = capsys.readouterr().out
    assert "'ann' holds: 18 points." in said
    assert "'liar' says [19] in documents, and played again it is [18]." in said
    assert "'swapped' has a text of `plan_step` that is not the one it names" in said
    assert "1 of 3 entries hold." in said


@pytest.mark.usefixtures("contained")
def test_other_peoples_parts_reach_nothing(work: Path, capsys: Any, tmp_path: Path):
    mark, board = tmp_path / "mark", work / "board.jsonl"
    reaching = SHORTEST.replace("    used =", f"    open({str(mark)!r}, 'w').close()\n    used =")
    (work / "contest.py").write_text(reaching)
    assert contest("--board", board) == 0
    assert mark.exists()  # one's own parts run here
    mark.unlink()
    capsys.readouterr()
    assert main(["contest", "--verify", str(board)]) == 1
    assert not mark.exists()
    assert "'mine' says [18] in documents, and played again it is [0]" in capsys.readouterr().out


@pytest.mark.usefixtures("contained")
def test_entries_are_scored_under_a_salt_that_the_board_does_not_tell(board: Path, capsys: Any):
    hidden = board.with_name("hidden.jsonl")
    words = ["--salt", SALT, "--seeds", "1", "--board", hidden]
    assert main(["contest", "--score", str(board), *map(str, words)]) == 0
    (line,) = read_board(hidden)
    assert line.first_seed is None and SALT not in hidden.read_text()
    assert set(line.points) == {"chat", "documents", "bursts", "urgent"}
    assert main(["contest", "--verify", str(hidden)]) == 1
    assert "was scored under a hidden salt, and --salt gives it" in capsys.readouterr().out
    assert main(["contest", "--verify", str(hidden), "--salt", SALT]) == 0


@pytest.mark.parametrize(
    "text", [b"{}\n", b"[1]\n", b"nothing\n", b'{"version": 1, "name": 3}\n', b"[" * 100_000]
)
def test_what_is_no_leaderboard_is_refused_with_its_line(tmp_path: Path, text: bytes):
    path = tmp_path / "board.jsonl"
    path.write_bytes(b"\n" + text)
    with pytest.raises(BoardError, match=r"board\.jsonl, line 2: "):
        read_board(path)


def _line(**changes: Any) -> Line:
    scores = {"chat": [3, 4]}
    line = Line(1, "ann", "r", 0, None, scores, scores, scores, {})
    return msgspec.structs.replace(line, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "has version 2"),
        ({"salt": "x"}, "says neither or both"),
        ({"first_seed": None}, "says neither or both"),
        ({"points": {"chess": [1]}}, "names 'chess'"),
        ({"points": {}}, "has 0 seeds"),
        ({"points": {"chat": [1], "bursts": [1, 2]}}, "has workloads with 1 and 2 seeds"),
        ({"name": "\x1b[2J"}, "has a name that"),
    ],
)
def test_a_line_that_cannot_be_is_refused_before_it_plays(changes: dict[str, Any], words: str):
    assert words in _line(**changes).problem()
    assert _line().problem() == ""


def test_a_board_is_ranked_by_points_then_by_name(tmp_path: Path):
    lines = [_line(name="bob"), _line(name="cy", points={"chat": [5, 4]}), _line()]
    write_board(tmp_path / "b", lines)
    assert [each.name for each in read_board(tmp_path / "b")] == ["cy", "ann", "bob"]
    assert board_table(lines).row_count == 3
    assert len(with_line(lines, _line(name="bob", first_seed=9))) == 4
    assert len(with_line(lines, _line(name="bob"))) == 3


def test_the_report_card_takes_each_part_in_and_out():
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    space: dict[str, Any] = {}
    exec(SHORTEST, space)
    mine = {"plan_step": space["plan_step"], "record": broken}
    card = report_card(mine, ["documents"], 0)
    by_part = {each.part: each for each in card}
    plan, record = by_part["plan_step"], by_part["record"]
    assert (plan.alone, plan.among) == (6, 0)  # with the other one, nothing is scored at all
    assert (record.alone, record.among) == (-12, -18)
    assert "With record a run fails: your record raised ZeroDivisionError" in card_sentence(card)
    same = report_card({"plan_step": lambda *offer: plan_step(*offer)}, ["documents"], 0)
    assert same == [Brought("plan_step", "documents", 0, 0, "")]


def test_a_notebook_gets_the_same_as_markdown():
    said = contest_table({"plan_step": shortest_first}, ["documents"])
    assert said.startswith("| documents | seed 0 | all |\n| --- | ---: | ---: |\n| FCFS | 6 | 6 |")
    assert "| no schedule beats | 20 | 20 |" in said
    with pytest.raises(ValueError, match="the contest asks no part 'pack'; it asks rank, "):
        contest_table({"pack": shortest_first})
