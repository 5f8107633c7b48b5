"""The layouts of a class's files: whose a file is, by the names that lead to it.

    folder      STUDENT/.../FILE, STUDENT.zip, STUDENT.py
    moodle      "Ada Lovelace_123_assignsubmission_file_/FILE", or these words before the file's
                name (`download_submissions` in its mod/assign/locallib.php); the number is the
                student's in this one assignment
    canvas      "lovelaceada_LATE_4321_98765_l01-1.py": the student, perhaps late, the student's
                number, the file's, the file, and how often a file of this name was handed in
    nbgrader    STUDENT/ASSIGNMENT/FILE, by its directory_structure
    github      ASSIGNMENT-STUDENT/.../FILE in the folder ASSIGNMENT-submissions, as
                `gh classroom clone student-repos` makes it

Only the outermost names are read: a student chooses those further in.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from course.grading.handed_in.pieces import LARGEST, suffix_of
from course.lesson_map import LESSONS
from course.moves import LESSONS as OLD_LESSONS

_MOODLE = re.compile(r"(.+?)_(\d+)_assignsubmission_[a-z]+(?:_(.*))?", re.DOTALL)
_CANVAS = re.compile(r"(.+?)(?:_LATE)?_(\d+)_\d+_(.+)", re.DOTALL)
_HANDED_IN_AGAIN = re.compile(r"-\d{1,3}(?=\.\w+$)")
_GITHUB = re.compile(r"(.+)-submissions")


@dataclass(frozen=True, slots=True)
class Owned:
    """A file of a student: `path` begins in what the student handed in.

    `number` tells namesakes apart and `lesson` is told by a folder's name; "" where there is none.
    """

    name: str
    path: tuple[str, ...]
    number: str = ""
    lesson: str = ""


def lesson_named(name: str) -> str:
    """The stem of the lesson that a file or folder is named after, "" for another name.

    The name is the lesson's stem, one that it had in an older version, or its number: "L01.ipynb".
    """
    stem = _stem(name).lower()
    now = OLD_LESSONS.get(stem, stem)
    return next((each.stem for each in LESSONS if now in (each.stem, each.short)), "")


def _folder(where: tuple[str, ...], place: str) -> Owned | None:
    if lesson_named(where[0]):
        return None
    return Owned(_stem(where[0]), where[1:] or where)


def _moodle(where: tuple[str, ...], place: str) -> Owned | None:
    found = _MOODLE.fullmatch(where[0])
    if found is None:
        return None
    return Owned(found[1], where[1:] or (found[3] or where[0],), found[2])


def _canvas(where: tuple[str, ...], place: str) -> Owned | None:
    found = _CANVAS.fullmatch(where[0]) if suffix_of(where[0]) in LARGEST else None
    return found and Owned(found[1], where[1:] or (_HANDED_IN_AGAIN.sub("", found[3]),), found[2])


def _nbgrader(where: tuple[str, ...], place: str) -> Owned | None:
    student, folders, path = where[0], where[1:2], where[2:]
    lesson = lesson_named(folders[0]) if path else ""
    return Owned(student, path, lesson=lesson) if lesson else None


def _github(where: tuple[str, ...], place: str) -> Owned | None:
    found = _GITHUB.fullmatch(place)
    repository, path = where[0], where[1:]
    if not found or not path or not repository.startswith(before := f"{found[1]}-"):
        return None
    return Owned(repository.removeprefix(before), path)


LAYOUTS: dict[str, Callable[[tuple[str, ...], str], Owned | None]] = {
    "folder": _folder,
    "moodle": _moodle,
    "canvas": _canvas,
    "nbgrader": _nbgrader,
    "github": _github,
}
"""Given the names that lead to a file, and that of the class's folder: whose it is, if anyone's."""
FORMS = {
    "folder": "STUDENT/.../LESSON.py",
    "moodle": "NAME_NUMBER_assignsubmission_file_/LESSON.py",
    "canvas": "NAME_NUMBER_NUMBER_LESSON.py",
    "nbgrader": "STUDENT/LESSON/NOTEBOOK.ipynb",
    "github": "ASSIGNMENT-STUDENT/.../LESSON.py in ASSIGNMENT-submissions",
}
_CLEAR = ("moodle", "canvas", "github", "nbgrader", "folder")  # from names that say most to any


def better_layout(layout: str, wheres: list[tuple[str, ...]], place: str, is_found: bool) -> str:
    """The layout that these files have, if it is not `layout`; else "".

    `is_found` says whether a lesson's file was found in `layout`.
    """

    def owned(name: str) -> int:
        return sum(LAYOUTS[name](where, place) is not None for where in wheres)

    if is_found:
        clear = _CLEAR[: _CLEAR.index(layout)] if layout in ("folder", "nbgrader") else ()
        return next((name for name in clear if owned(name) >= owned(layout)), "")
    others = [name for name in _CLEAR if name != layout]
    return next((name for name in others if owned(name)), "")


def _stem(name: str) -> str:
    suffix = suffix_of(name)
    return name[: -len(suffix)] if suffix in LARGEST else name
