"""Independent jobs spread over processes, so that a comparison uses every core."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_jobs(
    task: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], num_processes: int
) -> Iterator[Result]:
    """What `task` gives for each job's arguments, in the order in which the jobs are done.

    With more than one process they are done elsewhere: a process is spawned, and imports `task`
    from its module, which cannot be the command's own. Closing the iterator, or an exception such
    as Ctrl-C's, ends the processes at once. Call it in the main thread.
    """
    if num_processes == 1:
        yield from (task(*job) for job in jobs)
        return
    strangers = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        min(num_processes, len(jobs)), mp_context=multiprocessing.get_context("spawn")
    ) as executor:
        futures = _submit(executor, task, jobs)
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            # The pool then fails what is pending; a future that was cancelled it could not fail.
            for child in set(multiprocessing.active_children()) - strangers:
                child.terminate()
            raise


def _submit(
    executor: ProcessPoolExecutor, task: Callable[..., Result], jobs: Sequence[tuple[Any, ...]]
) -> list[Future[Result]]:
    """Hands all jobs over, which also starts the processes.

    Ctrl-C reaches a whole process group. The workers inherit, from their first instruction on,
    that they are to ignore it; it is for their parent to end them.
    """
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return [executor.submit(task, *job) for job in jobs]
    finally:
        signal.signal(signal.SIGINT, previous)
