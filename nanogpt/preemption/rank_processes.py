"""Starting rank processes and making sure that none is left over, whatever happens to the engine.

A rank ends when its standard input does, so it also ends when the engine is killed. It runs in a
session of its own: Ctrl-C reaches the engine alone, which then takes its ranks down in order.
"""

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from nanogpt.preemption.shared_state import SharedState, shared_file

_MAX_STDERR = 2000


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank as the engine holds it: its process, the socket to it, and what it complained of."""

    rank: int
    process: "subprocess.Popen[bytes]"
    link: Connection
    stderr: IO[bytes]

    def how_it_ended(self) -> str:
        """Why nothing can be heard from it any more, in words."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)  # its socket may close a moment before it is gone
        code = self.process.returncode
        if code is None:
            return "it hung up without a word"
        self.stderr.seek(0)
        last_words = self.stderr.read()[-_MAX_STDERR:].decode(errors="replace").strip()
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        return f"its process is gone ({how})" + (f": {last_words}" if last_words else "")


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
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as stderr:
        arguments = map(str, (rank, num_ranks, theirs.fileno(), shared_fd))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nanogpt.preemption.rank", *arguments],
            pass_fds=(theirs.fileno(), shared_fd),
            stdin=subprocess.PIPE,  # held open as long as the engine lives; see `rank`
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=_environment(),
            start_new_session=True,
        )
        kept = os.fdopen(os.dup(stderr.fileno()), "rb")
        return RankProcess(rank, process, Connection(ours.detach()), kept)


def _environment() -> dict[str, str]:
    """This process's, with nanogpt importable and gloo kept to the loopback device."""
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "GLOO_SOCKET_IFNAME": loopback,
        "OMP_NUM_THREADS": "1",
    }


def reap(group: RankGroup) -> None:
    """End every rank and unmap the memory; afterwards there is nothing left.

    Killed and not asked: a rank has nothing to save, and it may hang in a collective or be stopped.
    """
    for rank in group.ranks:
        rank.link.close()
        rank.process.kill()  # does nothing to a process that has been waited for
    for rank in group.ranks:
        rank.process.wait()
        rank.stderr.close()
        if rank.process.stdin is not None:
            rank.process.stdin.close()
    group.shared.close()
