"""SLOs for preemption: the deadline of each request, the monitor's gate, and who shares a pass."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from nanogpt.preemption.monitor import Gate, Snapshot, Target, now_us
from nanogpt.preemption.preemption_settings import Batch
from nanogpt.request import Request
from nanogpt.slo.policy import BATCH_BOUND_TOKENS, BATCH_GUARD, MARGIN, Mode, by_urgency, done_in
from nanogpt.slo.slo_policies import REFERENCE, SloPolicies
from nanogpt.slo.slo_view import SloRequest

NO_SLO_US = 10**12
"""Eleven days: the SLO of a request without one."""


def promise(request: Request, slo_us: int) -> SloRequest:
    """A request that arrives now, to get its first token within `slo_us` microseconds."""
    num_tokens = len(request.prompt_tokens)
    return SloRequest(request.id, num_tokens, 0, now_us() + slo_us, slo_us, num_preemptions=0)


class Promises:
    """The SLO and the number of preemptions of each request. Mutable."""

    def __init__(self) -> None:
        self._by_id: dict[int, SloRequest] = {}

    def note(self, slo: SloRequest) -> None:
        """Add a request that the engine has accepted."""
        self._by_id[slo.id] = slo

    def forget(self, request_id: int) -> None:
        """Remove a request that has left; its id may be used again."""
        self._by_id.pop(request_id, None)

    def seen(self, request: Request) -> SloRequest:
        """The request as the monitor may see it: scalars that do not change later."""
        return replace(
            self._by_id[request.id],
            total_tokens=request.num_tokens,
            done_tokens=request.num_computed_tokens,
        )

    def count_preemption(self, request_ids: Iterable[int]) -> None:
        """Count one more preemption of each of these requests."""
        for request_id in request_ids:
            slo = self._by_id[request_id]
            self._by_id[request_id] = replace(slo, num_preemptions=slo.num_preemptions + 1)


def with_progress(runner: SloRequest, elapsed_us: int, a: float) -> SloRequest:
    """A running request after its pass has computed for `elapsed_us`: less is left to do."""
    remaining = runner.total_tokens - runner.done_tokens
    return replace(runner, done_tokens=runner.done_tokens + done_in(elapsed_us, remaining, a))


def is_immune(runner: SloRequest) -> bool:
    """Rule 1: a request is preempted at most once."""
    return runner.num_preemptions > 0


@dataclass(frozen=True, slots=True)
class GatePolicies:
    """How the gate prepares a snapshot before the SLO policy decides."""

    progress: Callable[[SloRequest, int, float], SloRequest] = with_progress
    immune: Callable[[SloRequest], bool] = is_immune


GATE_POLICIES = GatePolicies()
"""The reference."""


def slo_gate(
    a: float,
    c: float,
    margin: float = MARGIN,
    mode: Mode = "conservative",
    policy: SloPolicies = REFERENCE,
    policies: GatePolicies = GATE_POLICIES,
) -> Gate:
    """The gate for passes predicted to take a * tokens + c microseconds.

    A pass is preempted as a whole, so one immune request in it protects all of them.
    """

    def gate(snapshot: Snapshot) -> Target | None:
        now, elapsed_us = snapshot.now_us, snapshot.now_us - snapshot.started_us
        waiting = by_urgency(policy.view(waiter, now, a, c) for waiter in snapshot.waiting)
        if not waiting or any(map(policies.immune, snapshot.running)):
            return None
        runners = [
            policy.view(policies.progress(runner, elapsed_us, a), now, a, c)
            for runner in snapshot.running
        ]
        victim = policy.select_victim(waiting[0], runners, margin, mode)
        return None if victim is None else Target(snapshot.step, waiting[0].id)

    return gate


def slo_batching(a: float, c: float, policy: SloPolicies = REFERENCE) -> Batch:
    """Which requests may share the chosen waiter's pass without endangering it."""

    def batch(chosen: SloRequest, others: Sequence[SloRequest]) -> list[int]:
        now = now_us()
        head = policy.view(chosen, now, a, c)
        waiters = by_urgency(policy.view(other, now, a, c) for other in others)
        return policy.slo_batch(head, waiters, a, c, BATCH_BOUND_TOKENS, BATCH_GUARD)

    return batch
