"""An engine whose passes can be preempted: the monitor asks, the ranks leave, the engine undoes.

    arrive() ──> inbox ──────────────┐
                                     v
    step: schedule ──> snapshot ──> monitor ──> target ──> ranks vote, leave, reply
              ^                                                      │
              └── the chosen waiter goes next <── undo, or let sleep ┘

The loop is the engine's own. What is added: requests come in through an inbox, with the time that
they were promised; the executor tells of every pass; an aborted pass is undone and recorded as a
step without work; a suspended one sleeps inside its step, while the waiter's steps run.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.model import GPT
from nanogpt.outputs import Row
from nanogpt.planning import Candidates
from nanogpt.policies import Policies
from nanogpt.policy_views import RequestView, TimedKey
from nanogpt.preemption.cleanup import admission_problem, has_room, resume_or_abort
from nanogpt.preemption.monitor import Arrival, Inbox, Monitor, Snapshot, now_us
from nanogpt.preemption.preemption_records import (
    PreemptionRecord,
    aborted_step,
    preemption_record,
)
from nanogpt.preemption.preemption_settings import NO_PREEMPTION, Preemption
from nanogpt.preemption.preemptive_scheduler import PreemptiveScheduler, slots_of_ranks
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.scheduler_state import SchedulerState
from nanogpt.preemption.slo_gate import NO_SLO_US, Promises, promise
from nanogpt.preemption.tensor_parallel import (
    PassMode,
    Preempted,
    TensorParallelExecutor,
    WayBack,
    tensor_parallel,
)
from nanogpt.request import Request, validate_request
from nanogpt.scheduler import Scheduler
from nanogpt.slo.slo_view import SloRequest
from nanogpt.trace import StepRecord


class PreemptiveEngine(Engine):
    """Serves requests on tensor-parallel ranks. Use it in a `with`, inside that of its runner.

    Mutable, beyond what an engine is: the inbox; `promises`; `previous_step`, the
    requests of the newest step; `admit_next`, the one to admit next; and the record of what
    happened: `preemptions`, `first_token_us`, `refused`.
    """

    def __init__(
        self,
        model: GPT,
        runner: Runner,
        preemption: Preemption = NO_PREEMPTION,
        config: EngineConfig = EngineConfig(),
        policies: Policies = Policies(),
    ) -> None:
        self.preemption = preemption
        self.runner = runner
        self.inbox = Inbox()
        self.promises = Promises()
        self.preemptions: list[PreemptionRecord] = []
        self.first_token_us: dict[int, int] = {}
        self.refused: dict[int, str] = {}
        self._refused_in: dict[int, int] = {}
        self.previous_step: frozenset[int] = frozenset()
        self.admit_next: int | None = None
        self.monitor: Monitor | None = None
        self._asleep: list[Request] = []
        self._begun_ns = 0
        self._kv_before = 0
        self._base_policy = config.policy
        super().__init__(
            model,
            replace(config, policy=TimedKey(self._rank)),
            policies,
            clock=WallClock(),
            cache=slots_of_ranks(model, config, policies),
            make_executor=tensor_parallel(runner, preemption.agreement, preemption.rank_policies),
        )
        assert isinstance(self.executor, TensorParallelExecutor)
        self.executor.watch = self
        if preemption.gate is not None:
            signal = preemption.rank_policies.signal
            self.monitor = Monitor(
                runner.shared, preemption.gate, self.inbox, signal, preemption.monitor_policies
            )

    def __enter__(self) -> Self:
        if self.monitor is not None:
            self.runner.before_close(self.monitor.stop)
            self.monitor.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.monitor is not None:
            self.monitor.stop()
            self.runner.not_before_close(self.monitor.stop)

    def arrive(self, request: Request, slo_us: int = NO_SLO_US) -> None:
        """Hand a request in, from any thread, with the time its first token is promised within.

        Raises: ValueError for one that the model could never serve. One that the scheduler will
        not have is noted in `refused`.
        """
        validate_request(request, self.model.config)
        self.inbox.add(Arrival(request, promise(request, slo_us), self.clock.now_us()))
        if self.monitor is not None:
            self.monitor.wake()

    def serve(self) -> None:
        """Run steps until no request is left, in the inbox or out of it. Raises: as `step` does."""
        while self.inbox.look() or not self.scheduler.is_done():
            self.step()

    def submit(self, request: Request) -> None:
        """Accept a request, promised nothing unless it came through `arrive`."""
        super().submit(request)
        self.promises.note(promise(request, NO_SLO_US))

    def abort(self, request_id: int) -> None:
        """Abort an unfinished request, one in the inbox too. Raises: as an engine's does."""
        self._take_arrivals()
        super().abort(request_id)
        self.previous_step -= {request_id}
        if self.admit_next == request_id:
            self.admit_next = None

    def step(self) -> StepRecord:
        """Take in who has arrived, then run one step, to its end or to its preemption.

        Raises: as an engine's step does, and RanksFailed when a rank is lost.
        """
        self._take_arrivals()
        start_us, previous_step = self.clock.now_us(), self.previous_step
        self._kv_before = self.cache.held_tokens()
        try:
            record = self._in_order(super().step())
        except Preempted as preempted:
            victims, waiter = self._abort(preempted)
            record = aborted_step(
                self.step_number, start_us, self.clock.now_us(), self.config.token_budget,
                self._kv_before, self.cache.held_tokens(), victims, preempted.layer, waiter,
            )  # fmt: skip
            self.steps.append(record)
            self.step_number += 1
        except BaseException:
            self.previous_step = previous_step  # a step that failed was never scheduled
            raise
        for work in record.work:
            if work.sampled is not None:
                self.first_token_us.setdefault(work.request_id, now_us())
        self._kv_before = record.kv_after  # for a step that slept meanwhile
        return record

    def _forget(self, step: StepRecord) -> None:
        """Forget the preemptions and refusals up to that step, too."""
        super()._forget(step)
        for request_id in (*step.finished, *step.aborted):
            self.promises.forget(request_id)
            self.first_token_us.pop(request_id, None)
        self.preemptions = [each for each in self.preemptions if each.step > step.step]
        for request_id in [i for i, number in self._refused_in.items() if number <= step.step]:
            del self._refused_in[request_id], self.refused[request_id]

    # What the executor tells of a pass

    def begin_pass(self, step: int, rows: Sequence[Row]) -> PassMode:
        """Scheduling has ended: keep the books, publish the snapshot, say whether ranks vote."""
        scheduled = {row.request_id for row in rows}
        newcomers = {i for i in scheduled if self.requests[i].status == "waiting"}
        problem = admission_problem(newcomers, self.previous_step)
        assert problem is None, problem
        self.previous_step = frozenset(scheduled)
        if self.admit_next in scheduled and not self._asleep:
            self.admit_next = None
        prefills = [row.request_id for row in rows if not row.is_decode]
        # A pass of decodes alone is short, and one that runs while another sleeps is urgent.
        if self.monitor is None or self._asleep or not prefills:
            return "plain"
        waiting = [each.id for each in self.scheduler.waiting if each.id not in scheduled]
        self._begun_ns = time.perf_counter_ns()
        begun_us = self._begun_ns // 1000
        running = tuple(map(self._seen, prefills))
        self.monitor.publish(
            Snapshot(step, begun_us, begun_us, tuple(map(self._seen, waiting)), running)
        )
        return "suspend" if self.preemption.way == "suspend" else "abort"

    def end_pass(self) -> None:
        """Nothing can be preempted until the next pass begins."""
        if self.monitor is not None:
            self.monitor.publish(None)

    def while_suspended(self, preempted: Preempted) -> WayBack:
        """Run the waiter's steps inside the sleeping one, until it has its first token."""
        since_us, replied_ns = now_us(), self.runner.replied_ns
        layers_done = max(preempted.layer, 1)
        pass_us = (since_us - self._begun_ns // 1000) * self.model.config.num_layers // layers_done
        chosen = self._waiter(preempted)
        self._asleep = [self.requests[row.request_id] for row in preempted.rows]
        self.admit_next = chosen
        try:
            self._take_arrivals()
            way = "stay_suspended"
            while way == "stay_suspended":
                way = resume_or_abort(
                    now_us() - since_us,
                    pass_us,
                    urgent_waits=chosen in self.requests and chosen not in self.first_token_us,
                    memory_is_short=not self._has_room(chosen),
                )
                if way == "stay_suspended":
                    self.step()
        finally:
            self._asleep, self.admit_next = [], None
        if way == "resume":
            self._note(preempted, replied_ns, time.perf_counter_ns())
        return way

    # What differs from an engine that is never preempted

    def make_scheduler(self) -> Scheduler:
        """A scheduler that offers what a pass was left for."""
        kv = KVCacheManager(self.config, self.policies, self.cache)
        return PreemptiveScheduler(
            self._allowed, self.config, self.policies, self.model.config, kv, self.drafter
        )

    def _rank(self, view: RequestView, step: int) -> tuple[float, ...]:
        """The chosen waiter first, the others by the policy."""
        policy = self._base_policy
        if isinstance(policy, str):
            key = self.policies.sort_key(policy, view)
        elif isinstance(policy, TimedKey):
            key = policy.key(view, step)
        else:
            key = policy(view)
        return (float(view.id != self.admit_next), *key)

    def _allowed(self, candidates: Candidates) -> Candidates:
        """In a step that a pass was left for, only the chosen waiter and those it may bring."""
        chosen = self.admit_next
        ids = [request_id for request_id, _ in (*candidates.prefilling, *candidates.waiting)]
        if self._asleep:
            allowed = {chosen}
        elif chosen in ids:
            others = [self._seen(i) for i in ids if i != chosen]
            allowed = {*self.preemption.batch(self._seen(chosen), others)}
        else:
            return candidates
        return Candidates(
            decodes=() if self._asleep else candidates.decodes,
            prefilling=tuple(entry for entry in candidates.prefilling if entry[0] in allowed),
            waiting=tuple(entry for entry in candidates.waiting if entry[0] in allowed),
        )

    def _abort(self, preempted: Preempted) -> tuple[tuple[int, ...], int | None]:
        """Undo an aborted pass; return its victims and the request it was aborted for."""
        replied_ns, waiter = self.runner.replied_ns, self._waiter(preempted)
        victims = tuple(row.request_id for row in preempted.rows if not row.is_decode)
        self._take_arrivals()
        before = self._scheduler_state()
        after = self.preemption.rollback_step(before, victims, waiter)
        for request_id in before.running:
            if request_id not in after.running:
                requeue = self.scheduler.requeue(self.requests[request_id], "its pass was aborted")
                self.scheduler.preempt(requeue)
        for request_id in before.kv - after.kv:
            self.cache.free(request_id)
        self.previous_step, self.admit_next = after.previous_step, after.admit_next
        self._note(preempted, replied_ns, None)
        return victims, waiter

    def _scheduler_state(self) -> SchedulerState:
        scheduler = self.scheduler
        return SchedulerState(
            waiting=tuple(request.id for request in scheduler.waiting),
            running=tuple(request.id for request in scheduler.running()),
            kv=frozenset(self.cache.holders()),
            previous_step=self.previous_step,
            admit_next=self.admit_next,
        )

    def _has_room(self, chosen: int | None) -> bool:
        """Whether the chosen waiter can run beside the pass that sleeps."""
        request = None if chosen is None else self.requests.get(chosen)
        return request is None or has_room(self.scheduler, self.step_number, request, self._asleep)

    def _waiter(self, preempted: Preempted) -> int | None:
        """The request that the monitor wanted the pass gone for."""
        decision = self.monitor.decision if self.monitor else None
        if decision is None or decision.target.step != preempted.step:
            return None
        return decision.target.waiter

    def _seen(self, request_id: int) -> SloRequest:
        return self.promises.seen(self.requests[request_id])

    def _in_order(self, record: StepRecord) -> StepRecord:
        """A step that slept follows those that ran meanwhile, in the trace and in what it found."""
        self.steps.pop()
        self.steps.append(replace(record, kv_before=self._kv_before))
        return self.steps[-1]

    def _take_arrivals(self) -> None:
        for arrival in self.inbox.take():
            try:
                self.submit(arrival.request)
            except ValueError as refusal:
                self.refused[arrival.request.id] = str(refusal)
                self._refused_in[arrival.request.id] = self.step_number
            else:  # it has waited since it arrived, and not only since it was taken in
                self.promises.note(arrival.slo)
                self.refused.pop(arrival.request.id, None)
                self._refused_in.pop(arrival.request.id, None)
                taken_in = self.arrived[arrival.request.id]
                self.arrived[taken_in.id] = replace(taken_in, arrival_us=arrival.arrived_us)

    def _note(self, preempted: Preempted, replied_ns: int, resumed_ns: int | None) -> None:
        """Count and record a preemption."""
        decision = self.monitor.decision if self.monitor else None
        record = preemption_record(
            self.step_number, preempted, self.model.config.num_layers, decision,
            self._begun_ns, replied_ns, resumed_ns,
        )  # fmt: skip
        self.preemptions.append(record)
        self.promises.count_preemption(record.victims)
