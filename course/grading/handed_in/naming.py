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

Dates and weeks ("2026-12-01", "Week 3") name nobody. A section ("Section 2") counts as a student
only where no name follows.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from course.grading.handed_in.pieces import LARGEST, suffix_of
from course.lesson_map import LESSONS, entries
from course.moves import EXERCISES, IDS
from course.moves import LESSONS as OLD_LESSONS

_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_[a-z]+(_.*)?", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>.*?[^\W\d_].*?)(_LATE)?_(?P<number>\d+)_\d+_.+", re.DOTALL)
_AROUND = re.compile(
    r"submitted|submissions|.+[-_]submissions|assignment_\d+_export"
    r"|work|lessons|answers|kept|contest"  # the course's own names
)
COURSE = {"benchmarks", "course", "docs", "lessons", "nanogpt", "solutions", "tests", "widgets"}
"""Folders of the course that hold Python files."""
_IN_A_COPY = 3  # of them, at least, lie beside each other in a copy of it
_SAVED = re.compile(r"(?<![^\W_])(l\d\d[a-z]?\.\w+)(?:\.try)?(?:-\d{1,3})?$", re.IGNORECASE)
_KEPT = re.compile(r"\.\d{4}-\d\d-\d\d-\d{6}(?:-\d{1,3})?$")
_MONTH, _DAY, _YEAR = "(?:0?[1-9]|1[0-2])", "(?:0?[1-9]|[12][0-9]|3[01])", "(?:19|20)[0-9]{2}"
_WHEN = re.compile(  # no date without separators: a student's number may look like one
    rf"(?<!\d)(?:{_YEAR}([-_. ]){_MONTH}\1{_DAY}|{_DAY}([-_. ]){_MONTH}\2{_YEAR})(?!\d)"
    r"(?:[-_ T]+\d\d[-_.:]\d\d(?:[-_.:]\d\d)?(?!\d))?"
    r"|(?<![^\W_])(?:(?:week|woche|semaine|semana)[-_ .]*|(?:wk|kw)[-_ .]+)\d{1,2}(?![^\W_])",
    re.IGNORECASE,
)
_WEEKDAY = "(?i:mon|tues|wednes|thurs|fri|satur|sun)day"
_SECTION = re.compile(  # "Section 2", "CS101 Lab B - Tuesday", "Tuesday (10 am)"
    rf"(?:[A-Z]{{2,5}}[- ]?\d{{2,4}}[A-Z]?[-_ ,.]+)?(?:{_WEEKDAY}|"
    "(?i:section|sec|class|cohort|lab|lecture|period|recitation|seminar|session|tutorial|tut)"
    rf"[-_ .#]*(?:\d{{1,3}}[A-Za-z]?|[A-Za-z]\d?))(?:[-_ ,]+(?:{_WEEKDAY}|\(.*\)))?",
)
_STEMS = [stem.split("_", 1) for stem in (*(e.stem for e in reversed(LESSONS)), *OLD_LESSONS)]
_TITLED = "|".join(  # one of its titles after the number, if any, in any spelling
    rf"{number}(?:[-_ ](?:{'|'.join(t for n, t in _STEMS if n == number).replace('_', '[-_ ]')}))?"
    for number in dict.fromkeys(number for number, _ in _STEMS)
)
_LESSON = re.compile(rf"(?<![^\W_])(?:{_TITLED})(?![^\W_])", re.IGNORECASE)
_COPY = re.compile(r"-(\d{1,3})$")  # "l01-1" of Canvas; elsewhere it may be a group's number
_BROWSERS_COPY = re.compile(r" ?\((\d{1,3})\)$")
_FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Owner:
    """A student's name, and what tells namesakes apart: a learning system's number, or a section.

    `number` is "" where there is neither.
    """

    name: str
    number: str = ""


def named_lesson(name: str) -> str | None:
    """The stem of the lesson that a file's name tells by its stem or number: "L02B-ada.py"."""
    found = _LESSON.findall(_stem(name))
    if (now := _moved(name)) is not None:
        return now
    number = re.split("[-_ ]", found[-1].lower())[0] if found else None
    return next((each.stem for each in LESSONS if each.stem.partition("_")[0] == number), None)


def is_todays(name: str) -> bool:
    """Whether a file is not named after a lesson of an older version: "l07_fleet.py"."""
    return _moved(name) is None


