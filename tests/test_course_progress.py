"""Progress files: nothing is lost, a damaged file is set aside, and pristine lessons leave none."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from course import progress
from course.report import Report


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(tmp_path))
    return tmp_path


def report(status="passed", exercise="l01.plan_step"):
    return Report(exercise, status, ("a",), int(status == "passed"), "", seconds=0.25)


def test_a_pass_is_saved_with_its_date():
    saved = progress.record(report())
    assert progress.load("l01.plan_step") == saved
    assert (saved.status, saved.attempts, saved.seconds) == ("passed", 1, 0.25)
    assert saved.first_passed == saved.passed_at is not None


def test_once_passed_stays_passed_while_the_newest_status_is_told():
    first = progress.record(report())
    now = progress.record(report("failed"))
    assert (now.status, now.ever_passed, now.attempts) == ("failed", True, 2)
    assert now.first_passed == first.first_passed


def test_a_check_of_the_same_answer_is_no_new_attempt():
    progress.record(report("failed"))
    assert progress.record(report("failed"), new_attempt=False).attempts == 1


def test_an_untouched_stub_leaves_no_file(work):
    progress.record(report("not_started"), new_attempt=False)
    assert not list((work / "progress" / "exercises").glob("*.json"))
    assert progress.load("l01.plan_step") is None


@pytest.mark.parametrize("text", ["{", "", "[1, 2]", "nonsense", "\x00", "[" * 100_000])
def test_a_damaged_file_is_set_aside_and_said_so(work, text):
    path = work / "progress" / "exercises" / "l01.plan_step.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert progress.load("l01.plan_step") is None
    assert progress.record(report()).attempts == 1
    (kept,) = path.parent.glob("*.broken-*")
    assert kept.read_text() == text
    assert progress.set_aside() == [
        f"l01.plan_step.json could not be read; it is kept as {kept.name}."
    ]


def test_a_record_with_fields_of_the_wrong_kind_counts_as_none(work):
    path = work / "progress" / "exercises" / "l01.plan_step.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"status": 3, "attempts": "many", "first_passed": []}))
    assert progress.load("l01.plan_step") is None


def test_two_notebooks_at_once_lose_no_write():
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(20,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert progress.load("l01.plan_step").attempts == 40


def test_a_lock_left_behind_by_a_crash_delays_and_does_not_block(work, monkeypatch):
    monkeypatch.setattr(progress, "_LOCK_WAIT_S", 0.05)
    folder = work / "progress" / "exercises"
    folder.mkdir(parents=True)
    (folder / ".l01.plan_step.json.lock").touch()
    assert progress.record(report()).attempts == 1
    assert progress.record(report()).attempts == 2


def test_a_prediction_is_remembered():
    assert progress.load_prediction("l01.rows") is None
    progress.save_prediction("l01.rows", 2)
    assert progress.load_prediction("l01.rows").choice == 2


def test_opened_hints_are_remembered():
    assert progress.load_hints("l01.plan_step") == 0
    progress.save_hints("l01.plan_step", 2)
    assert progress.load_hints("l01.plan_step") == 2


@pytest.mark.parametrize("key", ["../escape", "a/b", "", "a b", ".hidden"])
def test_a_key_that_is_no_file_name_is_refused(key):
    with pytest.raises(ValueError, match="is no key"):
        progress.save_prediction(key, 1)


def test_it_is_on_where_a_folder_is_named_or_the_notebook_lies_in_work(work, monkeypatch):
    assert progress.enabled()
    monkeypatch.delenv("SERVING_NANOGPT_WORK")
    monkeypatch.setattr(progress, "work_folder", lambda: work)
    monkeypatch.setattr("sys.modules", {**__import__("sys").modules, "marimo": None})
    monkeypatch.chdir(work)
    assert progress.enabled()
    monkeypatch.chdir(work.parent)
    assert not progress.enabled()


def _write_often(times):
    for _ in range(times):
        progress.record(report("failed"))


def test_the_folder_is_work_beside_the_course_unless_named_otherwise(monkeypatch, work):
    assert progress.work_folder() == work
    monkeypatch.delenv("SERVING_NANOGPT_WORK")
    assert progress.work_folder() == Path(progress.__file__).parent.parent / "work"
    assert os.environ.get("SERVING_NANOGPT_WORK") is None
