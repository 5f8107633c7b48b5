"""What the course has noted of a learner's progress, where it was handed in with the lessons.

A student may write there what they like: it says how it went, and counts for no mark.
"""

import json
from collections import defaultdict
from datetime import datetime
from typing import Any

from course.grading.handed_in.pieces import PROGRESS, Piece

_MOST = 100_000
Folder = tuple[str, ...]


class Notes:
    """Attempts and minutes by folder and exercise. Mutable: what was found so far."""

    def __init__(self) -> None:
        self._attempts: dict[Folder, dict[str, int]] = defaultdict(dict)
        self._minutes: dict[Folder, dict[str, float]] = defaultdict(dict)

    def add(self, piece: Piece) -> None:
        """Take a note, "progress/exercises/l01.chunk_size.json", if it is one."""
        try:
            said = json.loads(piece.content)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict):
            return
        folder = piece.where[: -len(PROGRESS) - 1]
        exercise = piece.where[-1].removesuffix(".json")
        attempts, minutes = said.get("attempts"), _minutes(said)
        if isinstance(attempts, int) and 0 < attempts <= _MOST:
            self._attempts[folder][exercise] = attempts
        if minutes is not None and 0 <= minutes <= _MOST:
            self._minutes[folder][exercise] = minutes

    def beside(self, folder: Folder, lesson: str) -> tuple[dict[str, int], dict[str, float]]:
        """Attempts and minutes of a lesson's exercises, noted beside a file in this folder."""
        number = f"{lesson[:3]}."  # of a lesson that was split, its exercises keep the number
        attempts, minutes = self._attempts.get(folder, {}), self._minutes.get(folder, {})
        return (
            {name: value for name, value in attempts.items() if name.startswith(number)},
            {name: value for name, value in minutes.items() if name.startswith(number)},
        )


def _minutes(said: dict[str, Any]) -> float | None:
    """From the first answer that was checked to the first that passed."""
    try:
        first, last = map(datetime.fromisoformat, (said["first_tried"], said["first_passed"]))
        return round((last - first).total_seconds() / 60, 1)
    except (KeyError, TypeError, ValueError):
        return None
