"""What the students of a class handed in, found below a folder or in a zip file, and read.

Nothing is run, extracted or trusted, and one bad file stops no other.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from course.grading.handed_in.naming import (
    Owner,
    copy_number,
    defined_lesson,
    folders_around,
    named_lesson,
    owner_of,
)
from course.grading.handed_in.pieces import (
    Piece,
    Skipped,
    pieces_below,
    printable,
    read_piece,
    suffix_of,
)
from course.grading.handed_in.progress_notes import Notes
from course.grading.handed_in.texts import text_of
from course.grading.handed_in.zips import members
from course.lesson_map import find_lesson

_ZIPS_DEEP = 2  # a student's zip file in the class's
_BETTER = (  # in the order in which one of several files is chosen, as the end of a sentence on it
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
    ISO 8601 in UTC (in a zip file by the clock of its packer), "" where unknown. `attempts` and
    `minutes`, by exercise, are those that the course has noted in progress/ beside the file.
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
    """The submissions, one for a student and a lesson, and what else lay there, each with why."""

    submissions: tuple[Submission, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A file of one lesson before its student is known; `where` begins below the place.

    `folder` are the names that lead to it from there on where a source begins.
    """

    where: tuple[str, ...]
    folder: tuple[str, ...]
    named: bool  # whether its name tells the lesson
    said: Submission

    def rank(self) -> tuple[bool, bool, bool, int, str]:
        """What _BETTER compares."""
        return (
            not self.said.problem,
            self.named,
            "work" in self.where[:-1],
            copy_number(self.where[-1]),
            self.said.submitted_at,
        )


def find_submissions(place: Path, lessons: Sequence[str]) -> Found:
    """What lies below a folder, or in a zip file, for the lessons with these stems.

    A file's lesson is told by its name ("l01_chunked_prefill.py", "ada_L01.ipynb"), else by the
    functions that it defines. Its student is told by the outermost folder, zip file or file whose
    name is more than a lesson's (see `naming`); namesakes get the numbers by which the learning
    system tells them apart. Of a student's several files for a lesson one is taken: it can be read,
    says its lesson in its name, lies in work/, has the highest number at its end, is the newest.

    Raises: OSError when the place cannot be read, ValueError for a lesson that there is not, and
    for a file that is no zip file.
    """
    asked = [find_lesson(stem).stem for stem in lessons]
    drafts: list[_Draft] = []
    skipped: list[Skipped] = []
    inside = 0 if place.is_dir() else 1  # a zip file's own name comes first in a source
    name = printable(place.resolve().name if place.is_dir() else place.stem)
    notes = Notes()
    for found in _all_pieces(place):
        if isinstance(found, Piece) and found.suffix == ".json":
            notes.add(found)
            continue
        made = found if isinstance(found, Skipped) else _drafted(found, asked, inside)
        if isinstance(made, Skipped):
            skipped.append(made)
        else:
            drafts.append(made)
    drafts.sort(key=lambda draft: draft.where)
    chosen: list[Submission] = []
    for (student, _), several in sorted(_by_student(drafts, name).items()):
        *others, best = sorted(several, key=_Draft.rank)
        attempts, minutes = notes.beside(best.folder, best.said.lesson)
        chosen.append(replace(best.said, student=student, attempts=attempts, minutes=minutes))
        skipped += [_passed_over_for(best, other) for other in others]
    return Found(tuple(chosen), tuple(sorted(skipped, key=lambda item: (item.source, item.why))))


def _all_pieces(place: Path) -> Iterator[Piece | Skipped]:
    """All files below the place, those in zip files instead of these. Raises: as the finder."""
    if place.is_dir():
        for found in pieces_below(place):
            yield from _unpacked(found, _ZIPS_DEEP)
        return
    place.stat()
    if suffix_of(place.name) != ".zip":
        raise ValueError(f"{place} is neither a folder nor a zip file.")
    outer = read_piece(place.resolve(), (printable(place.name),))
    if outer.problem:
        raise ValueError(f"{place} {outer.problem}.")
    try:
        for found in members(outer):
            yield from _unpacked(found, _ZIPS_DEEP - 1)
    except ValueError as error:
        raise ValueError(f"{place} {error}.") from error


def _unpacked(found: Piece | Skipped, deep: int) -> Iterator[Piece | Skipped]:
    """What it is, or the files in it where it is a zip file, so many zip files deep."""
    if isinstance(found, Skipped) or found.suffix != ".zip" or found.problem:
        yield found
        return
    try:
        if not deep:
            raise ValueError("lies too deep in other zip files: unpack them")
        for member in members(found):
            yield from _unpacked(member, deep - 1)
    except ValueError as error:
        yield replace(found, content=b"", problem=str(error))


def _drafted(piece: Piece, asked: Sequence[str], inside: int) -> _Draft | Skipped:
    """Which lesson's it is, with its text or what is wrong with it."""
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
    said = Submission("", lesson, piece.source, text, sentence, piece.changed_at)
    return _Draft(piece.where[inside:], piece.where[:-1], named is not None, said)


def _by_student(drafts: Sequence[_Draft], place: str) -> dict[tuple[str, str], list[_Draft]]:
    """The files by student and lesson. A number tells two students with one name apart."""
    around = folders_around([(draft.said.lesson, draft.where) for draft in drafts])
    owned = [(owner_of(draft.where, around, place), draft) for draft in drafts]
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
    """Why the other is not the submission."""
    pairs = zip(best.rank(), other.rank(), strict=True)
    first = next((n for n, (one, two) in enumerate(pairs) if one != two), len(_BETTER) - 1)
    why = f"{best.said.source} is taken, which {_BETTER[first]}"
    return Skipped(other.said.source, f"{other.said.problem} {why}".strip())
