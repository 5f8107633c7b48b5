"""The posts' run functions and their `Scheduler`, on the one engine: K/V that can be looked at."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from nanogpt import engine, kv_cache_manager, request, scheduler
from nanogpt.config import EngineConfig, ModelConfig, Policy
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.outputs import Requeue
from nanogpt.policies import Policies
from nanogpt.posts.post_request import KVView, Request, by_head
from nanogpt.request import Arrivals, validate_fields
from nanogpt.trace import StepRecord, Trace, WaitRecord
from nanogpt.validate import check_is


class KeptKV(kv_cache_manager.KVCacheManager):
    """Keeps a copy of the K/V of finished requests. Mutable: `kept`, by request id."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept: dict[int, KVView] = {}

    def free_finished(self, request_id: int) -> None:
        """Copy the K/V of a finished request, and free it."""
        self.kept[request_id] = by_head(self.cache.held(request_id).clone())
        super().free_finished(request_id)


class PostScheduler(scheduler.Scheduler):
    """What `scheduled_generate` returns.

    Mutable: `trace`, the run, once it has ended; `preempted`, every request that was preempted.
    """

    def __init__(self, config: EngineConfig, *args: Any) -> None:
        super().__init__(config, *args)
        self.trace: Trace | None = None
        self.preempted: list[request.Request] = []
        self.policy, self.sliding_window = config.policy, config.sliding_window
        self.token_budget, self.max_kv_tokens = config.token_budget, config.max_kv_tokens
        self.max_batch_size, self.max_prefilling = config.max_batch_size, config.max_prefilling

    def preempt(self, requeue: Requeue) -> None:
        """Send a running request back to wait, and note it."""
        super().preempt(requeue)
        self.preempted.append(requeue.request)

    def complete(self, request: request.Request) -> None:
        """Take out a finished request, and leave it its K/V to look at."""
        super().complete(request)
        assert isinstance(self.kv, KeptKV)
        if isinstance(request, Request) and request.id in self.kv.kept:
            request.own_kv, request.engine_kv = self.kv.kept.pop(request.id), None


class PostEngine(engine.Engine):
    """An engine whose requests show their K/V."""

    def make_scheduler(self) -> PostScheduler:
        """The scheduler, which keeps the K/V of finished requests."""
        kv = KeptKV(self.config, self.policies, self.cache)
        return PostScheduler(self.config, self.policies, self.model.config, kv, self.drafter)

    def _accept(self, request: request.Request) -> None:
        super()._accept(request)
        if isinstance(request, Request):
            request.engine_kv = partial(self._kv_of, request.id)

    def _kv_of(self, request_id: int) -> KVView:
        held = request_id in self.cache.holders()
        return by_head(self.cache.held(request_id)) if held else {}


class Scheduler(PostScheduler):
    """The scheduler as the posts' own loops drive it. Mutable: the last prefill and its cursor."""

    def __init__(
        self,
        policy: Policy = "fcfs",
        token_budget: int = 16,
        max_kv_tokens: int | None = None,
        max_batch_size: int = 8,
        max_prefilling: int | None = 1,
        *,
        policies: Policies = Policies(),
        **settings: Any,
    ) -> None:
        config = EngineConfig(
            token_budget, max_kv_tokens, max_batch_size, max_prefilling, policy, **settings
        )
        kv = KeptKV(config, policies, KVStore())
        super().__init__(config, policies, ModelConfig(), kv)
        self._prefill_at: tuple[int, int] | None = None

    def add_request(self, request: request.Request) -> None:
        """Put a new request among the waiting. Raises: ValueError for one that never fits."""
        validate_fields(request)
        self.check_new(request)
        super().add_request(request)

    def _room_for_waiting(self) -> float:
        return math.inf  # the loops of the posts plan for themselves

    def schedule(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, step: int
    ) -> tuple[request.Request | None, list[request.Request]]:
        """Make room, admit, and return (the prefilling request or None, the decoding ones).

        Raises: ValueError for a loop that computes a preempted request's prompt again and nothing
        behind it.
        """
        self.begin_step(step)
        preempted = self.select_victims()
        admissible, _ = self.select_admissible(preempted)
        for requeue in preempted:
            self.preempt(requeue)
        for each in admissible:
            self.admit(each)
        prefill = self.prefilling[0] if self.prefilling else None
        was_at, self._prefill_at = self._prefill_at, None
        if prefill is not None:
            done, left = prefill.num_computed_tokens, prefill.remaining
            self._prefill_at = (prefill.id, done)
            stuck = not self.active and was_at == self._prefill_at
            if stuck and left and done >= len(prefill.prompt_tokens):
                raise ValueError(
                    f"step {step}: request {prefill.id} was preempted, and {left} of the tokens "
                    "that it generated are still to be computed again; cut its chunks from "
                    "`remaining`, not from the prompt alone"
                )
        return prefill, list(self.active)


