"""Variants, and the result of a simulated run: plain frozen data.

All times are integer microseconds from the start of the run.
"""

from dataclasses import dataclass
from typing import Literal

from nanogpt.slo.load import Arrival, PrefillCost
from nanogpt.views.slo_view import SloView

Order = Literal["fcfs", "s-edf"]
Batching = Literal["budget", "slo"]
Preemption = Literal["none", "abort", "suspend"]
Ending = Literal["finished", "aborted", "suspended"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the prefills.

    `sees_arrivals`: the monitor also sees requests that arrive during a pass. `counts_progress`:
    the slack of a running request is that of its remaining work. `batching`: all that fit the
    token budget, or only as many as the candidate can afford. `preemption`: never, abort the pass,
    or suspend it and resume it later.
    """

    name: str
    title: str
    order: Order = "s-edf"
    sees_arrivals: bool = False
    counts_progress: bool = False
    batching: Batching = "budget"
    preemption: Preemption = "abort"
    rule_1: bool = True


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A forward pass, or one stretch of a suspended one.

    `layers`: (done when it began, done when it ended); `ids` are in the order of admission.
    """

    start_us: int
    end_us: int
    ids: tuple[int, ...]
    tokens: int
    layers: tuple[int, int]
    ending: Ending

    @property
    def duration_us(self) -> int:
        """Its length."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class Decision:
    """A request for preemption: what the monitor saw, and where the pass was left.

    The pass was left at `left_us` before `layer`, or refused there (`refused`: Rule 2). `others`
    ran in the same pass and were preempted with the victim.
    """

    time_us: int
    left_us: int
    layer: int
    refused: bool
    candidate: SloView
    runners: tuple[SloView, ...]
    victim: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How one request fared. `first_token_us` is None if it got no token."""

    id: int
    first_token_us: int | None
    attained: bool
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run. `results` are in the order of `arrivals`, the rest in the order of time."""

    variant: Variant
    cost: PrefillCost
    arrivals: tuple[Arrival, ...]
    passes: tuple[PassRecord, ...]
    decisions: tuple[Decision, ...]
    results: tuple[Result, ...]

    def attainment(self, *, urgent: bool) -> float | None:
        """The share of a tier with its first token in time, 0 to 1; None of an empty tier."""
        tier = [
            result.attained
            for arrival, result in zip(self.arrivals, self.results, strict=True)
            if arrival.urgent == urgent
        ]
        return sum(tier) / len(tier) if tier else None

    @property
    def num_preemptions(self) -> int:
        """The number of passes that were preempted."""
        return sum(not decision.refused for decision in self.decisions)

    @property
    def wasted_share(self) -> float:
        """The share of the computing time in aborted passes, 0 to 1."""
        busy_us = sum(each.duration_us for each in self.passes)
        aborted_us = sum(each.duration_us for each in self.passes if each.ending == "aborted")
        return aborted_us / busy_us if busy_us else 0.0
