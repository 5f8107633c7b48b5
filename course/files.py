"""The learner's files: read without a surprise, written whole, and what to do when neither works.

Standard library only: the launcher uses it before anything is installed.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_BUSY_S = 1.0

_REMEDY = {
    errno.ENOSPC: "the disk is full: make room",
    errno.EDQUOT: "your share of the disk is used up: make room",
    errno.EACCES: "that is not permitted: change its permissions",
    errno.EPERM: "that is not permitted: change its permissions",
    errno.EROFS: "the disk is read-only: move the course to another one",
    errno.EISDIR: "a folder stands in its place: move it away",
    errno.ENOTDIR: "a file stands where a folder should: move it away",
    errno.EEXIST: "something else stands in its place: move it away",
    errno.ELOOP: "it is a link that leads nowhere: move it away",
    errno.ENXIO: "it is no ordinary file: move it away",
}


def explain(error: OSError) -> str:
    """Say what went wrong with which file and what to do, as one sentence."""
    what = _REMEDY.get(error.errno or 0, error.strerror or str(error))
    return f"{error.filename}: {what}." if error.filename else f"{what}."


def is_busy(error: OSError) -> bool:
    """Whether Windows may allow it in a moment: another program has the file open.

    An access, sharing or lock violation (5, 32, 33) has this errno, and `open` gives nothing else.
    """
    return sys.platform == "win32" and error.errno == errno.EACCES


def when_free(action: Callable[[], T]) -> T:
    """The result of `action`, which is tried again for a second while its file `is_busy`."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            return action()
        except OSError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)


def digest_of(paths: Iterable[Path], root: Path) -> str:
    """Name the contents of files below `root`: another byte or another file makes another name."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def read_bytes(path: Path) -> bytes:
    """Read an ordinary file; a folder, or a pipe that a reader would wait for, is refused.

    Raises: OSError.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise OSError(code, os.strerror(code), str(path))
    return when_free(path.read_bytes)


def read_json(path: Path) -> Any:
    """Raises: ValueError for a file that holds no JSON, or too deep a nesting; OSError."""
    try:
        return json.loads(read_bytes(path).decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader or a crash finds the old content or the new, never a part.

    A link stays one, and a file keeps its permissions; a new one gets the usual. Raises: OSError
    naming the file.
    """
    path = Path(os.path.realpath(path))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "xb") as file:
            file.write(content)
        if path.exists():
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        when_free(lambda: os.replace(part, path))
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(part)):
            error.filename = str(path)
        raise


def keep(mine: Path, content: bytes) -> tuple[Path, bool]:
    """Write a version of the learner's file `mine` to kept/ beside it, under a name with the date.

    Returns the copy, and whether it is new: a version that is kept already is not written again.
    Raises: OSError naming the file.
    """
    folder = mine.with_name("kept")
    for kept in folder.glob(f"{mine.stem}.*{mine.suffix}"):
        with contextlib.suppress(OSError):  # one that cannot be read is another
            if read_bytes(kept) == content:
                return kept, False
    dated = f"{mine.stem}.{time.strftime('%Y-%m-%d-%H%M%S')}"
    kept, number = folder / f"{dated}{mine.suffix}", 1
    while os.path.lexists(kept):
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
