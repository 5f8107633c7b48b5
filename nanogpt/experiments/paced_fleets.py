"""Fleets side by side, at a pace of the clock, until they are done or Ctrl-C stops them."""

import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from nanogpt.fleet.simulation import Simulation

SLICE_US = 100_000
"""Virtual time between two looks at the clock, the screen and Ctrl-C."""
NAP_S = 0.02
"""How long a paced run sleeps while it is ahead of the clock."""


@dataclass(slots=True)
class Stop:
    """Whether Ctrl-C was pressed. Mutable."""

    requested: bool = False


@contextmanager
def stoppable() -> Generator[Stop]:
    """In the main thread: let Ctrl-C ask for a stop between events; a second one raises."""
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
    """Advance the fleets side by side until all are done or stopped; return the virtual time.

    `speed` is virtual seconds per second of `clock`, None for as fast as possible. `show(now_us)`
    is called after every slice.
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
