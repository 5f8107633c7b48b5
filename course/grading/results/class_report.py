"""The instructor's page: who stands where, what the class believes, and what broke off."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.record import Mark, Record
from course.grading.results import output, tallies
from course.grading.results.scheme import Scheme, known_exercise
from course.grading.results.words import STATUSES, count, lesson_title, stopped_at, tally

_NONE = Mark("", "", "not_submitted")


@dataclass(frozen=True, slots=True)
class _Cell:
    """A mark in the heat-map; `hint` says more of it."""

    letter: str
    tone: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A student in the heat-map; `total` is None where the grader failed."""

    student: str
    total: float | None
    cells: list[_Cell]


def class_report(records: Sequence[Record], scheme: Scheme) -> str:
    """The HTML page of a class; it needs neither a network nor a script."""
    by_lesson = tallies.exercises_by_lesson(records)
    exercises = tallies.exercises(records)
    outcomes = tallies.outcomes(records)
    return output.page(
        "report.html",
        lessons=[(lesson_title(lesson), ids) for lesson, ids in by_lesson.items()],
        rows=_rows(records, scheme, exercises),
        out_of=round(sum(sum(scheme.worth(each).values()) for each in by_lesson), 2),
        outcomes=outcomes,
        tells_minutes=any(each.minutes is not None for each in outcomes),
        tells_attempts=any(each.attempts is not None for each in outcomes),
        misconceptions=tallies.misconceptions(records),
        sticking=tallies.sticking_points(records),
        broken_off=tallies.broken_off(records),
        problems=[record for record in records if record.problem],
        notes=_notes(records, [each for each in exercises if known_exercise(each) is None]),
    )


def write_class_report(path: Path, records: Sequence[Record], scheme: Scheme) -> Path:
    """Writes the page. Raises: OSError."""
    return output.write_text(path, class_report(records, scheme))


def _rows(records: Sequence[Record], scheme: Scheme, exercises: Sequence[str]) -> list[_Row]:
    """The students, most points first; those whose points are not known come last."""
    marks: dict[str, dict[str, Mark]] = {record.student: {} for record in records}
    totals: dict[str, float | None] = dict.fromkeys(marks, 0.0)
    for record in records:
        marks[record.student] |= {mark.exercise: mark for mark in record.marks}
        so_far, more = totals[record.student], scheme.score(record).total
        totals[record.student] = None if so_far is None or more is None else so_far + more
    rows = [
        _Row(
            student, _rounded(totals[student]), [_cell(own.get(each, _NONE)) for each in exercises]
        )
        for student, own in marks.items()
    ]
    return sorted(rows, key=lambda row: (row.total is None, -(row.total or 0), row.student))


def _rounded(points: float | None) -> float | None:
    return None if points is None else round(points, 2)


def _cell(mark: Mark) -> _Cell:
    words = STATUSES[mark.status]
    hint = [words.word, *([done] if (done := tally(mark)) else [])]
    if check := stopped_at(mark):
        hint.append(f"stopped at: {check}")
    return _Cell(words.letter, words.tone, ", ".join(hint))


def _notes(records: Sequence[Record], forgotten: Sequence[str]) -> list[str]:
    """What a reader should know before trusting the page, worst first."""
    notes: list[str] = []
    failed = sum(mark.status == "internal" for record in records for mark in record.marks)
    if failed:
        notes.append(
            f"The grader itself failed on {count(failed, 'mark')}, listed below: grade again "
            "before you publish anything."
        )
    bare = [each for each in records if not (each.problem or each.is_internal or each.is_sandboxed)]
    if bare:
        notes.append(f"{count(len(bare), 'submission')} ran without a sandbox.")
    if forgotten:
        names = ", ".join(f"`{each}`" for each in forgotten)
        notes.append(f"The course no longer has {names}: these marks count no points.")
    versions: dict[str, set[str]] = {}
    for mark in (mark for record in records for mark in record.marks):
        versions.setdefault(mark.exercise, set()).add(mark.version)
    mixed = [exercise for exercise, found in versions.items() if len(found) > 1]
    if mixed:
        names = ", ".join(f"`{each}`" for each in sorted(mixed))
        notes.append(f"Not every student met the same version of {names}: grade again.")
    return notes
