"""A class's batch: stopped anywhere, changed, killed or broken, nothing is lost or graded twice."""

import contextlib
import io
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
from typing import Any, TypeAlias

import psutil
import pytest
from hostile import RIGHT, body
from support import need_sandbox, write_files

from course.__main__ import main
from course.calling.sandbox import SandboxError
from course.grading import batch as batches
from course.grading import grade
from course.grading.batch import Batch, Local
from course.grading.grade import internal_record
from course.grading.handed_in.submissions import Submission
from course.grading.record import Record, read_record
from course.grading.spread import Dask

LESSON = "l01_chunked_prefill"
Command: TypeAlias = Callable[..., tuple[int, str]]
KINDS = {"passed": RIGHT, "failed": "return budget - num_decodes", "crashed": "os._exit(0)"}


def submission(student: str, kind: str) -> Submission:
    text = body(f"import os; {KINDS[kind]}")
    return Submission(student, LESSON, f"{student}/l01.py", text, "", "")


ADA, BEN, CHEN = A_FEW = [
    submission(name, kind) for name, kind in zip(("Ada", "Ben", "Chen"), KINDS, strict=True)
]


def outcome(record: Record) -> str:
    return next(mark.status for mark in record.marks if mark.exercise == "l01.chunk_size")


def records_below(out: Path) -> dict[str, Record]:
    records = [read_record(path) for path in sorted((out / "records").glob("*.json"))]
    return {each.student: each for each in records}


@pytest.mark.process
def test_each_submission_has_its_record_and_only_what_changed_is_graded_again(
    tmp_path: Path,
) -> None:
    need_sandbox()
    batch = Batch(tmp_path, True, 7)
    records = {each.student: each for each in batch.grade(A_FEW, Local(1))}
    assert {name: outcome(each) for name, each in records.items()} == {
        "Ada": "passed",
        "Ben": "failed",
        "Chen": "crashed",
    }
    assert records_below(tmp_path) == records
    assert list(Batch(tmp_path, True).grade(A_FEW, Local(1))) == []
    ada = records["Ada"]
    assert Batch(tmp_path, False).record_of(ADA) == ada
    other = Batch(tmp_path / "other", True, 8)
    ada.write(other.records)
    assert other.record_of(ADA) is None  # of another seed

    replace(ada, is_sandboxed=False).write(batch.records)
    for path in batch.records.glob("Chen*"):
        path.write_bytes(path.read_bytes()[:-100])
    again = list(batch.grade([ADA, submission("Ben", "passed"), CHEN], graded_as_internal))
    assert [each.student for each in again] == ["Ada", "Ben", "Chen"]
    assert batch.record_of(BEN) is None and not records["Ben"].is_internal


def graded_as_internal(few: Sequence[Submission], in_sandbox: bool, seed: int) -> Iterator[Record]:
    yield from (internal_record(each, seed, "not now") for each in few)


def test_files_of_the_same_contents_are_graded_once_and_each_has_its_record(tmp_path: Path) -> None:
    alike = [submission(name, "failed") for name in ("Ada", "Ben", "Chen")]
    asked: list[str] = []

    def graders(few: Sequence[Submission], *rest: Any) -> Iterator[Record]:
        asked.extend(each.student for each in few)
        return graded_as_internal(few, *rest)

    records = list(Batch(tmp_path, True, 7).grade(alike, graders))
    assert (asked, [each.student for each in records]) == (["Ada"], ["Ada", "Ben", "Chen"])
    assert [*records_below(tmp_path).values()] == records


def test_a_record_follows_its_file_to_another_time_and_place(tmp_path: Path) -> None:
    batch = Batch(tmp_path, True, 7)
    replace(graded_well(ADA, None, 7), attempts={"l01.plan_step": 1}).write(batch.records)
    moved = replace(ADA, source="x/l01.py", submitted_at="2026-12-01T18:00:00+00:00")
    for now in (ADA, moved, replace(moved, attempts={"l01.plan_step": 2})):
        record = batch.record_of(now)
        assert record and (record.source, record.submitted_at) == (now.source, now.submitted_at)
        assert (record.attempts or {}) == now.attempts
        assert records_below(tmp_path) == {"Ada": record}


