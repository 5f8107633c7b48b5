"""A class's batch: stopped anywhere, changed, killed or broken, nothing is lost or graded twice."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostile import RIGHT, body
from support import ROOT, need_layers

from course.__main__ import main
from course.grading import batch as batches
from course.grading.batch import Batch, Local
from course.grading.handed_in.submissions import Submission
from course.grading.isolation.jail import JailError
from course.grading.record import LAYERS, Record, read_records

LESSON = "l01_chunked_prefill"
WRONG = "return budget - num_decodes"
CRASHES = "import os; os._exit(0)"
STARTED: list[subprocess.Popen[str]] = []
STUDENTS = ("Ada", "Ben", "Chen")


@pytest.fixture(scope="module", autouse=True)
def contained() -> None:
    """Everything here is graded as it should be, with all layers."""
    need_layers(*LAYERS)


def submission(student: str, text: str) -> Submission:
    return Submission(student, LESSON, f"{student}/l01.py", text, "", "")


def a_few() -> list[Submission]:
    texts = (body(RIGHT), body(WRONG), body(CRASHES))
    return [submission(name, text) for name, text in zip(STUDENTS, texts, strict=True)]


def handed_in(folder: Path, texts: Sequence[str]) -> Path:
    """A folder of submissions, a student's folder for each text."""
    for number, text in enumerate(texts):
        path = folder / f"student {number:02}" / f"{LESSON}.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder


def said(record: Record) -> dict[str, Any]:
    """All of a record but its times, and where the submission lay."""
    told = json.loads(record.to_json())
    for name in ("seconds", "graded_at", "submitted_at"):
        told.pop(name)
    for mark in told["marks"]:
        mark.pop("seconds")
    return told


def outcome(record: Record) -> str:
    return next(mark.status for mark in record.marks if mark.exercise == "l01.chunk_size")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Batch, list[Record]]:
    """A batch of three, done."""
    batch = Batch(tmp_path_factory.mktemp("results"), LAYERS, 7)
    return batch, list(batch.grade(a_few(), Local(1)))


def test_each_submission_has_its_record(graded: tuple[Batch, list[Record]]) -> None:
    batch, records = graded
    assert {each.student: outcome(each) for each in records} == {
        "Ada": "passed",
        "Ben": "failed",
        "Chen": "crashed",
    }
    assert {each.seed for each in records} == {7}
    assert sorted(records, key=lambda each: each.student) == list(read_records(batch.records))


def test_what_is_graded_is_not_graded_again(graded: tuple[Batch, list[Record]]) -> None:
    batch, records = graded
    before = {path: path.stat().st_mtime_ns for path in batch.records.iterdir()}
    again = Batch(batch.folder, LAYERS)
    assert list(again.grade(a_few(), Local(1))) == []
    assert {path: path.stat().st_mtime_ns for path in batch.records.iterdir()} == before
    kept = [again.record_of(each) for each in a_few()]
    assert kept == sorted(records, key=lambda each: each.student)


def test_a_file_that_was_changed_is_graded_again_and_no_other(
    graded: tuple[Batch, list[Record]], tmp_path: Path
) -> None:
    _, records = graded
    copy = Batch(tmp_path, LAYERS, 7)
    for record in records:
        record.write(copy.records)
    ada, ben, chen = a_few()
    changed = submission("Ben", body(RIGHT))
    assert [copy.record_of(each) is None for each in (ada, changed, chen)] == [False, True, False]
    anew = list(copy.grade([ada, changed, chen], Local(1)))
    assert [(each.student, outcome(each)) for each in anew] == [("Ben", "passed")]
    assert copy.record_of(ben) is None and copy.record_of(changed) == anew[0]


def test_what_was_graded_with_fewer_layers_is_graded_again_and_not_the_other_way_round(
    graded: tuple[Batch, list[Record]], tmp_path: Path
) -> None:
    _, records = graded
    copy, ada = Batch(tmp_path, LAYERS, 7), a_few()[0]
    record = next(each for each in records if each.student == ada.student)
    replace(record, layers=LAYERS[1:]).write(copy.records)
    assert copy.record_of(ada) is None
    record.write(copy.records)
    assert Batch(tmp_path, LAYERS[1:]).record_of(ada) == record


def test_a_record_that_was_damaged_is_made_again(
    graded: tuple[Batch, list[Record]], tmp_path: Path
) -> None:
    _, records = graded
    copy = Batch(tmp_path, LAYERS, 7)
    for record in records:
        path = record.write(copy.records)
        if record.student == "Ada":
            path.write_bytes(path.read_bytes()[:-100])
    assert [copy.record_of(each) is None for each in a_few()] == [True, False, False]


