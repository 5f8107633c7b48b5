"""Keeps dated copies of versions that give way, in work/kept/, and says why they are there."""

import itertools
import time
from pathlib import Path

from course.files import write_atomically

FOLDER = "kept"
REASONS = "why.txt"


def keep(mine: Path, content: bytes, work: Path) -> tuple[Path, bool]:
    """Write a version of the learner's file `mine` aside, in work/kept/ under a name with the date.

    Returns the copy, and whether it is new: a version that is kept already is not written again.
    Raises: OSError naming the file.
    """
    folder = work / FOLDER
    for kept in sorted(folder.glob(f"{mine.stem}.*{mine.suffix}")):
        if kept.is_file() and kept.read_bytes() == content:
            return kept, False
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{mine.stem}.{time.strftime('%Y-%m-%d-%H%M%S')}"
    endings = itertools.chain([""], map("-{}".format, itertools.count(2)))
    names = (folder / f"{name}{ending}{mine.suffix}" for ending in endings)
    kept = next(name for name in names if _claim(name))
    try:
        write_atomically(kept, content)
    except BaseException:
        kept.unlink()
        raise
    return kept, True


def _claim(file: Path) -> bool:
    """Make an empty file of the name; False if there is one already."""
    try:
        file.open("xb").close()
    except FileExistsError:
        return False
    return True


def note(kept: Path, reason: str) -> str:
    """Write down why a copy was kept; return the whole sentence."""
    sentence = f"{reason} It is kept as {'/'.join(kept.parts[-3:])}."
    with (kept.parent / REASONS).open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M')}  {sentence}\n")
    return sentence


class Reasons:
    """The notes in a learner's folder that are written from now on."""

    def __init__(self, work: Path) -> None:
        self.file = work / FOLDER / REASONS
        self.position = self.file.stat().st_size if self.file.exists() else 0

    def new(self) -> list[str]:
        """Return the lines noted since the last call."""
        try:
            with self.file.open("rb") as file:
                file.seek(self.position)
                lines = file.read()
        except OSError:
            return []
        self.position += len(lines)
        return lines.decode(errors="replace").splitlines()
