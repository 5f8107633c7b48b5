"""The engine's side of the ranks: starts them, calls them, reads every reply, ends them.

Whatever goes wrong, a lost rank or Ctrl-C, ends the whole group: ranks that are out of step with
each other or with the engine are useless, and no process, socket or file may be left over.
"""

import os
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nanogpt.child_process import ChildGroup, ChildProcess, receive, send
from nanogpt.model import GPT
from nanogpt.preemption.agreement import AGREEMENTS, RANK_POLICIES, RankPolicies
from nanogpt.preemption.rank_messages import (
    Crashed,
    Method,
    Outcome,
    RanksFailed,
    Ready,
    Reply,
    judge,
)
from nanogpt.preemption.sharded_model import PassRow, check_num_ranks, shard_model
from nanogpt.preemption.shared_state import SharedState, shared_file
from nanogpt.validate import check_int

_START_S = 120.0
"""How long ranks may take to import torch on a busy machine."""

_QUIET_S = 10.0
"""How much longer than a collective the engine waits for a sign of life.

On a busy machine, a rank's report that its peer did not come can be this late.
"""

_LOOK_EVERY_S = 0.2


class Runner(ChildGroup):
    """A group of rank processes, and the passes they run. Use it in a `with`, or `close` it.

    `timeout_s` limits every collective. Mutable: `step`, the number of the newest pass;
    `replied_ns`, when the last reply to it was read; `before_close`, functions to call before the
    shared memory is released; and the exchangeable `read_replies` and `judge`.
    """

    def __init__(self, num_ranks: int, timeout_s: float = 20.0) -> None:
        """Start the ranks and wait until they have met.

        Raises: ValueError for a number of ranks below 1; RanksFailed when one does not come up;
        OSError as `start_ranks` does.
        """
        check_int("the number of ranks", num_ranks, 1)
        self.num_ranks = num_ranks
        self.timeout_s = timeout_s
        # A reply that is not read would be taken for the reply to the next pass.
        self.read_replies: Callable[[Iterable[Reply]], list[Reply]] = list
        self.judge = judge
        self.step = 0
        self.replied_ns = 0
        self._group = start_ranks(num_ranks)
        self.before_close: list[Callable[[], None]] = []
        self._close = weakref.finalize(self, _end, self._group, self.before_close)
        with self.ended_on_error(), TemporaryDirectory(prefix="nanogpt-ranks-") as folder:
            self._expect_ready()
            self._call_all("join", str(Path(folder) / "store"), timeout_s)
            self._expect_ready()

    @property
    def shared(self) -> SharedState:
        """The memory shared with the ranks."""
        return self._group.shared

    @property
    def process_ids(self) -> list[int]:
        """The ranks' process ids, in the order of the ranks."""
        return [rank.child.process.pid for rank in self._group.ranks]

    def load(
        self,
        model: GPT,
        num_slots: int,
        agreement: str = "vote",
        policies: RankPolicies = RANK_POLICIES,
    ) -> None:
        """Give every rank its share of the model, and empty K/V for `num_slots` requests.

        The policies are sent by name, so they are functions of modules. Raises: ValueError for an
        unknown agreement and as `check_num_ranks` does; RanksFailed when a rank is lost.
        """
        if agreement not in AGREEMENTS:
            known = sorted(AGREEMENTS)
            raise ValueError(f"there is no agreement {agreement!r}; choose from {known}")
        check_num_ranks(self.num_ranks, model.config)
        self._check_open()
        with self.ended_on_error():
            for rank in self._group.ranks:
                shard = shard_model(model, rank.rank, self.num_ranks)
                rank.call("load", shard, num_slots, agreement, policies)
            self._expect_ready()

    def new_step(self) -> int:
        """A number for the next pass. Numbers only grow, so a late target hits no other pass."""
        self.step += 1
        return self.step

    def run(self, step: int, rows: Sequence[PassRow], *, vote: bool = False) -> Outcome:
        """Run a pass to its end, or until all ranks leave it.

        With `vote`, ranks check at every attention op whether `shared.target` names the step.
        Raises: RanksFailed when a rank is lost; the group is ended then.
        """
        return self._pass("run", step, tuple(rows), vote)

    def resume(self, step: int) -> Outcome:
        """Run the pass that was left last to its end, without a vote. Raises: as `run` does."""
        return self._pass("resume", step)

    def _pass(self, method: Method, step: int, *arguments: Any) -> Outcome:
        self._check_open()
        with self.ended_on_error():
            self._call_all(method, step, *arguments)
            replies = self.read_replies(replies_of(self._group, self.timeout_s + _QUIET_S))
            self.replied_ns = time.perf_counter_ns()
            return self.judge(replies, step, self.shared.target)

    def _call_all(self, method: Method, *arguments: Any) -> None:
        for rank in self._group.ranks:
            rank.call(method, *arguments)

    def _expect_ready(self) -> None:
        replies = list(replies_of(self._group, _START_S))
        problems = [
            f"rank {reply.rank} did not come up: {reply.error}"
            for reply in replies
            if isinstance(reply, Crashed)
        ]
        if problems or not all(isinstance(reply, Ready) for reply in replies):
            raise RanksFailed("; ".join(problems) or f"ranks replied out of turn: {replies}")

    def _check_open(self) -> None:
        if not self.is_open:
            raise RanksFailed("the ranks have been ended; start a new runner")


# --- the processes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank: its process, and the connection to it."""

    rank: int
    child: ChildProcess
    link: "Connection[Any, Any]"

    def call(self, method: Method, *arguments: Any) -> None:
        """Have the rank run one of its methods."""
        with suppress(OSError):  # the rank is gone; reading its reply will say so, and how
            send(self.link, (method, arguments))


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


def _end(group: RankGroup, before: Sequence[Callable[[], None]]) -> None:
    """Release everything, even if a part of it fails to close."""
    try:
        for stop in before:
            stop()
    finally:
        reap(group)


def replies_of(group: RankGroup, patience_s: float) -> Iterator[Reply]:
    """Yield one reply of each rank, as they come in.

    A rank whose process is gone, or that is silent while no rank makes progress for `patience_s`
    seconds, counts as crashed.
    """
    silent = {rank.link: rank for rank in group.ranks}
    progress, progress_s = list(group.shared.reached), time.monotonic()
    while silent:
        heard = wait(silent, _LOOK_EVERY_S)
        yield from [_reply_of(silent.pop(link)) for link in list(silent) if link in heard]
        reached = list(group.shared.reached)
        if heard or reached != progress:
            progress, progress_s = reached, time.monotonic()
        elif time.monotonic() > progress_s + patience_s:
            _, rank = silent.popitem()
            yield Crashed(rank.rank, -1, -1, f"no sign of life for {patience_s:g} s")


def _reply_of(rank: RankProcess) -> Reply:
    try:
        return receive(rank.link)
    except (EOFError, OSError):
        return Crashed(rank.rank, -1, -1, f"its process {rank.child.how_it_ended()}")
