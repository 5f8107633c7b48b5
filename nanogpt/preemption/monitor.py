"""The monitor: a thread that watches the waiting requests while the engine waits for a pass to end.

Its gate decides by the SLO policy of `nanogpt/slo/`. The engine publishes a frozen snapshot at the
end of scheduling, by one assignment, and never waits. Requests that arrive during a pass come
through an inbox, which the monitor reads too, since the engine takes them in only between passes.
To preempt a pass, the monitor writes its number into shared memory, once; the ranks do the rest.

Times are microseconds of the machine's monotonic clock.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from nanogpt.preemption.shared_state import SharedState
from nanogpt.request import Request
from nanogpt.slo.policy import MARGIN, by_urgency, done_in
from nanogpt.slo.slo_policies import REFERENCE, SloPolicies
from nanogpt.views.slo_view import SloRequest

POLL_S = 0.005
_STOP_S = 5.0


def now_us() -> int:
    """Microseconds of the monotonic clock."""
    return time.perf_counter_ns() // 1000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the scheduler had decided when pass `step` began, at `started_us`.

    The pass has the prefills of the `running` requests; the `waiting` ones could not start.
    `now_us` is when the snapshot is looked at.
    """

    step: int
    started_us: int
    now_us: int
    waiting: tuple[SloRequest, ...]
    running: tuple[SloRequest, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Preempt pass `step`, and start request `candidate` next."""

    step: int
    candidate: int


Gate = Callable[[Snapshot], Target | None]


@dataclass(frozen=True, slots=True)
class Decision:
    """A written target, and what the monitor saw; `written_ns` on the monotonic clock."""

    target: Target
    snapshot: Snapshot
    written_ns: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that has arrived, and its SLO."""

    request: Request
    slo: SloRequest


See = Callable[[Snapshot, Iterable[Arrival]], Snapshot]


def with_arrivals(snapshot: Snapshot, arrivals: Iterable[Arrival]) -> Snapshot:
    """The snapshot, with the requests that arrived after it among the waiting ones."""
    known = {request.id for request in (*snapshot.waiting, *snapshot.running)}
    new = [arrival.slo for arrival in arrivals if arrival.slo.id not in known]
    return replace(snapshot, waiting=(*snapshot.waiting, *new))


def write_step(shared: SharedState, step: int) -> None:
    """Ask for the preemption of pass `step`."""
    shared.target = step


class Monitor:
    """Looks every `poll_s` seconds, since slack shrinks with time, and at once when woken.

    `inbox` has the arrivals that the engine has not taken in yet, oldest first. `see` and `write`
    are exchangeable. Mutable: the snapshot, the last decision. An error of the gate ends the
    thread; `publish` raises it.
    """

    def __init__(
        self,
        shared: SharedState,
        gate: Gate,
        inbox: Sequence[Arrival],
        see: See = with_arrivals,
        write: Callable[[SharedState, int], None] = write_step,
        poll_s: float = POLL_S,
    ) -> None:
        self.shared = shared
        self.gate = gate
        self.inbox = inbox
        self.see = see
        self.write = write
        self.poll_s = poll_s
        self.decision: Decision | None = None
        self._snapshot: Snapshot | None = None
        self._error: BaseException | None = None
        self._woken = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._watch, name="slo-monitor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread.is_alive()

    def publish(self, snapshot: Snapshot | None) -> None:
        """Replace the snapshot to look at; None while no pass can be preempted.

        Raises: RuntimeError when the gate has failed, with its error as the cause, and when the
        thread was never started.
        """
        if self._error is not None:
            raise RuntimeError(f"the monitor has stopped: {self._error!r}") from self._error
        if snapshot is not None and not self.is_running:
            raise RuntimeError("the monitor is not running; use the engine in a `with`")
        self._snapshot = snapshot
        self._woken.set()

    def wake(self) -> None:
        """Look now: a request has arrived."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread and wait for it; the shared memory may be released afterwards.

        Raises: RuntimeError when the gate does not return.
        """
        self._stopping = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)
        if self._thread.is_alive():
            raise RuntimeError(f"the monitor's gate has not returned for {_STOP_S:g} s")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _watch(self) -> None:
        try:
            while not self._stopping:
                self._look()
                # Without a snapshot, the passing of time changes nothing.
                self._woken.wait(self.poll_s if self._snapshot is not None else None)
                self._woken.clear()
        except Exception as error:
            self._error = error

    def _look(self) -> None:
        snapshot = self._snapshot
        asked = self.decision.target.step if self.decision else None
        if snapshot is None or snapshot.step == asked:
            return
        seen = self.see(replace(snapshot, now_us=now_us()), tuple(self.inbox))
        target = self.gate(seen)
        if target is None:
            return
        # The decision first: once the target is written, the pass may be over at any moment.
        self.decision = Decision(target, seen, time.perf_counter_ns())
        self.write(self.shared, target.step)


# --- the gate by SLOs -----------------------------------------------------------------------------


def with_progress(runner: SloRequest, elapsed_us: int, a: float) -> SloRequest:
    """A running request after its pass has computed for `elapsed_us`: less is left to do."""
    remaining = runner.total_tokens - runner.done_tokens
    return replace(runner, done_tokens=runner.done_tokens + done_in(elapsed_us, remaining, a))


def is_immune(runner: SloRequest) -> bool:
    """Rule 1: a request is preempted at most once."""
    return runner.num_preemptions > 0


def slo_gate(
    a: float,
    c: float,
    *,
    policy: SloPolicies = REFERENCE,
    progress: Callable[[SloRequest, int, float], SloRequest] = with_progress,
    immune: Callable[[SloRequest], bool] = is_immune,
) -> Gate:
    """The gate for passes predicted to take a * tokens + c microseconds.

    A pass is preempted as a whole, so one immune request in it protects all of them. `progress`
    and `immune` are exchangeable.
    """

    def gate(snapshot: Snapshot) -> Target | None:
        now, elapsed_us = snapshot.now_us, snapshot.now_us - snapshot.started_us
        waiting = by_urgency(policy.view(request, now, a, c) for request in snapshot.waiting)
        if not waiting or any(map(immune, snapshot.running)):
            return None
        running = [
            policy.view(progress(runner, elapsed_us, a), now, a, c) for runner in snapshot.running
        ]
        victim = policy.select_victim(waiting[0], running, MARGIN)
        return None if victim is None else Target(snapshot.step, waiting[0].id)

    return gate
