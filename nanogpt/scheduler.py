"""The scheduler: which requests wait, which run, and which have to give way.

    waiting --admit--> prefilling --promote--> active --complete--> done
       ^                    |                    |
       +--------------------+----- preempt ------+      (recompute: the tokens stay, the K/V goes)

`schedule` decides a step: it moves no request and touches no K/V. `update` makes the step count.
The scheduler counts KV tokens and never sees a tensor. With the reference policies every finite
workload finishes: a preempted request keeps its generated tokens, the KV budget is exceeded only
after a token was sampled, and a request that could never fit is refused on arrival. Another policy
can break this; `Engine.run(max_steps=...)` bounds such a run. A request may starve under strict
priority while more important ones keep coming; under "fcfs" and under keys that age it cannot.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nanogpt.config import EngineConfig, ModelConfig, TimedKey
from nanogpt.kv_cache_manager import KVCacheManager, Reservation
from nanogpt.outputs import PrefixHit, Requeue, Row, Sampled, SchedulerOutput, Update
from nanogpt.planning import Candidates, Plan, plan_problem
from nanogpt.policies import Policies
from nanogpt.request import Request
from nanogpt.request_queue import RequestQueue
from nanogpt.validate import PolicyError, is_reference
from nanogpt.views.request_view import RequestView

if TYPE_CHECKING:
    from nanogpt.speculative.drafting import Drafter

LOOKAHEAD = 16  # requests behind a full step


class Scheduler:
    """Plans steps within the limits of `config`; preempts by recomputation.

    Mutable: `waiting`, `prefilling`, `active` (they decode), and the `requests` in them, by id.
    """

    def __init__(
        self,
        config: EngineConfig,
        policies: Policies,
        model_config: ModelConfig,
        kv: KVCacheManager,
        drafter: "Drafter | None" = None,
    ) -> None:
        self.config = config
        self.policies = policies
        self._validates_plans = not is_reference(policies, "plan_step")
        self._validates_inputs = not is_reference(policies, "chunk_inputs")
        self.model_config = model_config
        self.drafter = drafter
        self.kv = kv
        self.waiting = RequestQueue(config.policy, policies, self.kv)
        self.prefilling: list[Request] = []
        self.active: list[Request] = []
        self.requests: dict[int, Request] = {}
        self._last_served: dict[int, tuple[int, int, int]] = {}  # step, arrival time, id

    def schedule(self, step: int, now_us: int) -> SchedulerOutput:
        """Decide what a step does: preempt, admit, plan.

        Raises: ValueError when nothing can run; PolicyError for an illegal answer of a policy, and
        whatever a policy raises.
        """
        self.begin_step(step)
        preempted = self.select_victims()
        admissible, blocked = self.select_admissible(preempted)
        hits = {r.id: hit for r in admissible if (hit := self.kv.cache.match(r)) is not None}
        candidates = self.candidates(preempted, admissible, hits)
        if candidates.is_empty and not preempted:
            raise ValueError(f"step {step}: nothing can ever run again: {blocked}")
        plan = self._plan(candidates)
        rows = self._rows(plan, hits, may_draft=not preempted)
        kv_before, active_ids = self.kv.cache.held_tokens(), self.active_ids()
        return SchedulerOutput(
            step, now_us, kv_before, active_ids, preempted, candidates, blocked, plan, hits, rows
        )

    def update(self, scheduled: SchedulerOutput, sampled: Mapping[int, Sampled]) -> Update:
        """Make a step count: K/V first, which policies may still refuse, then the queues."""
        update = self.kv.commit(scheduled, sampled, self.requests)
        for requeue in scheduled.preempted:
            self.preempt(requeue)
        for row in scheduled.rows:
            request = self.requests[row.request_id]
            if request.status == "waiting":
                self.admit(request)
            request.num_computed_tokens = update.num_computed_tokens[request.id]
            if request.status == "prefilling" and request.remaining == 0:
                self.promote(request)
            request.generated_tokens += update.new_tokens[request.id]
            request.matcher = update.matchers.get(request.id, request.matcher)
            self._last_served[request.id] = scheduled.step, request.arrival_time, request.id
        for request_id in update.finished:
            self.complete(self.requests[request_id])
        return update

    # --- preempt, admit, plan ---------------------------------------------------------------------

    def begin_step(self, step: int) -> None:
        """Note the time; under a `TimedKey`, rank every request anew."""
        self.waiting.step = step
        if isinstance(self.waiting.policy, TimedKey):
            self.waiting.rank_anew(self.running())

    def select_victims(self) -> tuple[Requeue, ...]:
        """Choose the requests to preempt.

        If the running requests exceed the KV budget: victims until the others fit. Otherwise, under
        `preempt_to_admit`: victims so that the first waiting request can start in the next step.
        """
        staying, victims = self.running(), list[Request]()
        reason = "preempted to keep the KV budget"
        while len(staying) > 1 and self.kv.is_exceeded(staying):
            victims.append(self._choose_victim(staying))
            staying.remove(victims[-1])
        if self.kv.is_exceeded(staying):
            self.kv.check_charge(staying[0], self.view(staying[0]))
        if not victims and self.waiting and self.config.preempt_to_admit:
            candidate = self.waiting.peek_request()
            victims = self._victims_for(candidate)
            reason = f"preempted to let request {candidate.id} start"
        return tuple([self.requeue(victim, reason) for victim in victims])

    def select_admissible(
        self, preempted: Sequence[Requeue] = ()
    ) -> tuple[list[Request], str | None]:
        """Choose the waiting requests that may start, in order, and say why the next one may not.

        The queue is strict: nothing overtakes a request that does not fit. The K/V of preempted
        requests is free from the next step on. Behind the requests that fill up the step, the
        reference plan gives none a token, so only `LOOKAHEAD` more are looked at, for the trace.
        """
        admissible: list[Request] = []
        if preempted or not self.waiting:
            return [], "a request was just preempted to make room" if preempted else None
        running, num_prefilling = self.kv.reserve(self.running()), len(self.prefilling)
        room, behind = self._room_for_waiting(), 0
        for candidate in self.waiting:
            reason = self._blocked(candidate, running, num_prefilling + len(admissible))
            if reason or behind == LOOKAHEAD:
                return admissible, reason
            admissible.append(candidate)
            running.add(candidate)
            behind += room <= 0
            hit = self.kv.cache.match(candidate)
            room -= candidate.remaining - (hit.num_tokens if hit else 0)
        return admissible, None

    def _room_for_waiting(self) -> float:
        """Tokens of the step that the reference plan leaves for waiting requests."""
        if self._validates_plans:
            return math.inf
        return self.config.token_budget - sum(request.remaining for request in self.running())

    def candidates(
        self,
        preempted: Sequence[Requeue],
        admissible: Sequence[Request],
        hits: Mapping[int, PrefixHit],
    ) -> Candidates:
        """The plan's candidates: the decodes, least recently served first, the prefilling
        requests, and the admissible ones without their prefix hits.
        """
        gone = {requeue.request.id for requeue in preempted}
        decodes = [request for request in self.active if request.id not in gone]
        decodes.sort(key=lambda request: self._last_served[request.id])
        prefills = [request for request in self.prefilling if request.id not in gone]
        found = {request_id: hit.num_tokens for request_id, hit in hits.items()}
        return Candidates(
            decodes=tuple([request.id for request in decodes]),
            prefilling=tuple([(request.id, request.remaining) for request in prefills]),
            waiting=tuple([(r.id, r.remaining - found.get(r.id, 0)) for r in admissible]),
        )

    def _plan(self, candidates: Candidates) -> Plan:
        """Ask the policy who computes how many tokens, and refuse an illegal answer."""
        if candidates.is_empty:
            return []
        decodes, prefilling = list(candidates.decodes), list(candidates.prefilling)
        budget = self.config.token_budget
        plan = self.policies.plan_step(decodes, prefilling, list(candidates.waiting), budget)
        if self._validates_plans and (problem := plan_problem(plan, candidates)):
            raise PolicyError(f"step {self.waiting.step}: {problem}")
        return list(plan)

    def active_ids(self) -> tuple[int, ...]:
        """Ids of the requests that decode."""
        return tuple([request.id for request in self.active])

    def _rows(
        self, plan: Plan, hits: Mapping[int, PrefixHit], *, may_draft: bool
    ) -> tuple[Row, ...]:
        planned = [(self.requests[request_id], num_tokens) for request_id, num_tokens in plan]
        # A candidate that others were preempted for counts on the room that drafts would take.
        drafter, inputs = self.drafter if may_draft else None, self.policies.chunk_inputs
        drafts = drafter.propose(planned, self.running(), self.kv) if drafter else {}
        try:
            rows = tuple([Row.of(r, n, hits, drafts, inputs, self.config) for r, n in planned])
            if drafts or self._validates_inputs:
                for row in rows:
                    row.check_embeddings(self.model_config)
        except PolicyError as error:
            raise PolicyError(f"step {self.waiting.step}, {error}") from None
        return rows

    def _choose_victim(self, running: Sequence[Request]) -> Request:
        views = [self.view(request) for request in running]
        return self.requests[self.policies.choose_victim(views)]

    def requeue(self, victim: Request, reason: str) -> Requeue:
        """The state that a running request would go back to the queue with. Changes nothing."""
        view = self.view(victim)
        state, key = self.policies.requeue(view), view.key
        # A request keeps its key while it runs and when it is preempted, unless it arrives anew.
        if state.arrival_time != victim.arrival_time:
            key = self.waiting.compute_key(replace(view, arrival_time=state.arrival_time))
        return Requeue(victim, state, key, reason)

    def _victims_for(self, candidate: Request) -> list[Request]:
        """The less important decodes that have to go so that the candidate can start.

        Prefilling requests are spared: they would lose their work before they gain a token.
        """
        staying, victims, num_prefilling = self.running(), list[Request](), len(self.prefilling)
        if not self._blocked(candidate, self.kv.reserve(staying), num_prefilling):
            return []  # it starts in this step
        entry = self.waiting.sort_entry
        growth = self.kv.growth_by_next_step
        while self._blocked(candidate, self.kv.reserve(staying), num_prefilling, growth(staying)):
            decodes = [request for request in staying if request.status == "active"]
            less_important = [each for each in decodes if entry(each) > entry(candidate)]
            if not less_important:
                return []
            victims.append(self._choose_victim(less_important))
            staying.remove(victims[-1])
        return victims

    def _blocked(
        self, candidate: Request, running: Reservation, num_prefilling: int, growth: int = 0
    ) -> str | None:
        """Why the candidate may not start beside the running, in words; None when it may.

        `growth` are KV tokens to reserve on top, where the candidate starts one step later.
        """
        limits = self.config
        if limits.max_prefilling is not None and num_prefilling >= limits.max_prefilling:
            return "another request is being prefilled"
        start = self.kv.kv_tokens_charged(candidate, candidate.remaining)
        # used + start charges shared blocks once: to the candidate, and not to the running.
        used = running.kv_tokens - running.shared_with(candidate) + growth
        verdict = self._verdict(self.view(candidate), used, running.num_requests)
        if verdict == "admit":
            return None
        if running.num_requests >= limits.max_batch_size:
            return f"the batch is full ({running.num_requests} of {limits.max_batch_size})"
        if limits.max_kv_tokens is not None and used + start > limits.max_kv_tokens:
            most = limits.max_kv_tokens
            return f"the KV budget is short: {used} reserved + {start} to compute > {most}"
        return f"admit said {verdict!r}"

    def _verdict(self, view: RequestView, kv_tokens_used: int, num_running: int) -> str:
        limits = self.config
        return self.policies.admit(
            view, kv_tokens_used, limits.max_kv_tokens, num_running, limits.max_batch_size
        )

    # --- the queues -------------------------------------------------------------------------------

    def check_new(self, request: Request) -> None:
        """Raises: ValueError for an id seen before, or more K/V than the budget has."""
        if request.id in self.waiting.keys:
            raise ValueError(f"there is a request {request.id} already; ids must be unique")
        view = self.view(request)
        self.kv.check_fits(view)
        if self._verdict(view, kv_tokens_used=0, num_running=0) == "refuse":
            raise ValueError(f"request {request.id} fits, and admit refused it for good")

    def add_request(self, request: Request) -> None:
        """Put a new request among the waiting, once `check_new` has passed it."""
        self.waiting.push(request)
        self.requests[request.id] = request

    def admit(self, request: Request) -> None:
        """Move a waiting request to prefill; its arrival time stays what it was."""
        self.waiting.pop_request(request)
        request.status = "prefilling"
        self.prefilling.append(request)

    def promote(self, request: Request) -> None:
        """Move a request that has sampled from its last known token from prefill to decode."""
        self.prefilling.remove(request)
        request.status = "active"
        self.active.append(request)

    def preempt(self, requeue: Requeue) -> None:
        """Send a running request back to wait, without its K/V."""
        request, state = requeue.request, requeue.state
        self._stop(request)
        request.status = "waiting"
        request.clear_cache()
        request.keep(state.num_generated)
        request.arrival_time = state.arrival_time
        self.waiting.push(request, requeue.key)

    def complete(self, request: Request) -> None:
        """Take out a finished request."""
        self._stop(request)
        request.status, request.block_hashes = "done", []
        del self.requests[request.id]

    def abort(self, request: Request) -> None:
        """Take out an unfinished request, wherever it is."""
        if request.status == "waiting":
            self.waiting.remove(request)
        else:
            self._stop(request)
        request.status, request.block_hashes = "aborted", []
        del self.requests[request.id]

    def forget(self, request_id: int) -> None:
        """Drop all state of a request that is done or aborted, so that its id can be reused."""
        self.waiting.forget(request_id)
        self._last_served.pop(request_id, None)

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under other budgets and another policy; see `Engine.reconfigure`."""
        before = self.kv.max_kv_tokens, self.waiting.policy
        try:
            self.kv.max_kv_tokens, self.waiting.policy = config.max_kv_tokens, config.policy
            for request in self.requests.values():
                self.kv.check_fits(self.view(request))
            self.waiting.rank_anew(self.running())
        except BaseException:
            self.kv.max_kv_tokens, self.waiting.policy = before
            raise
        self.config = config

    def is_done(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self.waiting or self.prefilling or self.active)

    def running(self) -> list[Request]:
        """The requests that hold K/V."""
        return [*self.active, *self.prefilling]

    def view(self, request: Request) -> RequestView:
        """The request as policies see it: a copy, with its key."""
        return self.waiting.view(request)

    def _stop(self, request: Request) -> None:
        (self.active if request.status == "active" else self.prefilling).remove(request)
