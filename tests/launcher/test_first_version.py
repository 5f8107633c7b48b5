"""A learner's folder of version 0.1, with every exercise passed, under this version."""

import json
import tarfile
from pathlib import Path

import pytest
from support import ROOT

from course import __main__ as commands
from course import progress
from course.calling.processes import ForkServer, own_starter
from course.grading.grade import grade
from course.grading.handed_in.submissions import find_submissions
from course.launcher.workspace import Workspace
from course.lesson_map import LESSONS
from course.moves import EXERCISES, IDS, id_of
from course.registry import exercise, exercises
from course.saved_answers import load_policies

NEW_TASKS = {"l05.select_victim", "l06.rollback_step", "l06.resume_or_abort", "l09.pop_live"}
NEW = (
    NEW_TASKS
    | {e.id for e in exercises() if e.lesson.startswith("l11")}
    | {"l00.capacity", "l03.merge_attention"}
)

LATER = {"l03.assign_tokens", "l03.logits_indices"}  # came after 0.1, and are gone again


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    (tmp_path / "lessons").symlink_to(ROOT / "lessons")
    with tarfile.open(Path(__file__).parent / "data" / "work_of_0.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(tmp_path / "work"))
    return Workspace(tmp_path)


def test_update_carries_counts_and_lists_every_answer_and_loses_nothing(
    old: Workspace, capsys: pytest.CaptureFixture[str]
):
    before = {path.read_bytes() for path in old.work.rglob("*.py") if path.name[0] == "l"}
    said = "\n".join(old.update())
    assert old.update() == []
    passed = {e.id for e in exercises() if (p := progress.load(e.id)) and p.ever_passed}
    assert passed == {e.id for e in exercises()} - NEW
    for item in exercises():
        text = (old.work / f"{item.lesson}.py").read_text()
        with own_starter().start() as channel:
            is_passed = item.check_text(text, channel).status == "passed"
        assert is_passed == (item.id in passed), item.id
    assert before <= {path.read_bytes() for path in old.work.rglob("*.py")}
    gone = IDS.keys() - LATER
    assert all(name in said for name in (*NEW_TASKS, "l07_fleet.py", "l09_blocks.py", *gone))
    load = progress.load_prediction
    assert [load(f"l{n}.exhibit_a") for n in ("07", "09")] == [1, 2]  # each had the other's key
    assert load_policies().sentence == "22 of 22 policies are yours."
    commands.show_progress()
    assert capsys.readouterr().out.count("is to be checked again") == len(NEW_TASKS)


def test_the_first_versions_files_are_graded_as_the_lessons_that_they_are_now(old: Workspace):
    found = find_submissions(old.work.parent, [lesson.stem for lesson in LESSONS])
    server = ForkServer(marks=True)
    for each in found.submissions:
        for mark in grade(each, server, 5, is_sandboxed=False).marks:
            is_lost = mark.exercise in NEW
            assert (mark.status == "passed") == (not is_lost), (each.source, mark)
    assert {s.lesson: s.attempts["l07.free_table"] for s in found.submissions[10:11]} == {
        "l07_blocks": 1
    }
    server.close()


def test_every_move_leads_to_an_exercise():
    for place, now in EXERCISES.items():
        assert now is None or exercise(id_of(now)).lesson == now.partition(".")[0], place


def test_a_record_made_again_under_this_version_stays(old: Workspace):
    for name in ("l06.resume_or_abort", "l09.route"):
        path = old.work / "progress" / "exercises" / f"{name}.json"
        path.write_text(json.dumps({"exercise": name, "status": "failed"}))
    answer = old.work / "answers" / "l06.resume_or_abort.py"
    answer.write_text('def resume_or_abort(*_):  # not "sleep"\n    return "stay_suspended"\n')
    old.update()
    assert "stay_suspended" in answer.read_text()
    assert (route := progress.load("l09.route")) and route.ever_passed
