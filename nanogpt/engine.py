"""The engine: plan, run, sample, commit, record. It fixes the order; policies make the decisions.

A plan is checked before anything changes. K/V, and then everything else, is committed once the
logits are known to be finite and every policy has answered: a step that fails leaves no trace. A
window, shared prefixes and drafts have folders of their own, imported when the settings ask for
them.
"""

import importlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nanogpt.clock import Clock, CostClock
from nanogpt.config import EngineConfig
from nanogpt.executors import MakeExecutor, check_engine, check_executor, find_executor
from nanogpt.executors.base import Row
from nanogpt.kv_cache import KVCache
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.seams import Drafter, Drawn, Prefixes
from nanogpt.parts.validate_policies import ANSWERS
from nanogpt.planning import Offer, plan_problem
from nanogpt.request import Arrivals, Request, check_arrivals, check_fresh, check_request, no_kv
from nanogpt.scheduler import Scheduler
from nanogpt.step import (
    NotFiniteError,
    Step,
    draw_tokens,
    make_rows,
    request_record,
    step_record,
)
from nanogpt.trace import RequestRecord, StepRecord, Trace
from nanogpt.validate import PartError, check_limits, show, validated

TRIES = 3
"""So many steps in a row may end with logits of a request that are not finite; then it must go."""


