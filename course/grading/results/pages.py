"""Pages of HTML and text files made of records: one for each student, and one for the class."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from course.files import write_atomically
from course.grading.record import Mark, Record, file_name
from course.grading.results import tallies, words
from course.grading.results.scheme import Scheme, Score, known_exercise
from course.style import prose, themed

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
    return _page(
        "report.html",
        lessons=[(words.lesson_title(lesson), ids) for lesson, ids in by_lesson.items()],
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
    told = words.STATUSES[mark.status]
    hint = [told.word, *([done] if (done := words.tally(mark)) else [])]
    if check := words.stopped_at(mark):
        hint.append(f"stopped at: {check}")
    return _Cell(told.letter, told.tone, ", ".join(hint))


def _notes(records: Sequence[Record], forgotten: Sequence[str]) -> list[str]:
    """The warnings about a page, worst first."""
    notes: list[str] = []
    failed = sum(mark.status == "internal" for record in records for mark in record.marks)
    if failed:
        notes.append(
            f"The grader itself failed on {words.count(failed, 'mark')}, listed below: grade again "
            "before you publish anything."
        )
    bare = [each for each in records if not (each.problem or each.is_internal or each.is_sandboxed)]
    if bare:
        notes.append(f"{words.count(len(bare), 'submission')} ran without a sandbox.")
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


@dataclass(frozen=True, slots=True)
class _Part:
    """A lesson on the page."""

    title: str
    record: Record
    marks: list[Mark]
    score: Score
    late: str


def feedback_page(student: str, records: Iterable[Record], scheme: Scheme) -> str:
    """The HTML page of a student's records; other students' are left out, and so is `stdout`."""
    own = {record.lesson: record for record in records if record.student == student}
    parts: list[_Part] = []
    for lesson in words.in_course_order(own):
        score = scheme.score(own[lesson])
        late = words.lateness(score.days_late, score.penalty)
        marks = {mark.exercise: mark for mark in own[lesson].marks}
        # A file that could not be graded says so once, and not for each exercise.
        if not own[lesson].problem:
            marks = {each: Mark(each, "", "not_submitted") for each in score.points} | marks
        parts.append(
            _Part(words.lesson_title(lesson), own[lesson], list(marks.values()), score, late)
        )
    return _page("feedback.html", student=student, parts=parts)


def write_feedback(folder: Path, records: Sequence[Record], scheme: Scheme) -> list[Path]:
    """Writes a page for each student, named as their records are. Raises: OSError."""
    pages: list[Path] = []
    for student in sorted({record.student for record in records}):
        path = folder / Path(file_name(student, "feedback")).with_suffix(".html")
        pages.append(write_text(path, feedback_page(student, records, scheme)))
    return pages


def _page(template: str, **values: Any) -> str:
    """An HTML page of a template's name and what it asks for; all of it is escaped."""
    return _templates().get_template(template).render(values)


def write_text(path: Path, text: str) -> Path:
    r"""Writes a file whole or not at all, in UTF-8; half a character stands as its \udcff.

    Raises: OSError.
    """
    write_atomically(path, text.encode("utf-8", "backslashreplace"))
    return path


@cache
def _templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "prose": lambda text: Markup(prose(text)),
        "number": words.number,
        "count": words.count,
    }
    values: dict[str, Any] = {
        "colours": Markup(themed("sng-page")),
        "statuses": words.STATUSES,
        "exercise_title": words.exercise_title,
        "lesson_title": words.lesson_title,
        "tally": words.tally,
        "stopped_at": words.stopped_at,
    }
    found.filters.update(filters)
    found.globals.update(values)
    return found
