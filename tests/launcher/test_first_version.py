"""A learner's folder of version 0.1, with every exercise passed, under this version."""

import io
import json
import tarfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT
from tiers import examples, some

from course import __main__ as commands
from course import progress
from course.calling.processes import ForkServer, own_starter
from course.grading.grade import grade
from course.grading.handed_in.submissions import find_submissions
from course.launcher.workspace import Workspace
from course.lesson_map import LESSONS
from course.moved_records import carry_records
from course.moves import EXERCISES, IDS, id_of
from course.registry import exercise, exercises
from course.saved_answers import load_policies

NEW_TASKS = {
    "l00.next_inputs", "l05.select_victim", "l06.rollback_step", "l06.resume_or_abort",
    "l09.pop_live",
}  # fmt: skip
NEW = (
    NEW_TASKS
    | {e.id for e in exercises() if e.lesson.startswith(("l07b", "l08b", "l09b", "l11", "l12"))}
    | {"l00.capacity", "l03.merge_attention", "l08.propose_ngram", "l09.busy_until"}
)
LATER = {  # came after 0.1, and are gone again
    "l03.assign_tokens", "l03.logits_indices", "l07.free_table", "l09.boosted_priority",
    "l11.captured_size",
}  # fmt: skip


def first_version(folder: Path, patch: pytest.MonkeyPatch) -> Workspace:
    (folder / "lessons").symlink_to(ROOT / "lessons")
    with tarfile.open(Path(__file__).parent / "data" / "work_of_0.1.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    patch.setenv("SERVING_NANOGPT_WORK", str(folder / "work"))
    return Workspace(folder)


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return first_version(tmp_path, monkeypatch)


def test_update_carries_counts_and_lists_every_answer_and_loses_nothing(
    old: Workspace, capsys: pytest.CaptureFixture[str]
):
    before = {path.read_bytes() for path in old.work.rglob("*.py") if path.name[0] == "l"}
    said = "\n".join(old.update())
    assert old.update() == []
    passed = {e.id for e in exercises() if (p := progress.load(e.id)) and p.ever_passed}
    assert passed == {e.id for e in exercises()} - NEW
    for item in some(exercises(), 20):
        text = (old.work / f"{item.lesson}.py").read_text()
        with own_starter().start() as channel:
            is_passed = item.check_text(text, channel).status == "passed"
        assert is_passed == (item.id in passed), item.id
    assert before <= {path.read_bytes() for path in old.work.rglob("*.py")}
    gone = IDS.keys() - LATER
    assert all(name in said for name in (*NEW_TASKS, "l07_fleet.py", "l09_blocks.py", *gone))
    load = progress.load_prediction
    assert [load(f"l{n}.exhibit_a") for n in ("07", "09")] == [None, 2]  # 0.1's 7 is 9 today
    assert load_policies().sentence == "21 of 28 policies are yours; the others are the reference."
    commands.show_progress()
    assert capsys.readouterr().out.count("is to be checked again") == len(NEW_TASKS)


def test_the_first_versions_files_are_graded_as_the_lessons_that_they_are_now(old: Workspace):
    found = find_submissions(old.work.parent, [lesson.stem for lesson in LESSONS])
    server = ForkServer(needs="marks")
    for each in found.submissions:
        for mark in grade(each, server, 5, is_sandboxed=False).marks:
            is_lost = mark.exercise in NEW
            assert (mark.status == "passed") == (not is_lost), (each.source, mark)
    assert {s.lesson: s.attempts["l07.allocate"] for s in found.submissions[10:11]} == {
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


JUNK = [None, b"", b"\0" * 9, b"[1, 2]", b"3", b"[" * 100_000, b"\xff\xfe"]  # None: a folder
JUNK += [b'{"choice": true, "status": 3, "shown": %s}' % (b"9" * n) for n in (400, 5000)]


def is_object(content: bytes | None) -> bool:
    with suppress(ValueError, RecursionError, TypeError):
        return isinstance(json.loads(content), dict)  # type: ignore[arg-type]
    return False


def said_by(*command: str) -> str:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        assert commands.main(command) in (0, 1, 2)
    return out.getvalue()


@pytest.mark.process
@examples(0.1)
@given(data=st.data())
def test_whatever_is_damaged_every_command_goes_on_and_each_record_gets_a_sentence(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    with pytest.MonkeyPatch.context() as patch:
        old = first_version(tmp_path_factory.mktemp("damaged"), patch)
        lost: list[bytes] = []
        paths = sorted(path for path in old.work.rglob("*.*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, unique=True)):
            whole, at = path.read_bytes(), data.draw(st.integers(0, 400))
            content = data.draw(
                st.sampled_from([*JUNK, whole[:at], whole[:at] + b"\x80" + whole[at + 1 :]])
            )
            path.unlink()
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
            if path.parent.parent.name == "progress" and not is_object(content):
                lost.append(content or b"")
        carry_records(old.work)
        said_by("check", "l01.plan_step")
        find_submissions(old.work.parent, [lesson.stem for lesson in LESSONS])
        said = said_by("progress")
        assert said == said_by("progress")
        aside = list(old.work.glob("progress/*/*.broken-*"))
        assert all(said.count(f"it is kept as {path.name}.") == 1 for path in aside)
        kept = [path.read_bytes() for path in aside if path.is_file()]
        assert all(content in kept for content in lost if content)
