"""Starting rank processes, with memory that they share, and ending them together."""

import os
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection

from nanogpt.child_process import ChildProcess
from nanogpt.preemption.shared_state import SharedState, shared_file


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank as the engine holds it: its process, and the connection to it."""

    rank: int
    child: ChildProcess
    link: Connection


@dataclass(frozen=True, slots=True)
class RankGroup:
    """All ranks and the memory that the engine shares with them."""

    ranks: tuple[RankProcess, ...]
    shared: SharedState


def start_ranks(num_ranks: int) -> RankGroup:
    """Start the processes; they need a second or two before they say that they are ready.

    Raises: OSError where processes cannot be started so, as on Windows. None is left over then.
    """
    if os.name != "posix":
        raise OSError("tensor-parallel ranks need a POSIX system: Linux or macOS")
    with shared_file(num_ranks) as file:
        shared = SharedState(file.fileno(), num_ranks)
        shared.clear()
        ranks: list[RankProcess] = []
        try:
            for rank in range(num_ranks):
                ranks.append(_start(rank, num_ranks, file.fileno()))
        except BaseException:
            reap(RankGroup(tuple(ranks), shared))
            raise
    return RankGroup(tuple(ranks), shared)


def _start(rank: int, num_ranks: int, shared_fd: int) -> RankProcess:
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    child = ChildProcess.start(
        "nanogpt.preemption.rank",
        rank,
        num_ranks,
        shared_fd,
        environment={**os.environ, "GLOO_SOCKET_IFNAME": loopback},
        pass_fds=[shared_fd],
    )
    return RankProcess(rank, child, Connection(child.link.detach()))


def reap(group: RankGroup) -> None:
    """End every rank and unmap the memory; afterwards there is nothing left.

    Killed and not asked: a rank has nothing to save, and it may hang in a collective or be stopped.
    """
    for rank in group.ranks:
        rank.link.close()
        rank.child.kill()
    for rank in group.ranks:
        rank.child.reap()
    group.shared.close()
