"""The memory that the engine and its ranks share: a few integers, each on a cache line of its own.

    line 0      target: the step that the monitor wants preempted, NOTHING if none
    line 1      stop: the preemption point at which all ranks leave, for "epoch"
    then, for each rank: the point it reached last · where it is to be held · where it is held

Each value has one kind of writer, and an aligned 64-bit integer is written whole, so no lock is
needed that a dead process could keep. The memory has no name: it is freed with the last process
that maps it, however that process ended.

Ranks can be held, to make a race happen in a chosen order: a rank calls `at_point` before it reads
the target, before it agrees, and before it replies. In service `at_point` is `pass_by`.
"""

import mmap
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Literal, TypeAlias

LINE_BYTES = 64
NOTHING = -1
"""No target, no stop, no hold: no step and no preemption point has this number."""
LONGEST_HOLD_S = 30.0
"""After this time a held rank goes on: the process that held it may be gone."""
_LOOK_EVERY_S = 0.0005

PointName: TypeAlias = Literal["read", "agree", "reply"]
_POINT_NAMES = ("read", "agree", "reply")


def point_number(step: int, layer: int, num_layers: int) -> int:
    """The preemption point at the attention op of `layer` in pass `step`, as one growing number.

    One number between two passes is left over for what follows the last layer.
    """
    return step * (num_layers + 1) + layer


class SharedState:
    """The shared integers. Mutable, by every process that maps the memory.

    `reached`, `hold` and `held` are indexed by rank. After `close` a use raises ValueError.
    """

    def __init__(self, file_descriptor: int, num_ranks: int) -> None:
        self._memory = mmap.mmap(file_descriptor, shared_bytes(num_ranks))
        self._words = memoryview(self._memory).cast("q")[:: LINE_BYTES // 8]  # one of each line
        self.reached, self.hold, self.held = (self._words[first::3] for first in (2, 3, 4))

    @property
    def target(self) -> int:
        """The step to preempt, or NOTHING."""
        return self._words[0]

    @target.setter
    def target(self, step: int) -> None:
        self._words[0] = step

    @property
    def stop(self) -> int:
        """The preemption point at which every rank leaves, or NOTHING."""
        return self._words[1]

    @stop.setter
    def stop(self, point: int) -> None:
        self._words[1] = point

    def clear(self) -> None:
        """Set everything to NOTHING."""
        for line in range(len(self._words)):
            self._words[line] = NOTHING

    def close(self) -> None:
        """Unmap the memory; a second time does nothing."""
        for view in (self.reached, self.hold, self.held, self._words):
            view.release()
        self._memory.close()


def shared_bytes(num_ranks: int) -> int:
    """Size of the shared memory in bytes."""
    return (2 + 3 * num_ranks) * LINE_BYTES


@contextmanager
def shared_file(num_ranks: int) -> Generator[IO[bytes]]:
    """An unnamed file to map; the mappings outlive it."""
    with tempfile.TemporaryFile() as file:
        file.truncate(shared_bytes(num_ranks))
        yield file


# --- holding a rank -------------------------------------------------------------------------------


def _moment(name: PointName, point: int) -> int:
    return point * len(_POINT_NAMES) + _POINT_NAMES.index(name)


def pass_by(shared: SharedState, rank: int, name: PointName, point: int) -> None:
    """Do nothing."""


def wait_if_held(shared: SharedState, rank: int, name: PointName, point: int) -> None:
    """Wait while the rank is to be held here."""
    here = _moment(name, point)
    if shared.hold[rank] != here:
        return
    shared.held[rank] = here
    deadline = time.monotonic() + LONGEST_HOLD_S
    while shared.hold[rank] == here and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    shared.held[rank] = NOTHING


def hold(shared: SharedState, rank: int, name: PointName, point: int) -> None:
    """Hold the rank at a point that it has not reached yet."""
    shared.hold[rank] = _moment(name, point)


def wait_until_held(shared: SharedState, rank: int) -> None:
    """Return once the rank is held. Raises: TimeoutError when it does not come."""
    deadline = time.monotonic() + LONGEST_HOLD_S
    while shared.held[rank] == NOTHING:
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank {rank} did not come to the point at which to hold it")
        time.sleep(_LOOK_EVERY_S)


def let_go(shared: SharedState, rank: int) -> None:
    """Let a held rank go on."""
    shared.hold[rank] = NOTHING
