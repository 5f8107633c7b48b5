"""Independent jobs spread over processes, so that a comparison uses every core."""

import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_jobs(
    task: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], num_processes: int
) -> Iterator[Result]:
    """Results of `task` for each job's arguments; in this process where one is enough."""
    if num_processes == 1:
        yield from (task(*job) for job in jobs)
    else:
        yield from run_elsewhere(task, jobs, num_processes)


def run_elsewhere(
    task: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], num_processes: int
) -> Iterator[Result]:
    """Results of `task` for each job's arguments, in the order in which the jobs are done.

    Spawned processes import `task` from its module, which cannot be `__main__`. Closing the
    iterator, or an exception such as Ctrl-C's, ends them at once. Call it in the main thread.
    Raises: BrokenProcessPool when one of the processes is killed.
    """
    strangers = set(multiprocessing.active_children())
    # An interrupt while waiting for futures can leave their locks taken; this queue's cannot.
    done: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        try:
            # Twice: the pool starts a helper as it is made, and that takes the signal's mask away.
            with _ctrl_c_held_back():
                executor = stack.enter_context(
                    ProcessPoolExecutor(
                        min(num_processes, len(jobs)),
                        mp_context=multiprocessing.get_context("spawn"),
                        initializer=_end_with_parent,
                    )
                )
            with _ctrl_c_held_back():
                for job in jobs:  # the first ones start the processes
                    executor.submit(task, *job).add_done_callback(done.put)
            for _ in jobs:
                yield done.get().result()
        except BaseException:
            # The pool then fails what is pending; a future that was cancelled it could not fail.
            for child in set(multiprocessing.active_children()) - strangers:
                child.terminate()
            raise


def _end_with_parent() -> None:
    """In a child: end with the parent, also one that is killed. The pool's own pipes stay open."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def run_reported(
    task: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], num_processes: int, what: str
) -> tuple[list[Result], bool]:
    """The results of `run_jobs`, counted on standard error; and whether Ctrl-C ended them early."""
    results: list[Result] = []
    try:
        for result in _reported(run_jobs(task, jobs, num_processes), len(jobs), what):
            results.append(result)
    except KeyboardInterrupt:
        sys.stderr.write(f"Stopped after {len(results)} of {len(jobs)} {what}.\n")
        return results, True
    return results, False


def _reported(results: Iterable[Result], total: int, what: str) -> Iterator[Result]:
    """The results; says on standard error how many there are, in place on a terminal."""
    in_place = sys.stderr.isatty()
    try:
        for done, result in enumerate(results, start=1):
            if in_place:
                sys.stderr.write(f"\r{done} of {total} {what}")
            elif done * 10 // total != (done - 1) * 10 // total:
                sys.stderr.write(f"{done} of {total} {what}\n")
            sys.stderr.flush()
            yield result
    finally:
        if in_place:
            sys.stderr.write("\r\033[K")


@contextlib.contextmanager
def _ctrl_c_held_back() -> Generator[None]:
    """Delay Ctrl-C to the end of the block; processes started in it never see it.

    Ctrl-C reaches the whole process group, and a child inherits the mask from its first instruction
    on: the parent ends its children.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows has no such masks, and inherits none
        yield
        return
    came: list[int] = []
    # A mask is this thread's alone, and Python raises here what another thread is sent.
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        for number in came[:1]:
            signal.raise_signal(number)
