"""Which tests a shorter run takes: a part of everything, or all that one lesson touches."""

import re
import zlib
from collections.abc import Iterable, Sequence

import pytest

from course.lesson_map import find_lesson
from course.registry import lesson_exercises

MOST = 5  # cases of a table, of each exercise, lesson or file that they speak of one
RUNS = "l01_chunked_prefill"  # the lesson whose notebooks are run
SUBJECT = re.compile(r"\bl\d\d[a-z]?(?:_\w+|\.\w+)")


def quick(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Without what is slow, of the browser's what is marked as smoke, of tables some cases each.

    Of the lessons' notebooks one is run.
    """
    tables: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        browser = item.get_closest_marker("browser") and not item.get_closest_marker("smoke")
        runs = "notebooks" in getattr(item, "fixturenames", ()) and RUNS not in item.nodeid
        if browser or runs or item.get_closest_marker("slow"):
            continue
        test, _, case = item.nodeid.partition("[")
        subject = SUBJECT.search(case)
        tables.setdefault(test, {}).setdefault(subject[0] if subject else case, item)
    taken = {id(item) for test, table in tables.items() for item in _some(test, [*table.values()])}
    return [item for item in items if id(item) in taken]


def _some(test: str, cases: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    """At most `MOST` cases out of the whole table, others for each test."""
    first = zlib.crc32(test.encode())
    many = range(min(MOST, len(cases)))
    return (cases[(first + i * len(cases) // len(many)) % len(cases)] for i in many)


def of_lesson(items: Sequence[pytest.Item], wanted: str) -> list[pytest.Item]:
    """What names the lesson: in its file, in the test or in the case. Raises: UsageError."""
    try:
        lesson = find_lesson(wanted)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    number = lesson.stem.partition("_")[0]
    cases = [lesson.stem, *(re.escape(item.id) for item in lesson_exercises(lesson.stem))]
    own = re.compile(
        rf"test_lesson_{lesson.number}\.py|_{number}\.py|\[.*\b(?:{'|'.join(cases)})\b"
    )
    return [item for item in items if own.search(item.nodeid)]
