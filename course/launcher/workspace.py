"""The learner's own copies under work/: brought in once, kept safe, brought up to date on request.

No learner's file is ever overwritten: a version that gives way is kept with the date.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import cast

from course.carry import carry, names_in
from course.files import write_atomically
from course.launcher.failure import Failure

LESSON = re.compile(r"l\d\d[a-z]?_\w+\.py")  # l04_x.py, and its second half l04b_y.py
BESIDE_LESSONS = ("course.css", "glossary.py", "index.py", "pyproject.toml")
RECORD = ".pristine.json"  # file name -> digest of the pristine file that it was copied from


class Workspace:
    """The pristine lessons of a course folder and the learner's copies of them."""

    def __init__(self, root: Path) -> None:
        self.pristine = root / "lessons"
        self.work = root / "work"

    def bring_in(self) -> list[str]:
        """Copy what the learner does not have yet, none overwritten; return sentences on it.

        A lesson that was split off from another gets what the learner had written there.
        """
        self.work.mkdir(exist_ok=True)
        known = self._record()
        said: list[str] = []
        for name in self.names():
            if os.path.lexists(self.work / name):
                continue
            self._copy(name)
            said.append(f"{name} is new.")
            if name not in known:
                said += self._take_over(name, self._passed(name))
        return said

    def names(self) -> list[str]:
        """Return the course's files that learners get copies of, relative to lessons/."""
        if not (self.pristine / "index.py").is_file():
            raise Failure(f"the course is incomplete: {self.pristine} holds no index.py.")
        files = [p for p in self.pristine.iterdir() if _is_learners(p.name)]
        files += [p for p in self.pristine.glob("layouts/**/*") if p.is_file()]
        return sorted(p.relative_to(self.pristine).as_posix() for p in files)

    def newer(self) -> list[str]:
        """Return the names whose pristine file changed since the learner's copy was made."""
        record = self._record()
        return [name for name in self.names() if self._is_newer(name, record)]

    def lesson(self, wanted: str) -> str:
        """Return the file name of the lesson called `wanted` ("l04b", or the whole stem)."""
        lessons = [name for name in self.names() if LESSON.fullmatch(name)]
        stem = Path(wanted).name.removesuffix(".py")
        for name in lessons:
            if stem in (name.removesuffix(".py"), name.split("_")[0]):
                return name
        known = ", ".join(name.removesuffix(".py") for name in lessons) or "none"
        raise Failure(f"there is no lesson {wanted!r}; the lessons are: {known}.")

    def reset(self, wanted: str) -> Path | None:
        """Bring a lesson in anew; return where the learner's version is kept, if there was one."""
        name = self.lesson(wanted)
        kept = self._keep(name) if (self.work / name).exists() else None
        self._copy(name)
        return kept

    def update(self) -> list[str]:
        """Bring new and changed lessons in, answers carried over; return a sentence for each."""
        said = self.bring_in()
        for name in self.names():
            said += self._take_over(name, {})
        for name in self.newer():
            said += self._bring_up_to_date(name)
        return said

    def _bring_up_to_date(self, name: str) -> list[str]:
        mine = self.work / name
        if _digest(mine) == self._record().get(name):
            self._copy(name)
            return [f"{name} was brought up to date."]
        kept = self._keep(name)
        if not LESSON.fullmatch(name):
            self._copy(name)
            return [f"{name} was brought up to date; yours is kept as {self._say(kept)}."]
        carried = carry(_read(mine), _read(self.pristine / name), self._passed(name))
        self._write(name, carried.text.encode())
        said = f"{name} was brought up to date; yours is kept as {self._say(kept)}."
        return [said, *carried.sentences()]

    def _take_over(self, name: str, passed: dict[str, str]) -> list[str]:
        """Fill stubs of a split lesson with passed answers and what its other halves still hold.

        A half whose newest version defines a function itself keeps it: that is the course's own.
        """
        halves = self._halves(name)
        if not halves:
            return []
        carried = [carry("", _read(self.work / name), passed)]
        for half in halves:
            theirs = names_in(_read(self.pristine / half))
            before = carried[-1].text
            carried.append(carry(_read(self.work / half), before, without=theirs))
        if any(each.names for each in carried):
            write_atomically(self.work / name, carried[-1].text.encode())
        return [sentence for each in carried for sentence in each.sentences()]

    def _halves(self, name: str) -> list[str]:
        """Return the other lessons of the same number, such as l04_x.py, that the learner has."""
        if not LESSON.fullmatch(name):
            return []
        alike = [other for other in self.names() if LESSON.fullmatch(other) and other != name]
        return [other for other in alike if other[:3] == name[:3] and (self.work / other).exists()]

    def _passed(self, lesson: str) -> dict[str, str]:
        """Return the sources of passed answers, which course.answers keeps, by function name.

        An exercise keeps its id when its lesson is split: l04.judge may belong to l04b_quality.py.
        """
        kept = (self.work / "answers").glob(f"{lesson[:3]}*.*.py")
        paths = sorted(path for path in kept if path.name.count(".") == 2)
        return {path.name.split(".")[1]: _read(path) for path in paths}

    def _is_newer(self, name: str, record: dict[str, str]) -> bool:
        pristine = _digest(self.pristine / name)
        if record.get(name) == pristine or not (self.work / name).exists():
            return False
        return _digest(self.work / name) != pristine

    def _copy(self, name: str) -> None:
        self._write(name, (self.pristine / name).read_bytes())

    def _write(self, name: str, content: bytes) -> None:
        """Write the learner's file, then note which pristine file it came from."""
        write_atomically(self.work / name, content)
        record = self._record() | {name: _digest(self.pristine / name)}
        write_atomically(self.work / RECORD, json.dumps(record, indent=1).encode())

    def _keep(self, name: str) -> Path:
        """Copy the learner's file aside under a name with the date; return the copy."""
        mine = self.work / name
        folder = self.work / "kept"
        folder.mkdir(exist_ok=True)
        stamp = time.strftime("%Y-%m-%d-%H%M%S")
        kept = folder / f"{mine.stem}.{stamp}{mine.suffix}"
        number = 1
        while kept.exists():
            number += 1
            kept = folder / f"{mine.stem}.{stamp}-{number}{mine.suffix}"
        shutil.copy2(mine, kept)
        return kept

    def _record(self) -> dict[str, str]:
        """Return the record; a damaged one counts as empty, so that every file counts as edited."""
        try:
            record = json.loads((self.work / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(record, dict):
            return {}
        return cast("dict[str, str]", record)

    def _say(self, path: Path) -> str:
        return path.relative_to(self.work.parent).as_posix()


def _is_learners(name: str) -> bool:
    return name in BESIDE_LESSONS or LESSON.fullmatch(name) is not None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
