"""The result of a simulated fleet's run: plain frozen data, enough to draw the run.

All times are integer microseconds of the virtual clock.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.metrics import Metrics
from nanogpt.fleet.workload import FleetRequest, Workload
from nanogpt.trace import plain

VERSION = 1

VisitEnd = Literal["finished", "preempted", "sent", "running"]
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
class VisitRecord:
    """A request's visit to one worker: dispatched, in the batch from `start_us`, gone at the end.

    `start_us` is `end_us` if the run was stopped before its prefill began. "sent": its K/V went to
    a decode worker.
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
    worker: int | None = None


@dataclass(slots=True)
class EventLog:
    """Visits and runs as they end, decisions as they happen. Mutable."""

    visits: list[VisitRecord] = field(default_factory=list[VisitRecord])
    runs: list[RunRecord] = field(default_factory=list[RunRecord])
    decisions: list[DecisionRecord] = field(default_factory=list[DecisionRecord])


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A whole run. `outcomes` are in the order of the load.

    `totals`: the metrics of the whole run; `samples`: those of the last 10 s, at the end of each
    virtual second; `visits` by time and request, `runs` and `decisions` by time; `stopped`: it
    ended before all requests were done.
    """

    config: FleetConfig
    workload: Workload
    outcomes: tuple[Outcome, ...]
    totals: Metrics
    samples: tuple[Metrics, ...]
    visits: tuple[VisitRecord, ...]
    runs: tuple[RunRecord, ...]
    decisions: tuple[DecisionRecord, ...]
    end_us: int
    stopped: bool

    def to_json(self) -> dict[str, Any]:
        """The run as a picture needs it: JSON values, with the schema's version."""
        config, requests = self.config, zip(self.workload.requests, self.outcomes, strict=True)
        return {
            "version": VERSION,
            "cost": {"name": config.cost.name, "modelled": True},
            "name": config.name,
            "num_workers": config.num_workers,
            "batch_size": config.batch_size,
            "kv_tokens": config.kv_tokens,
            "end_us": self.end_us,
            "requests": [_request(request, outcome) for request, outcome in requests],
            "visits": plain(self.visits),
            "runs": plain(self.runs),
            "decisions": plain(self.decisions),
            "error": None,
        }


def _request(request: FleetRequest, outcome: Outcome) -> dict[str, Any]:
    return {
        "id": request.id,
        "arrival_us": request.arrival_us,
        "deadline_us": request.deadline_us,
        "priority": request.priority,
        "prompt_tokens": len(request.prompt),
        "max_new_tokens": request.max_new_tokens,
        "first_token_us": outcome.first_token_us,
        "finished_us": outcome.finished_us,
        "refused": outcome.refused,
    }
