"""What the students of a class handed in, found below a folder or in a zip file, and read.

Nothing is run, extracted or trusted, and one bad file stops no other.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from course.grading.handed_in.naming import (
    COURSE,
    Owner,
    copy_number,
    defined_lesson,
    folders_around,
    is_saved_copy,
    is_todays,
    named_inside,
    named_lesson,
    owner_of,
    place_in_a_copy,
)
from course.grading.handed_in.pieces import (
    LARGEST,
    MB,
    Notes,
    Piece,
    Skipped,
    passed_over,
    pieces_below,
    printable,
    read_piece,
    suffix_of,
)
from course.grading.handed_in.zips import members
from course.lesson_map import find_lesson
from course.moves import with_todays_names
from course.source.texts import text_of

_ZIPS_DEEP = 2  # a student's zip file in the class's
_BETTER = (  # in the order in which one of several files is chosen, as the end of a sentence on it
    "is the lesson's file and no copy that the course keeps beside it",
    "can be read",
    "says in its name which lesson it is",
    "lies in work/",
    "has the higher number",
    "is newer",
    "comes later",
)


@dataclass(frozen=True, slots=True)
class Submission:
    """A student's file for one lesson.

    `source` is where it lies below the place that was searched: "ada/l01_chunked_prefill.py",
    "class.zip/ada/l01.ipynb". `text` is Python, a notebook's code cells one after another; it is ""
    and `problem` a sentence when it cannot be read. `submitted_at` is when the file was changed,
    ISO 8601 in UTC, without an offset where a zip file tells its packer's clock only, "" where
    unknown. `attempts` and `minutes`, by exercise, are those that the course has noted in progress/
    beside the file.
    """

    student: str
    lesson: str
    source: str
    text: str
    problem: str
    submitted_at: str
    attempts: Mapping[str, int] = field(default_factory=dict[str, int])
    minutes: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Found:
    """The submissions, one for a student and a lesson, and what else lay there, each with why.

    `doubts` are sentences on students who may be several.
    """

    submissions: tuple[Submission, ...]
    skipped: tuple[Skipped, ...]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Draft:
    """A file of one lesson before its student is known; `where` begins below the place.

    `folder` are the names that lead to it from there on where a source begins, `names` those that
    may tell its student.
    """

    where: tuple[str, ...]
    names: tuple[str, ...]
    folder: tuple[str, ...]
    named: bool  # whether its name tells the lesson, by today's number
    said: Submission

    def rank(self) -> tuple[bool, bool, bool, bool, int, str]:
        """What _BETTER compares."""
        return (
            not is_saved_copy(self.where[-1]),
            not self.said.problem,
            self.named,
            "work" in self.where[:-1],
            copy_number(self.where[-1]),
            self.said.submitted_at,
        )


def find_submissions(place: Path, lessons: Sequence[str], apart: Path | None = None) -> Found:
    """What lies below a folder, or in a zip file, for the lessons with these stems.

    The folder `apart`, of results, is not looked into.

    A file's lesson is told by its name ("l01_chunked_prefill.py", "ada_L01.ipynb"), else by the
    functions that it defines. Its student is told by the outermost folder, zip file or file whose
    name is more than a lesson's (see `naming`); namesakes get the numbers by which the learning
    system tells them apart. Of a student's several files for a lesson one is taken: it is no copy
    that the course keeps beside the lesson, can be read, says its lesson in its name, lies in
    work/, has the highest number at its end, is the newest. In a copy of the course only what lies
    in work/ and lessons/ counts as a student's.

    Raises: OSError when the place cannot be read, ValueError for a lesson that there is not, and
    for a file that is no zip file.
    """
    asked = [find_lesson(stem).stem for stem in lessons]
    name = printable(place.resolve().name if place.is_dir() else place.stem)
    notes = Notes()
    drafts, skipped = _drafts(_all_pieces(place, apart), asked, notes, in_folder=place.is_dir())
    around = folders_around([(draft.said.lesson, draft.names) for draft in drafts])
    chosen: list[Submission] = []
    doubts: list[str] = []
    for (student, _), several in sorted(_by_student(drafts, around, name).items()):
        *others, best = sorted(several, key=_Draft.rank)
        attempts, minutes = notes.beside(best.folder, best.said.lesson)
        chosen.append(replace(best.said, student=student, attempts=attempts, minutes=minutes))
        skipped += [_passed_over_for(best, other) for other in others]
        doubts += _doubt(student, {named_inside(each.names, around) for each in several})
    skipped.sort(key=lambda item: (item.source, item.why))
    return Found(tuple(chosen), tuple(skipped), tuple(dict.fromkeys(doubts)))


def _drafts(
    pieces: Iterable[Piece | Skipped], asked: Sequence[str], notes: Notes, *, in_folder: bool
) -> tuple[list[_Draft], list[Skipped]]:
    """The files that may be students', and the others; adds notes of progress to `notes`."""
    drafts: list[_Draft] = []
    skipped: list[Skipped] = []
    folders: set[tuple[str, ...]] = set()
    inside = 0 if in_folder else 1  # a zip file's own name comes first in a source
    for found in pieces:
        if isinstance(found, Skipped):
            skipped.append(found)
            continue
        folders.update(found.where[:n] for n in range(1, len(found.where)))
        if found.suffix == ".json":
            notes.add(found)
            continue
        made = _drafted(found, asked, inside)
        if isinstance(made, Skipped):
            skipped.append(made)
        else:
            drafts.append(made)
    return _without_the_course(drafts, skipped, folders, inside)


