"""A learner's progress, in one small JSON file per exercise and per prediction under work/.

Knows files and dates, not functions. One file per thing keeps two open notebooks from losing each
other's writes; within one file a lock does. A damaged file is set aside, and one that cannot be
read just now is left alone: nothing is written over it.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from course.files import explain, is_busy, read_json, when_free, write_atomically
from course.moves import CHECK_AGAIN
from course.report import Report

_WORK_VARIABLE = "SERVING_NANOGPT_WORK"
_LOCK_WAIT_S = 1.0
_BROKEN = ".broken-"
_THIS_PROCESS = secrets.token_bytes(8)
_ANY_CHOICE = 1e18  # no NaN, and nothing that arithmetic cannot bear
_NO_FILE = {errno.ENXIO, errno.EISDIR, errno.ELOOP}  # something else has the name


@dataclass(frozen=True, slots=True)
class ExerciseProgress:
    """How far one exercise has come.

    `status` is of the newest check. `newest_passed` says whether the newest saved answer passed,
    which no file's time tells after a clock was put back (None: it was not noted yet).
    `attempts` counts different answers that were checked. Dates
    are ISO 8601 in UTC, of the first answer that passed and of the first that was checked.
    """

    exercise: str
    status: str
    attempts: int
    first_passed: str | None
    seconds: float
    first_tried: str
    newest_passed: bool | None = None

    @property
    def ever_passed(self) -> bool:
        """Whether some answer passed, even if the newest one does not."""
        return self.first_passed is not None


def work_folder() -> Path:
    """The learner's folder: `SERVING_NANOGPT_WORK` if it is set, else work/ beside the course."""
    named = os.environ.get(_WORK_VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parent.parent / "work"


def enabled() -> bool:
    """Whether to save: the notebook lies in the learner's folder, or a variable named one.

    The pristine lessons in lessons/ therefore leave nothing behind.
    """
    if os.environ.get(_WORK_VARIABLE):
        return True
    marimo = sys.modules.get("marimo")
    here = Path.cwd() if marimo is None else marimo.notebook_dir()
    return here is not None and Path(here).resolve().is_relative_to(work_folder().resolve())


def load(exercise_id: str) -> ExerciseProgress | None:
    """The exercise's saved record, or None; None too while the file cannot be read."""
    return _parse(exercise_id, _seen(_path("exercises", exercise_id)))


def record(report: Report, *, new_attempt: bool = True) -> ExerciseProgress:
    """Saves a report; returns the progress with it. An untouched stub leaves what is saved alone.

    Raises: OSError when the folder cannot be written, or what is saved cannot be read.
    """
    path = _path("exercises", report.exercise)
    with _locked(path):
        old = _parse(report.exercise, _read(path))
        now = _now()
        passed = report.status == "passed"
        first = old.first_passed if old else None
        new = ExerciseProgress(
            exercise=report.exercise,
            status=report.status,
            attempts=(old.attempts if old else 0) + int(new_attempt),
            first_passed=first or (now if passed else None),
            seconds=round(report.seconds, 3),
            first_tried=old.first_tried if old else now,
            newest_passed=(old.newest_passed if old else None)
            if report.status in ("not_started", "missing")
            else passed,
        )
        if old is None and report.status in ("not_started", "missing"):
            return new
        _write(path, asdict(new))
    return new


def load_prediction(key: str) -> float | None:
    """The committed choice, an option's index or a number, or None."""
    match _seen(path := _path("predictions", key)):
        case {"choice": int(choice) | float(choice), "committed_at": str()} if (
            -_ANY_CHOICE < choice < _ANY_CHOICE and not isinstance(choice, bool)
        ):
            return choice
        case None:
            return None
        case _:
            _set_aside(path)
            return None


def save_prediction(key: str, choice: float) -> None:
    """Saves a committed choice. Raises: OSError when the folder cannot be written."""
    data = {"key": key, "choice": choice, "committed_at": _now()}
    _write(_path("predictions", key), data)


def was_shown(key: str) -> bool:
    """Whether the prediction's answer was asked for without a choice."""
    return _seen(_path("shown", key)) is not None


def save_shown(key: str) -> None:
    """Notes that an answer was asked for; it counts as no prediction. Raises: OSError."""
    _write(_path("shown", key), {"key": key, "shown_at": _now()})


def load_hints(exercise_id: str) -> int:
    """How many of the exercise's hints were opened, 0 to 3."""
    match _seen(_path("hints", exercise_id)):
        case {"shown": int(shown)} if 0 <= shown <= 3:
            return shown
        case _:
            return 0


def save_hints(exercise_id: str, shown: int) -> None:
    """Saves how many hints are open. Raises: OSError when the folder cannot be written."""
    _write(_path("hints", exercise_id), {"exercise": exercise_id, "shown": shown})


def newest_change() -> int:
    """A number that is another one once something was passed, tried or predicted; 0 before that.

    It compares no times with each other: a clock may be put back.
    """
    found: set[tuple[str, int, int]] = set()
    for file in (work_folder() / "progress").glob("*/*.json"):
        with contextlib.suppress(OSError):  # it was moved meanwhile, or leads nowhere
            status = file.stat()
            found.add((file.name, status.st_mtime_ns, status.st_ino))  # each write is a new file
    return hash(frozenset(found)) if found else 0


def set_aside() -> list[str]:
    """A sentence for each file that lies set aside, and for each that may not be read."""
    folder = work_folder() / "progress"
    for file in folder.glob("*/*.json"):
        _seen(file)
    denied = errno.EACCES, os.strerror(errno.EACCES)
    return [
        f"{file.name.partition(_BROKEN)[0]} could not be read; it is kept as {file.name}."
        for file in sorted(folder.glob(f"*/*{_BROKEN}*"))
    ] + [
        explain(PermissionError(*denied, str(file)))
        for file in sorted(folder.glob("*/*.json"))
        if os.path.exists(file) and not os.access(file, os.R_OK)
    ]


def to_check_again() -> list[str]:
    """A sentence for each exercise whose task has changed since an answer to it passed."""
    files = sorted((work_folder() / "progress" / "exercises").glob("*.json"))
    return [
        f"{file.stem} is to be checked again: its task has changed since your answer passed."
        for file in files
        if (_seen(file) or {}).get("status") == CHECK_AGAIN
    ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _path(kind: str, key: str) -> Path:
    """The file of a key, which must be a file name on every system. Raises: ValueError."""
    if not re.fullmatch(r"\w[\w.-]*", key, re.ASCII):
        raise ValueError(f"{key!r} is no key: use letters, digits, '_', '-' and '.' only")
    return work_folder() / "progress" / kind / f"{key}.json"


def _parse(exercise_id: str, data: dict[str, Any] | None) -> ExerciseProgress | None:
    if data is None:
        return None
    try:
        return msgspec.convert(data | {"exercise": exercise_id}, ExerciseProgress)
    except msgspec.ValidationError:
        _set_aside(_path("exercises", exercise_id))
        return None


def _read(path: Path) -> dict[str, Any] | None:
    """The file's object; None when there is none, or when it was damaged and is set aside now.

    Raises: OSError when it cannot be read just now.
    """
    try:
        data = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        data = None
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        data = None
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)
    _set_aside(path)
    return None


def _seen(path: Path) -> dict[str, Any] | None:
    """`_read`, or None while the file cannot be read."""
    with contextlib.suppress(OSError):
        return _read(path)
    return None


def _set_aside(path: Path) -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    with contextlib.suppress(OSError):
        when_free(lambda: path.replace(path.with_name(f"{path.name}{_BROKEN}{stamp}")))


def _write(path: Path, data: dict[str, Any]) -> None:
    _read(path)  # raises for a file that it would replace unread
    write_atomically(path, json.dumps(data, indent=1).encode())


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    """Lock `path` for this process; a lock that was not given back is taken over."""
    lock = path.with_name(f".{path.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        except OSError as error:
            if not isinstance(error, FileExistsError) and not is_busy(error):
                raise
            if time.monotonic() > until:
                break
            time.sleep(0.005)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that was taken over is gone, or is no file
            when_free(lock.unlink)