class Engine:
    """Serves requests on one model, step by step, and keeps the trace of it.

    `draft` guesses ahead when the settings have `num_draft_tokens`. Mutable: the scheduler, the KV
    cache, the step number, the unfinished `requests` by id, and the records that are kept
    (`arrived`, by id, and `steps`).
    """

    def __init__(
        self,
        model: GPT,
        config: EngineConfig = EngineConfig(),
        parts: Parts = Parts(),
        *,
        clock: Clock | None = None,
        make_executor: MakeExecutor | None = None,
        draft: Callable[[Sequence[int]], Sequence[float]] | None = None,
    ) -> None:
        check_engine(model, config, parts, clock, make_executor, draft)
        self.model = model
        self.config = config
        self.parts = validated(parts, ANSWERS)
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
            block_size=config.block_size or 1,
            parts=self.parts,
        )
        self.cache = self.make_cache()
        self.executor = (make_executor or find_executor(config))(model, self.cache, self.parts)
        check_executor(config, self.executor)
        self.drafter = Drafter()
        if config.num_draft_tokens:
            make_drafter = _feature("speculative.drafting").make_drafter
            self.drafter = make_drafter(draft, self.executor, model, config, self.parts)
        self.prefixes = self.cache if isinstance(self.cache, Prefixes) else Prefixes()
        self.scheduler.shared = self.prefixes.shared
        self.step_number = 0
        self.requests: dict[int, Request] = {}
        self.arrived: dict[int, RequestRecord] = {}
        self.steps = deque[StepRecord]()
        self._last_served: dict[int, int] = {}
        self._failures = Counter[int]()
        self._given_up: list[int] = []

    def make_cache(self) -> KVCache:
        """The K/V storage: slots, unless a window or blocks have a form of their own."""
        if self.config.sliding_window is not None or self.config.block_size is not None:
            folder = "window" if self.config.block_size is None else "blocks"
            return _feature(folder).make_cache(self.model, self.config, self.parts)
        weight = self.model.token_embedding.weight
        return KVCache(self.model.config, self.config.max_batch_size, weight.dtype, weight.device)

    def submit(self, request: Request) -> None:
        """Accept a request, as arriving in the coming step.

        Raises: ValueError naming what is wrong with it and the limit; the engine goes on as before.
        """
        self._check_new(request)
        self._take_in(request)

    def cancel(self, request_id: int) -> None:
        """Give up an unfinished request, between two steps: it leaves at once, and so does its K/V.

        Raises: ValueError for an id that is not of an unfinished request.
        """
        if request_id not in self.requests:
            raise ValueError(f"there is no unfinished request {show(request_id)} to cancel")
        if request_id in self.cache.holders():
            self.cache.release(request_id)
        request = self.requests.pop(request_id)
        self.scheduler.give_up(request)
        self._given_up.append(request_id)
        request.kv_view = no_kv

    def run(self, arrivals: Arrivals, max_steps: int | None = None) -> Trace:
        """Serve requests as they arrive, each at its step, until all are done.

        `max_steps` ends a run that would go on for ever; the trace then says so.
        Raises: ValueError for a bad request, before anything runs, and for a run that is stuck;
        PartError for an illegal answer of a policy, and whatever a policy raises. `trace` has the
        steps up to then.
        """
        queue = deque(check_arrivals(arrivals, self._check_new))
        check_limits(max_steps=max_steps)
        num_steps = 0
        while queue or not self.scheduler.is_done():
            if num_steps == max_steps:
                return self.trace(error=f"stopped after {max_steps} steps, before all were done")
            if queue and self.scheduler.is_done():
                self.step_number = max(self.step_number, queue[0][0])
            while queue and queue[0][0] <= self.step_number:
                self._take_in(queue.popleft()[1])
            self.step()
            num_steps += 1
        return self.trace()

    def step(self) -> StepRecord:
        """Run one step: plan -> run -> sample -> commit -> record.

        Raises: as `run` does; ValueError for nothing to serve, and for logits that are not finite.
        """
        step = self._schedule()
        self._plan(step)
        try:
            leaving = [victim.id for victim, _ in step.leaving]
            worked = [row.request_id for row in step.rows]
            with self.cache.transaction(worked, step.newcomers, leaving):
                logits = self._run(step)
                self._sample(step, logits)
                self._commit_kv(step)
        except NotFiniteError as error:
            raise self._failed(error) from None
        self._commit(step)
        return self._record(step)

    def offer(self, leaving: Sequence[Request], waiting: Sequence[tuple[int, int]]) -> Offer:
        """What the plan may choose from, once those that leave are gone.

        `waiting` are those that may start: (request id, tokens to compute).
        """
        staying = [request for request in self.scheduler.active if request not in leaving]
        staying.sort(key=lambda r: (self._last_served[r.id], r.arrival_time, r.id))
        prefilling = [r for r in self.scheduler.prefilling if r not in leaving]
        return Offer(
            decodes=tuple(request.id for request in staying),
            prefilling=tuple((request.id, request.remaining) for request in prefilling),
            waiting=tuple(waiting),
        )

    def trace(self, error: str | None = None) -> Trace:
        """All that is kept as one record; `error` says why the run stopped early, if it did."""
        return Trace(
            clock=self.clock.record,
            executor=self.executor.name,
            token_budget=self.config.token_budget,
            max_kv_tokens=self.config.max_kv_tokens,
            requests=tuple(self.arrived.values()),
            steps=tuple(self.steps),
            error=error,
            sliding_window=self.config.sliding_window,
            num_sinks=self.config.num_sinks,
        )

    def _check_new(self, request: Request) -> None:
        check_request(request, self.model.config)
        check_fresh(request)
        self.scheduler.check_new(request)

    def _take_in(self, request: Request) -> None:
        # Lists of its own: what the caller's come to be is no business of the run's.
        request.prompt_tokens = list(request.prompt_tokens)
        request.generated_tokens = list(request.generated_tokens)
        request.arrival_time = self.step_number
        self.scheduler.enqueue(request)
        request.kv_view = partial(self.cache.view, request.id)
        self.requests[request.id] = request
        self.arrived[request.id] = request_record(request, self.clock.now_us())

    def _schedule(self) -> Step:
        """Ask the scheduler what leaves and what may start; nothing changes."""
        scheduler = self.scheduler
        if scheduler.is_done():
            raise ValueError(f"step {self.step_number}: nothing to serve; submit a request first")
        start_us, kv_before = self.clock.now_us(), self.cache.held_tokens()
        scheduler.begin_step(self.step_number)
        victims = scheduler.victims()
        leaving = [(victim, scheduler.way_back(victim)) for victim in victims]
        reasons = {victim.id: scheduler.reason_to_leave() for victim in victims}
        startable, blocked = scheduler.admissible(victims)
        hits = {r.id: self.prefixes.find(r.tokens_so_far, r.cache_salt) for r in startable}
        spared = {i: hit.num_tokens for i, hit in hits.items() if hit}
        waiting = [(r.id, r.remaining - spared.get(r.id, 0)) for r in startable]
        offer = self.offer(victims, waiting)
        if offer.is_empty and not victims:
            raise ValueError(f"step {self.step_number}: nothing can ever run again: {blocked}")
        number = self.step_number
        return Step(number, start_us, kv_before, leaving, reasons, blocked, hits, offer)

    def _plan(self, step: Step) -> None:
        """Ask the part for a plan, refuse an illegal one, and lay it out in rows."""
        offer = step.offer
        if offer.is_empty:
            step.hits = {}
            return
        step.plan = self.parts.plan_step(
            list(offer.decodes),
            list(offer.prefilling),
            list(offer.waiting),
            self.config.token_budget,
        )
        problem = plan_problem(step.plan, offer)
        if problem:
            raise PartError(f"step {self.step_number}: {problem}")
        planned = dict(step.plan)
        step.hits = {i: hit for i, hit in step.hits.items() if i in planned}
        wanted = [(self.requests[i], num_tokens) for i, num_tokens in step.plan]
        drafts = {} if step.leaving else self.drafter.propose(wanted, self.scheduler)
        step.rows, step.sampling = make_rows(
            step, self.requests, drafts, self.parts.chunk_inputs, self.model.config, self.config
        )

    def _run(self, step: Step) -> Tensor:
        """Put the rows through the model. Shapes: -> logits (R, V)."""
        for request_id, hit in step.hits.items():
            if hit:
                self.prefixes.adopt(request_id, hit.blocks, hit.num_tokens)
        if not step.rows:
            return torch.empty(0, 0)
        result = self.executor.run(step.rows)
        step.forwards = result.forwards
        return result.logits

    def _sample(self, step: Step, logits: Tensor) -> None:
        """Draw tokens and judge drafts, and count what each request will then hold."""
        if step.rows:
            drawn = draw_tokens(step, logits, self.drafter)
            promoted = [i for i in drawn if self.requests[i].status != "active"]
            active_now = [request.id for request in self.scheduler.active] + promoted
            sampled = [each.last for each in drawn.values()]
            last = self.parts.record(list(drawn), active_now, sampled)
            step.drawn = {i: Drawn(last[i], each.num_accepted) for i, each in drawn.items()}
        step.computed = {row.request_id: self._computed(row, step) for row in step.rows}
        for request_id in self.cache.holders():
            request = self.requests[request_id]
            more = step.computed.get(request_id, request.prefill_cursor) - request.prefill_cursor
            step.counted[request_id] = self.scheduler.counted(request, more)

    def _computed(self, row: Row, step: Step) -> int:
        """Up to where the row's request is computed, once rejected drafts are rolled back."""
        if not row.drafted:
            return row.context_len
        accepted = step.drawn[row.request_id].num_accepted
        return self.parts.roll_back_kv(row.context_len, len(row.drafted), accepted)

    def _failed(self, error: NotFiniteError) -> ValueError:
        """Give up what would not become finite; the error to raise."""
        self._failures.update(error.request_ids)
        lost = [i for i in error.request_ids if self._failures[i] >= TRIES]
        for request_id in lost:
            self.cancel(request_id)
        gone = f"{error}; after {TRIES} tries requests {lost} were given up"
        return ValueError(gone) if lost else error

    def _commit_kv(self, step: Step) -> None:
        """Make the step's K/V count. The store may ask policies, so an error takes it all back."""
        for victim, _ in step.leaving:
            self.cache.release(victim.id)
        step.kv_peak = self.cache.held_tokens() + sum(len(row.tokens) for row in step.rows)
        for row in step.rows:
            request, drawn = self.requests[row.request_id], step.drawn.get(row.request_id)
            if drawn:
                step.sampled[request.id] = [*row.drafted[: drawn.num_accepted], drawn.last]
            new = step.sampled.get(request.id, [])
            self.cache.commit(request.id, step.computed[request.id] - row.num_past)
            self.prefixes.publish(request, new)
            if request.num_generated + len(new) >= request.max_new_tokens:
                step.left[request.id] = self.cache.leave(request.id)

    def _commit(self, step: Step) -> None:
        """Make everything else of the step count; no policy is asked."""
        for victim, way_back in step.leaving:
            self.scheduler.preempt(victim, way_back)
        for request_id in step.newcomers:
            self.scheduler.admit(self.requests[request_id])
        for row in step.rows:
            self._commit_row(step, row)
        self.clock.charge(step.forwards)

    def _commit_row(self, step: Step, row: Row) -> None:
        request = self.requests[row.request_id]
        new = step.sampled.get(request.id, [])
        request.prefill_cursor = step.computed[request.id]
        was_last_chunk = request.status == "prefilling" and request.is_fully_prefilled
        self._last_served[request.id] = self.step_number
        self._failures.pop(request.id, None)
        request.generated_tokens += new
        if was_last_chunk and new:
            self.scheduler.promote(request)
        if request.id in step.left:
            self.scheduler.complete(request)
            request.kv_view = step.left[request.id]
            del self.requests[request.id]

    def _record(self, step: Step) -> StepRecord:
        step.given_up, self._given_up = self._given_up, []
        record = step_record(step, self.scheduler, self.cache, end_us=self.clock.now_us())
        record = self.prefixes.noted(record)
        self.steps.append(record)
        self.step_number += 1
        while len(self.steps) > (self.config.keep_steps or len(self.steps)):
            self._forget(self.steps.popleft())
        return record

    def _forget(self, step: StepRecord) -> None:
        """Keep nothing of the requests that left in a step: their ids may come again."""
        for request_id in (*step.finished, *step.given_up):
            self.scheduler.forget(request_id)
            for book in (self.arrived, self._last_served, self._failures):
                book.pop(request_id, None)


def _feature(name: str) -> Any:
    """A module of a folder that the engine's core does without."""
    return importlib.import_module(f"nanogpt.{name}")
