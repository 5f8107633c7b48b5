"""The fleet event by event on a virtual clock: the same load and rules give the same run, always.

An event is the end of a run of passes, an arrival, a request becoming urgent, a dispatch round, or
the start of a run; at one moment they come in this order. Between events nothing is computed.
"""

import heapq
from collections.abc import Callable

from nanogpt.fleet.dispatching import Dispatcher
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_parts import REFERENCE, FleetParts, validated_fleet_parts
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.metrics import Meter, Metrics, Sample, measure
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.tracing import Tracer
from nanogpt.fleet.urgency import first_look_us, next_look_us, next_priority
from nanogpt.fleet.worker import Worker
from nanogpt.fleet.workload import Workload

SECOND_US = 1_000_000
_RUN_ENDS, _ARRIVES, _URGENT, _ROUND, _STARTS = range(5)

Progress = Callable[[int, int, int], None]
"""Called once per virtual second with (now_us, requests done, requests)."""


def simulate(
    config: FleetConfig,
    workload: Workload,
    parts: FleetParts = REFERENCE,
    *,
    trace: bool = False,
    until_us: int | None = None,
    on_progress: Progress | None = None,
) -> FleetRun:
    """Runs a load to its end, or to the moment `until_us`.

    Raises: PartError for an illegal answer of a part, and whatever a part raises.
    """
    simulation = Simulation(config, workload, parts, trace=trace, on_progress=on_progress)
    simulation.advance(until_us)
    return simulation.result()


