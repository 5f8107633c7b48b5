"""One submission's marks: its functions answer from a process of their own, and are judged here."""

import functools
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from course.calling.channel import Channel
from course.calling.processes import ForkServer
from course.exercise import Exercise
from course.files import digest_of
from course.grading.handed_in.submissions import Submission
from course.grading.record import Mark, Record, Status
from course.registry import lesson_exercises
from course.report import Report

BUDGET_S = 30.0
"""CPU seconds that a submission's exercises may take together; the rest then is not judged."""
_BACKSTOP = 4.0  # wall seconds for each of them
_ROOT = Path(__file__).parents[2]
_JUDGED_BY = (
    "course/*.py",
    "course/checks/*.py",
    "course/calling/*.py",
    "course/source/*.py",
    "nanogpt/**/*.py",
)


def grade(submission: Submission, server: ForkServer, seed: int, *, is_sandboxed: bool) -> Record:
    """The record of a submission: a mark for every exercise of its lesson."""
    began = time.perf_counter()
    exercises = lesson_exercises(submission.lesson)
    if submission.problem:
        marks = [_mark(item, "not_submitted", idea=submission.problem) for item in exercises]
    else:
        marks = _Grader(submission.text, server, seed).marks(exercises)
    seconds = round(time.perf_counter() - began, 3)
    return _record(submission, seed, marks, seconds, is_sandboxed)


def internal_record(submission: Submission, seed: int, why: str) -> Record:
    """The record where the grader itself failed: it is no mark, and the file is graded again."""
    idea = f"The grader failed ({why}): this is no mark."
    marks = [_mark(item, "internal", idea) for item in lesson_exercises(submission.lesson)]
    return _record(submission, seed, marks)


def of_another(record: Record, submission: Submission) -> Record:
    """The record of a file of the same contents: another student's, or of another place or time."""
    return replace(
        record,
        student=submission.student,
        source=submission.source,
        submitted_at=submission.submitted_at,
        attempts=dict(submission.attempts) or None,
        minutes=dict(submission.minutes) or None,
    )


def key_of(submission: Submission, seed: int) -> str:
    """Names the text, what judges it, and the seed: where it is the same, so are the marks."""
    parts = (submission.text, submission.problem, version(submission.lesson), str(seed))
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


@functools.cache
def version(lesson: str) -> str:
    """Names the code that judges a lesson's exercises: with any line of it, the version changes."""
    patterns = (f"solutions/{lesson}/*.py", *_JUDGED_BY)
    paths = (path for pattern in patterns for path in sorted(_ROOT.glob(pattern)))
    return digest_of(paths, _ROOT)


def _record(
    submission: Submission,
    seed: int,
    marks: Sequence[Mark],
    seconds: float = 0.0,
    is_sandboxed: bool = False,
) -> Record:
    return Record(
        student=submission.student,
        lesson=submission.lesson,
        source=submission.source,
        key=key_of(submission, seed),
        seed=seed,
        graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        is_sandboxed=is_sandboxed,
        marks=tuple(marks),
        problem=submission.problem,
        submitted_at=submission.submitted_at,
        attempts=dict(submission.attempts) or None,
        minutes=dict(submission.minutes) or None,
    )


class _Grader:
    """Asks one text's functions. Mutable: the process that answers, and the time that is left.

    One process serves all exercises, until one of them ends it.
    """

    def __init__(self, text: str, server: ForkServer, seed: int) -> None:
        self._text = text
        self._server = server
        self._seed = seed
        self._channel: Channel | None = None
        self._cpu_s = 0.0  # of the processes that have ended

    def marks(self, exercises: Sequence[Exercise]) -> list[Mark]:
        until = time.monotonic() + _BACKSTOP * BUDGET_S
        try:
            return [
                self._marked(item, self._used_s() < BUDGET_S and time.monotonic() < until)
                for item in exercises
            ]
        finally:
            self._end()

    def _marked(self, item: Exercise, in_time: bool, *, again: bool = False) -> Mark:
        if not in_time:
            idea = (
                f"The exercises before this one took the {BUDGET_S:g} s that a file may take: make "
                "them quicker, so that this one is judged too."
            )
            return _mark(item, "timeout", idea=idea)
        report = self._judged(item)
        if report.status in ("timeout", "crashed", "memory", "protocol"):
            self._end()  # and the next exercise gets a process of its own
            if not (self._server.is_alive or again):  # killed from outside: no answer's fault
                return self._marked(item, in_time, again=True)
        return _mark_of(item, report)

    def _judged(self, item: Exercise) -> Report:
        if self._channel is None:
            self._channel = self._server.start()
        return item.check_text(self._text, self._channel, seed=self._seed)

    def _used_s(self) -> float:
        return self._cpu_s + (self._channel.cpu_s() if self._channel else 0.0)

    def _end(self) -> None:
        if self._channel is not None:
            self._cpu_s = self._used_s()
            self._channel.end()
        self._channel = None


def _mark(item: Exercise, status: Status, idea: str = "") -> Mark:
    return Mark(item.id, version(item.lesson), status, idea=idea)


def _mark_of(item: Exercise, report: Report) -> Mark:
    status: Status = (
        "not_submitted" if report.status in ("missing", "not_started") else report.status
    )
    return Mark(
        exercise=item.id,
        version=version(item.lesson),
        status=status,
        checks=report.checks,
        passed=report.passed,
        idea=report.idea,
        example=report.example,
        misconception=report.misconception,
        stdout=report.stdout,
        seconds=round(report.seconds, 3),
    )