def chunked_prefill_generate(
    model: GPT,
    request_queue: Arrivals,
    token_budget: int = 16,
    *,
    policies: Policies = Policies(),
    **settings: Any,
) -> list[request.Request]:
    """Serve [(arrival step, request), ...] with chunked prefill; return them as they complete.

    As in the chunked-prefill post, all given requests may run at once, one of them in prefill.
    `settings` are further fields of `EngineConfig`.
    Raises: ValueError for a bad request or limit, PolicyError for an illegal answer of a policy,
    and whatever a policy raises.
    """
    check_is("request_queue", request_queue, Sequence, "a list of pairs (arrival step, Request)")
    settings = {"max_batch_size": max(1, len(request_queue)), "max_prefilling": 1} | settings
    config = EngineConfig(token_budget, **settings)
    trace = PostEngine(model, config, policies).run(request_queue)
    by_id = {request.id: request for _, request in request_queue}
    return [by_id[request_id] for step in trace.steps for request_id in step.finished]


def scheduled_generate(
    model: GPT,
    requests: Sequence[request.Request],
    policy: Policy = "fcfs",
    token_budget: int = 16,
    max_kv_tokens: int = 256,
    *,
    policies: Policies = Policies(),
    max_steps: int | None = None,
    **settings: Any,
) -> PostScheduler:
    """Serve requests that are all there at step 0 under a policy and a KV budget.

    As in the scheduling post, one request prefills at a time, and a step is two forwards, prefill
    and decode (executor="packed" makes it one). `settings` are further fields of `EngineConfig`;
    `max_steps` ends a run that would go on for ever.
    Returns the scheduler; `scheduler.trace` is the run, which `step_log` prints.
    Raises: as `chunked_prefill_generate`.
    """
    check_is("requests", requests, Sequence, "a list of Request")
    settings = {"max_prefilling": 1, "executor": "padded"} | settings
    config = EngineConfig(token_budget, max_kv_tokens, policy=policy, **settings)
    engine = PostEngine(model, config, policies)
    trace = engine.run([(0, request) for request in requests], max_steps)
    assert isinstance(engine.scheduler, PostScheduler)
    engine.scheduler.trace = trace
    return engine.scheduler


def interleaved_generate(
    model: GPT,
    requests: Sequence[request.Request],
    policy: Policy = "fcfs",
    token_budget: int = 16,
    max_kv_tokens: int = 256,
    **settings: Any,
) -> PostScheduler:
    """Serve requests as `scheduled_generate` does, with one forward in every step that computes.

    "fused" pads every row to the longest, as in the interleaving post; "single_mask" and "packed"
    pad nothing. Raises: as `scheduled_generate`, and ValueError for the executor "padded".
    """
    settings = {"executor": "fused"} | settings
    if settings["executor"] == "padded":
        raise ValueError("the executor 'padded' takes two forwards; choose 'fused' or 'packed'")
    return scheduled_generate(model, requests, policy, token_budget, max_kv_tokens, **settings)


def step_log(trace: Trace) -> str:
    """The run as text, one line per step: what prefills, decodes, waits, was preempted."""
    return "\n".join(map(_step_line, trace.steps, wait_reasons(trace)))


def _step_line(step: StepRecord, waits: Sequence[WaitRecord]) -> str:
    prefills = [f"{w.request_id}[{w.start}:{w.end}]" for w in step.work if w.kind == "prefill"]
    decodes = [work.request_id for work in step.work if work.kind == "decode"]
    waiting = [wait.request_id for wait in waits]
    line = f"[step {step.step}] prefill={', '.join(prefills) or None} decode={decodes} "
    line += f"waiting={waiting} kv={step.kv_after}"
    return line + (f" preempted={list(step.preempted)}" if step.preempted else "")
