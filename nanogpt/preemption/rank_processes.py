"""Rank processes as the engine holds them: started together, listened to, and ended together."""

import os
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from nanogpt.child_process import ChildProcess
from nanogpt.preemption import rank_messages
from nanogpt.preemption.rank_messages import Crashed, Reply
from nanogpt.preemption.shared_state import SharedState, shared_file

_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank: its process, and the connection to it."""

    rank: int
    child: ChildProcess
    link: Connection


@dataclass(frozen=True, slots=True)
class RankGroup:
    """All ranks and the memory that the engine shares with them."""

    ranks: tuple[RankProcess, ...]
    shared: SharedState


def start_ranks(num_ranks: int) -> RankGroup:
    """Start the processes; they take a second or two until they are ready.

    Raises: OSError where processes cannot be started so, as on Windows.
    """
    if os.name != "posix":
        raise OSError("tensor-parallel ranks need a POSIX system: Linux or macOS")
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": loopback}
    ranks: list[RankProcess] = []
    with shared_file(num_ranks) as file:
        shared, shared_fd = SharedState(file.fileno(), num_ranks), file.fileno()
        shared.clear()
        try:
            for rank in range(num_ranks):
                child = ChildProcess.start(
                    "nanogpt.preemption.rank", rank, num_ranks, shared_fd,
                    environment=environment, pass_fds=[shared_fd],
                )  # fmt: skip
                ranks.append(RankProcess(rank, child, Connection(child.link.detach())))
        except BaseException:
            reap(RankGroup(tuple(ranks), shared))
            raise
    return RankGroup(tuple(ranks), shared)


def reap(group: RankGroup) -> None:
    """Kill every rank and unmap the memory. A rank has nothing to save, and may be stuck."""
    for rank in group.ranks:
        rank.link.close()
        rank.child.kill()
    for rank in group.ranks:
        rank.child.reap()
    group.shared.close()


class ReplyReader:
    """Called, returns the next reply as it comes in; one of each rank.

    A rank whose process is gone, or that is silent while no rank makes progress for `patience_s`
    seconds, counts as crashed. Mutable: which ranks are still to reply, and their progress.
    """

    def __init__(self, group: RankGroup, patience_s: float) -> None:
        self.group = group
        self.patience_s = patience_s
        self.silent = list(group.ranks)
        self.progress = list(group.shared.reached)
        self.progress_s = time.monotonic()

    def __call__(self) -> Reply:
        """Wait for the next reply."""
        while True:
            by_link = {rank.link: rank for rank in self.silent}
            heard = wait(by_link, _LOOK_EVERY_S)
            if heard:
                return self._read(next(rank for link, rank in by_link.items() if link in heard))
            reached = list(self.group.shared.reached)
            if reached != self.progress:
                self.progress, self.progress_s = reached, time.monotonic()
            elif time.monotonic() > self.progress_s + self.patience_s:
                rank = self.silent.pop(0).rank
                return Crashed(rank, -1, -1, f"no sign of life for {self.patience_s:g} s", False)

    def _read(self, rank: RankProcess) -> Reply:
        self.silent.remove(rank)
        try:
            return rank_messages.receive(rank.link)
        except (EOFError, OSError):
            how = f"its process {rank.child.how_it_ended()}"
            return Crashed(rank.rank, -1, -1, how, in_collective=False)