def test_a_batch_keeps_the_seed_that_it_drew(tmp_path: Path) -> None:
    drawn = Batch(tmp_path / "one", True).seed
    assert Batch(tmp_path / "one", True, drawn).seed == drawn
    assert Batch(tmp_path / "two", True).seed != drawn
    with pytest.raises(ValueError, match=f"graded with seed {drawn}: leave --seed out to go on"):
        Batch(tmp_path / "one", True, drawn + 1)
    (tmp_path / "one" / "batch.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"batch\.json no longer holds the seed"):
        Batch(tmp_path / "one", True)


def handed_in(folder: Path, texts: Sequence[str]) -> Path:
    """A folder of submissions, a student's folder for each text."""
    named = {f"student {number:02}/{LESSON}.py": text for number, text in enumerate(texts)}
    return write_files(folder, named)


@contextlib.contextmanager
def grading(folder: Path, out: Path, workers: int) -> Iterator[subprocess.Popen[str]]:
    """A grader that is given this folder from inside it; what still runs is killed at the end."""
    command = [sys.executable, "-P", "-m", "course", "grade", ".", "--out", str(out)]
    command += ["--lesson", "l01", "--lesson", "l02"]
    command += ["--seed", "5", "--workers", str(workers)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            stop(process, signal.SIGKILL)


def stop(process: subprocess.Popen[str], how: signal.Signals) -> str:
    """Stop a grader and see that all its processes end; the last line that it says."""
    everything = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, how)
    _, errors = process.communicate(timeout=120)
    _, alive = psutil.wait_procs(everything, timeout=60)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []
    return errors.strip().rpartition("\n")[2]


TRAPS = ("json", "torch", "course", "nanogpt", "random", "struct", "solutions")


@pytest.mark.process
@pytest.mark.parametrize(
    ("stops", "students", "workers"),
    [(1, 3, 1), pytest.param(10, 12, 2, marks=pytest.mark.nightly)],
)
def test_a_grader_that_is_stopped_loses_nothing_and_grades_nothing_twice(
    stops: int, students: int, workers: int, tmp_path: Path
) -> None:
    """It also imports none of the modules that somebody has handed in."""
    kinds = [[*KINDS][number % 3] for number in range(students)]
    slowly = "import os, time; time.sleep(0.02)"
    texts = [body(f"# {n}\n{slowly}; {KINDS[kind]}") for n, kind in enumerate(kinds)]
    folder, out = handed_in(tmp_path / "class", texts), tmp_path / "out"
    for name in TRAPS:
        (folder / f"{name}.py").write_text("raise SystemExit('imported')\n")
    draw, kept = random.Random(0), dict[str, str]()
    for number in range(stops):
        with grading(folder, out, workers) as process:
            soon = number % 2 == 0  # after another record, by Ctrl-C or for good; or at any moment
            while soon and process.poll() is None and len(records_below(out)) <= len(kept):
                time.sleep(0.02)
            time.sleep(draw.uniform(0.0, 0.2 if soon else 4.0))
            if number % 4 == 2 and process.poll() is None:
                assert stop(process, signal.SIGINT) == "course: stopped."
                assert process.returncode == 130
        now = {name: each.to_json() for name, each in records_below(out).items()}
        assert now.items() >= kept.items()  # to the word: none was graded twice
        kept = now
    assert kept
    with grading(folder, out, workers) as process:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    records = records_below(out)
    assert {name: records[name].to_json() for name in kept} == kept
    assert [outcome(records[name]) for name in sorted(records)] == kinds


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Grades two students with another function, in this process: the status, and what it says."""

    def run_here(
        task: Callable[..., Record], jobs: Sequence[tuple[Any, ...]], _: int
    ) -> Iterator[Record]:
        yield from (task(*job) for job in jobs)

    monkeypatch.setattr(batches, "run_elsewhere", run_here)
    monkeypatch.setattr(batches, "_own_server", lambda in_sandbox: None)
    monkeypatch.setattr("course.grading.grade_command.sandboxed", io.StringIO)  # it can be closed
    folder = handed_in(tmp_path / "class", [body(RIGHT), body("return 1")])
    words = ["grade", str(folder), "--out", str(tmp_path / "out"), "--lesson", "l01"]

    def graded_with(grade: Callable[..., Record]) -> tuple[int, str]:
        monkeypatch.setattr(batches, "grade", grade)
        status = main(words)
        said = capsys.readouterr()
        return status, said.err or said.out

    return graded_with


def graded_well(each: Submission, server: object, seed: int, **_: bool) -> Record:
    return replace(internal_record(each, seed, ""), marks=(), is_sandboxed=True)


def test_a_missing_sandbox_or_a_changed_course_ends_a_batch_and_keeps_what_is_done(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_sandbox(_: bool) -> None:
        raise SandboxError("there is no bubblewrap here.")

    def changes(each: Submission, *rest: Any, **is_sandboxed: bool) -> Record:
        record = graded_well(each, *rest)
        return replace(record, key="another") if each.student == "student 01" else record

    with monkeypatch.context() as patched:
        patched.setattr(batches, "_own_server", no_sandbox)
        assert command(graded_well) == (2, "course: there is no bubblewrap here.\n")
    assert not (tmp_path / "out" / "records").exists()
    status, said = command(changes)
    assert status == 2 and "the course's own files were changed while they graded" in said
    assert list(records_below(tmp_path / "out")) == ["student 00"]


def test_a_student_with_two_files_is_said_and_the_others_are_graded(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "class" / "student 00" / "l01.py").write_text(body("return 1"))
    status, said = command(graded_well)
    assert status == 1 and "student 00 has several files for l01_chunked_prefill, and none" in said
    assert list(records_below(tmp_path / "out")) == ["student 01"]


def test_a_mistake_of_the_grader_s_is_no_mark_and_is_graded_again(
    command: Command, tmp_path: Path
) -> None:
    calls: list[str] = []

    def grade(each: Submission, *rest: Any, **is_sandboxed: bool) -> Record:
        calls.append(each.student)
        if len(calls) == 2:
            raise ZeroDivisionError("a mistake of ours")
        return graded_well(each, *rest)

    status, said = command(grade)
    why = "The grader failed (ZeroDivisionError: a mistake of ours): this is no mark."
    assert status == 1 and f"student 01/{LESSON}.py: {why}" in said
    assert records_below(tmp_path / "out")["student 01"].is_internal
    assert command(grade)[0] == 0
    assert calls == ["student 00", "student 01", "student 01"]
    assert not any(each.is_internal for each in records_below(tmp_path / "out").values())


def test_a_process_that_is_killed_costs_no_record_and_three_in_a_row_end_the_batch(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = batches.grade_one, list[bool]()

    def grade_one(each: Submission, *rest: Any) -> Record:
        calls.append(dies := bool(deaths) and deaths.pop())
        if dies:
            raise BrokenProcessPool
        return real(each, *rest)

    monkeypatch.setattr(batches, "grade_one", grade_one)
    deaths = [True] * 3
    status, said = command(graded_well)
    assert status == 2 and "were killed again and again" in said
    deaths = [True, False, True, True]  # taken from the end
    assert command(graded_well)[0] == 0
    assert calls == [True] * 5 + [False, True, False]
    assert len(records_below(tmp_path / "out")) == 2


def test_without_its_package_dask_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    submission = Submission("s", LESSON, "s.py", RIGHT, "", "")
    with pytest.raises(ValueError, match="--dask needs the package distributed: pip install "):
        list(Dask("127.0.0.1:1")([submission], True, 0))


@pytest.mark.nightly
@pytest.mark.process
def test_of_dask_workers_a_killed_one_loses_nothing_and_another_course_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_sandbox()
    distributed = pytest.importorskip("distributed")
    texts = [body(f"# {number}\n{RIGHT}") for number in range(8)]
    class_ = [Submission(f"s{n}", LESSON, f"s{n}.py", text, "", "") for n, text in enumerate(texts)]
    batch, other = Batch(tmp_path / "a", True, 3), Batch(tmp_path / "b", True, 1)
    done: list[str] = []
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        dask = Dask(cluster.scheduler_address)
        with cluster.get_client() as client:
            pids = client.run(os.getpid)
            for record in batch.grade(class_, dask):
                done.append(record.student)
                if len(done) == 1:
                    os.kill(next(iter(pids.values())), signal.SIGKILL)
        assert sorted(done) == [each.student for each in class_]
        assert {outcome(each) for each in records_below(tmp_path / "a").values()} == {"passed"}
        with pytest.raises(ValueError, match="there is no Dask scheduler"):
            list(other.grade(class_, Dask("tcp://127.0.0.1:9")))
        monkeypatch.setattr(grade, "_JUDGED_BY", ())
        grade.version.cache_clear()
        with pytest.raises(ValueError, match="has not this course"):
            list(other.grade(class_, dask))
    grade.version.cache_clear()
