"""The names of statuses, lessons, exercises and numbers wherever a record is shown."""

from collections.abc import Iterable
from dataclasses import dataclass

from course.grading.record import Mark, Status
from course.grading.results.scheme import known_exercise
from course.lesson_map import LESSONS


@dataclass(frozen=True, slots=True)
class StatusWords:
    """A status as it is told: `letter` where there is little room, `tone` a colour's name."""

    letter: str
    word: str
    tone: str


STATUSES: dict[Status, StatusWords] = {
    "passed": StatusWords("✓", "Passed", "good"),
    "failed": StatusWords("W", "Wrong result", "warn"),
    "raised": StatusWords("E", "Stopped with an error", "warn"),
    "timeout": StatusWords("T", "Took too long", "bad"),
    "memory": StatusWords("M", "Asked for too much memory", "bad"),
    "crashed": StatusWords("C", "Ended its own process", "bad"),
    "protocol": StatusWords("P", "Sent something that is no answer", "bad"),
    "not_submitted": StatusWords("–", "Not submitted", "none"),
    "internal": StatusWords("!", "Not graded: the grader failed", "grader"),
}
_PLACES = {lesson.stem: place for place, lesson in enumerate(LESSONS)}


def lesson_title(stem: str) -> str:
    """ "Lesson 1: Chunked prefill"; the stem itself of a lesson that the course does not have."""
    place = _PLACES.get(stem)
    return stem if place is None else f"Lesson {LESSONS[place].number}: {LESSONS[place].title}"


def in_course_order(stems: Iterable[str]) -> list[str]:
    """The lessons once each, those that the course does not have at the end."""
    return sorted(set(stems), key=lambda stem: (_PLACES.get(stem, len(_PLACES)), stem))


def exercise_title(exercise: str) -> str:
    """Its title; "" for an exercise that the course does not have."""
    known = known_exercise(exercise)
    return "" if known is None else known.title


def tally(mark: Mark) -> str:
    """How far it came, in a few words; "" when no check was run."""
    if not mark.checks or mark.status in ("not_submitted", "internal"):
        return ""
    return f"{mark.passed} of {len(mark.checks)} checks passed"


def stopped_at(mark: Mark) -> str:
    """The check that did not pass; "" when all did, or none was asked."""
    if mark.status in ("passed", "not_submitted", "internal"):
        return ""
    return mark.stopped_at or ""


def lateness(days_late: int, penalty: float) -> str:
    """How late it came and what that costs, as a sentence; "" when it was in time."""
    if not days_late:
        return ""
    cost = f"which costs {number(penalty)} points" if penalty else "which costs nothing"
    return f"Submitted {count(days_late, 'day')} late, {cost}."


def count(many: int, thing: str) -> str:
    """ "1 day", "2 days"."""
    return f"{many} {thing}" if many == 1 else f"{many} {thing}s"


def number(value: float | None) -> str:
    """ "4", "3.5", "0.33"; a dash for what is not known."""
    return "–" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
