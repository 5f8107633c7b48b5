"""The engine: plan, run, sample, record, once per step. It owns the order, its parts the choices.

A plan is checked before anything changes, and KV lengths and sampled tokens are committed only
once the logits are known to be finite: a step that fails computes nothing that counts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from nanogpt.clock import Clock, CostClock
from nanogpt.drawing import NotFiniteError, draw_tokens
from nanogpt.engine_config import (
    EngineConfig,
    MakeExecutor,
    check_engine,
    check_extras,
    executor_maker,
    make_cache,
    make_scheduler,
)
from nanogpt.executors.base import ForwardResult, Row
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.guard import PartError
from nanogpt.parts.part_checks import guard_parts
from nanogpt.planning import Offer, Plan, plan_problem
from nanogpt.prefix.prefix_cache import PrefixCache, PrefixHit
from nanogpt.recording import hit_records, kv_records, request_record, wait_records, work_record
from nanogpt.request import Arrivals, Request, check_arrivals, check_fresh, check_request, no_kv
from nanogpt.rows import make_rows
from nanogpt.scheduler import WayBack
from nanogpt.speculative.drafting import Draft, propose_all
from nanogpt.speculative.proposal import Proposal
from nanogpt.speculative.verify import Drawn
from nanogpt.trace import RequestRecord, StepRecord, Trace
from nanogpt.validate import check_int

NOTHING = ForwardResult(torch.empty(0, 0), ())
"""The result of a step that only preempts: no row, no forward."""
TRIES = 3
"""So many steps in a row may end with logits of a request that are not finite; then it must go."""


class Engine:
    """Serves requests on one model, step by step, and keeps the trace of it.

    `draft` guesses ahead when the settings have `num_draft_tokens`. Mutable: the scheduler, the KV
    cache and the prefix cache, the step number and the records so far.
    """

    def __init__(
        self,
        model: GPT,
        config: EngineConfig = EngineConfig(),
        parts: Parts = Parts(),
        *,
        clock: Clock | None = None,
        make_executor: MakeExecutor | None = None,
        draft: Draft | None = None,
    ) -> None:
        check_engine(model, config, parts, clock, make_executor, draft)
        self.model = model
        self.config = config
        self.parts = guard_parts(parts)
        self.clock: Clock = clock or CostClock()
        self.scheduler = make_scheduler(config, self.parts)
        self.cache = make_cache(model, config, self.parts)
        make = make_executor or executor_maker(config)
        self.executor = make(model, self.cache, self.parts)
        check_extras(config, self.executor, draft)
        self.draft = draft if config.num_draft_tokens else None
        self.prefix_cache = PrefixCache(config.prefix_cache_tokens)
        self.step_number = 0
        self._requests: dict[int, Request] = {}
        self._arrived: list[RequestRecord] = []
        self._steps: list[StepRecord] = []
        self._last_served: dict[int, int] = {}
        self._failures = Counter[int]()

    def submit(self, request: Request) -> None:
        """Accept a request, as arriving in the coming step.

        Raises: ValueError naming what is wrong with it and the limit; the engine goes on as before.
        """
        self._check_new(request)
        # Lists of its own: what the caller's come to be is no business of the run's.
        request.prompt_tokens = list(request.prompt_tokens)
        request.generated_tokens = list(request.generated_tokens)
        request.arrival_time = self.step_number
        self.scheduler.add_request(request)
        request.kv_view = partial(self.cache.view, request.id)
        self._requests[request.id] = request
        self._arrived.append(request_record(request, self.clock.now_us()))

    def run(self, arrivals: Arrivals, max_steps: int | None = None) -> Trace:
        """Serve requests as they arrive, each at its step, until all are done.

        `max_steps` ends a run that would go on for ever; the trace then says so.
        Raises: ValueError for a bad request, before anything runs, and for a run that is stuck;
        PartError for a part that failed. `trace` has the steps up to then.
        """
        queue = check_arrivals(arrivals, self._check_new)
        if max_steps is not None:
            check_int("max_steps", max_steps, 1)
        steps_before = len(self._steps)
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

        Raises: as `run` does; ValueError for nothing to serve, and for logits that are not finite.
        """
        if self.scheduler.is_done():
            raise ValueError(f"step {self.step_number}: nothing to serve; submit a request first")
        start_us, budget = self.clock.now_us(), self.config.token_budget
        kv_before = self.cache.held_tokens()
        self.scheduler.begin_step(self.step_number)
        victims = self.scheduler.victims()
        ways_back = [self.scheduler.way_back(victim) for victim in victims]
        left = {victim.id: self.scheduler.reason_to_leave() for victim in victims}
        startable, blocked = self.scheduler.admissible(victims)
        offer = self._offer(victims, startable)
        if offer.is_empty and not victims:
            raise ValueError(f"step {self.step_number}: nothing can ever run again: {blocked}")
        plan = [] if offer.is_empty else self._plan(offer)
        hits = {r.id: self._prefix(r) for r in startable if r.id in dict(plan)}
        proposals = {} if victims else self._propose(plan)
        rows, sampling = self._rows(plan, hits, proposals)
        newcomers = [row for row in rows if row.request_id in hits]
        for row in newcomers:
            self.cache.reserve(row.request_id)
            hits[row.request_id].copy_to(self.cache, row.request_id)
        try:
            result = self.executor.run(rows) if rows else NOTHING
            drawn = self._draw(rows, sampling, result.logits) if rows else {}
            computed = {row.request_id: self._computed(row, drawn) for row in rows}
            counted = self._counted(computed)
        except NotFiniteError as error:
            self._undo(rows, newcomers)
            raise self._failed(error) from None
        except BaseException:
            self._undo(rows, newcomers)
            raise
        self._leave_and_enter(victims, ways_back, newcomers)
        kv_peak = self.cache.held_tokens() + sum(len(row.tokens) for row in rows)
        finished = self._commit(rows, drawn, computed)
        self.clock.charge(result.forwards)
        record = StepRecord(
            step=self.step_number,
            start_us=start_us,
            end_us=self.clock.now_us(),
            token_budget=budget,
            work=tuple(work_record(row, drawn.get(row.request_id)) for row in rows),
            waits=wait_records(self._requests.values(), offer, plan, left, blocked, budget),
            admitted=tuple(row.request_id for row in newcomers),
            preempted=tuple(victim.id for victim in victims),
            finished=tuple(finished),
            forwards=result.forwards,
            kv_before=kv_before,
            kv_after=self.cache.held_tokens(),
            kv_peak=kv_peak,
            kv=kv_records(self.cache, counted),
            prefix_hits=hit_records(hits),
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

    def _counted(self, computed: Mapping[int, int]) -> dict[int, int]:
        """KV tokens that the scheduler will count each request with, once the step is committed."""
        counted: dict[int, int] = {}
        for request_id in self.cache.holders():
            request = self._requests[request_id]
            more = computed.get(request_id, request.prefill_cursor) - request.prefill_cursor
            counted[request_id] = self.scheduler.counted(request, more)
        return counted

    def _check_new(self, request: Request) -> None:
        check_request(request, self.model.config)
        check_fresh(request)
        self.scheduler.check_new(request)

    def _offer(self, victims: Sequence[Request], startable: Sequence[Request]) -> Offer:
        """What the plan may choose from, once `victims` are gone."""
        staying = [request for request in self.scheduler.active if request not in victims]
        staying.sort(key=lambda r: (self._last_served[r.id], r.arrival_time, r.id))
        return Offer(
            decodes=tuple(request.id for request in staying),
            prefilling=tuple(
                (r.id, r.remaining) for r in self.scheduler.prefilling if r not in victims
            ),
            waiting=tuple((r.id, r.remaining - self._prefix(r).num_tokens) for r in startable),
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

    def _prefix(self, request: Request) -> PrefixHit:
        """What a waiting request will not have to compute."""
        return self.prefix_cache.find(request.tokens_so_far)

    def _publish(self, request: Request) -> None:
        """Let others find what the request holds, all of it from committed steps."""
        self.prefix_cache.publish(request, self.cache)

    def _propose(self, plan: Plan) -> dict[int, Proposal]:
        """Guess ahead for the decodes of the plan, where there is room."""
        if self.draft is None:
            return {}
        planned = [(self._requests[request_id], num_tokens) for request_id, num_tokens in plan]
        vocab_size = self.model.config.vocab_size
        return propose_all(self.draft, self.scheduler, planned, self.config, vocab_size)

    def _rows(
        self, plan: Plan, hits: Mapping[int, PrefixHit], proposals: Mapping[int, Proposal]
    ) -> tuple[list[Row], list[bool]]:
        cut, sizes = self.parts.chunk_inputs, self.model.config
        return make_rows(self.step_number, plan, self._requests, hits, proposals, cut, sizes)

    def _undo(self, rows: Sequence[Row], newcomers: Sequence[Row]) -> None:
        """Leave nothing behind of a step that failed: neither K/V nor slots."""
        for row in rows:
            self.cache.discard_written(row.request_id)
        for row in newcomers:
            self.cache.release(row.request_id)

    def _failed(self, error: NotFiniteError) -> ValueError:
        """Give up whose logits would not become finite; the error to raise."""
        self._failures.update(error.request_ids)
        lost = [i for i in error.request_ids if self._failures[i] >= TRIES]
        for request_id in lost:
            request = self._requests.pop(request_id)
            self.scheduler.give_up(request)
            request.kv_view = no_kv
            if request_id in self.cache.holders():
                self.cache.release(request_id)
        gone = f"{error}; after {TRIES} tries requests {lost} were given up"
        return ValueError(gone) if lost else error

    def _draw(
        self, rows: Sequence[Row], sampling: Sequence[bool], logits: Tensor
    ) -> dict[int, Drawn]:
        """Draw the next token of every sampling row; judge its drafts. Shapes: logits (R, V)."""
        how = (self.config.temperature, self.config.seed, self.parts.accept)
        drawn = draw_tokens(self.step_number, rows, sampling, logits, *how)
        promoted = [i for i in drawn if self._requests[i].status != "active"]
        active_now = [request.id for request in self.scheduler.active] + promoted
        last = self.parts.record(list(drawn), active_now, [each.last for each in drawn.values()])
        return {i: replace(each, last=last[i]) for i, each in drawn.items()}

    def _computed(self, row: Row, drawn: Mapping[int, Drawn]) -> int:
        """Up to where the row's request is computed, once rejected drafts are rolled back."""
        if not row.drafted:
            return row.context_len
        accepted = drawn[row.request_id].num_accepted
        return self.parts.roll_back_kv(row.context_len, len(row.drafted), accepted)

    def _leave_and_enter(
        self, victims: Sequence[Request], ways_back: Sequence[WayBack], newcomers: Sequence[Row]
    ) -> None:
        """Make the step's preemptions and admissions count."""
        for victim, way_back in zip(victims, ways_back, strict=True):
            self._publish(victim)
            self.scheduler.preempt(victim, way_back)
            self.cache.release(victim.id)
        for row in newcomers:
            self.scheduler.admit(self._requests[row.request_id])

    def _commit(
        self, rows: Sequence[Row], drawn: Mapping[int, Drawn], computed: Mapping[int, int]
    ) -> list[int]:
        """Make the step count: lengths, tokens, promotions; return who finished."""
        finished: list[int] = []
        for row in rows:
            request = self._requests[row.request_id]
            self.cache.commit(request.id, computed[request.id] - row.num_past)
            request.prefill_cursor = computed[request.id]
            was_last_chunk = request.status == "prefilling" and request.is_fully_prefilled
            self._last_served[request.id] = self.step_number
            self._failures.pop(request.id, None)
            if request.id in drawn:
                accepted = row.drafted[: drawn[request.id].num_accepted]
                request.generated_tokens += [*accepted, drawn[request.id].last]
            if request.is_done or not row.is_decode:
                self._publish(request)
            if was_last_chunk and request.id in drawn:
                self.scheduler.promote(request)
            if request.is_done:
                self.scheduler.complete(request)
                request.kv_view = self.cache.leave(request.id)
                del self._requests[request.id]
                finished.append(request.id)
        return finished
