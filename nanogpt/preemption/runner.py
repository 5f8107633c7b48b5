"""The engine's side of the ranks: starts them, orders passes, reads every reply, ends them.

Whatever goes wrong, a rank lost or Ctrl-C, ends the whole group: ranks out of step with each other
or with the engine are of no use, and no process, socket or file may stay behind.
"""

import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nanogpt.model import GPT
from nanogpt.preemption import rank_messages
from nanogpt.preemption.agreement import (
    AGREEMENTS,
    BY_STEP,
    RANK_PARTS,
    RankParts,
    check_rank_parts,
)
from nanogpt.preemption.pass_outcome import RUNNER_PARTS, Outcome, RanksFailed, RunnerParts
from nanogpt.preemption.rank_messages import (
    Crashed,
    Drop,
    Join,
    Load,
    Order,
    PassRow,
    Ready,
    Resume,
    Run,
)
from nanogpt.preemption.rank_processes import RankGroup, RankProcess, reap, start_ranks
from nanogpt.preemption.rank_replies import ReplyReader
from nanogpt.preemption.sharding import check_num_ranks, shard_model
from nanogpt.preemption.shared_state import SharedState
from nanogpt.validate import check_int

_START_S = 120.0
"""How long ranks may take to import torch on a busy machine."""

_QUIET_S = 10.0
"""How much longer than a collective may take the engine waits for a sign of life.

On a busy machine a rank's own word that its peer did not come is that late.
"""


class Runner:
    """A group of rank processes, and the passes they run. Use it in a `with`, or `close` it.

    `timeout_s` limits every collective: a rank whose peer does not come gives up after so long.
    Mutable: `step`, the number of the newest pass; `replied_ns`, when the last reply to the last
    pass was read; `signal`, how its ranks are told to leave.
    """

    def __init__(
        self, num_ranks: int, timeout_s: float = 20.0, parts: RunnerParts = RUNNER_PARTS
    ) -> None:
        """Start the ranks and wait until they have met.

        Raises: ValueError for a number of ranks below 1; RanksFailed when one does not come up.
        """
        check_int("the number of ranks", num_ranks, 1)
        self.num_ranks = num_ranks
        self.timeout_s = timeout_s
        self.parts = parts
        self.step = 0
        self.replied_ns = 0
        self.signal = BY_STEP
        self._group = start_ranks(num_ranks)
        # Also for a runner that was not closed: a notebook cell that was run twice.
        self._before_close: list[Callable[[], None]] = []
        self._close = weakref.finalize(self, _end, self._group, self._before_close)
        try:
            self._expect_ready(_START_S)
            with tempfile.TemporaryDirectory(prefix="nanogpt-ranks-") as folder:
                self._order_all(Join(str(Path(folder) / "store"), timeout_s))
                self._expect_ready(_START_S)
        except BaseException:
            self.close()
            raise

    @property
    def shared(self) -> SharedState:
        """The memory shared with the ranks."""
        return self._group.shared

    @property
    def process_ids(self) -> list[int]:
        """The ranks' process ids, in the order of the ranks."""
        return [rank.child.process.pid for rank in self._group.ranks]

    @property
    def is_open(self) -> bool:
        """Whether there are ranks to run a pass."""
        return self._close.alive

    def load(
        self,
        model: GPT,
        num_slots: int,
        agreement: str = "vote",
        parts: RankParts = RANK_PARTS,
    ) -> None:
        """Give every rank its share of the model, and K/V for `num_slots` requests, all empty.

        Raises: ValueError for an agreement that there is not, heads that do not split, or a part
        that a rank could not import.
        """
        if agreement not in AGREEMENTS:
            known = sorted(AGREEMENTS)
            raise ValueError(f"there is no agreement {agreement!r}; choose from {known}")
        check_num_ranks(self.num_ranks, model.config)
        check_rank_parts(parts)
        self._check_open()
        self.signal = parts.signal
        try:
            for rank in self._group.ranks:
                shard = shard_model(model, rank.rank, self.num_ranks)
                self._order(rank, Load(shard, num_slots, agreement, parts))
            self._expect_ready(_START_S)
        except BaseException:
            self.close()
            raise

    def new_step(self) -> int:
        """A number for the next pass; numbers only grow, so a late target hits no other pass."""
        self.step += 1
        return self.step

    def run(
        self, step: int, rows: Sequence[PassRow], *, vote: bool = False, suspend: bool = False
    ) -> Outcome:
        """Run a pass to its end, or until all ranks leave it.

        With `vote`, ranks look at every attention op whether `shared.target` names the step.
        With `suspend`, a pass that is left is kept for `resume`.
        Raises: RanksFailed when a rank is lost; the group is over then.
        """
        return self._pass(Run(step, tuple(rows), vote, suspend))

    def resume(
        self, step: int, suspended_step: int, *, vote: bool = False, suspend: bool = False
    ) -> Outcome:
        """Go on with a suspended pass, as pass `step`. Raises: as `run` does."""
        return self._pass(Resume(step, suspended_step, vote, suspend))

    def drop(self, suspended_step: int) -> None:
        """Throw a suspended pass away."""
        self._check_open()
        self._order_all(Drop(suspended_step))

    def before_close(self, stop: Callable[[], None]) -> None:
        """Have `stop` called before the shared memory is released, to end what else uses it."""
        self._before_close.append(stop)

    def not_before_close(self, stop: Callable[[], None]) -> None:
        """Forget a `stop` that was given to `before_close`."""
        self._before_close.remove(stop)

    def close(self) -> None:
        """End every rank and release the shared memory. A second time does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _pass(self, order: Run | Resume) -> Outcome:
        self._check_open()
        try:
            self._order_all(order)
            replies = self.parts.read_replies(
                ReplyReader(self._group, self.timeout_s + _QUIET_S), self.num_ranks
            )
            self.replied_ns = time.perf_counter_ns()
            outcome = self.parts.judge(replies, order.step, self.shared.target)
            self.signal.after_pass(self.shared)
            return outcome
        except BaseException:
            self.close()
            raise

    def _order_all(self, order: Order) -> None:
        for rank in self._group.ranks:
            self._order(rank, order)

    def _order(self, rank: RankProcess, order: Order) -> None:
        with suppress(OSError):  # it is gone; reading its reply will say so, and how
            rank_messages.send(rank.link, order)

    def _expect_ready(self, limit_s: float) -> None:
        next_reply = ReplyReader(self._group, limit_s)
        replies = [next_reply() for _ in range(self.num_ranks)]
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


def _end(group: RankGroup, before: Sequence[Callable[[], None]]) -> None:
    """Release everything, also when a part of it fails to close."""
    try:
        for stop in before:
            stop()
    finally:
        reap(group)
