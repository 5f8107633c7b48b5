"""The learner's copies of the lessons under work/.

No learner's file is ever overwritten: a version that gives way is kept with the date.
"""

import hashlib
import json
import os
import re
import time
from pathlib import Path

from course.files import explain, read_bytes, write_atomically
from course.source.merge_answers import carry

LESSON = re.compile(r"l\d\d[a-z]?_\w+\.py")  # l04_x.py, and its second half l04b_y.py
RECORD = ".pristine.json"  # file name -> digest of the pristine file that it was copied from


class Workspace:
    """The pristine lessons of a course folder and the learner's copies of them."""

    def __init__(self, root: Path) -> None:
        self.pristine = root / "lessons"
        self.work = root / "work"

    def bring_in(self) -> list[str]:
        """Copy the files that the learner does not have yet; return a sentence for each.

        A lesson that was split off from another gets the answers that passed there.
        Raises: OSError.
        """
        self.work.mkdir(exist_ok=True)
        known = self._record()
        said: list[str] = []
        for name in self.names():
            if os.path.lexists(self.work / name):
                continue
            content = self._pristine(name)
            said.append(f"{name} is new.")
            passed = self._passed(name) if LESSON.fullmatch(name) and name not in known else {}
            if passed:
                carried = carry("", _text(content), passed)
                content, said = carried.text.encode(), [*said, *carried.sentences()]
            self._write(name, content)
        return said

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

    def update(self) -> list[str]:
        """Bring in new and changed lessons and carry answers over; return a sentence for each.

        A lesson that cannot be brought in gets a sentence too, and the others are brought in.
        """
        said = self.bring_in()
        for name in self.newer():
            try:
                said += self._bring_up_to_date(name)
            except OSError as error:
                said.append(f"{name} was left as it is: {explain(error)}")
        return said

    def _bring_up_to_date(self, name: str) -> list[str]:
        mine, new = read_bytes(self.work / name), self._pristine(name)
        if _digest(mine) == self._record().get(name) or not mine.strip():
            self._write(name, new)
            return [f"{name} was brought up to date."]
        kept = self._keep(name).relative_to(self.work.parent).as_posix()
        said = [f"{name} was brought up to date; yours is kept as {kept}."]
        if LESSON.fullmatch(name):
            carried = carry(_text(mine), _text(new), self._passed(name))
            new, said = carried.text.encode(), [*said, *carried.sentences()]
        self._write(name, new)
        return said

    def _passed(self, lesson: str) -> dict[str, str]:
        """Return the sources of passed answers, which course.saved_answers keeps, by function name.

        An exercise keeps its id when its lesson is split: l04.evict may belong to l04b_quality.py.
        """
        kept = sorted((self.work / "answers").glob(f"{lesson[:3]}*.*.py"))
        kept = [path for path in kept if path.name.count(".") == 2]
        return {path.name.split(".")[1]: _text(read_bytes(path)) for path in kept}

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
            return dict(json.loads(read_bytes(self.work / RECORD)))
        except (OSError, ValueError, TypeError):
            return {}


def keep(mine: Path, content: bytes) -> tuple[Path, bool]:
    """Write a version of the learner's file `mine` to kept/ beside it, under a name with the date.

    Returns the copy, and whether it is new: a version that is kept already is not written again.
    Raises: OSError naming the file.
    """
    folder = mine.with_name("kept")
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
    with (kept.parent / "why.txt").open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M')}  {sentence}\n")
    return sentence


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text(content: bytes) -> str:
    """The text; bytes that are not UTF-8 stay in it as marks that Python's parser refuses."""
    return content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
