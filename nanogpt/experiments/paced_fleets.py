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
