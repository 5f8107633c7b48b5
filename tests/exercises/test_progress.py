"""Progress files: nothing is lost, a damaged file is set aside, and pristine lessons leave none."""

import errno
import multiprocessing
import os
import sys
from pathlib import Path

import pytest
from answers import worked
from support import write_files

from course import progress, saved_answers
from course.__main__ import main
from course.overview import overview
from course.prediction import predict
from course.report import Report
from course.running_text import text_in_file
from course.saved_answers import save_attempt

EXERCISES = "progress/exercises"


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(tmp_path))
    return tmp_path


def report(status="passed", exercise="l01.plan_step"):
    return Report(exercise, status, ("a",), int(status == "passed"), "", seconds=0.25)


def test_once_passed_stays_passed_while_the_newest_status_is_told(work):
    progress.record(report("not_started"), new_attempt=False)  # which leaves no file
    assert progress.load("l01.plan_step") is None
    first = progress.record(report())
    assert progress.load("l01.plan_step") == first
    assert (first.status, first.attempts, first.seconds) == ("passed", 1, 0.25)
    assert first.first_passed is not None
    now = progress.record(report("failed"))
    assert (now.status, now.ever_passed, now.attempts) == ("failed", True, 2)
    assert now.first_passed == first.first_passed
    assert progress.record(report("failed"), new_attempt=False).attempts == 2


@pytest.mark.parametrize(
    "text", ["{", "[1, 2]", "\x00", "[" * 100_000, '{"status": 3, "attempts": "many"}']
)
def test_a_damaged_file_is_set_aside_and_said_so(work, text):
    path = write_files(work / EXERCISES, {"l01.plan_step.json": text}) / "l01.plan_step.json"
    assert progress.load("l01.plan_step") is None
    assert progress.record(report()).attempts == 1
    (kept,) = path.parent.glob("*.broken-*")
    assert kept.read_text() == text
    said = f"l01.plan_step.json could not be read; it is kept as {kept.name}."
    assert progress.set_aside() == [said]
    assert said in overview()._repr_html_()


@pytest.mark.parametrize(
    "make",
    [getattr(os, "mkfifo", os.mkdir), os.mkdir, lambda path: path.symlink_to(path)],
    ids=["pipe", "folder", "loop"],
)
def test_what_is_no_file_is_set_aside_at_once(work, capsys, make):
    for folder in ("exercises", "predictions", "hints"):
        path = work / "progress" / folder / "l00.next_inputs.json"
        path.parent.mkdir(parents=True)
        make(path)
    assert progress.load_prediction("l00.next_inputs") is None
    assert progress.load_hints("l00.next_inputs") == 0
    assert main(["progress"]) == 0
    assert "l00.next_inputs.json could not be read; it is kept as" in capsys.readouterr().out
    assert progress.record(report(exercise="l00.next_inputs")).attempts == 1


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.EPERM])
def test_a_file_that_cannot_be_read_just_now_is_left_as_it_is(monkeypatch, code):
    before = progress.record(report())
    progress.save_hints("l01.plan_step", 2)

    def refused(path: Path) -> None:
        raise OSError(code, os.strerror(code), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(progress, "read_json", refused)
        assert progress.load("l01.plan_step") is None
        with pytest.raises(OSError, match=r"l01\.plan_step\.json"):
            progress.record(report("failed"))
        with pytest.raises(OSError, match=r"l01\.plan_step\.json"):
            progress.save_hints("l01.plan_step", 1)
    assert progress.load("l01.plan_step") == before
    assert (progress.load_hints("l01.plan_step"), progress.set_aside()) == (2, [])


def test_a_file_that_may_not_be_read_is_said(work, monkeypatch):
    progress.record(report())
    monkeypatch.setattr(os, "access", lambda *_: False)
    file = work / EXERCISES / "l01.plan_step.json"
    assert progress.set_aside() == [f"{file}: that is not permitted: change its permissions."]


@pytest.mark.parametrize(
    ("owner", "busy"), [(Path, "read_bytes"), (Path, "unlink"), (os, "replace"), (os, "open")]
)
def test_a_file_that_windows_holds_for_a_moment_is_waited_for(work, monkeypatch, owner, busy):
    monkeypatch.setattr(sys, "platform", "win32")
    action, failures = getattr(owner, busy), iter(range(3))

    def held(*arguments, **named):
        if next(failures, None) is not None:
            raise PermissionError(errno.EACCES, "Access is denied", str(arguments[0]))
        return action(*arguments, **named)

    progress.record(report())
    with monkeypatch.context() as patch:
        patch.setattr(owner, busy, held)
        now = progress.record(report("failed"))
    assert next(failures, None) is None and progress.load("l01.plan_step") == now
    assert (now.ever_passed, now.attempts) == (True, 2)
    assert [each.name for each in (work / EXERCISES).iterdir()] == ["l01.plan_step.json"]


@pytest.mark.parametrize("place", ["", "progress", EXERCISES])
def test_a_file_in_a_folders_place_is_said_with_what_to_do(work, monkeypatch, place):
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(work / "learner"))
    write_files(work, {str(Path("learner", place)): ""})
    note = save_attempt(report(), None)
    assert note.startswith("Your progress could not be saved: ")
    assert note.endswith(": move it away.")
    assert main(["progress"]) == 0
    assert progress.newest_change() == 0


