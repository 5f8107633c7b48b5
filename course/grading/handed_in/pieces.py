"""The files below a folder as bytes, and the notes of a learner's progress among them.

No link is followed, and nothing but ordinary files is opened.
"""

import json
import os
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from course.moves import todays_id

KB, MB = 1024, 1024 * 1024
# A notebook comes with its outputs; .json is what the course has noted of a learner's progress.
LARGEST = {".py": 256 * KB, ".ipynb": 8 * MB, ".zip": 256 * MB, ".json": 16 * KB}
PROGRESS = ("progress", "exercises")
"""The folders of these notes, beside the lessons' files."""
_MOST_NOTED = 100_000  # attempts or minutes
_TOOLS = {"__pycache__", "__marimo__", "__MACOSX", "node_modules", "venv"}  # and hidden ones


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of one of these kinds; `where` are the names that lead to it, zip files' among them.

    `content` is b"" and `problem` the end of a sentence where it cannot be read. `changed_at` is
    ISO 8601 in UTC, without an offset where a zip file tells its packer's clock only, "" where
    unknown.
    """

    where: tuple[str, ...]
    content: bytes
    problem: str = ""
    changed_at: str = ""

    @property
    def suffix(self) -> str:
        """A key of LARGEST."""
        return suffix_of(self.where[-1])

    @property
    def source(self) -> str:
        """Where it lies: "ada.zip/l01.py"."""
        return "/".join(self.where)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is no student's submission, and why."""

    source: str
    why: str


def suffix_of(name: str) -> str:
    """The name's ending in small letters: ".py"."""
    return PurePosixPath(name).suffix.lower()


def passed_over(name: str) -> str:
    """Why a file or folder of this name is not looked at; "" when it is."""
    if name.startswith("."):
        return "it is hidden"
    return "it is written by a tool" if name in _TOOLS else ""


def wrong_kind(where: tuple[str, ...]) -> str:
    """Why a file that lies there is no submission; "" when it may be one, or a note beside it."""
    suffix = suffix_of(where[-1])
    known = where[-3:-1] == PROGRESS if suffix == ".json" else suffix in LARGEST
    return "" if known else "it is neither a .py, an .ipynb nor a .zip file"


def too_large(limit: int) -> str:
    """The end of a sentence on a file that is larger."""
    size = f"{limit // MB} MB" if limit >= MB else f"{limit // KB} KB"
    return f"is larger than {size}: leave out all but the lesson"


def printable(name: str) -> str:
    r"""A name that can be shown and written: "\udce9" for a byte that is not UTF-8, one é for two.

    What controls a terminal is spelled out: a student chooses these names.
    """
    name = unicodedata.normalize("NFC", name)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def iso_utc(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC; "" beyond the year 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def pieces_below(folder: Path, apart: Path | None = None) -> Iterator[Piece | Skipped]:
    """All files, at any depth, but for those in the folder `apart`.

    Raises: OSError when the folder itself cannot be read.
    """
    left_out = apart and apart.resolve()
    pending: list[tuple[Path, tuple[str, ...]]] = [(folder, ())]
    while pending:
        here, where = pending.pop()
        try:
            names = sorted(os.listdir(here))
        except OSError as error:
            if not where:
                raise
            yield Skipped("/".join(where), f"it cannot be read ({error.strerror})")
            continue
        for name in names:
            inside = (*where, printable(name))
            if left_out and name == left_out.name and (here / name).resolve() == left_out:
                continue
            found = _entry(here / name, inside)
            if found is None:
                pending.append((here / name, inside))
            else:
                yield found


def read_piece(path: Path, where: tuple[str, ...]) -> Piece:
    """An ordinary file with one of the suffixes, or why it cannot be read."""
    limit = LARGEST[suffix_of(where[-1])]
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if problem := _unusual(path.lstat().st_mode):
            return Piece(where, b"", problem)
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if problem := _unusual(status.st_mode):  # another one by now
                return Piece(where, b"", problem)
            # Python sets aside all that is asked for.
            content = file.read(min(status.st_size, limit) + 1)
    except OSError as error:
        return Piece(where, b"", f"cannot be read ({error.strerror}): hand it in again")
    if len(content) > limit:
        return Piece(where, b"", too_large(limit))
    return Piece(where, content, changed_at=iso_utc(status.st_mtime))


def _entry(path: Path, where: tuple[str, ...]) -> Piece | Skipped | None:
    """A folder's entry as a piece, or why it is skipped; None for a folder to look into."""
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except OSError as error:
        return Skipped("/".join(where), f"it cannot be read ({error.strerror})")
    why = passed_over(where[-1])
    if is_folder and not why and suffix_of(where[-1]) not in (".py", ".ipynb"):
        return None
    why = why or wrong_kind(where)
    return Skipped("/".join(where), why) if why else read_piece(path, where)


def _unusual(mode: int) -> str:
    if stat.S_ISREG(mode):
        return ""
    kind = "a folder" if stat.S_ISDIR(mode) else "a link" if stat.S_ISLNK(mode) else "a device"
    return f"is {'a pipe' if stat.S_ISFIFO(mode) else kind}: hand in the file itself"


class Notes:
    """Attempts and minutes that the course has noted, by folder and exercise. Mutable.

    A student may write there what they like: it says how it went, and counts for no mark.
    """

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        self._minutes: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)

    def add(self, piece: Piece) -> None:
        """Take a note, "progress/exercises/l01.chunk_size.json", if it is one."""
        try:
            said = json.loads(piece.content)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict):
            return
        folder = piece.where[: -len(PROGRESS) - 1]
        exercise = todays_id(piece.where[-1].removesuffix(".json"))
        attempts, minutes = said.get("attempts"), _minutes(said)
        if isinstance(attempts, int) and 0 < attempts <= _MOST_NOTED:
            self._attempts[folder][exercise] = attempts
        if minutes is not None and 0 <= minutes <= _MOST_NOTED:
            self._minutes[folder][exercise] = minutes

    def beside(
        self, folder: tuple[str, ...], lesson: str
    ) -> tuple[dict[str, int], dict[str, float]]:
        """Attempts and minutes of a lesson's exercises, noted beside a file in this folder."""
        number = f"{lesson[:3]}."  # of a lesson that was split, its exercises keep the number
        attempts, minutes = self._attempts.get(folder, {}), self._minutes.get(folder, {})
        return (
            {name: value for name, value in attempts.items() if name.startswith(number)},
            {name: value for name, value in minutes.items() if name.startswith(number)},
        )


def _minutes(said: dict[str, Any]) -> float | None:
    """Minutes from the first checked answer to the first that passed."""
    try:
        first, last = map(datetime.fromisoformat, (said["first_tried"], said["first_passed"]))
        return round((last - first).total_seconds() / 60, 1)
    except (KeyError, TypeError, ValueError):
        return None
