"""Whether and how an engine preempts passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nanogpt.preemption.agreement import AGREEMENTS, RANK_POLICIES, RankPolicies
from nanogpt.preemption.cleanup import rollback_step
from nanogpt.preemption.monitor import MONITOR_POLICIES, Gate, MonitorPolicies
from nanogpt.preemption.scheduler_state import SchedulerState
from nanogpt.slo.slo_view import SloRequest

WAYS = ("abort", "suspend")
Batch = Callable[[SloRequest, Sequence[SloRequest]], Sequence[int]]
"""batch(chosen, others) -> ids of the requests that may share the chosen waiter's step."""


def alone(chosen: SloRequest, others: Sequence[SloRequest]) -> list[int]:
    """Only the chosen waiter, which keeps its pass short."""
    return [chosen.id]


@dataclass(frozen=True, slots=True)
class Preemption:
    """Without a `gate` there is no monitor, and ranks never vote.

    A preempted pass is aborted (and computed again later) or suspended, by `way`: "abort" or
    "suspend". `agreement` is how ranks agree to leave: "vote", "carried" or "epoch".
    Raises: ValueError for another way or agreement.
    """

    gate: Gate | None = None
    way: str = "abort"
    agreement: str = "vote"
    batch: Batch = alone
    rollback_step: Callable[[SchedulerState, Sequence[int], int | None], SchedulerState] = (
        rollback_step
    )
    rank_policies: RankPolicies = RANK_POLICIES
    monitor_policies: MonitorPolicies = MONITOR_POLICIES

    def __post_init__(self) -> None:
        for what, choice, known in (
            ("way", self.way, WAYS),
            ("agreement", self.agreement, list(AGREEMENTS)),
        ):
            if choice not in known:
                raise ValueError(f"there is no {what} {choice!r}; choose from {sorted(known)}")


NO_PREEMPTION = Preemption()
"""No monitor, no vote."""
