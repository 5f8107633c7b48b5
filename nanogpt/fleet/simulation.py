"""The fleet's event loop on a virtual clock: the same load and rules always give the same run.

An event is the end of a run of passes or of a transfer, an arrival, a look at a waiting request's
priority, a dispatch round, or the start of a run. Events of the same moment are handled in this
order.
"""

import heapq

from nanogpt.fleet.dispatching import Dispatcher
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_policies import REFERENCE, FleetPolicies, validated_fleet_policies
from nanogpt.fleet.fleet_record import DecisionRecord, EventLog, FleetRun
from nanogpt.fleet.metrics import Meter, Metrics, measure
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.simulated_worker import SimulatedWorker
from nanogpt.fleet.waiting import next_look_us, next_priority
from nanogpt.fleet.workload import Workload

SECOND_US = 1_000_000
_RUN_ENDS, _RECEIVED, _ARRIVES, _LOOK, _ROUND, _STARTS = range(6)


def simulate(
    config: FleetConfig,
    workload: Workload,
    policies: FleetPolicies = REFERENCE,
) -> FleetRun:
    """Run a load to its end.

    Raises: PolicyError for an illegal answer of a policy, and whatever a policy raises.
    """
    simulation = Simulation(config, workload, policies)
    simulation.advance()
    return simulation.result()


