"""Reading replies of ranks that may be dead, stuck, or still computing."""

import time
from multiprocessing.connection import wait

from nanogpt.preemption import rank_messages
from nanogpt.preemption.rank_messages import Crashed, Reply
from nanogpt.preemption.rank_processes import RankGroup, RankProcess

_LOOK_EVERY_S = 0.2


class ReplyReader:
    """Gives one reply after the other, as they come in, one of each rank at the most.

    A rank that is gone, or that is silent while no rank comes any further for `patience_s` seconds,
    counts as crashed. Mutable: which ranks are still to reply, and when one last made progress.
    """

    def __init__(self, group: RankGroup, patience_s: float) -> None:
        self.group = group
        self.patience_s = patience_s
        self.silent = list(group.ranks)
        self.progress = self._reached()
        self.progress_s = time.monotonic()

    def __call__(self) -> Reply:
        """Wait for the next reply."""
        while True:
            by_link = {rank.link: rank for rank in self.silent}
            heard = wait(by_link, _LOOK_EVERY_S)
            if heard:
                rank = next(rank for link, rank in by_link.items() if link in heard)
                return self._read(rank)
            if self._reached() != self.progress:
                self.progress, self.progress_s = self._reached(), time.monotonic()
            elif time.monotonic() > self.progress_s + self.patience_s:
                rank = self.silent.pop(0)
                return self._lost(rank, f"no sign of life for {self.patience_s:g} s")

    def _read(self, rank: RankProcess) -> Reply:
        self.silent.remove(rank)
        try:
            return rank_messages.receive(rank.link)
        except (EOFError, OSError):
            return self._lost(rank, f"its process {rank.child.how_it_ended()}")

    def _lost(self, rank: RankProcess, why: str) -> Crashed:
        return Crashed(rank.rank, -1, -1, why, in_collective=False)

    def _reached(self) -> list[int]:
        return [self.group.shared.reached(rank.rank) for rank in self.group.ranks]