def _moved(name: str) -> str | None:
    found = _LESSON.findall(_stem(name))
    return OLD_LESSONS.get(re.sub("[- ]", "_", found[-1].lower())) if found else None


def defined_lesson(text: str) -> str | None:
    """The lesson most of whose exercises' functions a text defines; of two, the more complete.

    Reads the text and does not parse it: one that cannot be parsed names its functions, too.
    """
    defined = set(_FUNCTION.findall(text))
    best, most = None, (0, 0.0)
    for lesson in LESSONS:
        names = {each.id.partition(".")[2] for each in entries(lesson)}
        defined_here = defined | {
            new.partition(".")[2]
            for old, new in EXERCISES.items()
            if new and new.startswith(f"{lesson.stem}.") and old.partition(".")[2] in defined
        }
        count = len(names & defined_here)
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


def is_saved_copy(name: str) -> bool:
    """Whether the course writes such a file beside the lessons, in work/answers/ or work/kept/.

    "l01.chunk_size.try.py", "l01_chunked_prefill.2026-11-27-180002.py".
    """
    stem = _BROWSERS_COPY.sub("", _stem(name))
    found = _SAVED.search(stem)
    return bool(_KEPT.search(stem) or (found and found[1].lower() in _exercises()))


@functools.cache
def _exercises() -> frozenset[str]:
    return frozenset(each.id for lesson in LESSONS for each in entries(lesson)) | IDS.keys()


def place_in_a_copy(
    where: tuple[str, ...], folders: Collection[tuple[str, ...]]
) -> tuple[tuple[str, ...], str]:
    """The copy of the course that a file lies in, and the name of its folder there.

    ((), "") for a file outside all copies, or right in one. `folders` are all that were found.
    """
    for at in range(len(where) - 1):
        if sum((*where[:at], each) in folders for each in COURSE) >= _IN_A_COPY:
            return where[:at], where[at]
    return (), ""


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
        owners[lesson].update(_owners(where[around:])[:1])
    return around if any(len(found) > 1 for found in owners.values()) else 0


def owner_of(where: tuple[str, ...], around: int, place: str) -> Owner:
    """The student whose file lies there.

    The outermost name that is more than a lesson's or a place's for submissions tells it, a
    folder's, a zip file's or in the end the file's own; no name further in can: a student may
    choose that. Where there is none, the innermost of the folders around all, else `place`.
    """
    if found := _owners(where[around:]):
        return found[0]
    names = [_rest(part) for part in where[:around]]
    return Owner(next((name for name in reversed(names) if name), place))


def named_inside(where: tuple[str, ...], around: int) -> str:
    """The next name below the owner's that could be a student's; "" where there is none."""
    return next((other.name for other in _owners(where[around:])[1:]), "")


def _owners(names: tuple[str, ...]) -> list[Owner]:
    """The owners that the names tell, the outermost first. A section tells namesakes apart."""
    found = [owner for name in names if (owner := _owner(name)).name]
    people = (n for n, each in enumerate(found) if each.number or not _SECTION.fullmatch(each.name))
    first = next(people, 0)
    section = " ".join(each.name for each in found[:first])
    return [replace(each, number=each.number or section) for each in found[first:]]


def _owner(name: str) -> Owner:
    found = _MOODLE.fullmatch(name)
    if suffix_of(name) in LARGEST:
        found = found or _CANVAS.fullmatch(_WHEN.sub("", name))
    return Owner(found["name"], found["number"]) if found else Owner(_rest(name))


def _rest(name: str) -> str:
    """A name without lesson and date: "ada" of "ada_l01.zip", "" of "submitted"."""
    rest = _stem(name)
    if suffix_of(name) in LARGEST:
        rest = _BROWSERS_COPY.sub("", rest)
        rest = _COPY.sub("", rest) if copy_number(name) else rest
        if is_saved_copy(name):
            rest = _KEPT.sub("", _SAVED.sub("", rest))
    rest = _WHEN.sub("", _LESSON.sub("", rest)).strip("-_ .")
    return "" if _AROUND.fullmatch(rest.lower()) else rest


def _stem(name: str) -> str:
    suffix = suffix_of(name)
    return name[: -len(suffix)] if suffix in LARGEST else name
