"""Dispatch rounds, preemption, and dispatches by a policy's own `decide`.

A round walks the queue in order of rank and passes over a request that fits nowhere, so that those
behind it are served. With ageing, a request that was passed over for long has the emptiest worker
kept free, so that small requests cannot starve a large one.
"""

from collections.abc import Callable, Sequence
from itertools import islice

from nanogpt.fleet import decisions
from nanogpt.fleet.decisions import Key, queue_key
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.fleet_record import DecisionRecord, EventLog
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.simulated_worker import SimulatedWorker
from nanogpt.fleet.waiting import WaitingQueue, remaining_us
from nanogpt.views.fleet_views import FleetSnapshot, WaitingView

MOST_PASSED_OVER = 16
"""A round ends when this many requests did not fit."""
PATIENCE_US = 1_000_000
"""After waiting this long, a request that fits nowhere keeps a worker free; only with ageing."""
MOST_SHOWN = 64
"""A policy is shown this many of the waiting requests, the oldest ones."""

Workers = Sequence[SimulatedWorker]


class Dispatcher:
    """The waiting requests and the decisions about them. Mutable.

    One queue for the fleet, or one per worker with round-robin. `waiting` is in order of arrival,
    preempted requests behind. `started(worker)` is called after a dispatch to a worker or a
    preemption there, `enqueue(state)` for a preempted request.
    """

    def __init__(
        self,
        config: FleetConfig,
        policies: FleetPolicies,
        workers: Workers,
        log: EventLog,
        started: Callable[[SimulatedWorker], None],
        enqueue: Callable[[RequestState], None],
    ) -> None:
        self.waiting: dict[int, RequestState] = {}
        self.is_queued = policies.decide is None
        one_each = config.routing == "round_robin" and self.is_queued
        self._has_pools = config.num_prefill_workers > 0
        self._groups: list[Workers] = [[each] for each in workers] if one_each else [workers]
        self.queues = [WaitingQueue(policies.pop_live) for _ in self._groups]
        self._workers = workers
        self._config = config
        self._policies = policies
        self._log = log
        self._started = started
        self._enqueue = enqueue

    @property
    def depth(self) -> int:
        """The number of requests that wait, those included that others are preempted for."""
        return len(self.waiting) + sum(each.claimant is not None for each in self._workers)

    def has_waiting(self, queue: int) -> bool:
        """Whether a request waits in this queue."""
        return len(self.queues[queue]) > 0 if self.is_queued else bool(self.waiting)

    # ------------------------------------------------------------------ in and out of the queue

    def put_in(self, state: RequestState) -> None:
        """Put a request into its queue."""
        state.place = "waiting"
        state.stay += 1
        request = state.request
        state.view = WaitingView(
            id=state.id,
            priority=request.priority,
            arrival_us=request.arrival_us,
            deadline_us=request.deadline_us,
            known_tokens=state.known_tokens,
            left_tokens=state.left_tokens,
            remaining_us=remaining_us(self._config, state),
        )
        self.waiting[state.id] = state
        self.rank_again(state)

    def rank_again(self, state: RequestState) -> None:
        """Rank a waiting request by its current priority."""
        if self.is_queued:
            self.queues[state.queue].push(state.id, self._key(state))

    def _key(self, state: RequestState) -> Key:
        if self._config.order == "fifo":
            return (state.view.arrival_us,)
        return queue_key(state.view, state.priority, self._config.ageing_us)

    def _dispatch(self, state: RequestState, worker: SimulatedWorker, now_us: int) -> None:
        self.waiting.pop(state.id, None)
        if self._config.urgency == "savable":
            state.priority = state.request.priority
        worker.admit(state, now_us)
        self._log.decisions.append(DecisionRecord(now_us, "dispatch", state.id, worker.id))
        self._started(worker)

    # ------------------------------------------------------------------ rounds

    def run_round(self, queue: int, now_us: int) -> bool:
        """Dispatch what fits now; return whether a request was preempted for another.

        As in the source, a round preempts for one request at most.
        """
        if not self.is_queued:
            self._ask_policy(now_us)
            return False
        workers = self._groups[queue]
        passed_over: list[RequestState] = []
        full: set[bool] = set()  # in order of arrival: the pools that a request waits for
        kept_free: SimulatedWorker | None = None
        may_preempt = self._config.preemption_gap is not None
        has_preempted = False
        while len(passed_over) < MOST_PASSED_OVER and (
            may_preempt or any(each.is_open and each is not kept_free for each in workers)
        ):
            request_id = self.queues[queue].pop()
            if request_id is None:
                break
            state = self.waiting[request_id]
            is_sent = state.sent_tokens > 0
            worker = None if is_sent in full else self._route(state, workers, kept_free)
            if worker is not None:
                self._dispatch(state, worker, now_us)
                continue
            if may_preempt:  # only for the first request that fits nowhere
                may_preempt = False
                has_preempted = self._preempt_for(state, workers, now_us)
                if has_preempted:
                    continue
            passed_over.append(state)
            if self._config.order == "fifo":
                full.add(is_sent)
                if len(full) > self._has_pools:
                    break
            if kept_free is None and self._is_out_of_patience(state, now_us):
                kept_free = max(workers, key=lambda each: (each.kv_free_tokens, -each.id))
        for state in passed_over:
            self.rank_again(state)
        return has_preempted

    def _is_out_of_patience(self, state: RequestState, now_us: int) -> bool:
        waited_us = now_us - state.request.arrival_us
        return self._config.ageing_us is not None and waited_us > PATIENCE_US

    def _route(
        self, state: RequestState, workers: Workers, kept_free: SimulatedWorker | None
    ) -> SimulatedWorker | None:
        """The worker that gets the request; None when no worker has room."""
        routing = self._config.routing
        to_prefill = self._has_pools and state.known_tokens > 1 and not state.sent_tokens
        roomy = [
            each
            for each in workers
            if each.kv_free_tokens >= state.kv_needed and each.is_open and each is not kept_free
            if each.is_prefill == to_prefill
        ]
        if not roomy or routing == "round_robin":
            return roomy[0] if roomy else None
        if routing == "least_running":
            return min(roomy, key=lambda each: (each.num_running, each.id))
        hits = _hits(state, roomy)
        views = [worker.view() for worker in roomy]
        route = decisions.route_source if routing == "source" else self._policies.route
        return self._workers[route(views, hits)]

    # ------------------------------------------------------------------ preemption

    def _preempt_for(self, state: RequestState, workers: Workers, now_us: int) -> bool:
        """Preempt running requests for this one, at the next boundary of their worker.

        The victims are far enough below it, the lowest first, and as few as possible. Of several
        workers, choose the one that loses the fewest tokens. Return whether there is one.
        """
        for worker in workers:
            worker.settle(now_us)
        found = [(each, victims) for each in workers if (victims := self._victims(state, each))]
        if not found:
            return False
        worker, worker.preempted = min(
            found, key=lambda each: sum(victim.known_tokens for victim in each[1])
        )
        del self.waiting[state.id]
        state.place = "claimed"
        worker.claimant = state
        if worker.kind is None:
            self.hand_over(worker, now_us)
        else:
            self._started(worker)
        return True

    def _victims(self, state: RequestState, worker: SimulatedWorker) -> list[RequestState]:
        """The requests to preempt there; none if that is not enough or another claims them."""
        if worker.claimant is not None:
            return []
        slots = self._config.batch_size - worker.num_running
        free_tokens = worker.kv_free_tokens
        below = [
            each for each in (*worker.batch, *worker.prefilling) if self._is_far_above(state, each)
        ]
        below.sort(key=lambda each: (-self._rank(each), each.known_tokens, each.id))
        victims: list[RequestState] = []
        for victim in below:
            victims.append(victim)
            slots += 1
            free_tokens += victim.kv_needed
            if slots > 0 and free_tokens >= state.kv_needed:
                return victims
        return []

    def _rank(self, state: RequestState) -> int:
        """The priority; with ageing, the moment at which its age would make up for it."""
        ageing_us = self._config.ageing_us
        if ageing_us is None:
            return state.priority
        return state.request.arrival_us + ageing_us * state.priority

    def _is_far_above(self, candidate: RequestState, running: RequestState) -> bool:
        """Whether the gap between them is large enough, in levels or in the equivalent waiting."""
        assert self._config.preemption_gap is not None
        gap = self._config.preemption_gap * (self._config.ageing_us or 1)
        return self._rank(running) - self._rank(candidate) >= gap

    def hand_over(self, worker: SimulatedWorker, now_us: int) -> None:
        """At a boundary: preempt victims until the claimant fits, and dispatch it."""
        claimant, preempted = worker.claimant, worker.preempted
        if claimant is None:
            return
        worker.claimant, worker.preempted = None, []
        for victim in preempted:
            if worker.is_open and worker.kv_free_tokens >= claimant.kv_needed:
                break
            if victim.place == "decoding":
                self._log.visits.append(victim.visit(now_us, "preempted"))
                decision = DecisionRecord(now_us, "preempt", victim.id, worker.id)
                self._log.decisions.append(decision)
                worker.preempt(victim)
                self._enqueue(victim)
        self._dispatch(claimant, worker, now_us)

    # ------------------------------------------------------------------ a policy's own `decide`

    def _ask_policy(self, now_us: int) -> None:
        assert self._policies.decide is not None
        while self.waiting and any(each.is_open for each in self._workers):
            answer = self._policies.decide(self._snapshot(now_us))
            if answer is None:
                return
            request_id, worker_id = answer
            self._dispatch(self.waiting[request_id], self._workers[worker_id], now_us)

    def _snapshot(self, now_us: int) -> FleetSnapshot:
        shown = list(islice(self.waiting.values(), MOST_SHOWN))
        hits = {state.id: _hits(state, self._workers) for state in shown}
        return FleetSnapshot(
            now_us=now_us,
            waiting=tuple(state.view for state in shown),
            workers=tuple(each.view() for each in self._workers),
            hit_tokens={request_id: found for request_id, found in hits.items() if found},
        )


def _hits(state: RequestState, workers: Workers) -> dict[int, int]:
    """Hit tokens by worker id, without the workers that have none."""
    return {each.id: hit for each in workers if (hit := each.hit(state))}
