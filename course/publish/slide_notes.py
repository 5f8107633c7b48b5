"""The speaker's notes: for each slide that asks, what to ask, what will be answered, minutes.

A lesson's notes are one file, notes/STEM.toml. A table there is filed under the slide's key: a
prediction's key, a picture's title, a section's heading or an exercise's id.
"""

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from course.exercise import Exercise
from course.launcher.failure import Failure
from course.lesson_map import Lesson
from course.registry import lesson_exercises

FOLDER = Path(__file__).parent / "notes"
_MOST_BELIEFS = 4


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to `ask`, which answers to `expect`, what to do `then`; any may be empty.

    `minutes` are for the slide, with those that follow without a note.
    """

    minutes: Annotated[int, msgspec.Meta(ge=0)]
    ask: str = ""
    expect: tuple[str, ...] = ()
    then: str = ""


def notes_of(lesson: Lesson) -> dict[str, Note]:
    """The lesson's notes by the keys of their slides; every exercise has one. Raises: Failure."""
    path = FOLDER / f"{lesson.stem}.toml"
    key = "the file"
    found: dict[str, Note] = {}
    try:
        for key, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found[key] = msgspec.convert(table, Note)
    except (OSError, ValueError) as error:
        raise Failure(f"{path.name}: {key!r} cannot be read: {error}") from None
    for item in lesson_exercises(lesson.stem):
        found[item.id] = _exercise_note(item, found.get(item.id, Note(0)))
    return found


def _exercise_note(item: Exercise, own: Note) -> Note:
    """A note with the exercise's minutes, its first beliefs and its first hint."""
    beliefs = tuple(each.belief for each in item.misconceptions[:_MOST_BELIEFS])
    return Note(
        minutes=item.minutes,
        ask=own.ask or "Read the contract aloud and work the example by hand; then let them write.",
        expect=own.expect or beliefs,
        then=own.then or f"When they are stuck: {item.hints[0]}",
    )
