"""The memory that the engine and its ranks share: a few integers, each on a cache line of its own.

    line 0      target: the step that the monitor wants preempted, NOTHING if none
    line 1      stop: the checkpoint at which all ranks leave, for the agreement without a vote
    then, for each rank: the checkpoint it reached last · where it is to be held · where it is held

Every value has one kind of writer, and an aligned 64-bit integer is written whole, so there is no
lock that a dead process could keep. The memory has no name: it is gone with the last process that
maps it, however that process ended.
"""

import mmap
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

LINE_BYTES = 64
WORDS_PER_LINE = LINE_BYTES // 8
NOTHING = -1
"""No target, no stop, no hold: no step and no checkpoint has this number."""


def checkpoint_number(step: int, layer: int, num_layers: int) -> int:
    """The attention op of `layer` in pass `step`, as one number that only ever grows.

    One number is left over between two passes, so that what follows the last layer of a pass is
    not the first layer of the next.
    """
    return step * (num_layers + 1) + layer


class SharedState:
    """The shared integers. Mutable, by every process that maps the memory; `close` unmaps it."""

    def __init__(self, file_descriptor: int, num_ranks: int) -> None:
        self.num_ranks = num_ranks
        self._memory = mmap.mmap(file_descriptor, shared_bytes(num_ranks))
        self._words = memoryview(self._memory).cast("q")

    @property
    def target(self) -> int:
        """The step to preempt, or NOTHING."""
        return self._words[0]

    @target.setter
    def target(self, step: int) -> None:
        self._words[0] = step

    @property
    def stop(self) -> int:
        """The checkpoint at which every rank leaves, or NOTHING."""
        return self._words[WORDS_PER_LINE]

    @stop.setter
    def stop(self, checkpoint: int) -> None:
        self._words[WORDS_PER_LINE] = checkpoint

    def reached(self, rank: int) -> int:
        """The checkpoint that the rank came to last, or NOTHING."""
        return self._words[self._line(rank, 0)]

    def set_reached(self, rank: int, checkpoint: int) -> None:
        """Note how far the rank is; only the rank itself does."""
        self._words[self._line(rank, 0)] = checkpoint

    def hold(self, rank: int) -> int:
        """The point at which the rank is to wait, or NOTHING; see `points`."""
        return self._words[self._line(rank, 1)]

    def set_hold(self, rank: int, point: int) -> None:
        """Say where the rank is to wait; NOTHING lets it go on."""
        self._words[self._line(rank, 1)] = point

    def held(self, rank: int) -> int:
        """The point at which the rank is waiting, or NOTHING."""
        return self._words[self._line(rank, 2)]

    def set_held(self, rank: int, point: int) -> None:
        """Note where the rank is waiting; only the rank itself does."""
        self._words[self._line(rank, 2)] = point

    def clear(self) -> None:
        """Set everything to NOTHING; for the process that made the memory, before it is shared."""
        for line in range(len(self._words) // WORDS_PER_LINE):
            self._words[line * WORDS_PER_LINE] = NOTHING

    def close(self) -> None:
        """Unmap the memory; a second time does nothing. A later use raises ValueError."""
        self._words.release()
        self._memory.close()

    def _line(self, rank: int, which: int) -> int:
        return (2 + 3 * rank + which) * WORDS_PER_LINE


def shared_bytes(num_ranks: int) -> int:
    """How much memory the integers of so many ranks take."""
    return (2 + 3 * num_ranks) * LINE_BYTES


@contextmanager
def shared_file(num_ranks: int) -> Generator[IO[bytes]]:
    """An unnamed file to map: once closed, the memory belongs to those who have mapped it."""
    with tempfile.TemporaryFile() as file:
        file.truncate(shared_bytes(num_ranks))
        yield file
