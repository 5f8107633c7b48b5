"""A student's own page: of each exercise how it stands, why, the counterexample and the points."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.record import Mark, Record, file_name
from course.grading.results import output
from course.grading.results.scheme import Scheme, Score
from course.grading.results.words import in_course_order, lateness, lesson_title


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
    for lesson in in_course_order(own):
        score = scheme.score(own[lesson])
        late = lateness(score.days_late, score.penalty)
        marks = {mark.exercise: mark for mark in own[lesson].marks}
        # A file that could not be graded says so once, and not for each exercise.
        if not own[lesson].problem:
            marks = {each: Mark(each, "", "not_submitted") for each in score.points} | marks
        parts.append(_Part(lesson_title(lesson), own[lesson], list(marks.values()), score, late))
    return output.page("feedback.html", student=student, parts=parts)


def write_feedback(folder: Path, records: Sequence[Record], scheme: Scheme) -> list[Path]:
    """Writes a page for each student, named as their records are. Raises: OSError."""
    pages: list[Path] = []
    for student in sorted({record.student for record in records}):
        path = folder / Path(file_name(student, "feedback")).with_suffix(".html")
        pages.append(output.write_text(path, feedback_page(student, records, scheme)))
    return pages