class Simulation:
    """A run that can be taken further and looked at in between. Mutable."""

    def __init__(
        self,
        config: FleetConfig,
        workload: Workload,
        parts: FleetParts = REFERENCE,
        *,
        trace: bool = False,
        on_progress: Progress | None = None,
    ) -> None:
        self.config = config
        self.workload = workload
        self.now_us = 0
        self.samples: list[Sample] = []
        self.states = {request.id: RequestState(request) for request in workload.requests}
        self.meter = Meter()
        self.num_done = 0
        self._parts = validated_fleet_parts(parts)
        self._tracer = Tracer(enabled=trace)
        self._on_progress = on_progress
        self._arrivals = list(self.states.values())
        self._num_arrived = 0
        self._events: list[tuple[int, int, int, int]] = []  # (at, kind, whose, version)
        self.workers = [
            Worker(number, config, workload.seed, self.meter, self._tracer)
            for number in range(config.num_workers)
        ]
        self.dispatcher = Dispatcher(config, self._parts, self.workers, self, self._tracer)
        num_queues = len(self.dispatcher.queues)
        self._last_round_us: list[int | None] = [None] * num_queues
        self._round_is_due = [False] * num_queues
        self._await_arrival()

    @property
    def finished(self) -> bool:
        """Whether all are done, or nothing can happen any more."""
        return self.num_done == len(self._arrivals) or not self._events

    def advance(self, until_us: int | None = None) -> None:
        """Goes on to the moment `until_us`, that moment included; None: to the end."""
        while not self.finished:
            next_us = self._events[0][0]
            second_us = (len(self.samples) + 1) * SECOND_US
            if second_us < next_us and (until_us is None or second_us <= until_us):
                self._close_second(second_us)
            elif until_us is not None and next_us > until_us:
                self.now_us = max(self.now_us, until_us)
                return
            else:
                self._next_event()

    def sample(self) -> Sample:
        """The last full second's; before the first one, what there is."""
        if self.samples:
            return self.samples[-1]
        return Sample(self.now_us, self._measure(), self._num_arrived, self.num_done, 0)

    def result(self, error: str | None = None) -> FleetRun:
        """The run so far. `error` goes into its trace."""
        for worker in self.workers:
            worker.settle(self.now_us)
        self.meter.pass_deadlines(self.now_us)
        if self.finished:  # what still waits will wait for ever
            for state in self._arrivals[: self._num_arrived]:
                if state.place != "done":
                    self.meter.settle(state.id, violated=True)
        outcomes = tuple(state.outcome() for state in self._arrivals)
        open_runs = [run for worker in self.workers for run in worker.open_run(self.now_us)]
        return FleetRun(
            config=self.config,
            workload=self.workload,
            outcomes=outcomes,
            totals=self._measure(),
            samples=tuple(self.samples),
            trace=self._tracer.finish(self.config, self._arrivals, self.now_us, open_runs, error),
            end_us=self.now_us,
            stopped=self.num_done < len(self.states),
        )

    def check(self) -> None:
        """Asserts that no request and no KV token is in two places, or in none."""
        places: dict[int, str] = {}
        for worker in self.workers:
            worker.check()
            held = {"decoding": worker.batch, "prefilling": worker.prefilling}
            held["dispatched"] = worker.newcomers
            held["claimed"] = [] if worker.claimant is None else [worker.claimant]
            for place, states in held.items():
                for state in states:
                    assert state.place == place and state.id not in places
                    places[state.id] = place
        for request_id, state in self.dispatcher.waiting.items():
            assert state.place == "waiting" and request_id not in places
            places[request_id] = "waiting"
        if self.dispatcher.is_queued:
            assert sum(map(len, self.dispatcher.queues)) == len(self.dispatcher.waiting)
        done = [state for state in self._arrivals if state.place == "done"]
        assert len(done) == self.num_done
        assert len(done) + len(places) == self._num_arrived
        for state in done:
            refused = state.kv_needed > self.config.kv_tokens
            assert refused == (state.finished_us is None)
            assert state.generated == (0 if refused else state.request.max_new_tokens)
        total = self.meter.total()
        assert total.tokens == sum(state.generated for state in self._arrivals)
        assert total.completed + total.refused == self.num_done
        assert len(total.ttfts_us) == sum(s.first_token_us is not None for s in self._arrivals)
        assert total.gaps_us.total() == total.tokens - len(total.ttfts_us)

    # ------------------------------------------------------------------ what the dispatcher uses

    def started(self, worker: Worker) -> None:
        """A request was dispatched there: it starts, or ends its run at the next boundary."""
        if worker.kind is None:
            self._push(self.now_us, _STARTS, worker.id)
        elif worker.cut_short(self.now_us):
            self._push(worker.end_us, _RUN_ENDS, worker.id, worker.version)

    def enqueue(self, state: RequestState) -> None:
        """A request waits, from now on."""
        self.dispatcher.put_in(state, self.now_us)
        if self.dispatcher.is_queued:
            self._look_at(state, first_look_us(self.config, state, self.now_us))
        self._ask_for_round(state.queue)

    # ------------------------------------------------------------------ events

    def _push(self, at_us: int, kind: int, whose: int, version: int = 0) -> None:
        heapq.heappush(self._events, (at_us, kind, whose, version))

    def _next_event(self) -> None:
        self.now_us, kind, whose, version = heapq.heappop(self._events)
        if kind == _RUN_ENDS:
            if version == self.workers[whose].version:
                self._end_run(self.workers[whose])
        elif kind == _ARRIVES:
            self._arrive(self._arrivals[whose])
        elif kind == _URGENT:
            self._become_urgent(self.states[whose], version)
        elif kind == _ROUND:
            self._round_is_due[whose] = False
            self._last_round_us[whose] = self.now_us
            if self.dispatcher.run_round(whose, self.now_us):
                self._ask_for_round(whose)
        else:
            self._start(self.workers[whose])

    def _await_arrival(self) -> None:
        """The next arrival is an event; those after it have yet to become one."""
        if self._num_arrived < len(self._arrivals):
            number = self._num_arrived
            self._push(self._arrivals[number].request.arrival_us, _ARRIVES, number)

    def _arrive(self, state: RequestState) -> None:
        self._num_arrived += 1
        self._await_arrival()
        self.meter.arrive(state.id, state.request.deadline_us)
        if state.kv_needed > self.config.kv_tokens:
            state.place = "done"
            self.num_done += 1
            self.meter.now.refused += 1
            self.meter.settle(state.id, violated=True)
            self._tracer.decision(self.now_us, "refuse", state.id)
            return
        state.queue = (self._num_arrived - 1) % len(self.dispatcher.queues)
        self.enqueue(state)

    def _end_run(self, worker: Worker) -> None:
        for state in worker.end_run(self.now_us):
            self._tracer.visit(state, self.now_us, "finished")
            state.finished_us = self.now_us
            state.place, state.drafts = "done", None
            self.num_done += 1
            self.meter.now.completed += 1
            self.meter.settle(state.id, violated=self.now_us > state.request.deadline_us)
        self.dispatcher.hand_over(worker, self.now_us)
        self._ask_for_round(worker.id % len(self.dispatcher.queues))
        self._push(self.now_us, _STARTS, worker.id)

    def _start(self, worker: Worker) -> None:
        if worker.kind is None and worker.start(self.now_us):
            self._push(worker.end_us, _RUN_ENDS, worker.id, worker.version)

    def _become_urgent(self, state: RequestState, stay: int) -> None:
        """The moment for which a waiting request's priority was to be looked at again."""
        if state.place != "waiting" or state.stay != stay:
            return
        priority = next_priority(self.config, self._parts, state, self.now_us)
        if priority != state.priority:
            if priority < state.priority:
                self._tracer.decision(self.now_us, "bump", state.id)
            state.priority = priority
            self.dispatcher.rank_again(state)
            self._ask_for_round(state.queue)
        self._look_at(state, next_look_us(self.config, state, self.now_us))

    def _look_at(self, state: RequestState, at_us: int | None) -> None:
        if at_us is not None:
            self._push(at_us, _URGENT, state.id, state.stay)

    def _ask_for_round(self, queue: int) -> None:
        """Sees to it that there is a dispatch round as soon as there may be one."""
        if self._round_is_due[queue] or not self.dispatcher.has_waiting(queue):
            return
        self._round_is_due[queue] = True
        last_us = self._last_round_us[queue]
        at_us = self.now_us if last_us is None else last_us + self.config.dispatch_us
        self._push(max(self.now_us, at_us), _ROUND, queue)

    def _close_second(self, at_us: int) -> None:
        for worker in self.workers:
            worker.settle(at_us)
        depth, busy = self.dispatcher.depth, self._num_busy()
        self.samples.append(self.meter.close_second(at_us, depth, busy))
        if self._on_progress is not None:
            self._on_progress(at_us, self.num_done, len(self.states))

    def _measure(self) -> Metrics:
        total = self.meter.total()
        return measure(total, self.now_us / SECOND_US, self.dispatcher.depth, self._num_busy())

    def _num_busy(self) -> int:
        return sum(worker.kind is not None for worker in self.workers)
