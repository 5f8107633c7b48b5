"""The marks of a submission: plain data, one JSON file for each student and lesson.

Everything that is made for an instructor (gradebook, pages, report) is made from these files only.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from course.files import read_json, write_atomically

Status = Literal[
    "passed",
    "failed",  # a check found a wrong result
    "raised",
    "timeout",
    "memory",  # it asked for more than a submission may have
    "crashed",  # it ended or crashed the process that it ran in
    "protocol",  # what came back was no answer at all
    "not_submitted",  # there is no such function, or it is the untouched stub
    "internal",  # the grader failed: no mark, and the batch ends with an error
]

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of one exercise.

    `version` names the exercise as it was then, `checks` every check, easiest first, of which
    `passed` passed; `idea` is the feedback in a sentence, `example` rows of the smallest
    counterexample, `misconception` the key of a known wrong idea. `stdout`, what the function
    printed while it was judged, is for the instructor only: it may tell hidden cases.
    """

    exercise: str
    version: str
    status: Status
    checks: tuple[str, ...] = ()
    passed: int = 0
    idea: str = ""
    example: tuple[tuple[str, str], ...] = ()
    misconception: str | None = None
    stdout: str = ""
    seconds: float = 0.0

    @property
    def stopped_at(self) -> str | None:
        """The name of the first check that did not pass; None when none was run, or all passed."""
        return self.checks[self.passed] if self.passed < len(self.checks) else None


@dataclass(frozen=True, slots=True)
class Record:
    """The marks of one student's file for one lesson, `marks` in the lesson's order.

    `source` is where it lay among the submissions ("ada.zip/l01.py"), `key` names its contents, the
    exercises' versions and the seed: the same key is not graded twice. `problem` says in a sentence
    why nothing of the file could be graded, "" otherwise. `is_sandboxed` says whether its functions
    ran in a sandbox. `graded_at` and `submitted_at` are ISO 8601 in UTC, `submitted_at` without an
    offset where a zip file tells its packer's clock only; `submitted_at`, `attempts` and `minutes`
    (by exercise) are empty where the submission does not tell.
    """

    student: str
    lesson: str
    source: str
    key: str
    seed: int
    graded_at: str
    seconds: float
    is_sandboxed: bool
    marks: tuple[Mark, ...]
    problem: str = ""
    submitted_at: str = ""
    attempts: dict[str, int] | None = None
    minutes: dict[str, float] | None = None

    @property
    def is_internal(self) -> bool:
        """Whether the grader failed on any of it, so that it has to be graded again."""
        return any(mark.status == "internal" for mark in self.marks)

    def to_json(self) -> str:
        """One JSON object, with a final newline."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @property
    def file_name(self) -> str:
        """Where it lies in a folder of records."""
        return file_name(self.student, self.lesson)

    def write(self, folder: Path) -> Path:
        """Keeps it in the folder, whole or not at all, in place of an older one."""
        path = folder / self.file_name
        write_atomically(path, self.to_json().encode("utf-8", "surrogatepass"))
        return path


def file_name(student: str, lesson: str) -> str:
    """Where their record lies; no two students share one, whatever their names are made of."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", student)[:60].strip(".")
    name = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}.{name}.{lesson}.json"


def read_record(path: Path) -> Record:
    """The record in a file. Raises: ValueError naming the file when it holds none; OSError."""
    try:
        said: Any = read_json(path)
        if said["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return msgspec.convert(said, Record)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path.name} is no record of a submission: {error}") from error
