"""The monitor's gate by the SLO policy of `nanogpt/slo/`."""

from collections.abc import Callable
from dataclasses import replace

from nanogpt.preemption.monitor import Gate, Snapshot, Target
from nanogpt.slo.policy import MARGIN, Mode, by_urgency, done_in
from nanogpt.slo.slo_policies import REFERENCE, SloPolicies
from nanogpt.slo.slo_view import SloRequest


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
    margin: float = MARGIN,
    mode: Mode = "conservative",
    policy: SloPolicies = REFERENCE,
    *,
    progress: Callable[[SloRequest, int, float], SloRequest] = with_progress,
    immune: Callable[[SloRequest], bool] = is_immune,
) -> Gate:
    """The gate for passes predicted to take a * tokens + c microseconds.

    A pass is preempted as a whole, so one immune request in it protects all of them. `progress`
    and `immune` are exchangeable.
    """

    def gate(snapshot: Snapshot) -> Target | None:
        now, elapsed_us = snapshot.now_us, snapshot.now_us - snapshot.started_us
        waiting = by_urgency(policy.view(waiter, now, a, c) for waiter in snapshot.waiting)
        if not waiting or any(map(immune, snapshot.running)):
            return None
        running = [
            policy.view(progress(runner, elapsed_us, a), now, a, c) for runner in snapshot.running
        ]
        victim = policy.select_victim(waiting[0], running, margin, mode)
        return None if victim is None else Target(snapshot.step, waiting[0].id)

    return gate