def test_files_of_the_same_contents_are_graded_once_and_each_has_its_record(
    tmp_path: Path,
) -> None:
    alike = [submission(name, body(WRONG)) for name in STUDENTS]
    asked: list[str] = []

    def graders(
        submissions: Sequence[Submission], layers: tuple[str, ...], seed: int
    ) -> Iterator[Record]:
        asked.extend(each.student for each in submissions)
        yield from Local(1)(submissions, layers, seed)

    records = list(Batch(tmp_path, LAYERS, 7).grade(alike, graders))
    assert (asked, [each.student for each in records]) == (["Ada"], list(STUDENTS))
    assert {outcome(each) for each in records_below(tmp_path).values()} == {"failed"}


def test_a_batch_keeps_the_seed_that_it_drew(tmp_path: Path) -> None:
    drawn = Batch(tmp_path / "one", LAYERS).seed
    assert (
        Batch(tmp_path / "one", LAYERS).seed == Batch(tmp_path / "one", LAYERS, drawn).seed == drawn
    )
    assert Batch(tmp_path / "two", LAYERS).seed != drawn


def test_another_seed_is_refused(tmp_path: Path) -> None:
    Batch(tmp_path, LAYERS, 3)
    with pytest.raises(ValueError, match="was graded with seed 3: leave --seed out to go on"):
        Batch(tmp_path, LAYERS, 4)


def test_another_seed_is_another_batch(graded: tuple[Batch, list[Record]], tmp_path: Path) -> None:
    _, records = graded
    other = Batch(tmp_path, LAYERS, 8)
    for record in records:
        record.write(other.records)
    assert [other.record_of(each) for each in a_few()] == [None] * 3


# --- the command -----------------------------------------------------------------------------


