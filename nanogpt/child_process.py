"""Child processes with a socket to their parent, which none of them outlives.

A child ends when its standard input does, so also when its parent is killed. It runs in a session
of its own: Ctrl-C reaches only the parent, which then ends its children.
"""

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Self

_ROOT = Path(__file__).resolve().parents[1]
_MAX_STDERR = 2000  # bytes
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A child process, the socket to it, and its standard error."""

    process: "subprocess.Popen[bytes]"
    link: socket.socket
    stderr: IO[bytes]

    @classmethod
    def start(
        cls,
        module: str,
        *arguments: object,
        under: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start `python -m module`, whose `parent_link()` is the other end of `link`.

        `under` is put before the command, such as a sandbox's. `environment` replaces this
        process's. `pass_fds` are inherited (POSIX only). Raises: OSError.
        """
        link, theirs = socket.socketpair()
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the child is reaped)
        is_windows = sys.platform == "win32"
        end = "shared" if is_windows else str(theirs.fileno())
        try:
            process = subprocess.Popen(
                [*under, sys.executable, "-P", "-m", module, end, *map(str, arguments)],
                pass_fds=() if is_windows else (theirs.fileno(), *pass_fds),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=_environment(os.environ if environment is None else environment),
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
            if sys.platform == "win32":
                assert process.stdin is not None
                shared = theirs.share(process.pid)
                process.stdin.write(_LENGTH.pack(len(shared)) + shared)
                process.stdin.flush()
        except BaseException:
            link.close()
            stderr.close()
            raise
        finally:
            theirs.close()
        return cls(process, link, stderr)

    def last_words(self) -> str:
        """The end of its standard error."""
        self.stderr.seek(0)
        return self.stderr.read()[-_MAX_STDERR:].decode(errors="replace").strip()

    def how_it_ended(self) -> str:
        """How the child ended, as the end of a sentence about it."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)  # its socket may close a moment before it is gone
        code, words = self.process.returncode, self.last_words()
        if code is None:
            return "hung up without a word"
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit status {code}"
        return how + (f": {words}" if words else "")

    def kill(self) -> None:
        """End the child and the processes that it started, at once."""
        if sys.platform != "win32" and self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()  # does nothing to a process that has been waited for

    def reap(self) -> None:
        """Kill the child, wait for its end, and close its socket and files. Idempotent."""
        self.kill()
        self.process.wait()
        self.link.close()
        self.stderr.close()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()


class ChildGroup:
    """Processes that end together. Use it in a `with`, or `close` it.

    A subclass sets `_close`, which also ends a group that was not closed: a notebook cell that was
    run twice.
    """

    _close: "weakref.finalize[..., Any]"

    @property
    def is_open(self) -> bool:
        """Whether the processes have not been ended."""
        return self._close.alive

    def close(self) -> None:
        """End every process and release what they share. A second time does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def ended_on_error(self) -> Generator[None]:
        """End the group if the block raises anything, Ctrl-C included."""
        try:
            yield
        except BaseException:
            self.close()
            raise


def parent_link() -> socket.socket:
    """In a child: the socket to its parent."""
    if sys.platform != "win32":
        return socket.socket(fileno=int(sys.argv[1]))
    (length,) = _LENGTH.unpack(sys.stdin.buffer.read(_LENGTH.size))
    return socket.fromshare(sys.stdin.buffer.read(length))


def send(link: "Connection[Any, Any]", message: object) -> None:
    """Write one message. Raises: OSError when the other end is closed.

    Pickled here, because `Connection.send` would share tensors as open files.
    """
    link.send_bytes(pickle.dumps(message))


def receive(link: "Connection[Any, Any]") -> Any:
    """Wait for one message. Raises: EOFError or OSError when the other end is closed."""
    return pickle.loads(link.recv_bytes())


def end_with_parent() -> None:
    """In a child: end the process, from a thread, as soon as its parent is gone.

    Standard input is empty from here on.
    """
    end_by_signal()
    lifeline = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_end_after, args=(lifeline,), daemon=True).start()


def end_by_signal() -> None:
    """On Linux, in a child: have the kernel end it when its standard input ends.

    It needs neither a thread nor the interpreter, which a long call into C keeps to itself.
    """
    if sys.platform == "linux":
        import fcntl  # which Windows has not

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)  # by SIGIO


def _end_after(lifeline: IO[bytes]) -> None:
    lifeline.read()
    os._exit(1)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment with this package importable and one thread to compute in."""
    paths = [str(_ROOT), *filter(None, [given.get("PYTHONPATH")])]
    return {**given, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
