"""The engine: plan, run, sample, record, once per step. It owns the order, its parts the choices.

A plan is checked before anything changes, and KV lengths and sampled tokens are committed only
once the logits are known to be finite: a step that fails computes nothing that counts.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from nanogpt.clock import Clock, CostClock
from nanogpt.engine_config import EngineConfig, MakeExecutor, executor_maker, make_cache
from nanogpt.executors.executor import ForwardResult, Row, row_problem
from nanogpt.guard import PartError
from nanogpt.limits import check_int
from nanogpt.model import GPT
from nanogpt.part_checks import guard_parts
from nanogpt.parts import Parts
from nanogpt.planning import Offer, Plan, plan_problem
from nanogpt.recording import wait_records, work_record
from nanogpt.request import Request, check_request, no_kv
from nanogpt.sampling import sample_tokens, uniform
from nanogpt.scheduler import Scheduler
from nanogpt.trace import KVRecord, RequestRecord, StepRecord, Trace, WaitRecord

Arrivals = Sequence[tuple[int, Request]]
NOTHING = ForwardResult(torch.empty(0, 0), ())
"""A step in which somebody only leaves: no row, no forward."""


class Engine:
    """Serves requests on one model, step by step, and keeps the trace of it.

    Mutable: the scheduler, the KV cache, the step number and the records so far.
    """

    def __init__(
        self,
        model: GPT,
        config: EngineConfig = EngineConfig(),
        parts: Parts = Parts(),
        *,
        clock: Clock | None = None,
        make_executor: MakeExecutor | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self.parts = guard_parts(parts)
        self.clock: Clock = clock or CostClock()
        self.scheduler = Scheduler(
            config.policy,
            config.token_budget,
            config.max_kv_tokens,
            config.max_batch_size,
            config.max_prefilling,
            sliding_window=config.sliding_window,
            num_sinks=config.num_sinks,
            preempt_to_admit=config.preempt_to_admit,
            parts=self.parts,
        )
        self.cache = make_cache(model, config, self.parts)
        make = make_executor or executor_maker(config)
        self.executor = make(model, self.cache, self.parts)
        self.step_number = 0
        self._requests: dict[int, Request] = {}
        self._arrived: list[RequestRecord] = []
        self._steps: list[StepRecord] = []
        self._last_served: dict[int, int] = {}

    def submit(self, request: Request) -> None:
        """Accept a request, as arriving in the coming step.

        Raises: ValueError naming what is wrong with it and the limit; the engine goes on as before.
        """
        self._check_new(request)
        request.arrival_time = self.step_number
        self.scheduler.add_request(request)
        request.kv_view = partial(self.cache.view, request.id)
        self._requests[request.id] = request
        self._arrived.append(
            RequestRecord(
                request.id,
                tuple(request.prompt_tokens),
                request.max_new_tokens,
                request.priority,
                self.step_number,
                self.clock.now_us(),
            )
        )

    def run(self, arrivals: Arrivals, max_steps: int | None = None) -> Trace:
        """Serve requests as they arrive, each at its step, until all are done.

        `max_steps` ends a run that would go on for ever; the trace then says so.
        Raises: ValueError for a bad request, before anything runs, and for a run that is stuck;
        PartError for a part that failed. `trace` has the steps up to then.
        """
        self._check_arrivals(arrivals)
        if max_steps is not None:
            check_int("max_steps", max_steps, 1)
        steps_before = len(self._steps)
        queue = sorted(arrivals, key=lambda arrival: arrival[0])
        while queue or not self.scheduler.is_done():
            if max_steps is not None and len(self._steps) - steps_before >= max_steps:
                return self.trace(error=f"stopped after {max_steps} steps, before all were done")
            if queue and self.scheduler.is_done():
                self.step_number = max(self.step_number, queue[0][0])
            while queue and queue[0][0] <= self.step_number:
                self.submit(queue.pop(0)[1])
            self.step()
        return self.trace()

    def step(self) -> StepRecord:
        """Run one step: plan -> run -> sample -> commit -> record.

        Raises: as `run` does, and ValueError when there is nothing to serve.
        """
        if self.scheduler.is_done():
            raise ValueError(f"step {self.step_number}: nothing to serve; submit a request first")
        start_us = self.clock.now_us()
        kv_before = self.cache.held_tokens()
        self.scheduler.begin_step(self.step_number)
        victims = self.scheduler.victims()
        ways_back = [self.scheduler.way_back(victim) for victim in victims]
        left = self.scheduler.reason_to_leave()
        startable, blocked = self.scheduler.admissible(victims)
        offer = self._offer(victims, startable)
        if offer.is_empty and not victims:
            raise ValueError(f"step {self.step_number}: nothing can ever run again: {blocked}")
        plan = [] if offer.is_empty else self._plan(offer)
        rows, sampling = self._rows(plan)
        newcomers = [row for row in rows if self._requests[row.request_id].status == "waiting"]
        for row in newcomers:
            self.cache.reserve(row.request_id)
        try:
            result = self.executor.run(rows) if rows else NOTHING
            sampled = self._sample(rows, sampling, result.logits) if rows else {}
            counted = self._counted(rows)
        except BaseException:
            self._undo(rows, newcomers)
            raise
        for victim, way_back in zip(victims, ways_back, strict=True):
            self.scheduler.preempt(victim, way_back)
            self.cache.release(victim.id)
        for row in newcomers:
            self.scheduler.admit(self._requests[row.request_id])
        kv_peak = self.cache.held_tokens() + sum(len(row.tokens) for row in rows)
        finished = self._commit(rows, sampled)
        self.clock.charge(result.forwards)
        record = StepRecord(
            step=self.step_number,
            start_us=start_us,
            end_us=self.clock.now_us(),
            token_budget=self.config.token_budget,
            work=tuple(work_record(row, sampled.get(row.request_id)) for row in rows),
            waits=self._waits(offer, plan, {victim.id: left for victim in victims}, blocked),
            admitted=tuple(row.request_id for row in newcomers),
            preempted=tuple(victim.id for victim in victims),
            finished=tuple(finished),
            forwards=result.forwards,
            kv_before=kv_before,
            kv_after=self.cache.held_tokens(),
            kv_peak=kv_peak,
            kv=tuple(self._kv_record(i, counted[i]) for i in self.cache.holders()),
        )
        self._steps.append(record)
        self.step_number += 1
        return record

    def trace(self, error: str | None = None) -> Trace:
        """Everything so far as one record; `error` says why the run stopped early, if it did."""
        return Trace(
            clock=self.clock.record,
            executor=self.executor.name,
            token_budget=self.config.token_budget,
            max_kv_tokens=self.config.max_kv_tokens,
            requests=tuple(self._arrived),
            steps=tuple(self._steps),
            error=error,
            sliding_window=self.config.sliding_window,
            num_sinks=self.config.num_sinks,
        )

    def _waits(
        self, offer: Offer, plan: Plan, victims: dict[int, str], blocked: str | None
    ) -> tuple[WaitRecord, ...]:
        budget = self.config.token_budget
        return wait_records(self._requests.values(), offer, plan, victims, blocked, budget)

    def _counted(self, rows: Sequence[Row]) -> dict[int, int]:
        """KV tokens that the scheduler will count everybody with, once `rows` are committed."""
        new = {row.request_id: len(row.tokens) for row in rows}
        return {
            request_id: self.scheduler.counted(self._requests[request_id], new.get(request_id, 0))
            for request_id in self.cache.holders()
        }

    def _kv_record(self, request_id: int, counted: int) -> KVRecord:
        held, live = self.cache.length(request_id), self.cache.live_bytes(request_id)
        return KVRecord(request_id, held, counted, live)

    def _check_new(self, request: Request) -> None:
        check_request(request, self.model.config)
        fresh = request.status == "waiting" and request.kv_view is no_kv
        if not fresh or request.num_generated or request.prefill_cursor:
            raise ValueError(f"request {request.id} has been served before; submit a fresh one")
        self.scheduler.check_new(request)

    def _check_arrivals(self, arrivals: Arrivals) -> None:
        """Refuse a bad request now, and not when the others are half served."""
        ids: set[int] = set()
        for arrival_step, request in arrivals:
            self._check_new(request)
            check_int(f"the arrival step of request {request.id}", arrival_step, 0)
            if request.id in ids:
                raise ValueError(f"there are two requests {request.id}; ids must be unique")
            ids.add(request.id)

    def _offer(self, victims: Sequence[Request], startable: Sequence[Request]) -> Offer:
        """What the plan may choose from, once `victims` are gone."""
        staying = [request for request in self.scheduler.active if request not in victims]
        staying.sort(key=lambda r: (self._last_served[r.id], r.arrival_time, r.id))
        return Offer(
            decodes=tuple(request.id for request in staying),
            prefilling=tuple(
                (r.id, r.remaining) for r in self.scheduler.prefilling if r not in victims
            ),
            waiting=tuple((r.id, r.remaining) for r in startable),
        )

    def _plan(self, offer: Offer) -> Plan:
        """Ask the part for a plan and refuse an illegal one."""
        plan = self.parts.plan_step(
            list(offer.decodes),
            list(offer.prefilling),
            list(offer.waiting),
            self.config.token_budget,
        )
        problem = plan_problem(plan, offer)
        if problem:
            raise PartError(f"step {self.step_number}: {problem}")
        return plan

    def _rows(self, plan: Plan) -> tuple[list[Row], list[bool]]:
        """The planned tokens as rows, and which of the rows sample."""
        rows: list[Row] = []
        sampling: list[bool] = []
        for request_id, num_tokens in plan:
            request = self._requests[request_id]
            ids, positions, sample = self.parts.chunk_inputs(
                request.tokens_so_far, request.prefill_cursor, num_tokens
            )
            is_decode = request.status == "active"
            known = request.tokens_so_far
            row = Row(request_id, ids, positions, request.prefill_cursor, is_decode, known)
            problem = row_problem(row, self.model.config)
            if problem:
                raise PartError(f"step {self.step_number}, request {request_id}: {problem}")
            rows.append(row)
            sampling.append(sample)
        return rows, sampling

    def _undo(self, rows: Sequence[Row], newcomers: Sequence[Row]) -> None:
        """Leave nothing behind of a step that failed: neither K/V nor slots."""
        for row in rows:
            self.cache.discard_written(row.request_id)
        for row in newcomers:
            self.cache.release(row.request_id)

    def _sample(
        self, rows: Sequence[Row], sampling: Sequence[bool], logits: Tensor
    ) -> dict[int, int]:
        """Draw the next token of every sampling row. Shapes: logits (R, V)."""
        if not logits.isfinite().all():
            finite = logits.isfinite().all(dim=-1)  # (R,)
            bad = rows[int((~finite).nonzero()[0, 0])].request_id
            raise ValueError(
                f"step {self.step_number}: the logits of request {bad} are not finite (NaN or "
                "infinity); the step was dropped"
            )
        chosen = [i for i, samples in enumerate(sampling) if samples]
        ids = [rows[i].request_id for i in chosen]
        draws = [
            uniform(self.config.seed, request_id, self._requests[request_id].num_known, "sample")
            for request_id in ids
        ]
        tokens = sample_tokens(logits[chosen], self.config.temperature, draws)
        promoted = [i for i in ids if self._requests[i].status != "active"]
        active_now = [request.id for request in self.scheduler.active] + promoted
        return self.parts.record(ids, active_now, tokens)

    def _commit(self, rows: Sequence[Row], sampled: dict[int, int]) -> list[int]:
        """Make the step count: lengths, tokens, promotions; return who finished."""
        finished: list[int] = []
        for row in rows:
            request = self._requests[row.request_id]
            self.cache.commit(request.id, len(row.tokens))
            request.prefill_cursor += len(row.tokens)
            self._last_served[request.id] = self.step_number
            if request.id in sampled:
                request.generated_tokens.append(sampled[request.id])
                if request.status == "prefilling" and request.is_fully_prefilled:
                    self.scheduler.promote(request)
                if request.is_done:
                    self.scheduler.complete(request)
                    self.cache.release(request.id)
                    del self._requests[request.id]
                    finished.append(request.id)
        return finished
