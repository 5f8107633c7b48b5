"""Runs of the simulation spread over processes, so that a table uses every core.

It lives apart from the command line, because a spawned process can only load what it can import.
"""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import NamedTuple

from nanogpt.experiments.slo_table import Trial, run_trial
from nanogpt.slo.slo_record import Variant


class Job(NamedTuple):
    """One run to make."""

    variant: Variant
    requests_per_s: float
    seed: int
    duration_s: float


def run_job(job: Job) -> Trial:
    """Makes one run."""
    return run_trial(*job)


def run_jobs(jobs: Sequence[Job], num_processes: int) -> Iterator[Trial]:
    """The trials in the order in which they are done, from this process or from so many others.

    Closing the iterator, or an exception such as Ctrl-C's, ends the processes at once. Call it in
    the main thread.
    """
    if num_processes == 1:
        yield from map(run_job, jobs)
        return
    strangers = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        num_processes, mp_context=multiprocessing.get_context("spawn")
    ) as executor:
        futures = _submit(executor, jobs)
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            # The pool then fails what is pending; a future that was cancelled it could not fail.
            for child in set(multiprocessing.active_children()) - strangers:
                child.terminate()
            raise


def _submit(executor: ProcessPoolExecutor, jobs: Sequence[Job]) -> list[Future[Trial]]:
    """Hands all jobs over, which also starts the processes.

    Ctrl-C reaches a whole process group. The workers inherit, from their first instruction on,
    that they are to ignore it; it is for their parent to end them.
    """
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return [executor.submit(run_job, job) for job in jobs]
    finally:
        signal.signal(signal.SIGINT, previous)
