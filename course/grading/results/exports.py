"""Scores for other programs: a gradebook, nbgrader's table, and a results file for Gradescope.

The same records and rules give the same bytes.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from course.grading.record import Mark, Record
from course.grading.results.scheme import Scheme, Score
from course.grading.results.words import (
    STATUSES,
    count,
    exercise_title,
    in_course_order,
    lateness,
    number,
    stopped_at,
    tally,
)

# What makes a spreadsheet take a cell for a formula, the wide forms of East Asian keyboards too.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NBGRADER = (
    "assignment",
    "student_id",
    "score",
    "max_score",
    "late_submission_penalty",
    "raw_score",
    "timestamp",
)


def gradebook_csv(records: Iterable[Record], scheme: Scheme) -> str:
    """One row for each student: points by lesson, their total, and of how many.

    It begins with a byte order mark, by which a spreadsheet knows UTF-8. A lesson that was not
    submitted counts 0; where the grader failed, the cell and the total are empty.
    """
    scores = _scores(records, scheme)
    lessons = in_course_order(lesson for _, lesson in scores)
    out_of = {lesson: _out_of(scheme, lesson) for lesson in lessons}
    rows: list[Sequence[str | float | None]] = [("student", *lessons, "total", "out_of")]
    for student in sorted({student for student, _ in scores}):
        row = [_total(scores.get((student, lesson))) for lesson in lessons]
        known = [each for each in row if each is not None]
        total = round(sum(known), 2) if len(known) == len(row) else None
        rows.append((student, *row, total, round(sum(out_of.values()), 2)))
    return "\ufeff" + _csv(rows)


def nbgrader_csv(records: Iterable[Record], scheme: Scheme) -> str:
    """One row for each student and lesson, in the columns of nbgrader's own export."""
    found = {(record.student, record.lesson): record for record in records}
    scores = _scores(found.values(), scheme)
    rows: list[Sequence[str | float | None]] = [_NBGRADER]
    for lesson in in_course_order(lesson for _, lesson in found):
        for student in sorted({student for student, _ in found}):
            score = scores.get((student, lesson))
            if score is None:
                rows.append((lesson, student, 0.0, _out_of(scheme, lesson), 0.0, 0.0, ""))
                continue
            marks = (score.total, score.out_of, score.penalty, score.raw)
            at = scheme.submitted_at(found[student, lesson])
            rows.append((lesson, student, *marks, at.isoformat() if at else ""))
    return _csv(rows)


def gradescope_json(record: Record, scheme: Scheme) -> str:
    """The results.json of one submission.

    What a function printed stands in tests of its own that Gradescope hides from students. Where
    the grader failed no score stands anywhere, so that Gradescope takes none.
    """
    score = scheme.score(record)
    said = [record.problem, lateness(score.days_late, score.penalty)]
    if score.total is None:
        said.append("The grader failed, through no fault of yours: this is not your mark.")
    tests = [_test(mark, score) for mark in record.marks]
    results: dict[str, Any] = {
        "max_score": score.out_of,
        "output": "\n".join(each for each in said if each),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests + [_printed(mark) for mark in record.marks if mark.stdout],
    }
    if score.total is not None:
        results["score"] = score.total
    return json.dumps(results, indent=1, sort_keys=True) + "\n"


def _scores(records: Iterable[Record], scheme: Scheme) -> dict[tuple[str, str], Score]:
    return {(record.student, record.lesson): scheme.score(record) for record in records}


def _total(score: Score | None) -> float | None:
    return 0.0 if score is None else score.total


def _out_of(scheme: Scheme, lesson: str) -> float:
    return round(sum(scheme.worth(lesson).values()), 2)


def _csv(rows: Iterable[Sequence[str | float | None]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)  # which ends lines in \r\n, and so puts both in quotes
    for row in rows:
        writer.writerow([_cell(each) for each in row])
    return text.getvalue()


def _cell(value: str | float | None) -> str:
    """A cell's text; an apostrophe keeps a spreadsheet from computing it."""
    if not isinstance(value, str):
        return "" if value is None else number(value)
    computed = value.startswith(_FORMULA) or value.lstrip().startswith(_FORMULA)
    return "'" + value if computed else value


def _test(mark: Mark, score: Score) -> dict[str, Any]:
    title = exercise_title(mark.exercise)
    points = score.points[mark.exercise]
    test: dict[str, Any] = {
        "name": f"{mark.exercise}: {title}" if title else mark.exercise,
        "max_score": score.worth[mark.exercise],
        "status": "passed" if mark.status == "passed" else "failed",
        "output": _told(mark),
        "output_format": "text",
        "visibility": "visible",
    }
    return test if score.total is None else test | {"score": points}


def _told(mark: Mark) -> str:
    """The feedback as text, without the grader's own failures."""
    lines = [STATUSES[mark.status].word + "."]
    if mark.status == "internal":
        return lines[0]
    if done := tally(mark):
        lines[0] += f" {done}."
    if check := stopped_at(mark):
        lines.append(f"Stopped at: {check}")
    lines += [mark.idea] if mark.idea else []
    width = max((len(label) for label, _ in mark.example), default=0)
    for label, text in mark.example:
        first, *rest = text.splitlines() or [""]
        lines.append(f"  {label.ljust(width)}  {first}".rstrip())
        lines += [f"  {' ' * width}  {line}" for line in rest]
    return "\n".join(lines)


def _printed(mark: Mark) -> dict[str, Any]:
    lines = count(len(mark.stdout.splitlines()), "line")
    return {
        "name": f"What {mark.exercise} printed ({lines}, for instructors)",
        "output": mark.stdout,
        "output_format": "text",
        "visibility": "hidden",
    }
