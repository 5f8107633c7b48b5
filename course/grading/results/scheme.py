"""What records are worth in points: an instructor's rules, read from one small TOML file.

[lessons.l01_chunked_prefill]
due = 2026-12-01T23:59:00+01:00
[points]                 # in place of the exercise's own
"l01.plan_step" = 4
[late]
per_day = 0.1            # the share of the points that each day begun costs
days_free = 2
most_days = 7            # after that, nothing is left
[partial]
credit = "checks"        # by the share of checks passed; "none": all or nothing
share = 0.5              # of an exercise's points, what that can come to
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course import registry
from course.files import explain, read_bytes
from course.grading.record import Mark, Record
from course.lesson_map import LESSONS

if TYPE_CHECKING:
    from course.exercise import Exercise

_DAY = timedelta(days=1)


class SchemeError(ValueError):
    """What is wrong with the file, in one sentence that names the value and its limit."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one record comes to, in points, by exercise in the lesson's order.

    `worth` is what each could come to. `penalty` are the points lost by `days_late` days begun.
    `points` holds None for a mark that the grader failed to give, and then `raw` and `total` are
    None.
    """

    points: dict[str, float | None]
    worth: dict[str, float]
    days_late: int
    penalty: float

    @property
    def raw(self) -> float | None:
        """The points of all exercises, lateness aside."""
        found = [each for each in self.points.values() if each is not None]
        return round(sum(found), 2) if len(found) == len(self.points) else None

    @property
    def total(self) -> float | None:
        """What is left of them."""
        return None if self.raw is None else round(self.raw - self.penalty, 2)

    @property
    def out_of(self) -> float:
        """What the whole lesson could come to."""
        return round(sum(self.worth.values()), 2)


@dataclass(frozen=True, slots=True)
class Scheme:
    """The rules by which marks become points; without arguments, those of an absent file.

    `due` is by lesson, `own_points` by exercise where it is not the course's number. Each day
    begun after the due date, the first `days_free` aside, costs the share `per_day` of the points;
    more than `most_days` cost all of them. An exercise that is not passed can come to the share
    `partial` of its points.
    """

    due: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    own_points: Mapping[str, float] = field(default_factory=dict[str, float])
    per_day: float = 0.0
    days_free: int = 0
    most_days: int | None = None
    partial: float = 0.0

    def worth(self, lesson: str) -> dict[str, float]:
        """The points of a lesson's exercises, in its order; none for a lesson that is not known."""
        return {each.id: self._worth(each.id) for each in registry.lesson_exercises(lesson)}

    def points(self, mark: Mark) -> float | None:
        """What a mark comes to, lateness aside; None when the grader failed to give one."""
        if mark.status == "internal":
            return None
        worth = self._worth(mark.exercise)
        if mark.status == "passed":
            return worth
        share = mark.passed / len(mark.checks) if mark.checks else 0.0
        return round(worth * self.partial * share, 2)

    def score(self, record: Record) -> Score:
        """What a record comes to.

        An exercise without a mark counts 0, and so does one that the course no longer has. Raises:
        ValueError when the record's time is none.
        """
        marks = {mark.exercise: mark for mark in record.marks}
        worth = self.worth(record.lesson) | {each: self._worth(each) for each in marks}
        points = {each: self.points(marks[each]) if each in marks else 0.0 for each in worth}
        score = Score(points, worth, self._days_late(record), penalty=0.0)
        lost = round((score.raw or 0.0) * self._share_lost(score.days_late), 2)
        return Score(points, worth, score.days_late, lost)

    def _worth(self, exercise: str) -> float:
        known = known_exercise(exercise)
        return 0.0 if known is None else float(self.own_points.get(exercise, known.points))

    def submitted_at(self, record: Record) -> datetime | None:
        """When it was handed in; None when the submission does not tell.

        A packer's clock, which has no time zone, counts as a clock at the due date's. Raises:
        ValueError when the record's time is none.
        """
        at = datetime.fromisoformat(record.submitted_at) if record.submitted_at else None
        due = self.due.get(record.lesson)
        return at.replace(tzinfo=due.tzinfo) if at and due and not at.tzinfo else at

    def _days_late(self, record: Record) -> int:
        """Days begun since it was due; 0 where no date is set or the submission has no time."""
        due, at = self.due.get(record.lesson), self.submitted_at(record)
        return max(0, -(-(at - due) // _DAY)) if due and at else 0

    def _share_lost(self, days_late: int) -> float:
        if self.most_days is not None and days_late > self.most_days:
            return 1.0
        return min(1.0, self.per_day * max(0, days_late - self.days_free))


@functools.cache
def known_exercise(exercise: str) -> Exercise | None:
    """The course's exercise with this id; None when it has none, as with an old record's."""
    try:
        return registry.exercise(exercise)
    except KeyError:
        return None


def read_scheme(path: Path | None) -> Scheme:
    """The rules in a file; where there is no file, the exercises' own points and no other rule.

    Raises: SchemeError.
    """
    if path is None:
        return Scheme()
    try:
        return _scheme(tomllib.loads(read_bytes(path).decode("utf-8-sig")))
    except OSError as error:
        raise SchemeError(explain(error)) from error
    except SchemeError as error:
        raise SchemeError(f"{path.name}: {error}") from error
    except ValueError as error:
        raise SchemeError(f"{path.name} is not written in TOML: {error}") from error


def _scheme(said: dict[str, Any]) -> Scheme:
    _only(said, ("lessons", "points", "late", "partial"), "the file")
    due = _due(_table(said, "lessons"))
    points = _points(_table(said, "points"))
    late = _table(said, "late")
    _only(late, ("per_day", "days_free", "most_days"), "[late]")
    if late and not due:
        raise SchemeError("[late] counts from a due date, but no lesson has one.")
    per_day = _number(late, "per_day", "[late]", 0.0, most=1.0)
    days_free = _days(late, "days_free") or 0
    most_days = _days(late, "most_days")
    if most_days is not None and most_days < days_free:
        raise SchemeError(
            f"[late] most_days is {most_days}, but must be at least days_free, {days_free}."
        )
    return Scheme(due, points, per_day, days_free, most_days, _partial(_table(said, "partial")))


def _due(lessons: dict[str, Any]) -> dict[str, datetime]:
    stems = [lesson.stem for lesson in LESSONS]
    found: dict[str, datetime] = {}
    for stem in lessons:
        if stem not in stems:
            known = ", ".join(stems)
            raise SchemeError(f"there is no lesson {_shown(stem)}; the lessons are: {known}.")
        where = f"[lessons.{stem}]"
        table = _table(lessons, stem, where)
        _only(table, ("due",), where)
        due = table.get("due")
        if not isinstance(due, datetime) or due.tzinfo is None:
            given = f"is {_shown(due)}" if "due" in table else "is not given"
            raise SchemeError(
                f"{where} due {given}, but must be a date and time with its time zone, such as "
                "2026-12-01T23:59:00+01:00."
            )
        found[stem] = due
    return found


def _points(table: dict[str, Any]) -> dict[str, float]:
    for name, value in table.items():
        if isinstance(value, dict):
            raise SchemeError(f'[points] {name} must be an exercise in quotes: "{name}.NAME" = 3.')
        if known_exercise(name) is None:
            known = ", ".join(each.id for each in registry.exercises())
            raise SchemeError(f"there is no exercise {_shown(name)}; the exercises are: {known}.")
    return {name: _number(table, name, "[points]", 0.0) for name in table}


def _partial(table: dict[str, Any]) -> float:
    _only(table, ("credit", "share"), "[partial]")
    credit = table.get("credit", "none")
    if credit not in ("none", "checks"):
        raise SchemeError(f'[partial] credit is {_shown(credit)}, but must be "none" or "checks".')
    share = _number(table, "share", "[partial]", 1.0, most=1.0)
    if "share" in table and credit == "none":
        raise SchemeError(
            f'[partial] share is {_shown(share)}, but counts only where credit is "checks".'
        )
    return share if credit == "checks" else 0.0


def _table(said: dict[str, Any], name: str, where: str = "") -> dict[str, Any]:
    table = said.get(name, {})
    if not isinstance(table, dict):
        raise SchemeError(f"{where or f'[{name}]'} must be a table, not {_shown(table)}.")
    return table


def _only(table: dict[str, Any], known: Collection[str], where: str) -> None:
    for name in table:
        if name not in known:
            may = ", ".join(known)
            raise SchemeError(f"{where} has the unknown key {_shown(name)}; it may have: {may}.")


def _number(
    table: dict[str, Any], name: str, where: str, default: float, most: float = math.inf
) -> float:
    value: object = table.get(name, default)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if 0 <= number <= most and number < math.inf:
        return float(number)
    limit = "0 or more" if most == math.inf else f"from 0 to {most:g}"
    raise SchemeError(f"{where} {name} is {_shown(value)}, but must be a number, {limit}.")


def _days(late: dict[str, Any], name: str) -> int | None:
    value: object = late.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise SchemeError(
        f"[late] {name} is {_shown(value)}, but must be a whole number of days, 0 or more."
    )


def _shown(value: object) -> str:
    """A value as it may stand in a sentence, however long."""
    text = str(value) if hasattr(value, "isoformat") else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
