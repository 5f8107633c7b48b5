"""What goes where: dispatch rounds, preemption, and a policy's own decisions.

A round walks the queue in order of rank. What fits nowhere is passed over, so that those behind
go on being served; with ageing, what has been passed over for long has the emptiest worker kept
free, so that the small cannot shut out the large for ever.
"""

from collections.abc import Sequence
from typing import Protocol

from nanogpt.fleet import decisions
from nanogpt.fleet.decisions import Key, queue_key
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_parts import FleetParts
from nanogpt.fleet.open_workers import OpenWorkers
from nanogpt.fleet.prefix_index import PrefixIndex
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.tracing import Tracer
from nanogpt.fleet.urgency import remaining_us
from nanogpt.fleet.views import FleetSnapshot, WaitingView
from nanogpt.fleet.waiting import make_queue
from nanogpt.fleet.worker import Worker

MOST_PASSED_OVER = 16
"""A round ends when so many in a row of rank did not fit."""
PATIENCE_US = 1_000_000
"""After so much waiting a request that fits nowhere keeps a worker free; only with ageing."""
MOST_SHOWN = 64
"""So many of the waiting, the oldest, are shown to a policy."""


class Clockwork(Protocol):
    """What the dispatcher asks of the simulation."""

    def started(self, worker: Worker) -> None:
        """A request was dispatched there."""
        ...

    def enqueue(self, state: RequestState) -> None:
        """A request waits, from now on."""
        ...