class Simulation:
    """A run that can be advanced in parts and inspected in between. Mutable."""

    def __init__(
        self,
        config: FleetConfig,
        workload: Workload,
        policies: FleetPolicies = REFERENCE,
    ) -> None:
        self.config = config
        self.workload = workload
        self.now_us = 0
        self.samples: list[Metrics] = []
        self.states = [RequestState(request) for request in workload.requests]
        self.meter = Meter()
        self.num_arrived = 0
        self.num_done = 0
        self._by_id = {state.id: state for state in self.states}
        self._policies = validated_fleet_policies(policies)
        self._log = EventLog()
        self._events: list[tuple[int, int, int, int]] = []  # (at, kind, whose, version)
        self.workers = [
            SimulatedWorker(number, config, workload.seed, self.meter, self._log)
            for number in range(config.num_workers)
        ]
        self.dispatcher = Dispatcher(
            config, self._policies, self.workers, self._log, self._started, self._enqueue
        )
        num_queues = len(self.dispatcher.queues)
        self._link_free_us: dict[int, int] = {}  # by sender
        self._last_round_us: list[int | None] = [None] * num_queues
        self._round_is_due = [False] * num_queues
        self._await_arrival()

    @property
    def finished(self) -> bool:
        """Whether all requests are done, or nothing can happen any more."""
        return self.num_done == len(self.states) or not self._events

    def advance(self, until_us: int | None = None) -> None:
        """Handle all events up to and including the moment `until_us`; None: all events."""
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

    def result(self) -> FleetRun:
        """The run so far, with the visits and runs of passes that have not ended."""
        for worker in self.workers:
            worker.settle(self.now_us)
        self.meter.pass_deadlines(self.now_us)
        if self.finished:  # a request that still waits will never finish
            for state in self.states[: self.num_arrived]:
                if state.place != "done":
                    self.meter.settle(state.id, violated=True)
        runs = [run for worker in self.workers if (run := worker.run_record(self.now_us))]
        visits = [
            state.visit(self.now_us, "running")
            for state in self.states
            if state.place in ("dispatched", "prefilling", "decoding")
        ]
        runs = sorted(self._log.runs + runs, key=lambda r: (r.start_us, r.worker))
        visits = sorted(self._log.visits + visits, key=lambda v: (v.dispatched_us, v.request_id))
        return FleetRun(
            config=self.config,
            workload=self.workload,
            outcomes=tuple(state.outcome() for state in self.states),
            totals=self._measure(),
            samples=tuple(self.samples),
            visits=tuple(visits),
            runs=tuple(runs),
            decisions=tuple(self._log.decisions),
            end_us=self.now_us,
            stopped=self.num_done < len(self.states),
        )

    # ------------------------------------------------------------------ what the dispatcher calls

    def _started(self, worker: SimulatedWorker) -> None:
        """Start a worker that has a newcomer, or end its run at the next boundary."""
        if worker.kind is None:
            self._push(self.now_us, _STARTS, worker.id)
        elif worker.cut_short(self.now_us):
            self._push(worker.end_us, _RUN_ENDS, worker.id, worker.version)

    def _enqueue(self, state: RequestState) -> None:
        self.dispatcher.put_in(state)
        if self.dispatcher.is_queued and self.config.urgency != "off":
            self._push(self.now_us, _LOOK, state.id, state.stay)
        self._ask_for_round(state.queue)

    # ------------------------------------------------------------------ events

    def _push(self, at_us: int, kind: int, whose: int, version: int = 0) -> None:
        heapq.heappush(self._events, (at_us, kind, whose, version))

    def _next_event(self) -> None:
        self.now_us, kind, whose, version = heapq.heappop(self._events)
        if kind == _RUN_ENDS:
            if version == self.workers[whose].version:
                self._end_run(self.workers[whose])
        elif kind == _RECEIVED:
            self._receive(self._by_id[whose])
        elif kind == _ARRIVES:
            self._arrive(self.states[whose])
        elif kind == _LOOK:
            self._look(self._by_id[whose], version)
        elif kind == _ROUND:
            self._round_is_due[whose] = False
            self._last_round_us[whose] = self.now_us
            if self.dispatcher.run_round(whose, self.now_us):
                self._ask_for_round(whose)
        elif self.workers[whose].kind is None and self.workers[whose].start(self.now_us):
            self._push(self.workers[whose].end_us, _RUN_ENDS, whose, self.workers[whose].version)

    def _await_arrival(self) -> None:
        """Schedule the next arrival."""
        if self.num_arrived < len(self.states):
            arrival_us = self.states[self.num_arrived].request.arrival_us
            self._push(arrival_us, _ARRIVES, self.num_arrived)

    def _arrive(self, state: RequestState) -> None:
        self.num_arrived += 1
        self._await_arrival()
        self.meter.arrive(state.id, state.request.deadline_us)
        state.queue = (self.num_arrived - 1) % len(self.dispatcher.queues)
        if state.kv_needed <= self.config.kv_tokens:
            self._enqueue(state)
            return
        state.place = "done"
        self.num_done += 1
        self.meter.now.refused += 1
        self.meter.settle(state.id, violated=True)
        self._log.decisions.append(DecisionRecord(self.now_us, "refuse", state.id))

    def _end_run(self, worker: SimulatedWorker) -> None:
        for state in worker.end_run(self.now_us):
            self._log.visits.append(state.visit(self.now_us, "finished"))
            state.finished_us = self.now_us
            state.place, state.drafts = "done", None
            self.num_done += 1
            self.meter.now.completed += 1
            self.meter.settle(state.id, violated=self.now_us > state.request.deadline_us)
        link_free_us = max(self.now_us, self._link_free_us.get(worker.id, 0))
        for state in worker.to_send:  # one after the other
            state.sent_tokens = state.known_tokens - 1
            link_free_us += round(self.config.link_us_per_token * state.sent_tokens)
            self._push(link_free_us, _RECEIVED, state.id)
        self._link_free_us[worker.id], worker.to_send = link_free_us, []
        self.dispatcher.hand_over(worker, self.now_us)
        self._ask_for_round(worker.id % len(self.dispatcher.queues))
        self._push(self.now_us, _STARTS, worker.id)

    def _receive(self, state: RequestState) -> None:
        """End a transfer: the sender frees its K/V, and the request waits for a decode worker."""
        worker = self.workers[state.worker]
        self._log.visits.append(state.visit(self.now_us, "sent"))
        worker.release(state)
        self._enqueue(state)
        if worker.kind is None:
            self._push(self.now_us, _STARTS, worker.id)

    def _look(self, state: RequestState, stay: int) -> None:
        """Look at a waiting request's priority again, unless it has left in the meantime."""
        if state.place != "waiting" or state.stay != stay:
            return
        priority = next_priority(self.config, state, self.now_us)
        if priority != state.priority:
            if priority < state.priority:
                self._log.decisions.append(DecisionRecord(self.now_us, "bump", state.id))
            state.priority = priority
            self.dispatcher.rank_again(state)
            self._ask_for_round(state.queue)
        next_us = next_look_us(self.config, state, self.now_us)
        if next_us is not None:
            self._push(next_us, _LOOK, state.id, stay)

    def _ask_for_round(self, queue: int) -> None:
        """Schedule a dispatch round for the first moment at which one is allowed."""
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

    def _measure(self) -> Metrics:
        total = self.meter.total()
        return measure(total, self.now_us / SECOND_US, self.dispatcher.depth, self._num_busy())

    def _num_busy(self) -> int:
        return sum(worker.kind is not None for worker in self.workers)
