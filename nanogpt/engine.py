"""The engine's loop: schedule, execute, sample, update, record.

The engine fixes the order of a step; policies make the decisions. K/V changes inside a transaction
that undoes a step which fails, and the queues change last.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nanogpt import features
from nanogpt.clock import Clock, CostClock
from nanogpt.config import EngineConfig
from nanogpt.executors.base import Executor
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.kv_store import KVStore
from nanogpt.outputs import NotFiniteError
from nanogpt.policies import Policies
from nanogpt.policies.validate_policies import ANSWERS
from nanogpt.recorder import Recorder
from nanogpt.request import Arrivals, Request, validate_arrivals, validate_request
from nanogpt.sampler import Sampler
from nanogpt.scheduler import Scheduler
from nanogpt.trace import StepRecord, Trace
from nanogpt.validate import check_is, check_limits, show, validated

if TYPE_CHECKING:
    from nanogpt.model import GPT
    from nanogpt.recorded_texts import RecordedTexts

MAX_NONFINITE_STEPS = 3
"""Abort a request after this many consecutive tries whose logits are not finite.

A caller tries again by calling `step` again.
"""

RECONFIGURABLE = ("token_budget", "max_kv_tokens", "policy", "preempt_to_admit")
"""The settings that `Engine.reconfigure` may change."""


class Engine:
    """Serves requests on one model, or from recorded texts, step by step, and keeps the trace.

    `draft` guesses ahead when the settings have `num_draft_tokens`. Mutable: the scheduler, the KV
    cache, the step number, the unfinished `requests` by id, and the records that are kept.
    """

    def __init__(
        self,
        model: GPT | RecordedTexts,
        config: EngineConfig = EngineConfig(),
        policies: Policies = Policies(),
        *,
        clock: Clock | None = None,
        cache: KVStore | None = None,
        make_executor: features.MakeExecutor | None = None,
        draft: Callable[[Sequence[int]], Sequence[float]] | None = None,
    ) -> None:
        features.check_arguments(model, config, policies, clock, make_executor, draft)
        self.model: Any = model
        self.config = config
        self.policies = validated(policies, ANSWERS)
        self.clock: Clock = clock or CostClock()
        if cache is None:
            cache = features.make_cache(model, config, self.policies, self.clock)
        self.cache = cache
        make_executor = make_executor or features.executor_type(config, model)
        self.executor: Executor = make_executor(model, self.cache, self.policies)
        features.check_executor(config, self.executor)
        self.drafter = features.make_drafter(draft, self.executor, model, config, self.policies)
        self.scheduler = self.make_scheduler()
        self.sampler = Sampler(self.policies, self.drafter)
        self.recorder = Recorder(self.scheduler, self.cache, self.clock)
        # The same objects under short names; their owners never rebind them.
        self.requests, self.arrived = self.scheduler.requests, self.recorder.arrived
        self.steps = self.recorder.steps
        self.step_number = 0
        self._nonfinite_steps = Counter[int]()

    def make_scheduler(self) -> Scheduler:
        """Build the scheduler; an engine with other steps overrides this."""
        kv = KVCacheManager(self.config, self.policies, self.cache)
        return Scheduler(self.config, self.policies, self.model.config, kv, self.drafter)

    def step(self) -> StepRecord:
        """Run one step.

        Raises: ValueError for nothing to serve, a run that is stuck, and logits that are not
        finite; PolicyError for an illegal answer of a policy, and whatever a policy raises.
        """
        if self.scheduler.is_done():
            raise ValueError(f"step {self.step_number}: nothing to serve; submit a request first")
        scheduled = self.scheduler.schedule(self.step_number, self.clock.now_us())
        try:
            with self.cache.transaction(scheduled):
                output = self.executor.execute(scheduled.rows)
                sampled = self.sampler.sample(scheduled, output)
                update = self.scheduler.update(scheduled, sampled)
        except NotFiniteError as error:
            raise self._count_nonfinite(error) from None
        self.clock.charge(output.forwards)
        record = self.recorder.record(scheduled, output, sampled, update)
        self._end_step(record)
        return record

    def submit(self, request: Request) -> None:
        """Accept a request, as arriving in the coming step.

        Raises: ValueError naming what is wrong with it and the limit; the engine goes on as before.
        """
        self.validate(request)
        self._accept(request)

    def validate(self, request: Request) -> None:
        """Raises: ValueError unless the model and the limits allow the request."""
        validate_request(request, self.model.config)
        if request.grammar is not None:
            request.grammar.check(request.max_new_tokens, self.model.config.vocab_size)
        self.scheduler.check_new(request)

    def abort(self, request_id: int) -> None:
        """Take out an unfinished request, between two steps, and free its K/V.

        Raises: ValueError unless the id is that of an unfinished request.
        """
        if type(request_id) is not int or request_id not in self.requests:
            raise ValueError(f"there is no unfinished request {show(request_id)} to abort")
        if request_id in self.cache.holders():
            self.cache.free(request_id)
        self.scheduler.abort(self.requests[request_id])
        self.recorder.aborted.append(request_id)

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under other budgets and another policy, between two steps.

        Raises: ValueError where anything else differs, for an engine with blocks or drafts, and if
        an unfinished request could never fit; and whatever the policy raises. The engine then goes
        on as before.
        """
        check_is("the config", config, EngineConfig, "an EngineConfig")
        fixed = [field.name for field in fields(config) if field.name not in RECONFIGURABLE]
        differs = [name for name in fixed if getattr(config, name) != getattr(self.config, name)]
        if differs or config.block_size is not None or config.num_draft_tokens:
            what = differs[0] if differs else "an engine with blocks or drafts"
            raise ValueError(f"{what} cannot change while the engine runs; make another engine")
        self.scheduler.reconfigure(config)
        self.config = config

    def run(self, arrivals: Arrivals, max_steps: int | None = None) -> Trace:
        """Serve requests, each submitted at its arrival step, until all are done.

        `max_steps` bounds the run; the trace's `error` then says that it was cut short.
        Raises: ValueError for a bad request, before anything runs, and as `step` does. `trace` has
        the steps up to then.
        """
        pending = deque(validate_arrivals(arrivals, self.validate))
        check_limits(max_steps=max_steps)
        num_steps = 0
        while pending or not self.scheduler.is_done():
            if num_steps == max_steps:
                return self.trace(error=f"stopped after {max_steps} steps, before all were done")
            if self.scheduler.is_done():  # idle: skip to the next arrival
                self.step_number = max(self.step_number, pending[0][0])
            while pending and pending[0][0] <= self.step_number:
                self._accept(pending.popleft()[1])
            self.step()
            num_steps += 1
        return self.trace()

    def forget_step(self) -> None:
        """Drop the oldest record; the ids of the requests that left in it can be reused."""
        self._forget(self.steps.popleft())

    def trace(self, error: str | None = None) -> Trace:
        """The records that are kept; `error` says why the run stopped early, if it did."""
        return self.recorder.trace(self.config, self.executor.name, error)

    def _accept(self, request: Request) -> None:
        # The caller may mutate its lists later.
        request.prompt_tokens = list(request.prompt_tokens)
        request.generated_tokens = list(request.generated_tokens)
        request.arrival_time = self.step_number
        if request.grammar is not None:
            request.matcher = request.grammar.matcher(self.policies, request.max_new_tokens)
        self.scheduler.add_request(request)  # where the policy that orders the queue may fail
        request.was_submitted = True
        self.recorder.arrive(request)

    def _count_nonfinite(self, error: NotFiniteError) -> ValueError:
        """Count the try, abort requests that failed too often, and return the error to raise."""
        self._nonfinite_steps.update(error.request_ids)
        lost = [i for i in error.request_ids if self._nonfinite_steps[i] >= MAX_NONFINITE_STEPS]
        for request_id in lost:
            self.abort(request_id)
        gone = f"{error}; after {MAX_NONFINITE_STEPS} tries requests {lost} were aborted"
        return ValueError(gone) if lost else error

    def _end_step(self, record: StepRecord) -> None:
        """Advance the step number, and drop the oldest records beyond `keep_steps`."""
        self.step_number += 1
        if self._nonfinite_steps:
            for work in record.work:
                self._nonfinite_steps.pop(work.request_id, None)
        keep = self.config.keep_steps
        while keep is not None and len(self.steps) > keep:
            self.forget_step()

    def _forget(self, step: StepRecord) -> None:
        """Drop all state of the requests that left in a step, so that their ids can be reused."""
        for request_id in (*step.finished, *step.aborted):
            self.scheduler.forget(request_id)
            self.arrived.pop(request_id, None)
            self._nonfinite_steps.pop(request_id, None)
