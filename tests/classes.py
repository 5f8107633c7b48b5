"""Invented classes: records of students whose answers are right, wrong or worse, from a seed."""

import random
from typing import Any

from course.exercise import Exercise
from course.grading.record import Mark, Record, Status
from course.registry import lesson_exercises

LESSON = "l01_chunked_prefill"
STRANGE = (
    '<script>alert("x")</script>',
    "=HYPERLINK(1)",
    "דוד כהן",
    "\u202eevil",
    "👩🏽‍💻🦜",
    "x" * 200,
    "half \udcff",
    "{{ 7 * 7 }} {% raw %}",
)
NAMES = ("Ada", "Ben", "Chen", "Dilek", "Emeka", "Fatima", "Goran", "Hana", "Ines", "Jonas")
STATUSES: tuple[Status, ...] = ("passed", "failed", "raised", "timeout", "not_submitted")
OFTEN = (60, 22, 5, 7, 6)


def a_mark(status: Status = "passed", exercise: str = "l01.plan_step", **other: Any) -> Mark:
    """A mark with four checks, of which a wrong answer passed one."""
    passed = {"passed": 4, "not_submitted": 0}.get(status, 1)
    values: dict[str, Any] = {
        "checks": ("one", "two", "three", "four"),
        "passed": passed,
        "idea": "Think.",
    }
    return Mark(exercise, "v1", status, **{**values, **other})


def a_record(student: str = "Ada", *marks: Mark, lesson: str = LESSON, **other: Any) -> Record:
    values: dict[str, Any] = {"source": f"{student}/l01.py", "key": "k", "seed": 7, "seconds": 0.5}
    values |= {"graded_at": "2026-12-02T08:00:00+00:00", "is_sandboxed": True}
    return Record(student, lesson, marks=marks, **{**values, **other})


def a_class(students: int, lesson: str = LESSON, seed: int = 0) -> list[Record]:
    """Records of a lesson; the first students have the strange names, some carry their minutes."""
    rng = random.Random(seed)
    records: list[Record] = []
    for number in range(students):
        name = f"{NAMES[number % len(NAMES)]} {number:03}"
        student = STRANGE[number] if number < len(STRANGE) else name
        marks = [_drawn(rng, exercise) for exercise in lesson_exercises(lesson)]
        told: dict[str, Any] = {}
        if number % 3 == 0:
            minutes = {mark.exercise: rng.randint(2, 30) for mark in marks}
            told = {"minutes": minutes, "attempts": {each: rng.randint(1, 9) for each in minutes}}
        records.append(a_record(student, *marks, lesson=lesson, **told))
    return records


def _drawn(rng: random.Random, exercise: Exercise) -> Mark:
    (status,) = rng.choices(STATUSES, OFTEN)
    checks = tuple(name for name, _ in exercise.checks)
    if status in ("passed", "not_submitted"):
        return Mark(exercise.id, "v1", status, checks, len(checks) if status == "passed" else 0)
    known = [each for each in exercise.misconceptions if isinstance(each.idea, str) and each.idea]
    wrong = rng.choice([None, *known[:3]]) if status == "failed" else None
    many = list(range(rng.randint(1, 9)))
    example = ("input", f"{exercise.name}({many}, budget={len(many)})"), ("got", str(many[1:]))
    idea = str(wrong.idea) if wrong else "Look at `budget` again."
    told = example, wrong and wrong.key, "secret of the hidden case\n"
    return Mark(exercise.id, "v1", status, checks, rng.randrange(len(checks)), idea, *told)