def started(folder: Path, out: Path, *more: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "course", "grade", str(folder), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--lesson", "l01", *more],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ""},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """A test that fails leaves no grader running."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def finished(process: subprocess.Popen[str]) -> str:
    """What it printed, once it is done."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """A grader and all that it has started so far."""
    with contextlib.suppress(psutil.NoSuchProcess):
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]
    return []


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for each in below(process)[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(each.cmdline()):
                found.append(each)
    return found


def left_of(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that are still there after a moment."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def records_below(out: Path) -> dict[str, Record]:
    return {each.student: each for each in read_records(out / "records")}


def num_records(out: Path) -> int:
    return len(list((out / "records").glob("*.json")))


SLOWLY = "import time; time.sleep(0.02)"


def a_dozen() -> list[str]:
    kinds = (RIGHT, WRONG, CRASHES, f"{SLOWLY}; {RIGHT}")
    return [body(f"# {number}\n{kinds[number % 4]}") for number in range(12)]


@pytest.mark.process
def test_a_grader_that_is_killed_ten_times_loses_nothing_and_grades_nothing_twice(
    tmp_path: Path,
) -> None:
    folder = handed_in(tmp_path / "class", a_dozen())
    finished(started(folder, tmp_path / "whole", "--seed", "5", "--workers", "2"))
    draw, out = random.Random(0), tmp_path / "out"
    kept: dict[str, str] = {}
    seen: list[psutil.Process] = []
    for number in range(10):
        process = started(folder, out, "--seed", "5", "--workers", "2")
        # Half of them are killed at any moment, half soon after another record.
        left_s = draw.uniform(0.5, 6.0) if number % 2 else draw.uniform(0.0, 1.0)
        while left_s > 0 and process.poll() is None:
            seen += [each for each in below(process) if each not in seen]
            time.sleep(0.05)
            if number % 2 or num_records(out) > len(kept):
                left_s -= 0.05
        seen += [each for each in below(process) if each not in seen]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        now = {name: each.to_json() for name, each in records_below(out).items()}
        assert now.items() >= kept.items()  # to the word: none was graded twice
        kept = now
    assert kept
    finished(started(folder, out, "--seed", "5", "--workers", "2"))
    records = records_below(out)
    assert {name: records[name].to_json() for name in kept} == kept
    expected = records_below(tmp_path / "whole")
    assert len(expected) == 12
    assert {name: said(each) for name, each in records.items()} == {
        name: said(each) for name, each in expected.items()
    }
    assert left_of(seen) == []


@pytest.mark.process
def test_a_worker_that_is_killed_costs_no_record(tmp_path: Path) -> None:
    texts = [body(f"# {number}\n{RIGHT}") for number in range(4)]
    process = started(handed_in(tmp_path / "class", texts), tmp_path / "out", "--workers", "2")
    until = time.monotonic() + 60
    while not (found := workers(process)) and time.monotonic() < until:
        time.sleep(0.02)
    everything = below(process)
    found[0].kill()  # which has just been started, and imports for a second yet
    assert num_records(tmp_path / "out") == 0
    assert "4 files graded" in finished(process)
    assert {outcome(each) for each in records_below(tmp_path / "out").values()} == {"passed"}
    assert left_of(everything) == []


def test_ctrl_c_ends_a_batch_in_a_word_and_leaves_no_process(tmp_path: Path) -> None:
    texts = [body(f"# {number}\nimport time; time.sleep(1); {RIGHT}") for number in range(3)]
    process = started(handed_in(tmp_path / "class", texts), tmp_path / "out", "--workers", "1")
    until = time.monotonic() + 60
    while not workers(process) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)
    everything = below(process)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors.strip().splitlines()[-1]) == (130, "course: stopped.")
    assert left_of(everything) == []


TRAP = """
import pathlib
pathlib.Path({trace!r}).touch()
raise SystemExit("the file of somebody who handed something in was imported")
"""
NAMES = ("json", "torch", "course", "nanogpt", "random", "struct", "solutions")


def test_modules_in_the_folder_it_is_given_from_are_never_imported(tmp_path: Path) -> None:
    folder = handed_in(tmp_path / "class", [body(RIGHT)])
    trace = tmp_path / "imported"
    for place in (folder, folder / "student 00"):
        for name in NAMES:
            (place / f"{name}.py").write_text(TRAP.format(trace=str(trace)))
    process = started(folder, tmp_path / "out", "--seed", "1", cwd=folder)
    output = finished(process)
    assert outcome(records_below(tmp_path / "out")["student 00"]) == "passed", output
    assert not trace.exists()


# --- what goes wrong in the grader itself -----------------------------------------------------


def here_instead(
    task: Callable[..., Record], jobs: Sequence[tuple[Any, ...]], _: int
) -> Iterator[Record]:
    """Runs in this process what would go to others."""
    yield from (task(*job) for job in jobs)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(batches, "run_elsewhere", here_instead)
    monkeypatch.setattr(batches, "_own_zygote", lambda layers: None)
    return monkeypatch


def command(folder: Path, out: Path) -> int:
    return main(["grade", str(folder), "--out", str(out), "--lesson", "l01", "--seed", "1"])


def raising(error: Exception) -> Callable[..., Any]:
    def grade(*_: object) -> None:
        raise error

    return grade


def test_a_layer_that_is_missing_is_one_sentence_and_no_record(
    here: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here.setattr(batches, "grade", raising(JailError("this kernel has no Landlock.")))
    folder = handed_in(tmp_path / "class", [body(RIGHT), body(WRONG)])
    assert command(folder, tmp_path / "out") == 2
    assert capsys.readouterr().err == "course: this kernel has no Landlock.\n"
    assert not (tmp_path / "out" / "records").exists()


def test_a_course_that_is_changed_meanwhile_is_one_sentence_and_what_is_done_is_kept(
    here: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def grade(submission: Submission, zygote: Any, seed: int) -> Record:
        record = batches.internal_record(submission, seed, "unseen")
        return replace(record, key="another") if submission.student == "student 01" else record

    here.setattr(batches, "grade", grade)
    folder = handed_in(tmp_path / "class", [body(RIGHT), body(WRONG)])
    assert command(folder, tmp_path / "out") == 2
    assert "the course's own files were changed while they graded" in capsys.readouterr().err
    assert list(records_below(tmp_path / "out")) == ["student 00"]


def test_a_mistake_of_the_grader_s_is_no_mark_and_is_graded_again(
    here: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = handed_in(tmp_path / "class", [body(RIGHT), body(WRONG)])
    real, calls = batches.grade, []

    def grade(submission: Submission, zygote: Any, seed: int) -> Record:
        calls.append(submission.student)
        if submission.student == "student 01":
            raise ZeroDivisionError("a mistake of ours")
        return batches.internal_record(submission, seed, "unseen")

    here.setattr(batches, "grade", grade)
    assert command(folder, tmp_path / "out") == 1
    why = "The grader failed (ZeroDivisionError: a mistake of ours): this is no mark."
    assert f"student 01/{LESSON}.py: {why}" in capsys.readouterr().out
    kept = records_below(tmp_path / "out")
    assert {mark.status for mark in kept["student 01"].marks} == {"internal"}
    assert command(folder, tmp_path / "out") == 1
    assert calls == 2 * ["student 00", "student 01"]
    here.undo()
    assert real is batches.grade
    assert command(folder, tmp_path / "out") == 0
    assert not any(each.is_internal for each in records_below(tmp_path / "out").values())


def test_processes_that_are_killed_again_and_again_end_the_batch_in_a_sentence(
    here: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[object] = []

    def grade(*given: object) -> None:
        calls.append(given)
        raise BrokenProcessPool

    here.setattr(batches, "grade_one", grade)
    assert command(handed_in(tmp_path / "class", [body(RIGHT)]), tmp_path / "out") == 2
    assert "were killed again and again" in capsys.readouterr().err
    assert len(calls) == batches._MOST_TRIES


def test_another_seed_for_graded_results_is_one_sentence(
    graded: tuple[Batch, list[Record]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = handed_in(tmp_path / "class", [body(RIGHT)])
    assert command(folder, graded[0].folder) == 2
    assert "was graded with seed 7: leave --seed out" in capsys.readouterr().err
