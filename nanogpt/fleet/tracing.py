"""Collects a trace while the fleet runs."""

from collections.abc import Callable, Sequence

from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_record import (
    DecisionKind,
    DecisionRecord,
    FleetTrace,
    RunRecord,
    VisitEnd,
    VisitRecord,
)
from nanogpt.fleet.request_state import RequestState


class Tracer:
    """Visits, runs and decisions as they end or happen; nothing unless enabled. Mutable."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._visits: list[VisitRecord] = []
        self._runs: list[RunRecord] = []
        self._decisions: list[DecisionRecord] = []

    def decision(
        self, at_us: int, kind: DecisionKind, request_id: int, worker: int | None = None
    ) -> None:
        """Add a decision of the scheduler."""
        if self._enabled:
            self._decisions.append(DecisionRecord(at_us, kind, request_id, worker))

    def run(self, run_record: Callable[[int], RunRecord | None], end_us: int) -> None:
        """Add a worker's run that ends here, unless it has no pass."""
        if self._enabled and (record := run_record(end_us)) is not None:
            self._runs.append(record)

    def visit(self, state: RequestState, end_us: int, ended: VisitEnd) -> None:
        """Add a request's visit that ends here."""
        if self._enabled:
            self._visits.append(state.visit(end_us, ended))

    def finish(
        self,
        config: FleetConfig,
        states: Sequence[RequestState],
        end_us: int,
        open_runs: Sequence[RunRecord],
    ) -> FleetTrace | None:
        """The trace of a run that ends here, or None with tracing off."""
        if not self._enabled:
            return None
        running = [
            state.visit(end_us, "running")
            for state in states
            if state.place in ("dispatched", "prefilling", "decoding")
        ]
        visits = sorted([*self._visits, *running], key=lambda v: (v.dispatched_us, v.request_id))
        runs = sorted([*self._runs, *open_runs], key=lambda run: (run.start_us, run.worker))
        return FleetTrace(
            name=config.name,
            cost=config.cost.name,
            num_workers=config.num_workers,
            batch_size=config.batch_size,
            kv_tokens=config.kv_tokens,
            end_us=end_us,
            requests=tuple(state.record() for state in states),
            visits=tuple(visits),
            runs=tuple(runs),
            decisions=tuple(self._decisions),
        )
