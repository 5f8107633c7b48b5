"""What the speaker reads: for each slide that asks, what to ask, what will be answered, minutes.

A lesson's notes are one file, notes/STEM.toml. A table there is filed under the slide's key: a
prediction's key, a picture's title, a section's heading or an exercise's id.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.exercise import Exercise
from course.lesson_map import Lesson
from course.registry import lesson_exercises

FOLDER = Path(__file__).parent / "notes"
_MOST_BELIEFS = 4


class NotesError(Exception):
    """What is wrong with a file of notes, in one sentence."""


@dataclass(frozen=True, slots=True)
class Note:
    """A speaker's note. `ask` is what to say, `expect` are the answers to expect, `then` what
    to do next; any may be empty. `minutes` are for the slide, with those that follow without a
    note.
    """

    minutes: int
    ask: str = ""
    expect: tuple[str, ...] = ()
    then: str = ""


def notes_of(lesson: Lesson) -> dict[str, Note]:
    """The lesson's notes by the keys of their slides; exercises without one of their own have
    what their records say. Raises: NotesError.
    """
    path = FOLDER / f"{lesson.stem}.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotesError(f"{path.name}: {error}") from None
    found = {key: _note(key, table) for key, table in tables.items()}
    for item in lesson_exercises(lesson.stem):
        found[item.id] = _exercise_note(item, found.get(item.id, Note(0)))
    return found


def _note(key: str, table: Any) -> Note:
    try:
        rest: dict[str, Any] = {name: value for name, value in table.items() if name != "expect"}
        note = Note(expect=tuple(table.get("expect", ())), **rest)
    except (AttributeError, TypeError) as error:
        raise NotesError(f"the note {key!r} cannot be read: {error}") from None
    if not isinstance(note.minutes, int) or note.minutes < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NotesError(f"the note {key!r} takes {note.minutes!r} minutes; it must be 0 or more")
    return note


def _exercise_note(item: Exercise, own: Note) -> Note:
    """The minutes, the wrong ideas and the first hint stand in the exercise's record alone."""
    beliefs = tuple(each.belief for each in item.misconceptions[:_MOST_BELIEFS])
    return Note(
        minutes=item.minutes,
        ask=own.ask or "Read the contract aloud and work the example by hand; then let them write.",
        expect=own.expect or beliefs,
        then=own.then or f"When they are stuck: {item.hints[0]}",
    )
