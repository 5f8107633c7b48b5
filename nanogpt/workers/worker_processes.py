"""Starting worker processes, hearing all of them at once, and making sure that none is left over.

For each worker a thread of the parent writes orders, so that a worker that is stuck cannot stop the
router, and another reads replies.
"""

import pickle
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO

from nanogpt.child_process import ChildProcess
from nanogpt.workers import worker_messages
from nanogpt.workers.worker_messages import Load, Order, Reply


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
    child: ChildProcess
    outbox: "SimpleQueue[bytes | None]"
    threads: tuple[threading.Thread, ...]

    def order(self, order: Load | Order) -> None:
        """Send an order, sooner or later; never waits and never fails. A lost worker is heard of.

        Raises: whatever pickling raises for an order that cannot be sent.
        """
        self.outbox.put(pickle.dumps(order))

    def how_it_ended(self) -> str:
        """Why nothing can be heard from it any more, in words."""
        return self.child.how_it_ended()

    def kill(self) -> None:
        """End it now; it has nothing to save. That it is gone is then heard in the inbox."""
        self.child.kill()

    def reap(self) -> None:
        """End it, wait for it and for its threads, and close everything. Twice does no harm."""
        self.child.kill()
        self.outbox.put(None)
        for thread in self.threads:
            thread.join()
        self.child.reap()


def start_worker(worker_id: int, inbox: "SimpleQueue[Heard]") -> WorkerProcess:
    """Start a process; it needs a second or two before it reads its first order.

    Raises: OSError when the system starts no more processes.
    """
    child = ChildProcess.start("nanogpt.workers.worker_process")
    outbox: SimpleQueue[bytes | None] = SimpleQueue()
    threads = (
        threading.Thread(target=_write, args=(child.link.makefile("wb"), outbox), daemon=True),
        threading.Thread(
            target=_read, args=(worker_id, child.link.makefile("rb"), inbox), daemon=True
        ),
    )
    for thread in threads:
        thread.start()
    return WorkerProcess(worker_id, child, outbox, threads)


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
