"""Runs of the fleet: many seeds spread over processes, or a few fleets at a pace of the clock.

It lives apart from the command line, because a spawned process can only load what it can import.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

from nanogpt.experiments.fleet_comparison import Summary, run_seed
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.simulation import Simulation
from nanogpt.fleet.workload import Scenario

SLICE_US = 100_000
"""Virtual time between two looks at the clock, the screen and Ctrl-C."""
NAP_S = 0.02
"""How long a paced run sleeps while it is ahead of the clock."""


class Job(NamedTuple):
    """One seed's runs to make, one per fleet."""

    configs: tuple[FleetConfig, ...]
    scenario: Scenario
    rps: float
    duration_s: float
    seed: int


def run_job(job: Job) -> tuple[Summary, ...]:
    """Makes one seed's runs."""
    return run_seed(*job)


def run_jobs(jobs: Sequence[Job], num_processes: int) -> Iterator[tuple[Summary, ...]]:
    """What the jobs give, in the order in which they are done, from here or from other processes.

    Closing the iterator, or an exception such as Ctrl-C's, ends the processes at once. Call it in
    the main thread.
    """
    if num_processes == 1:
        yield from map(run_job, jobs)
        return
    strangers = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        min(num_processes, len(jobs)), mp_context=multiprocessing.get_context("spawn")
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


def _submit(
    executor: ProcessPoolExecutor, jobs: Sequence[Job]
) -> list[Future[tuple[Summary, ...]]]:
    """Hands all jobs over, which also starts the processes.

    Ctrl-C reaches a whole process group. The workers inherit, from their first instruction on,
    that they are to ignore it; it is for their parent to end them.
    """
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return [executor.submit(run_job, job) for job in jobs]
    finally:
        signal.signal(signal.SIGINT, previous)


@dataclass(slots=True)
class Stop:
    """Whether Ctrl-C was pressed. Mutable."""

    requested: bool = False


@contextmanager
def stoppable() -> Generator[Stop]:
    """Ctrl-C asks for a stop, so that it never cuts an event in two; pressed again, it insists.

    Use it in the main thread.
    """
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)


def drive(
    simulations: Sequence[Simulation],
    speed: float | None,
    stop: Stop,
    show: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Advances the fleets side by side until all are done or a stop is asked for.

    With `speed`, so many virtual seconds pass in a second of `clock`; without, as many as can be
    computed. `show(now_us)` is called after every slice. Returns the virtual time reached.
    """
    start, now_us = clock(), 0
    while not (stop.requested or all(each.finished for each in simulations)):
        until_us = now_us + SLICE_US
        if speed is not None:
            until_us = min(until_us, round((clock() - start) * speed * 1e6))
            if until_us <= now_us:
                sleep(NAP_S)
                continue
        for simulation in simulations:
            simulation.advance(until_us)
        now_us = until_us
        show(now_us)
    return now_us
