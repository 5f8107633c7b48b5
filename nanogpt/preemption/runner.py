"""The engine's side of the ranks: starts them, orders passes, reads every reply, ends them.

Whatever goes wrong, a lost rank or Ctrl-C, ends the whole group: ranks that are out of step with
each other or with the engine are useless, and no process, socket or file may be left over.
"""

import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from nanogpt.model import GPT
from nanogpt.preemption import rank_messages
from nanogpt.preemption.agreement import AGREEMENTS, BY_STEP, RANK_POLICIES, RankPolicies
from nanogpt.preemption.pass_outcome import RUNNER_POLICIES, Outcome, RanksFailed, RunnerPolicies
from nanogpt.preemption.rank_messages import Crashed, Method, Ready
from nanogpt.preemption.rank_processes import RankGroup, RankProcess, ReplyReader, reap, start_ranks
from nanogpt.preemption.sharded_model import PassRow, check_num_ranks, shard_model
from nanogpt.preemption.shared_state import SharedState
from nanogpt.validate import check_int

_START_S = 120.0
"""How long ranks may take to import torch on a busy machine."""

_QUIET_S = 10.0
"""How much longer than a collective the engine waits for a sign of life.

On a busy machine, a rank's report that its peer did not come can be this late.
"""


class Runner:
    """A group of rank processes, and the passes they run. Use it in a `with`, or `close` it.

    `timeout_s` limits every collective. Mutable: `step`, the number of the newest pass;
    `replied_ns`, when the last reply to it was read; `signal`, how the monitor asks its ranks to
    leave.
    """

    def __init__(
        self, num_ranks: int, timeout_s: float = 20.0, policies: RunnerPolicies = RUNNER_POLICIES
    ) -> None:
        """Start the ranks and wait until they have met.

        Raises: ValueError for a number of ranks below 1; RanksFailed when one does not come up.
        """
        check_int("the number of ranks", num_ranks, 1)
        self.num_ranks = num_ranks
        self.timeout_s = timeout_s
        self.policies = policies
        self.step = 0
        self.replied_ns = 0
        self.signal = BY_STEP
        self._group = start_ranks(num_ranks)
        # Also for a runner that was not closed: a notebook cell that was run twice.
        self._before_close: list[Callable[[], None]] = []
        self._close = weakref.finalize(self, _end, self._group, self._before_close)
        try:
            self._expect_ready()
            with tempfile.TemporaryDirectory(prefix="nanogpt-ranks-") as folder:
                self._call_all("join", str(Path(folder) / "store"), timeout_s)
                self._expect_ready()
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
        policies: RankPolicies = RANK_POLICIES,
    ) -> None:
        """Give every rank its share of the model, and empty K/V for `num_slots` requests.

        The policies are sent by name, so they are functions of modules. Raises: ValueError for an
        unknown agreement and for heads that do not split.
        """
        if agreement not in AGREEMENTS:
            known = sorted(AGREEMENTS)
            raise ValueError(f"there is no agreement {agreement!r}; choose from {known}")
        check_num_ranks(self.num_ranks, model.config)
        self._check_open()
        self.signal = policies.signal
        try:
            for rank in self._group.ranks:
                shard = shard_model(model, rank.rank, self.num_ranks)
                self._call(rank, "load", shard, num_slots, agreement, policies)
            self._expect_ready()
        except BaseException:
            self.close()
            raise

    def new_step(self) -> int:
        """A number for the next pass. Numbers only grow, so a late target hits no other pass."""
        self.step += 1
        return self.step

    def run(
        self, step: int, rows: Sequence[PassRow], *, vote: bool = False, suspend: bool = False
    ) -> Outcome:
        """Run a pass to its end, or until all ranks leave it.

        With `vote`, ranks check at every attention op whether `shared.target` names the step.
        With `suspend`, a pass that is left is kept for `resume`.
        Raises: RanksFailed when a rank is lost; the group is ended then.
        """
        return self._pass("run", step, tuple(rows), vote, suspend)

    def resume(
        self, step: int, suspended_step: int, *, vote: bool = False, suspend: bool = False
    ) -> Outcome:
        """Resume a suspended pass, as pass `step`. Raises: as `run` does."""
        return self._pass("resume", step, suspended_step, vote, suspend)

    def drop(self, suspended_step: int) -> None:
        """Discard a suspended pass."""
        self._check_open()
        self._call_all("drop", suspended_step)

    def before_close(self, stop: Callable[[], None]) -> None:
        """Have `stop` called before the shared memory is released, to end another user of it."""
        self._before_close.append(stop)

    def not_before_close(self, stop: Callable[[], None]) -> None:
        """Forget a `stop` that was given to `before_close`."""
        self._before_close.remove(stop)

    def close(self) -> None:
        """End every rank and release the shared memory. A second time does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _pass(self, method: Method, step: int, *arguments: Any) -> Outcome:
        self._check_open()
        try:
            self._call_all(method, step, *arguments)
            next_reply = ReplyReader(self._group, self.timeout_s + _QUIET_S)
            replies = self.policies.read_replies(next_reply, self.num_ranks)
            self.replied_ns = time.perf_counter_ns()
            outcome = self.policies.judge(replies, step, self.shared.target)
            self.signal.after_pass(self.shared)
            return outcome
        except BaseException:
            self.close()
            raise

    def _call_all(self, method: Method, *arguments: Any) -> None:
        for rank in self._group.ranks:
            self._call(rank, method, *arguments)

    def _call(self, rank: RankProcess, method: Method, *arguments: Any) -> None:
        with suppress(OSError):  # it is gone; reading its reply will say so, and how
            rank_messages.send(rank.link, (method, arguments))

    def _expect_ready(self) -> None:
        next_reply = ReplyReader(self._group, _START_S)
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
    """Release everything, even if a part of it fails to close."""
    try:
        for stop in before:
            stop()
    finally:
        reap(group)
