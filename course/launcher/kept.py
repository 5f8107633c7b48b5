"""Keeps dated copies of versions that give way, in work/kept/, and says why they are there."""

import time
from pathlib import Path

from course.files import write_atomically

FOLDER = "kept"
REASONS = "why.txt"


def keep(mine: Path, content: bytes, work: Path) -> tuple[Path, bool]:
    """Write a version of the learner's file `mine` to work/kept/, under a name with the date.

    Returns the copy, and whether it is new: a version that is kept already is not written again.
    Raises: OSError naming the file.
    """
    folder = work / FOLDER
    for kept in folder.glob(f"{mine.stem}.*{mine.suffix}"):
        if kept.read_bytes() == content:
            return kept, False
    dated = f"{mine.stem}.{time.strftime('%Y-%m-%d-%H%M%S')}"
    kept, number = folder / f"{dated}{mine.suffix}", 1
    while kept.exists():
        number += 1
        kept = folder / f"{dated}-{number}{mine.suffix}"
    write_atomically(kept, content)
    return kept, True


def note(kept: Path, reason: str) -> str:
    """Write down why a copy was kept; return the whole sentence."""
    sentence = f"{reason} It is kept as {'/'.join(kept.parts[-3:])}."
    with (kept.parent / REASONS).open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M')}  {sentence}\n")
    return sentence


def reasons(work: Path) -> list[str]:
    """Return the lines noted so far."""
    file = work / FOLDER / REASONS
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
