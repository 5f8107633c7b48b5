"""The SLO policy as the monitor's gate: what a snapshot's most urgent waiter may push out.

Also what it says about the pass after that: who may share it with the waiter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nanogpt.preemption.monitor import Gate, Snapshot, Target, now_us
from nanogpt.preemption.preemption_settings import Batch
from nanogpt.slo.policy import BATCH_BOUND_TOKENS, BATCH_GUARD, MARGIN, Mode, by_urgency, done_in
from nanogpt.slo.slo_parts import REFERENCE, SloParts
from nanogpt.slo.slo_view import SloRequest


def with_progress(runner: SloRequest, elapsed_us: int, a: float) -> SloRequest:
    """A runner whose pass has been computing for `elapsed_us`: that much less is left to do."""
    remaining = runner.total_tokens - runner.done_tokens
    return replace(runner, done_tokens=runner.done_tokens + done_in(elapsed_us, remaining, a))


def is_immune(runner: SloRequest) -> bool:
    """Rule 1: who has been preempted once is not preempted again."""
    return runner.num_preemptions > 0


@dataclass(frozen=True, slots=True)
class GateParts:
    """What the gate makes of a snapshot before the policy judges."""

    progress: Callable[[SloRequest, int, float], SloRequest] = with_progress
    immune: Callable[[SloRequest], bool] = is_immune


GATE_PARTS = GateParts()
"""The reference."""


def slo_gate(
    a: float,
    c: float,
    margin: float = MARGIN,
    mode: Mode = "conservative",
    policy: SloParts = REFERENCE,
    parts: GateParts = GATE_PARTS,
) -> Gate:
    """The gate for passes predicted to take a * tokens + c microseconds.

    A pass is preempted as a whole, so that one immune request in it protects them all.
    """

    def gate(snapshot: Snapshot) -> Target | None:
        now, elapsed_us = snapshot.now_us, snapshot.now_us - snapshot.started_us
        waiting = by_urgency(policy.view(waiter, now, a, c) for waiter in snapshot.waiting)
        if not waiting or any(map(parts.immune, snapshot.running)):
            return None
        runners = [
            policy.view(parts.progress(runner, elapsed_us, a), now, a, c)
            for runner in snapshot.running
        ]
        victim = policy.gate(waiting[0], runners, margin, mode)
        return None if victim is None else Target(snapshot.step, waiting[0].id)

    return gate


def slo_batching(a: float, c: float, policy: SloParts = REFERENCE) -> Batch:
    """Who may share the pass of the chosen waiter without endangering it."""

    def batch(chosen: SloRequest, others: Sequence[SloRequest]) -> list[int]:
        now = now_us()
        head = policy.view(chosen, now, a, c)
        waiters = by_urgency(policy.view(other, now, a, c) for other in others)
        return policy.slo_batch(head, waiters, a, c, BATCH_BOUND_TOKENS, BATCH_GUARD)

    return batch
