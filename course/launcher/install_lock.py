"""One installation at a time: a lock that ends with what holds it, however that ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path

from course.launcher.running import Ticker

LOOK_EVERY_S = 0.2
_FAR = 1 << 20  # the byte that Windows locks, beyond the number, which stays readable


@contextlib.contextmanager
def install_lock(path: Path, ticker: Ticker) -> Generator[int]:
    """Hold the lock file `path`, in which the holder's process number stands.

    Yields its descriptor. A program that inherits that holds the lock too: after a launcher that
    was killed, the next one waits until what it had started has ended. Raises: OSError.
    """
    lock = _open(path)
    try:
        while not (_is_locked(lock) and _is_still(path, lock)):
            holder = _read(lock)
            if holder:  # it writes its number when it has the lock
                ticker.show(f"waiting for process {holder}, which had begun to install before")
            time.sleep(LOOK_EVERY_S)
            os.close(lock)
            lock = _open(path)
        os.ftruncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, str(os.getpid()).encode())
        try:
            yield lock
        finally:
            with contextlib.suppress(OSError):  # Windows keeps what is open
                path.unlink()
    finally:
        os.close(lock)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _read(lock: int) -> str:
    os.lseek(lock, 0, os.SEEK_SET)
    return os.read(lock, 20).decode(errors="replace")


def _is_still(path: Path, lock: int) -> bool:
    """Whether the locked file is still there under its path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(lock))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _is_locked(lock: int) -> bool:
        os.lseek(lock, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _is_locked(lock: int) -> bool:
        """Try to lock the file."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
