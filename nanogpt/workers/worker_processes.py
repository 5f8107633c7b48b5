"""Starting worker processes, hearing all of them at once, and making sure that none is left over.

    parent ── orders ──> its standard input      a thread of the parent writes, so that a worker
    parent <── replies ── its standard output    that is stuck cannot stop the router; another reads

Pipes and threads are the same on every system. A worker ends when its standard input does, so it
also ends when the parent is killed; Ctrl-C reaches the parent alone.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from nanogpt.workers import worker_messages
from nanogpt.workers.worker_messages import Load, Order, Reply

_MAX_STDERR = 2000


@dataclass(frozen=True, slots=True)
class Heard:
    """A message, the worker it is of, and when it was read; None is the end of all it could say.

    `at_ns` is of the parent's `perf_counter_ns`: on Windows, `monotonic` may tick only every 16 ms.
    """

    worker_id: int
    at_ns: int
    message: Reply | None


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker as the parent holds it."""

    id: int
    process: "subprocess.Popen[bytes]"
    stderr: IO[bytes]
    outbox: "SimpleQueue[bytes | None]"
    threads: tuple[threading.Thread, ...]

    def order(self, order: Load | Order) -> None:
        """Send an order, sooner or later; never waits and never fails. A lost worker is heard of.

        Raises: whatever pickling raises for an order that cannot be sent.
        """
        self.outbox.put(pickle.dumps(order))

    def how_it_ended(self) -> str:
        """Why nothing can be heard from it any more, in words."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)  # its pipe may close a moment before it is gone
        code = self.process.returncode
        if code is None:
            return "hung up without a word"
        self.stderr.seek(0)
        last_words = self.stderr.read()[-_MAX_STDERR:].decode(errors="replace").strip()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
        return how + (f": {last_words}" if last_words else "")

    def kill(self) -> None:
        """End it now; it has nothing to save. That it is gone is then heard in the inbox."""
        self.process.kill()

    def reap(self) -> None:
        """End it, wait for it and for its threads, and close every pipe. Twice does no harm."""
        self.process.kill()  # does nothing to a process that has been waited for
        self.process.wait()
        self.outbox.put(None)
        for thread in self.threads:
            thread.join()
        self.stderr.close()


def start_worker(worker_id: int, inbox: "SimpleQueue[Heard]") -> WorkerProcess:
    """Start a process; it needs a second or two before it reads its first order.

    Raises: OSError when the system starts no more processes.
    """
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 (reaped with the process)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nanogpt.workers.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=_environment(),
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows
        )
    except BaseException:
        stderr.close()
        raise
    assert process.stdin is not None and process.stdout is not None
    outbox: SimpleQueue[bytes | None] = SimpleQueue()
    threads = (
        threading.Thread(target=_write, args=(process.stdin, outbox), daemon=True),
        threading.Thread(target=_read, args=(worker_id, process.stdout, inbox), daemon=True),
    )
    for thread in threads:
        thread.start()
    return WorkerProcess(worker_id, process, stderr, outbox, threads)


def _write(stream: IO[bytes], outbox: "SimpleQueue[bytes | None]") -> None:
    """Write order after order until None. Orders to a worker that is gone fall on the floor."""
    with suppress(OSError), stream:
        while (order := outbox.get()) is not None:
            stream.write(order)
            stream.flush()


def _read(worker_id: int, stream: IO[bytes], inbox: "SimpleQueue[Heard]") -> None:
    """Hand on every message, then say that there are no more."""
    with stream, suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            message: Reply = worker_messages.receive(stream)
            inbox.put(Heard(worker_id, time.perf_counter_ns(), message))
    inbox.put(Heard(worker_id, time.perf_counter_ns(), None))


def _environment() -> dict[str, str]:
    """This process's, with nanogpt importable and one thread to compute in."""
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