class Dispatcher:
    """The waiting requests and the decisions about them. Mutable.

    One queue for the fleet, or one per worker with round-robin. `waiting` is in order of arrival
    but for those that were preempted and came back.
    """

    def __init__(
        self,
        config: FleetConfig,
        parts: FleetParts,
        workers: Sequence[Worker],
        clockwork: Clockwork,
        tracer: Tracer,
    ) -> None:
        self.waiting: dict[int, RequestState] = {}
        self.is_queued = parts.decide is None
        alone = config.routing == "round_robin" and self.is_queued
        by_hits = not self.is_queued or config.routing in ("source", "backlog")
        index = PrefixIndex() if by_hits and config.prefix_cache == "radix" else None
        groups = [[worker] for worker in workers] if alone else [list(workers)]
        self._workers = [OpenWorkers(group, index) for group in groups]
        self.queues = [make_queue(parts.on_event) for _ in self._workers]
        self._config = config
        self._parts = parts
        self._clockwork = clockwork
        self._tracer = tracer

    @property
    def depth(self) -> int:
        """How many wait, those included whose place is being cleared."""
        claims = sum(each.claimant is not None for group in self._workers for each in group.all)
        return len(self.waiting) + claims

    def has_waiting(self, queue: int) -> bool:
        """Whether a request waits in this queue."""
        return len(self.queues[queue]) > 0 if self.is_queued else bool(self.waiting)

    # ------------------------------------------------------------------ in and out of the queue

    def put_in(self, state: RequestState, now_us: int) -> None:
        """A request begins to wait."""
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
        """Puts a waiting request where its priority belongs now."""
        if self.is_queued:
            self.queues[state.queue].push(state.id, self._key(state))

    def _key(self, state: RequestState) -> Key:
        assert state.view is not None
        if self._config.order == "fifo":
            return (state.view.arrival_us,)
        return queue_key(state.view, state.priority, self._config.ageing_us)

    def _dispatch(self, state: RequestState, worker: Worker, now_us: int) -> None:
        self.waiting.pop(state.id, None)
        if self._config.urgency == "savable":
            state.priority = state.request.priority
        worker.admit(state, now_us)
        self._tracer.decision(now_us, "dispatch", state.id, worker.id)
        self._clockwork.started(worker)

    # ------------------------------------------------------------------ rounds

    def run_round(self, queue: int, now_us: int) -> bool:
        """Dispatches what can go now; whether a request leaves, so that another round may help.

        One request at most has others leave in a round, as in the source.
        """
        if not self.is_queued:
            self._ask_policy(now_us)
            return False
        workers = self._workers[queue]
        workers.renew()
        passed_over: list[RequestState] = []
        kept_free: Worker | None = None
        too_large = self._config.kv_tokens + 1  # from so much on nothing fits, in this round
        may_preempt = self._config.preemption_gap is not None
        made_way = False
        while len(passed_over) < MOST_PASSED_OVER and (
            workers.any_besides(kept_free) or may_preempt
        ):
            request_id = self.queues[queue].pop()
            if request_id is None:
                break
            state = self.waiting[request_id]
            if state.kv_needed < too_large:
                worker = self._route(state, workers, kept_free)
                if worker is not None:
                    self._dispatch(state, worker, now_us)
                    workers.renew()
                    continue
                too_large = state.kv_needed
            # If the first that fits nowhere is not far enough above any, none behind it is.
            if may_preempt:
                may_preempt = False
                made_way = self._make_way(state, workers.all, now_us)
                if made_way:
                    workers.renew()
                    too_large = self._config.kv_tokens + 1
                    continue
            passed_over.append(state)
            if self._config.order == "fifo":
                break
            if kept_free is None and self._is_out_of_patience(state, now_us):
                kept_free = max(workers.all, key=lambda each: (each.kv_free_tokens, -each.id))
        for state in passed_over:
            self.rank_again(state)
        return made_way

    def _is_out_of_patience(self, state: RequestState, now_us: int) -> bool:
        waited_us = now_us - state.request.arrival_us
        return self._config.ageing_us is not None and waited_us > PATIENCE_US

    def _route(
        self, state: RequestState, workers: OpenWorkers, kept_free: Worker | None
    ) -> Worker | None:
        """Which of the open workers gets the request; None when it has room at none."""
        routing, route = self._config.routing, self._parts.route
        if routing == "backlog" and route is decisions.route and workers.know_hits:
            return workers.best(state, kept_free)
        roomy = workers.with_room(state.kv_needed, kept_free)
        if not roomy or routing == "round_robin":
            return roomy[0] if roomy else None
        if routing == "least_running":
            return min(roomy, key=lambda each: (each.num_running, each.id))
        hits = workers.hits(state, roomy)
        views = [worker.view() for worker in roomy]
        chosen = (decisions.route_source if routing == "source" else route)(views, hits)
        return next(worker for worker in roomy if worker.id == chosen)

    # ------------------------------------------------------------------ preemption

    def _make_way(self, state: RequestState, workers: Sequence[Worker], now_us: int) -> bool:
        """Has running requests leave for this one, at the next boundary of their worker.

        They are those far enough below it, the lowest first, as few as it takes; of several
        workers the one that loses the fewest tokens.
        """
        best: tuple[int, int, list[RequestState]] | None = None
        for worker in workers:
            worker.settle(now_us)
            victims = self._victims(state, worker)
            if victims:
                lost_tokens = sum(victim.known_tokens for victim in victims)
                if best is None or lost_tokens < best[0]:
                    best = (lost_tokens, worker.id, victims)
        if best is None:
            return False
        worker = next(each for each in workers if each.id == best[1])
        del self.waiting[state.id]
        state.place = "claimed"
        worker.claim(state, best[2])
        if worker.kind is None:
            self.hand_over(worker, now_us)
        else:
            self._clockwork.started(worker)
        return True

    def _victims(self, state: RequestState, worker: Worker) -> list[RequestState]:
        """What would have to leave; none when that is not enough, or another is coming."""
        if worker.claimant is not None:
            return []
        slots = self._config.batch_size - worker.num_running
        free_tokens = worker.kv_free_tokens
        below = [
            each for each in (*worker.batch, *worker.prefilling) if self._is_far_above(state, each)
        ]
        below.sort(key=lambda each: (*self._rank(each, -1), each.known_tokens, each.id))
        victims: list[RequestState] = []
        for victim in below:
            victims.append(victim)
            slots += 1
            free_tokens += victim.kv_needed
            if slots > 0 and free_tokens >= state.kv_needed:
                return victims
        return []

    def _rank(self, state: RequestState, sign: int) -> tuple[int, ...]:
        ageing_us = self._config.ageing_us
        if ageing_us is None:
            return (sign * state.priority,)
        return (sign * (state.request.arrival_us + ageing_us * state.priority),)

    def _is_far_above(self, waiter: RequestState, runner: RequestState) -> bool:
        """By the gap; with ageing, as much waiting as a level counts as a level here, too."""
        gap, ageing_us = self._config.preemption_gap, self._config.ageing_us
        assert gap is not None
        levels = runner.priority - waiter.priority
        if ageing_us is None:
            return levels >= gap
        younger_us = runner.request.arrival_us - waiter.request.arrival_us
        return younger_us + ageing_us * levels >= ageing_us * gap

    def hand_over(self, worker: Worker, now_us: int) -> None:
        """At a boundary: those that were to leave leave, as far as it still takes them."""
        claimant, leaving = worker.claimant, worker.leaving
        if claimant is None:
            return
        worker.claim(None, [])
        for victim in leaving:
            if worker.is_open and worker.kv_free_tokens >= claimant.kv_needed:
                break
            if victim.place == "decoding":
                self._evict(victim, worker, now_us)
        self._dispatch(claimant, worker, now_us)

    def _evict(self, state: RequestState, worker: Worker, now_us: int) -> None:
        """What it has generated stays; its K/V goes, or moves to the host."""
        self._tracer.visit(state, now_us, "preempted")
        self._tracer.decision(now_us, "preempt", state.id, worker.id)
        worker.preempt(state)
        self._clockwork.enqueue(state)

    # ------------------------------------------------------------------ a policy of one's own

    def _ask_policy(self, now_us: int) -> None:
        assert self._parts.decide is not None
        workers = self._workers[0].all
        while self.waiting and any(each.is_open for each in workers):
            answer = self._parts.decide(self._snapshot(now_us))
            if answer is None:
                return
            request_id, worker_id = answer
            self._dispatch(self.waiting[request_id], workers[worker_id], now_us)

    def _snapshot(self, now_us: int) -> FleetSnapshot:
        workers = self._workers[0]
        shown = [state for state, _ in zip(self.waiting.values(), range(MOST_SHOWN), strict=False)]
        hit_tokens: dict[int, dict[int, int]] = {}
        for state in shown:
            hits = workers.hits_seen(state)
            if hits:
                hit_tokens[state.id] = hits
        views: list[WaitingView] = []
        for state in shown:
            assert state.view is not None
            views.append(state.view)
        return FleetSnapshot(
            now_us, tuple(views), tuple(each.view() for each in workers.all), hit_tokens
        )
