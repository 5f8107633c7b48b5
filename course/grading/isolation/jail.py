"""Four layers around the process that runs an answer, on Linux, without any privilege.

    namespaces  its own users, processes, network and file system, in which the course is not
    landlock    Python and its libraries can be read, and no other file be touched
    seccomp     no process, no socket, no signal to another
    limits      memory, file sizes and open files

Each holds where another fails: with any one of them off, an answer still reaches nothing that
decides about its mark.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from course.grading.isolation import kernel

MEMORY = 2 << 30
"""Bytes of address space, on top of what is mapped when it starts."""
_MOST_FILES = 64
_MOST_THREADS = 64
_NOBODY = 65534
_SPACES = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
)
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")


class JailError(Exception):
    """A layer that this machine does not give, in a sentence."""


def readable() -> list[Path]:
    """What an answer may read: Python, its libraries, and the packages that are installed."""
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    paths += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *_LIBRARIES]
    paths += [str(Path(sys.base_prefix) / "lib"), "/dev/null", "/dev/urandom"]
    found = {Path(name) for path in paths for name in (path, os.path.realpath(path))}
    there = {path for path in found if path.exists()}
    return sorted(path for path in there if not there.intersection(path.parents))


class Jail:
    """The layers around one process. `layers` are those that are wanted.

    `places` are open files, on whatever may be read, which are closed in the end.
    """

    def __init__(self, layers: Collection[str]) -> None:
        self._layers = layers
        self._is_root = os.geteuid() == 0
        self._mapped = _mapped()  # while there is a /proc
        self.places: list[int] = []

    def leave(self) -> None:
        """In the parent of the process that is kept in: leave this machine's namespaces.

        Root's rights are given up afterwards, with or without namespaces. Raises: JailError.
        """
        paths = readable()
        if "namespaces" in self._layers:
            uid, gid = os.geteuid(), os.getegid()
            try:
                kernel.unshare(_SPACES | (0 if self._is_root else kernel.CLONE_NEWUSER))
                if not self._is_root:
                    _write("/proc/self/setgroups", "deny")
                    _write("/proc/self/uid_map", f"{uid} {uid} 1")
                    _write("/proc/self/gid_map", f"{gid} {gid} 1")
                self.places = _opened(paths)  # now: a mount belongs to its namespace
                _hide_files(paths, self.places)
            except OSError as error:
                raise JailError(
                    f"this machine gives no namespaces to an ordinary user ({error}): allow them, "
                    "or go on without with --unsafe."
                ) from error
        self.places = self.places or _opened(paths)  # while root may look into every folder
        if self._is_root:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)

    def close(self) -> None:
        """In the process that is kept in, before it meets an answer. Raises: JailError."""
        kernel.end_with_parent(signal.SIGKILL)
        kernel.give_no_privileges()
        if "limits" in self._layers:
            self._limit()
        if "landlock" in self._layers:
            if kernel.landlock_version() == 0:
                raise JailError(
                    "this kernel has no Landlock: start one that has it (Linux 5.13), or go on "
                    "without with --unsafe."
                )
            kernel.landlock(self.places)
        if "seccomp" in self._layers:
            if not kernel.seccomp_is_known():
                raise JailError(
                    "the filter of system calls is written for x86_64 and arm64 alone: grade on "
                    "one of them, or go on without with --unsafe."
                )
            kernel.seccomp()
        for place in self.places:
            os.close(place)

    def _limit(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows is an error, no crash
        most = {
            resource.RLIMIT_AS: self._mapped + MEMORY,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: _MOST_FILES,
        }
        if "namespaces" in self._layers and not self._is_root:
            most[resource.RLIMIT_NPROC] = _MOST_THREADS  # counted in its namespace of users alone
        for what, limit in most.items():
            _, hard = resource.getrlimit(what)
            lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(what, (lower, lower))


def _write(path: str, text: str) -> None:
    Path(path).write_text(text)


def _opened(paths: Sequence[Path]) -> list[int]:
    return [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths]


def _hide_files(paths: Sequence[Path], places: Sequence[int]) -> None:
    """A root of its own, in which only what is readable is, and that read-only."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = tempfile.gettempdir()
    kernel.mount("none", root, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    for path, place in zip(paths, places, strict=True):
        target = Path(f"{root}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir() if stat.S_ISDIR(os.fstat(place).st_mode) else target.touch()
        _bind(f"/proc/self/fd/{place}", str(target))
    os.chdir(root)
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    os.chdir("/")
    kernel.mount("none", "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY)


def _bind(source: str, target: str) -> None:
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    # An ordinary user may not take away what the mount forbids already.
    kept = os.statvfs(target).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
    flags = kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kept
    kernel.mount("none", target, None, flags)


def _mapped() -> int:
    """Bytes of address space that this process has mapped."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
