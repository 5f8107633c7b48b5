"""The scheduler: who waits, who runs, who has to give way. Knows KV counts, never tensors.

    waiting --admit--> prefilling --promote--> active --complete--> done
       ^                    |                    |
       +--------------------+----- preempt ------+      (recompute: the tokens stay, the K/V goes)

Progress: generated tokens are kept, so the run ends if new ones keep coming. When the KV budget is
short, either the victim is active, and so has sampled since it was admitted, or an active request
stays and samples in that same step. For a more important waiter only active requests are
preempted. And alone every request fits: `add_request` refuses what never could. So no
policy, static or timed, can keep a finite workload from finishing. That no request starves while
new ones keep coming holds for "fcfs" and for keys that age, and not for strict priority.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

from nanogpt.parts import Parts
from nanogpt.parts.ranking import Key, Policy, TimedKey, check_policy, in_order, key_under
from nanogpt.parts.request_view import RequestView, check_count, kv_limit, never_fits
from nanogpt.policies import Resumed, Verdict
from nanogpt.request import Request, check_form
from nanogpt.trace import Trace
from nanogpt.validate import check_bool, check_int, check_is, check_limits, check_sinks

Waiting = tuple[Key, int, int, Request]
WayBack = tuple[Resumed, Key]


class Scheduler:
    """Queues, admission by KV budget and batch size, preemption by recompute.

    `policy` is "fcfs", "priority", a key of a request, or a `TimedKey`. Limits: `token_budget`
    tokens per step; `max_kv_tokens` KV tokens held by all requests together (None: no limit);
    `max_batch_size` requests running at once; `max_prefilling` of them in prefill (None: no
    limit). Under a `sliding_window` a request counts with the last that many tokens and its first
    `num_sinks`. `preempt_to_admit` lets a waiter push out less important requests, not only decode
    growth. Mutable: the queues and the requests in them; `trace`, once a run function set it.
    """

    def __init__(
        self,
        policy: Policy = "fcfs",
        token_budget: int = 16,
        max_kv_tokens: int | None = None,
        max_batch_size: int = 8,
        max_prefilling: int | None = 1,
        *,
        sliding_window: int | None = None,
        num_sinks: int = 0,
        preempt_to_admit: bool = False,
        block_size: int = 1,
        parts: Parts = Parts(),
    ) -> None:
        check_int("token_budget", token_budget, 1)
        check_int("max_batch_size", max_batch_size, 1)
        check_limits(
            max_kv_tokens=max_kv_tokens,
            max_prefilling=max_prefilling,
            sliding_window=sliding_window,
        )
        check_sinks(num_sinks, sliding_window)
        check_bool("preempt_to_admit", preempt_to_admit)
        check_is("parts", parts, Parts, "Parts")
        check_policy(policy)
        self.policy = policy
        self.token_budget = token_budget
        self.max_kv_tokens = max_kv_tokens
        self.max_batch_size = max_batch_size
        self.max_prefilling = max_prefilling
        self.sliding_window = sliding_window
        self.num_sinks = num_sinks
        self.preempt_to_admit = preempt_to_admit
        self.block_size = block_size
        self.kv_limit, self._across = None, 0
        if sliding_window is not None:
            self.kv_limit = kv_limit(sliding_window, num_sinks, block_size)
            self._across = self.kv_limit - sliding_window - num_sinks
        self.parts = parts
        self.waiting: list[Waiting] = []
        self.prefilling: list[Request] = []
        self.active: list[Request] = []
        self.preempted: list[Request] = []
        self.trace: Trace | None = None
        self.shared: Callable[[Sequence[Request]], int] = lambda requests: 0
        self._step = 0
        self._keys: dict[int, Key] = {}
        self._admitted_at: dict[int, int] = {}

    def check_new(self, request: Request) -> None:
        """Raises: ValueError for no request, an id seen before, or more KV than the budget has."""
        check_form(request)
        if request.id in self._keys:
            raise ValueError(f"there is a request {request.id} already; ids must be unique")
        view = self.view(request)
        if self.max_kv_tokens is not None and view.kv_tokens_needed > self.max_kv_tokens:
            raise never_fits(view, self.max_kv_tokens, self.sliding_window)
        if self._verdict(view, held=0, num_running=0) == "refuse":
            raise ValueError(f"request {request.id} fits, and admit refused it for good")

    def add_request(self, request: Request) -> None:
        """Put a new request among the waiting. Raises: as `check_new` does."""
        self.check_new(request)
        self.enqueue(request)

    def enqueue(self, request: Request) -> None:
        """Put a request among the waiting that `check_new` has looked at."""
        self._keys[request.id] = self._key(self.view(request))
        self._push(request)

    def is_done(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self.waiting or self.prefilling or self.active)

    def begin_step(self, step: int) -> None:
        """Note the time; under a `TimedKey`, rank every request anew."""
        self._step = step
        if isinstance(self.policy, TimedKey):
            self.rank_anew()

    def rank_anew(self) -> None:
        """Rank every request by the policy as it is now, and rebuild the heap of the waiting."""
        requests = [*self._running(), *(entry[3] for entry in self.waiting)]
        self._keys.update({request.id: self._key(self.view(request)) for request in requests})
        self.waiting = [self._entry(entry[3]) for entry in self.waiting]
        heapq.heapify(self.waiting)

    def victims(self) -> list[Request]:
        """What to preempt in this step, so that decodes can grow or the head can start.

        Changes nothing.
        """
        staying, victims = self._running(), list[Request]()
        while self._exceeds_kv_limit(staying):
            if len(staying) == 1:
                one = staying[0]
                check_count(self.view(one), self.counted(one, one.remaining), self.max_kv_tokens)
            victims.append(self._choose(staying))
            staying.remove(victims[-1])
        if victims or not self.preempt_to_admit:
            return victims
        return self._victims_for_head()

    def reason_to_leave(self) -> str:
        """Why the `victims` have to leave, for the record."""
        if self._exceeds_kv_limit(self._running()) or not self.waiting:
            return "preempted to keep the KV budget"
        return f"preempted to let request {self.waiting[0][3].id} start"

    def admissible(self, leaving: Sequence[Request] = ()) -> tuple[list[Request], str | None]:
        """The waiting requests that may start now, in order, and why the next one may not.

        The queue is strict: nothing overtakes a head that does not fit. `leaving` are about to be
        preempted; their K/V is free from the next step on. Changes nothing.
        """
        admitted: list[Request] = []
        if leaving:
            return admitted, "a request was just preempted to make room"
        running, num_prefilling = self._running(), len(self.prefilling)
        for *_, candidate in in_order(self.waiting):
            reason = self._blocked(candidate, running, num_prefilling)
            if reason:
                return admitted, reason
            admitted.append(candidate)
            running.append(candidate)
            num_prefilling += 1
        return admitted, None

    def admit(self, request: Request) -> None:
        """Move a waiting request to prefill; its arrival time stays what it was."""
        passed = list[Waiting]()  # few: what may start stands at the head of the queue
        while (entry := heapq.heappop(self.waiting))[3] is not request:
            passed.append(entry)
        for entry in passed:
            heapq.heappush(self.waiting, entry)
        self._admitted_at[request.id] = self._step
        request.status = "prefilling"
        self.prefilling.append(request)

    def promote(self, request: Request) -> None:
        """Move a request that has sampled from its last known token from prefill to decode."""
        self.prefilling.remove(request)
        request.status = "active"
        self.active.append(request)

    def way_back(self, request: Request) -> WayBack:
        """What a preempted request will go back to the queue with, and its rank there.

        Changes nothing, so that a part which fails here leaves the request where it is.
        """
        view = self.view(request)
        back = self.parts.resume(view)
        if back.arrival == request.arrival_time:
            return back, self._keys[request.id]
        return back, self._key(replace(view, arrival_time=back.arrival))

    def preempt(self, request: Request, way_back: WayBack | None = None) -> None:
        """Send a running request back to wait. It keeps its tokens and its place, not its K/V."""
        back, key = way_back or self.way_back(request)
        self._remove(request)
        request.clear_cache()
        request.generated_tokens = request.generated_tokens[: back.num_generated]
        request.status = "waiting"
        self.preempted.append(request)
        request.arrival_time = back.arrival
        self._keys[request.id] = key
        self._push(request)

    def complete(self, request: Request) -> None:
        """Take a finished request out."""
        self._remove(request)
        request.status = "done"

    def give_up(self, request: Request) -> None:
        """Take a request out that cannot be served, wherever it is: in O(n) out of n that wait."""
        if request in self._running():
            self._remove(request)
        else:
            self.waiting = [entry for entry in self.waiting if entry[3] is not request]
            heapq.heapify(self.waiting)
        request.status = "failed"

    def forget(self, request_id: int) -> None:
        """Keep nothing of a request that is done or given up; its id may come again."""
        del self._keys[request_id]
        self._admitted_at.pop(request_id, None)
        self.preempted = [request for request in self.preempted if request.id != request_id]

    def view(self, request: Request) -> RequestView:
        """The request as policies see it: a copy, with its rank."""
        return RequestView(
            id=request.id,
            priority=request.priority,
            arrival_time=request.arrival_time,
            admitted_at=self._admitted_at.get(request.id),
            prompt_tokens=tuple(request.prompt_tokens),
            generated_tokens=tuple(request.generated_tokens),
            max_new_tokens=request.max_new_tokens,
            kv_tokens=request.prefill_cursor,
            key=self._keys.get(request.id, ()),
            kv_limit=self.kv_limit,
            block_size=self.block_size,
        )

    def counted(self, request: Request, num_tokens: int = 0) -> int:
        """KV tokens that the request counts with, once `num_tokens` more are computed."""
        cursor = request.prefill_cursor
        held = self.parts.held(cursor, num_tokens, self.sliding_window, self.num_sinks)[1]
        held += min(self._across, max(0, cursor + num_tokens - held))  # a block more than it fills
        return held + -held % self.block_size

    def kv_tokens_needed(self, requests: Sequence[Request]) -> int:
        """KV tokens that these requests hold together once all their known tokens are computed.

        Blocks that several of them name are charged once.
        """
        return sum(self.counted(r, r.remaining) for r in requests) - self.shared(requests)

    def _exceeds_kv_limit(self, requests: Sequence[Request]) -> bool:
        limit = self.max_kv_tokens
        return limit is not None and self.kv_tokens_needed(requests) > limit

    def _key(self, view: RequestView) -> Key:
        return key_under(self.policy, view, self._step, self.parts)

    def _entry(self, request: Request) -> Waiting:
        return (self._keys[request.id], request.arrival_time, request.id, request)

    def _push(self, request: Request) -> None:
        heapq.heappush(self.waiting, self._entry(request))

    def _remove(self, request: Request) -> None:
        (self.active if request in self.active else self.prefilling).remove(request)

    def _running(self) -> list[Request]:
        return [*self.active, *self.prefilling]

    def _choose(self, candidates: Sequence[Request]) -> Request:
        chosen = self.parts.choose_victim([self.view(request) for request in candidates])
        for request in candidates:
            if request.id == chosen:
                return request
        ids = [request.id for request in candidates]
        raise ValueError(f"choose_victim named request {chosen!r}; only {ids} are running")

    def _victims_for_head(self) -> list[Request]:
        """The less important active requests whose leaving lets the head of the queue start."""
        if not self.waiting:
            return []
        head = self.waiting[0]
        staying, victims = self._running(), list[Request]()
        if not self._blocked(head[3], staying, len(self.prefilling)):
            return []
        while self._blocked(head[3], staying, len(self.prefilling), self._growing(staying)):
            less = [r for r in staying if r in self.active and self._entry(r)[:3] > head[:3]]
            if not less:
                return []
            victims.append(self._choose(less))
            staying.remove(victims[-1])
        return victims

    def _verdict(self, view: RequestView, held: int, num_running: int) -> Verdict:
        return self.parts.admit(view, held, self.max_kv_tokens, num_running, self.max_batch_size)

    def _blocked(
        self,
        candidate: Request,
        running: Sequence[Request],
        num_prefilling: int,
        num_growing: int = 0,
    ) -> str | None:
        """Why `candidate` may not start beside `running`, in words; None when it may.

        `num_growing` more KV tokens are held by the time it starts.
        """
        if self.max_prefilling is not None and num_prefilling >= self.max_prefilling:
            return "another request is being prefilled"
        start = self.counted(candidate, candidate.remaining)
        # Blocks that both name are those of the running: beside them it needs the rest.
        held = self.kv_tokens_needed([*running, candidate]) - start + num_growing
        verdict = self._verdict(self.view(candidate), held, len(running))
        if verdict == "admit":
            return None
        if len(running) >= self.max_batch_size:
            return f"the batch is full ({len(running)} of {self.max_batch_size})"
        if self.max_kv_tokens is not None and held + start > self.max_kv_tokens:
            return (
                f"the KV budget is short: {held} reserved + {start} "
                f"to compute > {self.max_kv_tokens}"
            )
        return f"admit said {verdict!r}"

    def _growing(self, running: Sequence[Request]) -> int:
        """KV tokens by which the running may have grown when the next step begins."""
        going_on = [r for r in running if r.num_generated + 1 < r.max_new_tokens]
        return sum(
            self.counted(r, r.remaining + 1) - self.counted(r, r.remaining) for r in going_on
        )