def _without_the_course(
    drafts: Iterable[_Draft],
    skipped: Iterable[Skipped],
    folders: Set[tuple[str, ...]],
    inside: int,
) -> tuple[list[_Draft], list[Skipped]]:
    """Skip each folder of the course's own files as one."""
    theirs: list[_Draft] = []
    others: list[Skipped] = []
    courses: set[str] = set()
    for draft in sorted(drafts, key=lambda draft: draft.where):
        copy, name = place_in_a_copy((*draft.folder, draft.where[-1]), folders)
        if name in ("work", "lessons"):  # where no name is another student's
            theirs.append(replace(draft, names=(*copy[inside:], draft.said.lesson)))
        elif name in COURSE:
            courses.add("/".join((*copy, name)))
        else:
            theirs.append(draft)
    for item in skipped:
        copy, name = place_in_a_copy(tuple(item.source.split("/")), folders)
        if name in COURSE and name != "lessons":
            courses.add("/".join((*copy, name)))
        else:
            others.append(item)
    return theirs, others + [
        Skipped(each, "it is a folder of the course itself") for each in courses
    ]


def _all_pieces(place: Path, apart: Path | None) -> Iterator[Piece | Skipped]:
    """All files below the place, with those in zip files. Raises: as `find_submissions` does."""
    if place.is_dir():
        is_class = _holds_one(place, apart)
        for found in pieces_below(place, apart):
            yield from _unpacked(found, _ZIPS_DEEP, is_class=is_class)
        return
    place.stat()
    if suffix_of(place.name) != ".zip":
        raise ValueError(f"{place} is neither a folder nor a zip file.")
    if place.stat().st_size > (limit := LARGEST[".zip"]):
        raise ValueError(f"{place} is larger than {limit // MB} MB: unpack it and name the folder.")
    outer = read_piece(place.resolve(), (printable(place.name),))
    if outer.problem:
        raise ValueError(f"{place} {outer.problem}.")
    try:
        for found in members(outer, is_class=True):
            yield from _unpacked(found, _ZIPS_DEEP - 1)
    except ValueError as error:
        raise ValueError(f"{place} {error}.") from error


def _holds_one(folder: Path, apart: Path | None) -> bool:
    """Whether the folder holds a single folder or file, hidden ones aside."""
    names = [
        each.name
        for each in folder.iterdir()
        if each.is_dir() or suffix_of(each.name) in LARGEST
        if apart is None or each.resolve() != apart.resolve()
    ]
    return len([name for name in names if not passed_over(name)]) == 1


def _unpacked(
    found: Piece | Skipped, deep: int, *, is_class: bool = False
) -> Iterator[Piece | Skipped]:
    """What it is, or the files in it where it is a zip file, so many zip files deep.

    `is_class` says whether it may be a zip file of the whole class.
    """
    if isinstance(found, Skipped) or found.suffix != ".zip" or found.problem:
        yield found
        return
    try:
        if not deep:
            raise ValueError("lies too deep in other zip files: unpack them")
        for member in members(found, is_class=is_class):
            yield from _unpacked(member, deep - 1)
    except ValueError as error:
        yield replace(found, content=b"", problem=str(error))


def _drafted(piece: Piece, asked: Sequence[str], inside: int) -> _Draft | Skipped:
    """A file as a draft of its lesson, with its text or its problem."""
    text, problem = "", piece.problem
    try:
        text = "" if problem else text_of(piece.suffix, piece.content)
    except ValueError as error:
        problem = str(error)
    named = named_lesson(piece.where[-1])
    lesson = named or (defined_lesson(text) if not problem else None)
    if lesson is None and not problem:
        return Skipped(piece.source, "it names no lesson and defines no exercise's function")
    if lesson is None and len(asked) != 1:
        return Skipped(piece.source, f"it names no lesson, and {problem}")
    lesson = lesson or asked[0]
    if lesson not in asked:
        return Skipped(piece.source, f"it is for {lesson}, which is not graded now")
    sentence = f"{piece.source} {problem}." if problem else ""
    said = Submission(
        "", lesson, piece.source, with_todays_names(text, lesson), sentence, piece.changed_at
    )
    where = piece.where[inside:]
    is_clear = named is not None and is_todays(piece.where[-1])
    return _Draft(where, where, piece.where[:-1], is_clear, said)


def _by_student(
    drafts: Sequence[_Draft], around: int, place: str
) -> dict[tuple[str, str], list[_Draft]]:
    """The files by student and lesson. A number tells two students of one name apart."""
    owned = [(owner_of(draft.names, around, place), draft) for draft in drafts]
    numbers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for owner, draft in owned:
        numbers[owner.name, draft.said.lesson].add(owner.number)
    shared = {name for (name, _), several in numbers.items() if len(several) > 1}
    made: dict[tuple[str, str], list[_Draft]] = defaultdict(list)
    for owner, draft in owned:
        made[_student(owner, shared), draft.said.lesson].append(draft)
    return made


def _student(owner: Owner, shared: set[str]) -> str:
    numbered = owner.number and owner.name in shared
    return f"{owner.name}_{owner.number}" if numbered else owner.name


def _passed_over_for(best: _Draft, other: _Draft) -> Skipped:
    """The other file as skipped, with the reason."""
    pairs = zip(best.rank(), other.rank(), strict=True)
    first = next((n for n, (one, two) in enumerate(pairs) if one != two), len(_BETTER) - 1)
    why = f"{best.said.source} is taken, which {_BETTER[first]}"
    return Skipped(other.said.source, f"{other.said.problem} {why}".strip())


def _doubt(student: str, names: Set[str]) -> list[str]:
    """A sentence if files of one student and lesson lie under several names."""
    shown = sorted(names - {""})
    if len(shown) < 2:
        return []
    few = ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
    return [
        f"{student} counts as one student, of whose files for a lesson one is graded: {few}. If "
        "these are students, grade that folder by itself."
    ]
