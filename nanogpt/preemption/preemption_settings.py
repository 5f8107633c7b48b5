"""Whether and how an engine preempts passes: the monitor's gate, and the exchangeable pieces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nanogpt.preemption.agreement import AGREEMENTS, RANK_PARTS, RankParts
from nanogpt.preemption.cleanup import clean_up
from nanogpt.preemption.monitor import MONITOR_PARTS, Gate, MonitorParts
from nanogpt.preemption.scheduler_books import Books
from nanogpt.slo.slo_view import SloRequest

WAYS = ("abort", "suspend")
Batch = Callable[[SloRequest, Sequence[SloRequest]], Sequence[int]]
"""batch(chosen, others) -> ids of those who may start in the step that a pass was left for."""


def alone(chosen: SloRequest, others: Sequence[SloRequest]) -> list[int]:
    """The chosen waiter alone: its pass is to be short."""
    return [chosen.id]


@dataclass(frozen=True, slots=True)
class Preemption:
    """Without a `gate` there is no monitor, and ranks never vote.

    `way` is what becomes of a pass that was left: "abort" (computed again later) or "suspend".
    `agreement` is how ranks agree to leave: "vote", "carried" or "epoch".
    Raises: ValueError for another way or agreement.
    """

    gate: Gate | None = None
    way: str = "abort"
    agreement: str = "vote"
    batch: Batch = alone
    clean_up: Callable[[Books, Sequence[int], int | None], Books] = clean_up
    rank_parts: RankParts = RANK_PARTS
    monitor_parts: MonitorParts = MONITOR_PARTS

    def __post_init__(self) -> None:
        for what, choice, known in (
            ("way", self.way, WAYS),
            ("agreement", self.agreement, list(AGREEMENTS)),
        ):
            if choice not in known:
                raise ValueError(f"there is no {what} {choice!r}; choose from {sorted(known)}")


NO_PREEMPTION = Preemption()
"""No monitor, no vote."""
