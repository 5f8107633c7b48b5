"""Counts of a class's records: results of exercises, misconceptions, checks that broke off."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from course.grading.record import Mark, Record, Status
from course.grading.results.scheme import known_exercise
from course.grading.results.words import in_course_order
from course.registry import lesson_exercises

WRONG: tuple[Status, ...] = ("failed", "raised")
BROKEN_OFF: tuple[Status, ...] = ("timeout", "memory", "crashed", "protocol", "internal")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an exercise went for the class.

    `students` are all of the class but those on whom the grader failed. Minutes and attempts are
    medians over the students where they are known, None where they are for no student; `planned`
    are the minutes that the course says, None for an exercise that it no longer has.
    """

    exercise: str
    students: int
    passed: int
    minutes: float | None
    attempts: float | None
    planned: int | None


@dataclass(frozen=True, slots=True)
class Held:
    """A misconception and how many students have it; `belief` is "" where the course says none."""

    exercise: str
    key: str
    belief: str
    idea: str
    students: int


@dataclass(frozen=True, slots=True)
class Sticking:
    """Where most of those are stuck whose answer to an exercise is wrong.

    `students` of the `wrong` stop at this `check` with the same misconception, or with none that
    is known; `idea` and `example` are those of the shortest of their counterexamples.
    """

    exercise: str
    check: str
    misconception: str | None
    students: int
    wrong: int
    idea: str
    example: tuple[tuple[str, str], ...]


def exercises_by_lesson(records: Sequence[Record]) -> dict[str, list[str]]:
    """The exercises of the records' lessons in the course's order, each once.

    Those that the course no longer has stand after the others of the lesson that they came with.
    """
    lessons = in_course_order(record.lesson for record in records)
    found = {lesson: [each.id for each in lesson_exercises(lesson)] for lesson in lessons}
    seen = {exercise for ids in found.values() for exercise in ids}
    for record in records:
        more = dict.fromkeys(mark.exercise for mark in record.marks if mark.exercise not in seen)
        found[record.lesson] += more
        seen |= set(more)
    return found


def exercises(records: Sequence[Record]) -> list[str]:
    """All of them in one list."""
    return [each for ids in exercises_by_lesson(records).values() for each in ids]


def outcomes(records: Sequence[Record]) -> list[Outcome]:
    """How each exercise went, in the course's order."""
    marks = _by_exercise(records)
    everyone = len({record.student for record in records})
    found: list[Outcome] = []
    for exercise in exercises(records):
        students = everyone - sum(mark.status == "internal" for _, mark in marks[exercise])
        passed = sum(mark.status == "passed" for _, mark in marks[exercise])
        minutes = _median((each.minutes or {}).get(exercise) for each in records)
        attempts = _median((each.attempts or {}).get(exercise) for each in records)
        known = known_exercise(exercise)
        planned = None if known is None else known.minutes
        found.append(Outcome(exercise, students, passed, minutes, attempts, planned))
    return found


def misconceptions(records: Sequence[Record]) -> list[Held]:
    """Every misconception that a student has, the most common first.

    Its sentence is the course's; where the course makes it of the result, or knows it no longer,
    it is the one that most students were told.
    """
    told: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for exercise, pairs in _by_exercise(records).items():
        for student, mark in pairs:
            if mark.misconception is not None:
                told[exercise, mark.misconception][student] = mark.idea
    found = [_held(exercise, key, list(ideas.values())) for (exercise, key), ideas in told.items()]
    return sorted(found, key=lambda each: (-each.students, each.exercise, each.key))


def sticking_points(records: Sequence[Record]) -> list[Sticking]:
    """The counterexample to show the class, of each exercise that has wrong answers."""
    marks = _by_exercise(records)
    found: list[Sticking] = []
    for exercise in exercises(records):
        wrong = [mark for _, mark in marks[exercise] if mark.status in WRONG]
        if not wrong:
            continue
        groups: dict[tuple[str, str], list[Mark]] = defaultdict(list)
        for mark in wrong:
            groups[mark.stopped_at or "", mark.misconception or ""].append(mark)
        group = groups[min(groups, key=lambda each: (-len(groups[each]), each))]
        best = min(group, key=_length)
        check, key = best.stopped_at or "", best.misconception
        found.append(
            Sticking(exercise, check, key, len(group), len(wrong), best.idea, best.example)
        )
    return found


def broken_off(records: Sequence[Record]) -> list[tuple[Record, Mark]]:
    """The marks that tell of no result at all, by what happened, exercise and student."""
    found = [(each, mark) for each in records for mark in each.marks if mark.status in BROKEN_OFF]
    return sorted(
        found,
        key=lambda pair: (BROKEN_OFF.index(pair[1].status), pair[1].exercise, pair[0].student),
    )


def _by_exercise(records: Iterable[Record]) -> dict[str, list[tuple[str, Mark]]]:
    found: dict[str, list[tuple[str, Mark]]] = defaultdict(list)
    for record in records:
        for mark in record.marks:
            found[mark.exercise].append((record.student, mark))
    return found


def _held(exercise: str, key: str, ideas: list[str]) -> Held:
    known = known_exercise(exercise)
    all_known = () if known is None else known.misconceptions
    wrong_idea = next((each for each in all_known if each.key == key), None)
    counted = Counter(ideas)
    idea = min(counted, key=lambda each: (-counted[each], len(each), each))
    if wrong_idea is None:
        return Held(exercise, key, "", idea, len(ideas))
    if isinstance(wrong_idea.idea, str) and wrong_idea.idea:
        idea = wrong_idea.idea
    return Held(exercise, key, wrong_idea.belief, idea, len(ideas))


def _length(mark: Mark) -> tuple[bool, int, tuple[tuple[str, str], ...], str]:
    """Sort key of examples: none last, shorter first."""
    long = sum(len(label) + len(text) for label, text in mark.example)
    return not mark.example, long, mark.example, mark.idea


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
