"""The learner's copies of the lessons under work/.

No learner's file is ever overwritten: a version that gives way is kept with the date.
"""

import hashlib
import json
import os
import re
from pathlib import Path

from course.files import explain, keep, read_bytes, read_json, write_atomically
from course.moved_records import carry_records
from course.moves import EXERCISES, LESSONS, renamed
from course.source.answer import answer_in
from course.source.cutting import read_notebook
from course.source.merge_answers import answers, carry

LESSON = re.compile(r"l\d\d[a-z]?_\w+\.py")  # l04_x.py, and its second half l04b_y.py
_UNREAD = "A saved answer was left out: "  # of each file said once
RECORD = ".pristine.json"  # file name -> digest of the pristine file that it was copied from


class Workspace:
    """The pristine lessons of a course folder and the learner's copies of them."""

    def __init__(self, root: Path) -> None:
        self.pristine = root / "lessons"
        self.work = root / "work"

    def bring_in(self) -> list[str]:
        """Copy the files that the learner does not have yet; return a sentence for each.

        A lesson that was split off from another, or had another number, gets the answers that are
        there. Records of another version get their names of today. Raises: OSError.
        """
        self.work.mkdir(exist_ok=True)
        said = carry_records(self.work)
        left = {old: self.work / f"{old}.py" for old in LESSONS}
        left = {old: path for old, path in left.items() if os.path.lexists(path)}
        known = self._record()
        for name in self.names():
            is_there = os.path.lexists(self.work / name)
            if is_there and name.removesuffix(".py") not in (LESSONS[old] for old in left):
                continue
            said += [] if is_there else [f"{name} is new."]
            if is_there or (LESSON.fullmatch(name) and name not in known):
                said += self._fill(name)
            else:
                self._write(name, self._pristine(name))
        for old, path in left.items():
            try:
                kept = self._keep(path.name).relative_to(self.work.parent).as_posix()
                path.unlink()
                said.append(f"{path.name} is {LESSONS[old]}.py now; yours is kept as {kept}.")
            except OSError as error:
                said.append(f"{path.name} was left as it is: {explain(error)}")
        return said

    def _fill(self, name: str) -> list[str]:
        """Write a lesson with the answers that are there, in place of the learner's copy if any."""
        mine = b""
        if os.path.lexists(self.work / name):
            try:
                mine = read_bytes(self.work / name)
            except OSError as error:
                return [f"{name} was left as it is: {explain(error)}"]
        passed, said = self._passed(name)
        carried = carry(_text(mine), _text(self._pristine(name)), passed | self._drafts(name))
        if mine and carried.text.encode() != mine:
            self._keep(name)
        self._write(name, carried.text.encode())
        return [*said, *carried.sentences()]

    def names(self) -> list[str]:
        """Return the names of the files in lessons/, of which learners get copies."""
        return sorted(path.name for path in self.pristine.glob("[!.]*") if path.is_file())

    def newer(self) -> list[str]:
        """Return the names whose pristine file changed since the learner's copy was made."""
        record = self._record()
        changed = [n for n in self.names() if record.get(n) != _digest(self._pristine(n))]
        return [name for name in changed if self._differs(name)]

    def reset(self, lesson: str) -> Path | None:
        """Bring a lesson such as l04b in anew; return where the learner's version is kept, if any.

        Raises: OSError.
        """
        name = next(name for name in self.names() if name.startswith(f"{lesson}_"))
        self.work.mkdir(exist_ok=True)
        kept = self._keep(name) if os.path.lexists(self.work / name) else None
        self._write(name, self._pristine(name))
        return kept

    def take_in(self, name: str, text: str) -> list[str]:
        """Put a text's answers into the learner's copy of a lesson; return sentences on it.

        Other answers stay there. A copy that changes is kept first. Raises: OSError.
        """
        self.work.mkdir(exist_ok=True)
        is_there = os.path.lexists(self.work / name)
        mine, fresh = read_bytes(self.work / name) if is_there else b"", self._pristine(name)
        whole, stubs = read_notebook(_text(mine)), read_notebook(_text(fresh)).statements
        names = [min(item.binds) for item in stubs if item.is_stub and item.place == "top"]
        own = {each: answer_in(whole, each).text for each in names if answers(whole, each)}
        carried = carry(text, _text(fresh), own)
        new, said = carried.text.encode(), carried.sentences()
        if new == mine:
            return []
        if is_there and mine != fresh:
            kept = self._keep(name).relative_to(self.work.parent).as_posix()
            said.insert(0, f"Yours is kept as {kept}.")
        self._write(name, new)
        return said

    def update(self) -> list[str]:
        """Bring in new and changed lessons and carry answers over; return a sentence for each.

        A lesson that cannot be brought in gets a sentence too, and the others are brought in.
        """
        said = self.bring_in()
        drafts = {name: self._drafts(name) for name in self.newer()}  # before any file is replaced
        for name, mine in drafts.items():
            try:
                said += self._bring_up_to_date(name, mine)
            except OSError as error:
                said.append(f"{name} was left as it is: {explain(error)}")
        return [each for n, each in enumerate(said) if each not in said[:n] or _UNREAD not in each]

    def _bring_up_to_date(self, name: str, drafts: dict[str, str]) -> list[str]:
        mine, new = read_bytes(self.work / name), self._pristine(name)
        if _digest(mine) == self._record().get(name) or not mine.strip():
            self._write(name, new)
            return [f"{name} was brought up to date."]
        kept = self._keep(name).relative_to(self.work.parent).as_posix()
        said = [f"{name} was brought up to date; yours is kept as {kept}."]
        if LESSON.fullmatch(name):
            passed, unread = self._passed(name)
            carried = carry(_text(mine), _text(new), passed | drafts)
            new, said = carried.text.encode(), [*said, *unread, *carried.sentences()]
        self._write(name, new)
        return said

    def _passed(self, lesson: str) -> tuple[dict[str, str], list[str]]:
        """Return the sources of passed answers, which course.saved_answers keeps, by function name.

        And a sentence for each that cannot be read. An exercise keeps its id when its lesson is
        split: l04.evict may belong to l04b_quality.py.
        """
        passed: dict[str, str] = {}
        said: list[str] = []
        for path in sorted((self.work / "answers").glob(f"{lesson[:3]}*.*.py")):
            try:
                if path.name.count(".") == 2:
                    passed[path.name.split(".")[1]] = _text(read_bytes(path))
            except OSError as error:
                said.append(f"{_UNREAD}{explain(error)}")
        return passed, said

    def _drafts(self, lesson: str) -> dict[str, str]:
        """Return the functions of this lesson that other or older lessons' files have, by name."""
        found: dict[str, str] = {}
        for place, now in EXERCISES.items():
            stem, _, old = place.partition(".")
            if now is None or f"{now.partition('.')[0]}.py" != lesson or place == now:
                continue
            text = _text_in(self.work / f"{stem}.py")
            if f"def {old}(" not in text or not answers(whole := read_notebook(text), old):
                continue
            new = now.partition(".")[2]
            text = renamed(answer_in(whole, old).text, stem)
            if f"def {new}(" in text:
                found[new] = text
        return found

    def _differs(self, name: str) -> bool:
        try:
            return read_bytes(self.work / name) != self._pristine(name)
        except OSError:
            return True  # an update says what is wrong with it

    def _pristine(self, name: str) -> bytes:
        return (self.pristine / name).read_bytes()

    def _write(self, name: str, content: bytes) -> None:
        """Write the learner's file, then note which pristine file it came from."""
        write_atomically(self.work / name, content)
        record = self._record() | {name: _digest(self._pristine(name))}
        write_atomically(self.work / RECORD, json.dumps(record, indent=1).encode())

    def _keep(self, name: str) -> Path:
        mine = self.work / name
        return keep(mine, read_bytes(mine))[0]

    def _record(self) -> dict[str, str]:
        """The record; a damaged one counts as empty, so that every file counts as edited."""
        try:
            return dict(read_json(self.work / RECORD))
        except (OSError, ValueError, TypeError):
            return {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text(content: bytes) -> str:
    """The text; bytes that are not UTF-8 stay in it as marks that Python's parser refuses."""
    return content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def _text_in(path: Path) -> str:
    try:
        return _text(read_bytes(path))
    except OSError:
        return ""
