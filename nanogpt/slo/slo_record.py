"""What a simulated run leaves behind: plain frozen data, enough to draw every moment of it.

All times are integer microseconds from the start of the run.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal

from nanogpt.slo.load import Arrival, PrefillCost
from nanogpt.slo.policy import Mode
from nanogpt.slo.slo_view import SloView

VERSION = 1

Order = Literal["fcfs", "s-edf"]
Batching = Literal["budget", "slo"]
Preemption = Literal["none", "abort", "suspend"]
Ending = Literal["finished", "aborted", "suspended"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the prefills: which of the parts are there.

    `sees_arrivals`: the monitor sees who arrives in mid-pass, not only who waited when it began.
    `counts_progress`: a runner's slack is that of its remaining work. `batching`: all that
    fit the token budget, or only what the head of the batch can bear. `preemption`: never, throw
    the pass away, or suspend it and go on with it later.
    """

    name: str
    title: str
    order: Order = "s-edf"
    sees_arrivals: bool = False
    counts_progress: bool = False
    batching: Batching = "budget"
    preemption: Preemption = "abort"
    mode: Mode = "conservative"
    rule_1: bool = True


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One stretch of one forward pass: a suspended pass leaves one record per stretch.

    `layers` are those done when it began and when it ended; `ids` are in the order of admission.
    """

    start_us: int
    end_us: int
    ids: tuple[int, ...]
    tokens: int
    layers: tuple[int, int]
    ending: Ending

    @property
    def duration_us(self) -> int:
        """How long it held the machine."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class Decision:
    """The monitor asked for a preemption: what it saw, and where the pass was left.

    `layer` of the pass is the one before which it was left at `left_us`, or the one that
    refused (`refused`: Rule 2). `others` ran in the same pass and were preempted along.
    """

    time_us: int
    left_us: int
    layer: int
    refused: bool
    waiter: SloView
    runners: tuple[SloView, ...]
    victim: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How one request fared. `first_token_us` is None for one that never got that far."""

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
        """The share of a tier that got its first token in time, 0 to 1; None if it is empty."""
        tier = [
            result.attained
            for arrival, result in zip(self.arrivals, self.results, strict=True)
            if arrival.urgent == urgent
        ]
        return sum(tier) / len(tier) if tier else None

    @property
    def num_preemptions(self) -> int:
        """How many passes were left before their end, as the monitor asked."""
        return sum(not decision.refused for decision in self.decisions)

    @property
    def wasted_share(self) -> float:
        """The share of the computing time that went into passes thrown away, 0 to 1."""
        busy_us = sum(each.duration_us for each in self.passes)
        aborted_us = sum(each.duration_us for each in self.passes if each.ending == "aborted")
        return aborted_us / busy_us if busy_us else 0.0

    def result(self, request_id: int) -> Result:
        """One request's result. Raises: KeyError for an id that is not in the load."""
        for result in self.results:
            if result.id == request_id:
                return result
        raise KeyError(request_id)

    def to_json(self) -> str:
        """The run as one line of JSON; the same run gives the same bytes."""
        return json.dumps({"version": VERSION, **dataclasses.asdict(self)}, allow_nan=False)
