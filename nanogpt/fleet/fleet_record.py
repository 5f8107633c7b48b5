"""The result of a simulated fleet's run: plain frozen data. The trace is enough to draw the run.

All times are integer microseconds of the virtual clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.metrics import Metrics, Sample
from nanogpt.fleet.workload import Workload
from nanogpt.trace import plain

VERSION = 1

VisitEnd = Literal["finished", "preempted", "running"]
RunKind = Literal["prefill", "decode"]
DecisionKind = Literal["dispatch", "preempt", "bump", "refuse"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request.

    `first_token_us` and `finished_us` are None if the request did not get that far. `hit_tokens`
    were found in a prefix cache and `computed_prefill_tokens` were not, both over all visits.
    `max_gap_us` is the longest time between two tokens; `attained`: finished by its deadline.
    """

    id: int
    first_token_us: int | None
    finished_us: int | None
    generated: int
    preemptions: int
    hit_tokens: int
    computed_prefill_tokens: int
    max_gap_us: int
    refused: bool
    attained: bool


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request in the trace."""

    id: int
    arrival_us: int
    deadline_us: int
    priority: int
    prompt_tokens: int
    max_new_tokens: int
    first_token_us: int | None
    finished_us: int | None
    refused: bool


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """A request's visit to one worker: dispatched, in the batch from `start_us`, gone at the end.

    `start_us` is `end_us` if the trace ended before its prefill began.
    """

    request_id: int
    worker: int
    dispatched_us: int
    start_us: int
    end_us: int
    hit_tokens: int
    computed_tokens: int
    generated_tokens: int
    ended: VisitEnd


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Passes of one worker with the same batch, one after the other without a pause.

    `reserved_tokens` and `cached_tokens`: the worker's KV tokens when the first pass began.
    """

    worker: int
    start_us: int
    end_us: int
    kind: RunKind
    num_steps: int
    request_ids: tuple[int, ...]
    reserved_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision of the scheduler; `worker` is None for "bump" and "refuse"."""

    at_us: int
    kind: DecisionKind
    request_id: int
    worker: int | None


class Tracer:
    """Collects visits and runs as they end and decisions as they happen. Mutable."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.visits: list[VisitRecord] = []
        self.runs: list[RunRecord] = []
        self.decisions: list[DecisionRecord] = []

    def decision(
        self, at_us: int, kind: DecisionKind, request_id: int, worker: int | None = None
    ) -> None:
        """Add a decision of the scheduler."""
        if self.enabled:
            self.decisions.append(DecisionRecord(at_us, kind, request_id, worker))

    def run(self, run_record: Callable[[int], RunRecord | None], end_us: int) -> None:
        """Add a worker's run that ends here, unless it has no pass."""
        if self.enabled and (run := run_record(end_us)) is not None:
            self.runs.append(run)

    def visit(self, visit: VisitRecord) -> None:
        """Add a visit that has ended."""
        if self.enabled:
            self.visits.append(visit)


@dataclass(frozen=True, slots=True)
class FleetTrace:
    """Requests by arrival, visits by id and time, runs and decisions by time."""

    name: str
    cost: str
    num_workers: int
    batch_size: int
    kv_tokens: int
    end_us: int
    requests: tuple[RequestRecord, ...]
    visits: tuple[VisitRecord, ...]
    runs: tuple[RunRecord, ...]
    decisions: tuple[DecisionRecord, ...]
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, numbers, strings and None, with the schema's version."""
        fields = plain(self)
        cost = {"name": fields.pop("cost"), "modelled": True}
        return {"version": VERSION, "cost": cost, **fields}


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A whole run. `outcomes` are in the order of the load; `trace` is None unless asked for.

    `totals`: the metrics of the whole run; `samples`: those of the last 10 s, once per virtual
    second; `stopped`: it ended before all requests were done.
    """

    config: FleetConfig
    workload: Workload
    outcomes: tuple[Outcome, ...]
    totals: Metrics
    samples: tuple[Sample, ...]
    trace: FleetTrace | None
    end_us: int
    stopped: bool
