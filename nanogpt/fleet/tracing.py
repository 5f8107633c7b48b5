"""Collects what a trace needs while the fleet runs; with tracing off, it collects nothing."""

from collections.abc import Sequence

from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_record import (
    DecisionKind,
    DecisionRecord,
    FleetTrace,
    RequestRecord,
    RunKind,
    RunRecord,
    VisitEnd,
    VisitRecord,
)
from nanogpt.fleet.request_state import RequestState


class Tracer:
    """Visits, runs and decisions as they end or happen. Mutable."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._visits: list[VisitRecord] = []
        self._runs: list[RunRecord] = []
        self._decisions: list[DecisionRecord] = []

    def decision(
        self, at_us: int, kind: DecisionKind, request_id: int, worker: int | None = None
    ) -> None:
        """The scheduler decided something."""
        if self.enabled:
            self._decisions.append(DecisionRecord(at_us, kind, request_id, worker))

    def run(
        self,
        worker: int,
        span_us: tuple[int, int],
        kind: RunKind,
        num_steps: int,
        states: Sequence[RequestState],
        kv: tuple[int, int],
    ) -> None:
        """Passes of one worker are over; `kv` are (reserved, cached) tokens at their start."""
        if self.enabled and num_steps:
            ids = tuple(state.id for state in states)
            self._runs.append(RunRecord(worker, *span_us, kind, num_steps, ids, *kv))

    def visit(self, state: RequestState, end_us: int, ended: VisitEnd) -> None:
        """A request leaves its worker, or the run ends with it there."""
        if self.enabled:
            self._visits.append(visit_record(state, end_us, ended))

    def finish(
        self,
        config: FleetConfig,
        states: Sequence[RequestState],
        end_us: int,
        open_runs: Sequence[RunRecord],
        error: str | None = None,
    ) -> FleetTrace | None:
        """The trace of a run that ends here, or None with tracing off."""
        if not self.enabled:
            return None
        running = [
            visit_record(state, end_us, "running")
            for state in states
            if state.place in ("dispatched", "prefilling", "decoding")
        ]
        visits = sorted([*self._visits, *running], key=lambda v: (v.dispatched_us, v.request_id))
        runs = sorted([*self._runs, *open_runs], key=lambda run: (run.start_us, run.worker))
        return FleetTrace(
            name=config.name,
            cost=config.cost.name,
            modelled=config.cost.modelled,
            num_workers=config.num_workers,
            batch_size=config.batch_size,
            kv_tokens=config.kv_tokens,
            end_us=end_us,
            requests=tuple(_request_record(state) for state in states),
            visits=tuple(visits),
            runs=tuple(runs),
            decisions=tuple(self._decisions),
            error=error,
        )


def visit_record(state: RequestState, end_us: int, ended: VisitEnd) -> VisitRecord:
    """The visit that a request is on."""
    return VisitRecord(
        request_id=state.id,
        worker=state.worker,
        dispatched_us=state.dispatched_us,
        start_us=end_us if state.place == "dispatched" else state.start_us,
        end_us=end_us,
        hit_tokens=state.hit_tokens,
        computed_tokens=state.computed_tokens,
        generated_tokens=state.generated - state.generated_before,
        ended=ended,
    )


def _request_record(state: RequestState) -> RequestRecord:
    request, outcome = state.request, state.outcome()
    return RequestRecord(
        id=request.id,
        arrival_us=request.arrival_us,
        deadline_us=request.deadline_us,
        priority=request.priority,
        prompt_tokens=len(request.prompt),
        max_new_tokens=request.max_new_tokens,
        first_token_us=outcome.first_token_us,
        finished_us=outcome.finished_us,
        refused=outcome.refused,
    )
