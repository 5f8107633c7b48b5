"""The worth of records in points: an instructor's rules, read from one small TOML file.

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
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from course import registry
from course.files import read_bytes
from course.grading.record import Mark, Record
from course.lesson_map import LESSONS

if TYPE_CHECKING:
    from course.exercise import Exercise

_DAY = timedelta(days=1)


class SchemeError(ValueError):
    """The mistake in the file, in one sentence that names the value and its limit."""


@dataclass(frozen=True, slots=True)
class Score:
    """The points of one record, by exercise in the lesson's order.

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
        """The points that are left."""
        return None if self.raw is None else round(self.raw - self.penalty, 2)

    @property
    def out_of(self) -> float:
        """The most points of the whole lesson."""
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
        """The points of a mark, lateness aside; None when the grader failed to give one."""
        if mark.status == "internal":
            return None
        worth = self._worth(mark.exercise)
        if mark.status == "passed":
            return worth
        share = mark.passed / len(mark.checks) if mark.checks else 0.0
        return round(worth * self.partial * share, 2)

    def score(self, record: Record) -> Score:
        """The points of a record.

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


_Points = Annotated[float, Meta(ge=0, le=1e6)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Days = Annotated[int, Meta(ge=0)]
T = TypeVar("T")


class _File(Struct, forbid_unknown_fields=True):
    lessons: dict[str, dict[str, Any]] = {}
    points: dict[str, Any] = {}
    late: dict[str, Any] = {}
    partial: dict[str, Any] = {}


class _Lesson(Struct, forbid_unknown_fields=True):
    due: Annotated[datetime, Meta(tz=True)]


class _Late(Struct, forbid_unknown_fields=True):
    per_day: _Share = 0.0
    days_free: _Days = 0
    most_days: _Days | None = None


class _Partial(Struct, forbid_unknown_fields=True):
    credit: Literal["none", "checks"] = "none"
    share: _Share | None = None


def read_scheme(path: Path | None) -> Scheme:
    """The rules in a file; without one, the exercises' own points and no other rule.

    Raises: SchemeError, OSError.
    """
    if path is None:
        return Scheme()
    try:
        return _scheme(tomllib.loads(read_bytes(path).decode("utf-8-sig")))
    except SchemeError as error:
        raise SchemeError(f"{path.name}: {error}") from error
    except ValueError as error:
        raise SchemeError(f"{path.name} is not written in TOML: {error}") from error


def _scheme(said: dict[str, Any]) -> Scheme:
    file = _read(said, _File, "the file")
    _all_known("lesson", file.lessons, [lesson.stem for lesson in LESSONS])
    due = {
        stem: _read(each, _Lesson, f"[lessons.{stem}]").due for stem, each in file.lessons.items()
    }
    _all_known("exercise", file.points, [each.id for each in registry.exercises()])
    points = {
        name: _read({name: value}, dict[str, _Points], "[points]")[name]
        for name, value in file.points.items()
    }
    late, partial = _read(file.late, _Late, "[late]"), _read(file.partial, _Partial, "[partial]")
    if file.late and not due:
        raise SchemeError("[late] counts from a due date, but no lesson has one.")
    if late.most_days is not None and late.most_days < late.days_free:
        raise SchemeError(
            f"[late] most_days is {late.most_days}, but must be at least days_free, "
            f"{late.days_free}."
        )
    if partial.share is not None and partial.credit == "none":
        raise SchemeError(
            f'[partial] share is {partial.share}, but counts only where credit is "checks".'
        )
    share = 1.0 if partial.share is None else partial.share
    share = share if partial.credit == "checks" else 0.0
    return Scheme(due, points, late.per_day, late.days_free, late.most_days, share)


def _all_known(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise SchemeError(f"there is no {what} {name!r}; there are: {', '.join(known)}.")


def _read(table: dict[str, Any], kind: type[T], where: str) -> T:
    """A table of the file. Raises: SchemeError naming the field, its value and what it may be."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        why, _, place = str(error).partition(" - at `$")
        name = place.strip(".`") if place.startswith(".") else next(iter(table), "")
        if place:
            value = table.get(name)
            shown = str(value) if isinstance(value, datetime) else repr(value)
            where += f" {name} is {shown[:60]}"
        raise SchemeError(f"{where}: {why}.") from None
