"""The learner's own copies under work/: brought in once, kept safe, brought up to date on request.

No learner's file is ever overwritten: a version that gives way is kept with the date.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

from course.files import explain, read_bytes, write_atomically
from course.launcher.failure import Failure
from course.launcher.kept import keep
from course.source.merge_answers import carry, names_in

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
        self._make_folder()
        known = self._record()
        said: list[str] = []
        for name in self.names():
            if os.path.lexists(self.work / name):
                continue
            try:
                self._copy(name)
            except OSError as error:
                raise Failure(explain(error)) from None
            said.append(f"{name} is new.")
            if name not in known:
                said += self._safely(name, lambda name: self._take_over(name, self._passed(name)))
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
        stem = Path(wanted).name.lower().removesuffix(".py")
        for name in lessons:
            if stem in (name.removesuffix(".py"), name.split("_")[0]):
                return name
        known = ", ".join(name.removesuffix(".py") for name in lessons) or "none"
        raise Failure(f"there is no lesson {wanted!r}; the lessons are: {known}.")

    def reset(self, wanted: str) -> Path | None:
        """Bring a lesson in anew; return where the learner's version is kept, if there was one."""
        name = self.lesson(wanted)
        self._make_folder()
        try:
            kept = self._keep(name) if os.path.lexists(self.work / name) else None
            self._copy(name)
        except OSError as error:
            raise Failure(explain(error)) from None
        return kept

    def update(self) -> list[str]:
        """Bring new and changed lessons in, answers carried over; return a sentence for each.

        What goes wrong with one lesson is such a sentence too, and the others are brought in.
        """
        said = self.bring_in()
        for name in self.names():
            said += self._safely(name, lambda name: self._take_over(name, {}))
        for name in self.newer():
            said += self._safely(name, self._bring_up_to_date)
        return said

    def _make_folder(self) -> None:
        try:
            self.work.mkdir(exist_ok=True)
        except FileExistsError:
            what = "a link that leads nowhere" if self.work.is_symlink() else "a file"
            raise Failure(
                f"{self.work} is {what}, and it is where your lessons should be: move it away, "
                "and the course makes a folder in its place."
            ) from None
        except OSError as error:
            raise Failure(explain(error)) from None

    def _safely(self, name: str, step: Callable[[str], list[str]]) -> list[str]:
        try:
            return step(name)
        except OSError as error:
            return [f"{name} was left as it is: {explain(error)}"]

    def _bring_up_to_date(self, name: str) -> list[str]:
        mine = read_bytes(self.work / name)
        if _digest(mine) == self._record().get(name):
            self._copy(name)
            return [f"{name} was brought up to date."]
        said = f"{name} was brought up to date; yours was empty."
        if mine.strip():
            kept = self._keep(name).relative_to(self.work.parent).as_posix()
            said = f"{name} was brought up to date; yours is kept as {kept}."
        if not LESSON.fullmatch(name):
            self._copy(name)
            return [said]
        carried = carry(_text(mine), _text(self._pristine(name)), self._passed(name))
        self._write(name, carried.text.encode())
        return [said, *carried.sentences()]

    def _take_over(self, name: str, passed: dict[str, str]) -> list[str]:
        """Fill stubs of a split lesson with passed answers and what its other halves still hold.

        A half whose newest version defines a function itself keeps it: that is the course's own.
        """
        halves = self._halves(name)
        if not halves:
            return []
        carried = [carry("", _text(read_bytes(self.work / name)), passed)]
        for half in halves:
            theirs = names_in(_text(self._pristine(half)))
            old = _text(read_bytes(self.work / half))
            carried.append(carry(old, carried[-1].text, without=theirs))
        filled = [each for each in carried if each.names]
        if filled:
            text = carried[-1].text.encode("utf-8", "surrogateescape")
            write_atomically(self.work / name, text)
        return [sentence for each in filled for sentence in each.sentences()]

    def _halves(self, name: str) -> list[str]:
        """The other lessons of the same number that the learner has, such as l04_x.py."""
        if not LESSON.fullmatch(name):
            return []
        alike = [other for other in self.names() if LESSON.fullmatch(other) and other != name]
        return [other for other in alike if other[:3] == name[:3] and (self.work / other).exists()]

    def _passed(self, lesson: str) -> dict[str, str]:
        """Return the sources of passed answers, which course.saved_answers keeps, by function name.

        An exercise keeps its id when its lesson is split: l04.evict may belong to l04b_quality.py.
        """
        kept = (self.work / "answers").glob(f"{lesson[:3]}*.*.py")
        passed: dict[str, str] = {}
        for path in sorted(path for path in kept if path.name.count(".") == 2):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                passed[path.name.split(".")[1]] = read_bytes(path).decode()
        return passed

    def _is_newer(self, name: str, record: dict[str, str]) -> bool:
        pristine = _digest(self._pristine(name))
        if record.get(name) == pristine or not os.path.lexists(self.work / name):
            return False
        try:
            return _digest(read_bytes(self.work / name)) != pristine
        except OSError:
            return True  # an update says what is wrong with it

    def _pristine(self, name: str) -> bytes:
        return (self.pristine / name).read_bytes()

    def _copy(self, name: str) -> None:
        self._write(name, self._pristine(name))

    def _write(self, name: str, content: bytes) -> None:
        """Write the learner's file, then note which pristine file it came from."""
        write_atomically(self.work / name, content)
        record = self._record() | {name: _digest(self._pristine(name))}
        write_atomically(self.work / RECORD, json.dumps(record, indent=1).encode())

    def _keep(self, name: str) -> Path:
        mine = self.work / name
        return keep(mine, read_bytes(mine), self.work)[0]

    def _record(self) -> dict[str, str]:
        """The record; a damaged one counts as empty, so that every file counts as edited."""
        try:
            record = json.loads(read_bytes(self.work / RECORD))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(record, dict):
            return {}
        return cast("dict[str, str]", record)


def _is_learners(name: str) -> bool:
    return name in BESIDE_LESSONS or LESSON.fullmatch(name) is not None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text(content: bytes) -> str:
    """The text; bytes that are not UTF-8 stay in it as marks that Python's parser refuses."""
    return content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
