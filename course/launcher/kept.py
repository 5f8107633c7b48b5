"""Keeps dated copies of versions that give way, in work/kept/, and says why they are there."""

from __future__ import annotations

import time
from pathlib import Path

FOLDER = "kept"
REASONS = "why.txt"


def keep(mine: Path, content: bytes) -> Path | None:
    """Write a version of the learner's file `mine` aside under a name with the date.

    Returns None where that very version is kept already.
    """
    folder = mine.parent / FOLDER
    folder.mkdir(exist_ok=True)
    if any(_holds(kept, content) for kept in folder.glob(f"{mine.stem}.*{mine.suffix}")):
        return None
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    number = 1
    while True:
        ending = f"-{number}" if number > 1 else ""
        kept = folder / f"{mine.stem}.{stamp}{ending}{mine.suffix}"
        try:
            with kept.open("xb") as file:
                file.write(content)
        except FileExistsError:
            number += 1
        else:
            return kept


def _holds(file: Path, content: bytes) -> bool:
    return file.stat().st_size == len(content) and file.read_bytes() == content


def note(kept: Path, reason: str) -> str:
    """Write down why a copy was kept; return the whole sentence."""
    sentence = f"{reason} It is kept as {'/'.join(kept.parts[-3:])}."
    with (kept.parent / REASONS).open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M')}  {sentence}\n")
    return sentence


class Reasons:
    """What is noted in a learner's folder from now on."""

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