def test_a_full_disk_is_said_and_leaves_what_was_saved(work, monkeypatch):
    saved = progress.record(report())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("course.files.os.replace", full)
        file = work / EXERCISES / "l01.plan_step.json"
        assert save_attempt(report("failed"), None) == (
            f"Your progress could not be saved: {file}: the disk is full: make room."
        )
    assert progress.load("l01.plan_step") == saved
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_progress_is_saved_where_the_answer_cannot_be(work):
    (work / "answers" / "l00.next_inputs.py").mkdir(parents=True)
    note = save_attempt(
        report(exercise="l00.next_inputs"), text_in_file(worked("l00.next_inputs"), "next_inputs")
    )
    assert note.startswith("Your answer could not be saved: ")
    assert note.endswith("a folder stands in its place: move it away.")
    assert progress.load("l00.next_inputs").ever_passed


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_a_lock_left_behind_delays_and_does_not_block(work, monkeypatch, make):
    monkeypatch.setattr(progress, "_LOCK_WAIT_S", 0.05)
    (work / EXERCISES).mkdir(parents=True)
    make(work / EXERCISES / ".l01.plan_step.json.lock")
    assert progress.record(report()).attempts == 1
    assert progress.record(report()).attempts == 2


def _write_often(times):
    progress._LOCK_WAIT_S = 60.0  # a writer that gets no turn for a second is not gone
    for _ in range(times):
        progress.record(report("failed"))


@pytest.mark.process
def test_two_notebooks_at_once_lose_no_write():
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(20,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert progress.load("l01.plan_step").attempts == 40


def test_a_change_is_seen_and_the_newest_answer_known_by_a_clock_that_was_put_back(work):
    assert progress.newest_change() == 0
    seen = {0}
    for n, status in enumerate(("failed", "passed", "failed")):
        saved_answers.save("l01.plan_step", f"def plan_step():\n    return {n}\n", passed=n == 1)
        progress.record(report(status))
        for path in work.rglob("*.*"):
            os.utime(path, ns=(10**18 - n, 10**18 - n))
        seen.add(progress.newest_change())
        [newest] = saved_answers.newest_answers("l01.plan_step").values()
        assert f"return {n}" in newest.text
    assert len(seen) == 4


def test_a_key_that_is_no_file_name_is_refused():
    for key in ("../escape", "a/b", "", ".hidden"):
        with pytest.raises(ValueError, match="is no key"):
            progress.save_prediction(key, 1)


@pytest.mark.parametrize("choice", ["true", "NaN", "1e999", "1" + "0" * 400, '"a"', "null"])
def test_a_prediction_that_is_no_choice_is_asked_again(work, choice):
    text = f'{{"choice": {choice}, "committed_at": "2026-01-01"}}'
    write_files(work, {"progress/predictions/l00.test.json": text})
    assert not predict("l00.test", "Which?", ["a", "b"], 0, "It is a.").committed


def test_it_is_on_where_a_folder_is_named_or_the_notebook_lies_in_work(work, monkeypatch):
    assert progress.work_folder() == work and progress.enabled()
    monkeypatch.delenv("SERVING_NANOGPT_WORK")
    assert progress.work_folder() == Path(progress.__file__).parent.parent / "work"
    monkeypatch.setattr(progress, "work_folder", lambda: work)
    monkeypatch.setattr("sys.modules", {**__import__("sys").modules, "marimo": None})
    monkeypatch.chdir(work)
    assert progress.enabled()
    monkeypatch.chdir(work.parent)
    assert not progress.enabled()
