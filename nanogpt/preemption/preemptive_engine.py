"""An engine whose passes can be preempted: the monitor asks, the ranks leave, the engine undoes.

    arrive() ──> inbox ──────────────┐
                                     v
    step: schedule ──> snapshot ──> monitor ──> target ──> ranks vote, leave, reply
              ^                                                      │
              └── the candidate goes next <── roll back, or suspend and resume

The loop is the engine's own. What is added: requests come in through an inbox, with the time that
they were promised; the executor's pass may be left; an aborted step is rolled back and recorded as
a step without work; a suspended pass waits inside its step while the candidate's steps run.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from msgspec import structs

from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.model import GPT
from nanogpt.outputs import NotFiniteError, Row
from nanogpt.policies import Policies
from nanogpt.preemption.agreement import RANK_POLICIES, RankPolicies
from nanogpt.preemption.cleanup import resume_or_abort, rollback_step
from nanogpt.preemption.monitor import (
    Arrival,
    Gate,
    Monitor,
    See,
    Snapshot,
    now_us,
    with_arrivals,
)
from nanogpt.preemption.preemption_records import Preempted, PreemptionRecord, aborted_step
from nanogpt.preemption.preemptive_scheduler import PreemptiveScheduler, RollbackStep
from nanogpt.preemption.rank_messages import Abandoned, Complete
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.sharded_model import PassRow
from nanogpt.preemption.tensor_parallel import (
    TensorParallelExecutor,
    slots_of_ranks,
    tensor_parallel,
)
from nanogpt.request import Request, validate_request
from nanogpt.trace import StepRecord
from nanogpt.validate import check_int
from nanogpt.views.slo_view import SloRequest

NO_SLO_US = 10**12
"""Eleven days: the SLO of a request without one."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Without a `gate` there is no monitor, and ranks never vote.

    A preempted pass is aborted and computed again later, or suspended if `suspend`. `agreement` is
    how ranks agree to leave: "vote", "carried" or "epoch". The other fields are exchangeable
    functions.
    """

    gate: Gate | None = None
    suspend: bool = False
    agreement: str = "vote"
    rollback_step: RollbackStep = rollback_step
    rank_policies: RankPolicies = RANK_POLICIES
    see: See = with_arrivals


class PreemptiveEngine(Engine):
    """Serves requests on tensor-parallel ranks. Use it in a `with`, inside that of its runner.

    Mutable, beyond what an engine is: the inbox; `slos`, by request; and the record of what
    happened: `preemptions`, `refused`.
    """

    scheduler: PreemptiveScheduler

    def __init__(
        self,
        model: GPT,
        runner: Runner,
        preemption: Preemption = Preemption(),
        config: EngineConfig = EngineConfig(),
        policies: Policies = Policies(),
    ) -> None:
        super().__init__(
            model,
            config,
            policies,
            clock=WallClock(),
            cache=slots_of_ranks(model, config, policies),
            make_executor=tensor_parallel(runner, preemption.agreement, preemption.rank_policies),
        )
        assert isinstance(self.executor, TensorParallelExecutor)
        self.executor.run_pass = self.run_pass
        self.preemption = preemption
        self.runner = runner
        self.inbox: list[Arrival] = []  # any thread appends, only this engine removes
        self.slos: dict[int, SloRequest] = {}
        self.preemptions: list[PreemptionRecord] = []
        self.refused: dict[int, str] = {}
        self._refused_in: dict[int, int] = {}
        self._kv_before = 0
        gate = preemption.gate
        self.monitor = gate and Monitor(runner.shared, gate, self.inbox, preemption.see)

    def make_scheduler(self) -> PreemptiveScheduler:
        """Build the scheduler."""
        kv = KVCacheManager(self.config, self.policies, self.cache)
        return PreemptiveScheduler(self.config, self.policies, self.model.config, kv, self.drafter)

    def __enter__(self) -> Self:
        if self.monitor is not None:
            self.runner.before_close.append(self.monitor.stop)
            self.monitor.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.monitor is not None:
            self.monitor.stop()
            self.runner.before_close.remove(self.monitor.stop)

    # --- requests ---------------------------------------------------------------------------------

    def arrive(self, request: Request, slo_us: int = NO_SLO_US) -> None:
        """Hand a request in, from any thread, with the time its first token is promised within.

        Raises: ValueError for one that the model could never serve, and for a time that is no whole
        number of at least 0. One that the scheduler refuses is noted in `refused`.
        """
        validate_request(request, self.model.config)
        check_int(f"request {request.id}: slo_us", slo_us, 0)
        self.inbox.append(Arrival(request, _promise(request, slo_us)))
        if self.monitor is not None:
            self.monitor.wake()

    def abort(self, request_id: int) -> None:
        """Abort an unfinished request, one in the inbox too. Raises: as an engine's does."""
        self._take_arrivals()
        super().abort(request_id)

    def _accept(self, request: Request) -> None:
        """Accept a request, promised nothing unless it came through `arrive`."""
        super()._accept(request)
        self.slos[request.id] = _promise(request, NO_SLO_US)

    def _take_arrivals(self) -> None:
        while self.inbox:
            arrival = self.inbox.pop(0)
            request_id, slo = arrival.request.id, arrival.slo
            try:
                self.submit(arrival.request)
            except ValueError as refusal:
                self.refused[request_id] = str(refusal)
                self._refused_in[request_id] = self.step_number
            else:  # it has waited since it arrived, and not only since it was taken in
                self.slos[request_id] = slo
                self.refused.pop(request_id, None)
                self._refused_in.pop(request_id, None)
                arrived_us, record = slo.deadline_us - slo.slo_us, self.arrived[request_id]
                self.arrived[request_id] = replace(record, arrival_us=arrived_us)

    # --- steps ------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Run steps until no request is left, in the inbox or out of it. Raises: as `step` does."""
        while self.inbox or not self.scheduler.is_done():
            self.step()

    def step(self) -> StepRecord:
        """Take in who has arrived, then run one step, to its end or to its preemption.

        Raises: as an engine's step does, and RanksFailed when a rank is lost.
        """
        self._take_arrivals()
        start_us, previous_step = self.clock.now_us(), self.scheduler.previous_step
        self._kv_before = self.cache.held_tokens()
        try:
            record = super().step()
        except Preempted as preempted:
            record = self._roll_back(preempted.record, start_us)
        except BaseException:
            self.scheduler.previous_step = previous_step  # a step that failed was never scheduled
            raise
        # A suspended step follows those that ran meanwhile, in the trace and in what it found.
        record = structs.replace(record, step=self.step_number - 1, kv_before=self._kv_before)
        self.steps[-1] = record
        self._kv_before = record.kv_after
        return record

    def run_pass(self, rows: Sequence[Row], pass_rows: Sequence[PassRow]) -> Complete:
        """Run one pass to its end; while it is suspended, the candidate's steps run inside.

        Raises: Preempted when the pass was aborted.
        """
        step, begun_ns = self.runner.new_step(), time.perf_counter_ns()
        vote = self.begin_pass(step, rows)
        try:
            outcome = self.runner.run(step, pass_rows, vote=vote)
        finally:
            if self.monitor is not None:
                self.monitor.publish(None)
        if isinstance(outcome, Abandoned):
            record = self._preemption_record(outcome, rows, begun_ns)
            if not (self.preemption.suspend and self._resumes(record, rows)):
                raise Preempted(record)
            self._note(replace(record, resumed_ns=time.perf_counter_ns()))
            outcome = self.runner.resume(step)
        assert isinstance(outcome, Complete), "a resumed pass is not left again"
        return outcome

    def begin_pass(self, step: int, rows: Sequence[Row]) -> bool:
        """Publish the snapshot, and return whether ranks vote in this pass."""
        prefills = [row.request_id for row in rows if not row.is_decode]
        # A pass of only decodes is short, and one that runs while another sleeps is urgent.
        if self.monitor is None or self.scheduler.suspended or not prefills:
            return False
        scheduled = {row.request_id for row in rows}
        waiting = [each.id for each in self.scheduler.waiting if each.id not in scheduled]
        waiting, running = (tuple(map(self._slo_request, ids)) for ids in (waiting, prefills))
        self.monitor.publish(Snapshot(step, now_us(), now_us(), waiting, running))
        return True

    def _resumes(self, record: PreemptionRecord, rows: Sequence[Row]) -> bool:
        """Run the candidate's steps, until it has its first token; then, whether the pass goes on.

        Once a step has run, the pass goes on: an abort would take back that step too. A later step
        that fails, or one whose logits are not finite, is tried again after the pass.
        """
        since_us, candidate, num_steps = now_us(), record.candidate, 0
        pass_us = (since_us - record.begun_ns // 1000) * record.num_layers // max(record.layer, 1)
        self.scheduler.suspended = [self.requests[row.request_id] for row in rows]
        self.scheduler.admit_next = candidate
        try:
            self._take_arrivals()
            while True:
                way = resume_or_abort(
                    now_us() - since_us,
                    pass_us,
                    urgent_waits=self._awaits_token(candidate),
                    memory_is_short=not self.scheduler.has_room(),
                )
                if way != "stay_suspended":
                    return way == "resume" or num_steps > 0
                self.step()
                num_steps += 1
        except Exception as error:
            if (num_steps or isinstance(error, NotFiniteError)) and self.runner.is_open:
                return True
            raise
        finally:
            self.scheduler.suspended, self.scheduler.admit_next = (), None

    def _awaits_token(self, request_id: int | None) -> bool:
        request = None if request_id is None else self.requests.get(request_id)
        return request is not None and not request.num_generated

    def _roll_back(self, record: PreemptionRecord, start_us: int) -> StepRecord:
        """Undo an aborted pass, and record a step without work."""
        self._take_arrivals()
        self.scheduler.roll_back(self.preemption.rollback_step, record.victims, record.candidate)
        self._note(record)
        aborted = aborted_step(
            self.preemptions[-1], start_us, self.clock.now_us(), self.config.token_budget,
            self._kv_before, self.cache.held_tokens(),
        )  # fmt: skip
        self.steps.append(aborted)
        self._end_step(aborted)
        return aborted

    # --- records ----------------------------------------------------------------------------------

    def _preemption_record(
        self, left: Abandoned, rows: Sequence[Row], begun_ns: int
    ) -> PreemptionRecord:
        decision = self.monitor and self.monitor.decision
        if decision is not None and decision.target.step != left.step:
            decision = None
        return PreemptionRecord(
            step=self.step_number,
            pass_number=left.step,
            layer=left.layer,
            num_layers=self.model.config.num_layers,
            candidate=decision and decision.target.candidate,
            victims=tuple(row.request_id for row in rows if not row.is_decode),
            begun_ns=begun_ns,
            written_ns=decision and decision.written_ns,
            replied_ns=self.runner.replied_ns,
            resumed_ns=None,
            checks=tuple(
                reply.checks for reply in sorted(left.replies, key=lambda reply: reply.rank)
            ),
        )

    def _note(self, record: PreemptionRecord) -> None:
        self.preemptions.append(replace(record, step=self.step_number))
        for request_id in record.victims:
            slo = self.slos[request_id]
            self.slos[request_id] = replace(slo, num_preemptions=slo.num_preemptions + 1)

    def _slo_request(self, request_id: int) -> SloRequest:
        """The request as the monitor may see it: scalars that do not change later."""
        request = self.requests[request_id]
        done_tokens = request.num_computed_tokens
        return replace(
            self.slos[request_id], total_tokens=request.num_tokens, done_tokens=done_tokens
        )

    def _forget(self, step: StepRecord) -> None:
        """Forget the SLOs, preemptions and refusals up to that step, too."""
        super()._forget(step)
        for request_id in (*step.finished, *step.aborted):
            self.slos.pop(request_id, None)
        self.preemptions = [each for each in self.preemptions if each.step > step.step]
        for request_id in [i for i, number in self._refused_in.items() if number <= step.step]:
            del self._refused_in[request_id], self.refused[request_id]


def _promise(request: Request, slo_us: int) -> SloRequest:
    """A request that arrives now, to get its first token within `slo_us` microseconds."""
    num_tokens = len(request.prompt_tokens)
    return SloRequest(request.id, num_tokens, 0, now_us() + slo_us, slo_us, num_preemptions=0)
