"""The files that a class's students handed in, found below a folder or in a zip file, and read.

Nothing is run, extracted or trusted, and one bad file stops no other.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from course.grading.handed_in.layouts import FORMS, LAYOUTS, Owned, better_layout, lesson_named
from course.grading.handed_in.pieces import (
    LARGEST,
    MB,
    Notes,
    Piece,
    Skipped,
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
_SEVERAL = "the student has several files for this lesson, and none is graded"


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
    """The submissions, one for a student and a lesson, and the other files, each with the reason.

    `doubts` are sentences on students with several files for a lesson, of whom that lesson is not
    graded. `misfit` is a sentence if the files have not the layout that was named.
    """

    submissions: tuple[Submission, ...]
    skipped: tuple[Skipped, ...]
    doubts: tuple[str, ...] = ()
    misfit: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A student's file for a lesson; `folder` are the names that lead to it."""

    owned: Owned
    folder: tuple[str, ...]
    said: Submission

    @property
    def is_in_work(self) -> bool:
        return "work" in self.owned.path[:-1]

    @property
    def is_named(self) -> bool:
        """Whether the file is named after its lesson."""
        return bool(lesson_named(self.owned.path[-1]))


@dataclass(slots=True)
class _Read:
    """The files of a class. Mutable: `wheres` are the names that lead to each below the place."""

    candidates: list[_Candidate] = field(default_factory=list["_Candidate"])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    wheres: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    notes: Notes = field(default_factory=Notes)


def find_submissions(
    place: Path, lessons: Sequence[str], layout: str = "folder", apart: Path | None = None
) -> Found:
    """The submissions below a folder, or in a zip file, for the lessons with these stems.

    The folder `apart`, of results, is not looked into. `layout`, a key of LAYOUTS, tells a file's
    student. The file's name tells its lesson; if one lesson is graded or nbgrader's folder tells
    it, a student's only file may have any name. If a student's files include a folder work/, the
    files outside it do not count.

    Raises: OSError when the place cannot be read, ValueError for a lesson that there is not, and
    for a file that is no zip file.
    """
    asked = [find_lesson(stem).stem for stem in lessons]
    name = printable(place.resolve().name if place.is_dir() else place.stem)
    read = _read(place, apart, asked, layout, name)
    better = better_layout(layout, read.wheres, name, bool(read.candidates))
    if better or not read.candidates:
        return Found((), _in_order(read.skipped), misfit=_misfit(place, layout, read, better))
    chosen: list[Submission] = []
    doubts: list[str] = []
    for (student, lesson), several in sorted(_by_student(read).items()):
        if len(several) > 1:
            read.skipped += [Skipped(each.said.source, _SEVERAL) for each in several]
            doubts.append(_doubt(student, lesson, [each.said.source for each in several]))
            continue
        attempts, minutes = read.notes.beside(several[0].folder, lesson)
        said = several[0].said
        chosen.append(replace(said, student=student, attempts=attempts, minutes=minutes))
    return Found(tuple(chosen), _in_order(read.skipped), tuple(doubts))


def _read(place: Path, apart: Path | None, asked: Sequence[str], layout: str, name: str) -> _Read:
    """All files below the place, `name` being that of the class."""
    read = _Read()
    for found in _all_pieces(place, apart):
        if isinstance(found, Skipped):
            read.skipped.append(found)
        elif found.suffix == ".json":
            read.notes.add(found)
        else:
            where = found.where if place.is_dir() else found.where[1:]
            read.wheres.append(where)
            owned = LAYOUTS[layout](where, name)
            if owned is None:
                why = f"it lies in no student's place: {FORMS[layout]}"
                read.skipped.append(Skipped(found.source, why))
            elif isinstance(made := _candidate(found, owned, asked), Skipped):
                read.skipped.append(made)
            else:
                read.candidates.append(made)
    return read


def _candidate(piece: Piece, owned: Owned, asked: Sequence[str]) -> _Candidate | Skipped:
    """A student's file as one for its lesson, with its text or its problem."""
    only = asked[0] if len(asked) == 1 else ""
    lesson = lesson_named(owned.path[-1]) or owned.lesson or only
    text, problem = "", piece.problem
    try:
        text = "" if problem else text_of(piece.suffix, piece.content)
    except ValueError as error:
        problem = str(error)
    if not lesson:
        also = f", and {problem}" if problem else ""
        return Skipped(piece.source, f"it is not named after a lesson{also}")
    if lesson not in asked:
        return Skipped(piece.source, f"it is for {lesson}, which is not graded now")
    sentence = f"{piece.source} {problem}." if problem else ""
    said = Submission(
        "", lesson, piece.source, with_todays_names(text, lesson), sentence, piece.changed_at
    )
    return _Candidate(owned, piece.where[:-1], said)


def _by_student(read: _Read) -> dict[tuple[str, str], list[_Candidate]]:
    """The files that count, by student and lesson; adds the others to `read.skipped`."""
    numbers: dict[str, set[str]] = defaultdict(set)
    for each in read.candidates:
        numbers[each.owned.name].add(each.owned.number)
    namesakes = {name for name, several in numbers.items() if len(several) > 1}

    def student(each: _Candidate) -> str:
        name, number = each.owned.name, each.owned.number
        return f"{name}_{number}" if name in namesakes else name

    with_work = {student(each) for each in read.candidates if each.is_in_work}
    made: dict[tuple[str, str], list[_Candidate]] = defaultdict(list)
    for each in read.candidates:
        if each.is_in_work or student(each) not in with_work:
            made[student(each), each.said.lesson].append(each)
        else:
            read.skipped.append(Skipped(each.said.source, "it lies outside the student's work/"))
    for key, several in made.items():
        if named := [each for each in several if each.is_named]:
            why = "another file is named after the lesson"
            read.skipped += [Skipped(e.said.source, why) for e in several if not e.is_named]
            made[key] = named
    return made


def _doubt(student: str, lesson: str, sources: Sequence[str]) -> str:
    found = ", ".join(sources[:-1]) + f" and {sources[-1]}"
    return f"{student} has several files for {lesson}, and none is graded: {found}. Leave one."


def _misfit(place: Path, layout: str, read: _Read, better: str) -> str:
    """A sentence with the first files that were seen, and the layout that they have."""
    seen = ["/".join(where) for where in sorted(read.wheres)]
    seen = seen or [each.source for each in _in_order(read.skipped)]
    shown = ", ".join(seen[:3]) + (f" and {len(seen) - 3:,} more" if len(seen) > 3 else "")
    does = f"--layout {better} fits" if better else "docs/grading.md shows the layouts"
    return (
        f"{place} does not have --layout {layout} ({FORMS[layout]}) with a file of a lesson "
        f"that is graded. It holds {shown or 'no file'}: {does}."
    )


def _in_order(skipped: Iterable[Skipped]) -> tuple[Skipped, ...]:
    return tuple(sorted(skipped, key=lambda item: (item.source, item.why)))


def _all_pieces(place: Path, apart: Path | None) -> Iterator[Piece | Skipped]:
    """All files below the place, with those in zip files. Raises: as `find_submissions` does."""
    if place.is_dir():
        for found in pieces_below(place, apart):
            yield from _unpacked(found, _ZIPS_DEEP)
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


def _unpacked(found: Piece | Skipped, deep: int) -> Iterator[Piece | Skipped]:
    """The piece, or the files in it if it is a zip file, so many zip files deep."""
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
