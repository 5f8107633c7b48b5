"""Which student and which lesson the names of files and folders tell.

What the learning systems write:
    Moodle      "Ada Lovelace_123456_assignsubmission_file_", a folder, or what the file begins with
                (`download_submissions` in its mod/assign/locallib.php); the number is the student's
                in this one assignment
    Canvas      "lovelaceada_LATE_4321_98765_l01-1.py": the student, perhaps late, the student's
                number, the file's, the file, and how often a file of this name was handed in
    Gradescope  "assignment_77_export/submission_1234/"; who that is stands in a YAML file only
    nbgrader    "submitted/ada/l01/", by its directory_structure
    Classroom   GitHub's "l01-submissions/l01-ada/"
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from course.grading.handed_in.pieces import LARGEST, suffix_of
from course.lesson_map import LESSONS, entries

_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_[a-z]+(_.*)?", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>.+?)(_LATE)?_(?P<number>\d+)_\d+_.+", re.DOTALL)
_AROUND = re.compile(r"submitted|submissions|.+[-_]submissions|assignment_\d+_export|work|lessons")
_COURSE = {"benchmarks", "course", "nanogpt", "solutions", "tests", "widgets"}  # in a copy of it
_TITLED = "|".join(  # the title after the number, if any, in any spelling
    rf"{number}(?:[-_ ]{title.replace('_', '[-_ ]')})?"
    for number, _, title in (lesson.stem.partition("_") for lesson in reversed(LESSONS))
)
_LESSON = re.compile(rf"(?<![^\W_])(?:{_TITLED})(?![^\W_])", re.IGNORECASE)
_COPY = re.compile(r"-(\d{1,3})$")  # "l01-1" of Canvas; elsewhere it may be a group's number
_BROWSERS_COPY = re.compile(r" ?\((\d{1,3})\)$")
_FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Owner:
    """A student's name, and the number by which a learning system tells namesakes apart, if any."""

    name: str
    number: str = ""


def named_lesson(name: str) -> str | None:
    """The stem of the lesson that a file's name tells by its stem or number: "L02B-ada.py"."""
    found = _LESSON.findall(_stem(name))
    number = re.split("[-_ ]", found[-1].lower())[0] if found else None
    return next((each.stem for each in LESSONS if each.stem.partition("_")[0] == number), None)


def defined_lesson(text: str) -> str | None:
    """The lesson most of whose exercises' functions a text defines; of two, the more complete.

    Reads the text and does not parse it: one that cannot be parsed names its functions, too.
    """
    defined = set(_FUNCTION.findall(text))
    best, most = None, (0, 0.0)
    for lesson in LESSONS:
        names = {each.id.partition(".")[2] for each in entries(lesson)}
        count = len(names & defined)
        if count and (count, count / len(names)) > most:
            best, most = lesson.stem, (count, count / len(names))
    return best


def copy_number(name: str) -> int:
    """The number that a file's name ends with where a system counts what it was handed: "l01-2"."""
    stem = _stem(name)
    found = _BROWSERS_COPY.search(stem) or _COPY.search(stem)
    if found and found.re is _COPY and not _CANVAS.fullmatch(stem):
        lesson = [*_LESSON.finditer(stem)]
        found = found if lesson and lesson[-1].end() == found.start() else None
    return int(found[1]) if found else 0


def folders_around(files: Sequence[tuple[str, tuple[str, ...]]]) -> int:
    """How many outer folders (or zip files) lie around the whole class, and are no student's.

    Given each file's lesson and the names that lead to it: those that all files share, when below
    them one lesson is found for two students.
    """
    around = 0
    for names in zip(*(where[:-1] for _, where in files), strict=False):
        if len(set(names)) > 1:
            break
        around += 1
    owners: dict[str, set[Owner]] = defaultdict(set)
    for lesson, where in files:
        ours = not named_lesson(where[-1]) and _COURSE.intersection(where[around:-1])
        owner = None if ours else _first_owner(where[around:])
        owners[lesson] |= {owner} if owner else set()
    return around if any(len(found) > 1 for found in owners.values()) else 0


def owner_of(where: tuple[str, ...], around: int, place: str) -> Owner:
    """The student whose file lies there.

    The outermost name that is more than a lesson's or a place's for submissions tells it, a
    folder's, a zip file's or in the end the file's own; no name further in can: a student may
    choose that. Where there is none, the innermost of the folders around all, else `place`.
    """
    if found := _first_owner(where[around:]):
        return found
    names = [_rest(part) for part in where[:around]]
    return Owner(next((name for name in reversed(names) if name), place))


def _first_owner(names: tuple[str, ...]) -> Owner | None:
    return next((found for name in names if (found := _owner(name)).name), None)


def _owner(name: str) -> Owner:
    found = _MOODLE.fullmatch(name)
    if suffix_of(name) in LARGEST:
        found = found or _CANVAS.fullmatch(name)
    return Owner(found["name"], found["number"]) if found else Owner(_rest(name))


def _rest(name: str) -> str:
    """What a name says besides the lesson: "ada" of "ada_l01.zip", "" of "submitted"."""
    rest = _stem(name)
    if suffix_of(name) in LARGEST:
        rest = _BROWSERS_COPY.sub("", rest)
        rest = _COPY.sub("", rest) if copy_number(name) else rest
    rest = _LESSON.sub("", rest).strip("-_ .")
    return "" if _AROUND.fullmatch(rest.lower()) else rest


def _stem(name: str) -> str:
    suffix = suffix_of(name)
    return name[: -len(suffix)] if suffix in LARGEST else name
