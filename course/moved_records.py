"""Gives a learner's answers, progress and predictions of version 0.1 their names of today.

What gives way lies in work/kept/ afterwards. Standard library only, as the launcher needs it.
"""

import json
import os
from pathlib import Path
from typing import Any

from course.files import explain, keep, read_bytes, read_json, write_atomically
from course.moves import (
    CHANGED,
    CHECK_AGAIN,
    EXERCISES,
    IDS,
    LESSONS,
    PREDICTIONS,
    SAME_KEYS,
    id_of,
    is_changed,
    renamed,
)

_WAS = "was"  # the key of 0.1, in a prediction that was moved
_KEPT = "Your old files are in work/kept/."


def carry_records(work: Path) -> list[str]:
    """Bring all records up to date; return sentences on what was carried, changed, and gone.

    A file that cannot be read or written stays where it is, and gets a sentence.
    """
    said: list[str] = []
    found: dict[str, list[str]] = {"carried": [], "changed": [], "gone": []}
    for old in (*(id_of(place) for place in EXERCISES), *CHANGED):
        try:
            how = _Records(work, old).carry()
        except OSError as error:
            said.append(f"{old} was left as it is: {explain(error)}")
            continue
        now = IDS.get(old, old)
        if how:
            found[how].append(f"{now} (was {old})" if now not in (None, old) else old)
    said += _carry_predictions(work)
    if found["carried"]:
        said.append(f"Carried over to new names: {', '.join(found['carried'])}.")
    if found["changed"]:
        names = ", ".join(found["changed"])
        said.append(f"To be checked again, because the task has changed: {names}. {_KEPT}")
    if found["gone"]:
        said.append(f"No longer exercises of the course: {', '.join(found['gone'])}. {_KEPT}")
    return said


class _Records:
    """The files about one exercise, under its id of 0.1."""

    def __init__(self, work: Path, old: str) -> None:
        self.work, self.old, self.new = work, old, IDS.get(old, old)
        self.lesson = next((p.partition(".")[0] for p in EXERCISES if id_of(p) == old), "")
        self.answer = work / "answers" / f"{old}.py"
        self.progress = work / "progress" / "exercises" / f"{old}.json"
        rest = (work / "answers" / f"{old}.try.py", work / "progress" / "hints" / f"{old}.json")
        there = [p for p in (self.answer, self.progress, *rest) if os.path.lexists(p)]
        # A damaged record is left to whoever reads it, who sets it aside and says so.
        self.files = [p for p in there if p.suffix == ".py" or _data(p)]

    def carry(self) -> str:
        """Carry them; return "carried", "changed", "gone", or "" where there is nothing to do.

        Raises: OSError.
        """
        text = _text(self.answer)
        if self.old == self.new:
            if self.answer not in self.files or not is_changed(self.old, text):
                return ""
            self._check_again()
            self._keep(self.answer)
            write_atomically(self.answer.with_suffix(".try.py"), text.encode())
            return "changed"
        if not self.files:
            return ""
        if self.new is None:
            how = "gone"
        elif is_changed(self.old, text) or not self._is_renamed(text):
            how = "changed"
            self._check_again()
        else:
            how = "carried"
        for path in self.files:
            if how != "carried" or not self._is_taken(path):
                self._keep(path)
        return how

    def _is_renamed(self, text: str) -> bool:
        """Whether the answer, if there is one, has today's name in it."""
        name = str(self.new).partition(".")[2]
        return not text or f"def {name}(" in renamed(text, self.lesson)

    def _is_taken(self, old: Path) -> bool:
        """Move a file to today's name, unless one there says more; False if the old one is left."""
        new = old.with_name(old.name.replace(self.old, str(self.new), 1))
        before = read_bytes(old)
        after = renamed(_text(old), self.lesson).encode("utf-8", "surrogateescape")
        if old == self.progress:
            before = after = json.dumps(_data(old) | {"exercise": self.new}, indent=1).encode()
        if os.path.lexists(new):
            if not _data(old).get("first_passed") or _data(new).get("first_passed"):
                return False
            self._keep(new)
        write_atomically(new, after)
        if before == after:
            old.unlink()
        return before == after

    def _check_again(self) -> None:
        """Have the progress say that no answer to today's task has passed."""
        new = self.progress.with_name(f"{self.new}.json")
        data = _data(self.progress)
        if self.progress not in self.files or (new != self.progress and os.path.lexists(new)):
            return
        if data.get("first_passed"):
            data |= {"status": CHECK_AGAIN, "first_passed": None}
        if new == self.progress:
            keep(self.work / new.name, read_bytes(new))
        write_atomically(new, json.dumps(data | {"exercise": self.new}, indent=1).encode())

    def _keep(self, path: Path) -> None:
        keep(self.work / path.name, read_bytes(path))
        path.unlink()


def _carry_predictions(work: Path) -> list[str]:
    """Move predictions to today's keys; return a sentence for each that cannot be read or moved."""
    said: list[str] = []
    is_old = any(os.path.lexists(work / f"{old}.py") for old in LESSONS)
    moves = {**PREDICTIONS, **(SAME_KEYS if is_old else {})}
    for folder in (work / "progress" / "predictions", work / "progress" / "shown"):
        held = {old: _data(folder / f"{old}.json") for old in moves}
        try:
            for old in (old for old, data in held.items() if data and _WAS not in data):
                keep(work / f"{old}.json", read_bytes(folder / f"{old}.json"))
                (folder / f"{old}.json").unlink()
            for old, data in held.items():
                new = moves[old]
                if not data or _WAS in data or new is None:
                    continue
                if not os.path.lexists(folder / f"{new}.json"):
                    moved = json.dumps(data | {"key": new, _WAS: old}, indent=1).encode()
                    write_atomically(folder / f"{new}.json", moved)
        except OSError as error:
            said.append(f"Your predictions were not all moved: {explain(error)}")
    return said


def _text(path: Path) -> str:
    """The text of an answer; "" where there is none. Raises: OSError."""
    try:
        return read_bytes(path).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _data(path: Path) -> dict[str, Any]:
    """The contents of a progress file; {} where there are none."""
    try:
        data = read_json(path)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
