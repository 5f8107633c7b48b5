"""The scheduler: who waits, who runs, who has to give way. Knows KV counts, never tensors.

    waiting --admit--> prefilling --promote--> active --complete--> done
       ^                                          |
       +------------- preempt (recompute) --------+

Progress: arrival is set once and keys do not change, so among unfinished requests one ranks first
for good. It is the last to be chosen as a victim and the first to be admitted, and alone it fits
(`add_request` refuses what never could), so it finishes; then the next one ranks first.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from nanogpt.limits import check_int
from nanogpt.request import Request, kv_tokens_needed

SortKeyOf = Callable[[Request], tuple[Any, ...]]
Waiting = tuple[tuple[Any, ...], int, int, Request]


def fcfs_key(request: Request) -> tuple[Any, ...]:
    """First come, first served."""
    return (request.arrival_time,)


def priority_key(request: Request) -> tuple[Any, ...]:
    """The most important first, priority 0 before 1; among equals the earlier arrival."""
    return (request.priority, request.arrival_time)


def choose_victim(running: Sequence[Request]) -> int:
    """The least important running request; among equals the most recently arrived.

    The most recent has the least to recompute, and the oldest is sure to get through.
    """
    return max(running, key=lambda r: (r.priority, r.arrival_time, r.id)).id


POLICIES: dict[str, SortKeyOf] = {"fcfs": fcfs_key, "priority": priority_key}


class Scheduler:
    """Queues, admission by KV budget and batch size, preemption by recompute.

    Limits: `token_budget` tokens per step; `max_kv_tokens` KV tokens held by all requests together
    (None: no limit); `max_batch_size` requests running at once; `max_prefilling` of them in
    prefill (None: no limit).
    Mutable: the queues and the status of the requests in them.
    """

    def __init__(
        self,
        policy: str | SortKeyOf = "fcfs",
        token_budget: int = 16,
        max_kv_tokens: int | None = None,
        max_batch_size: int = 8,
        max_prefilling: int | None = 1,
        choose_victim: Callable[[Sequence[Request]], int] = choose_victim,
    ) -> None:
        limits = {
            "token_budget": token_budget,
            "max_kv_tokens": max_kv_tokens,
            "max_batch_size": max_batch_size,
            "max_prefilling": max_prefilling,
        }
        for name, limit in limits.items():
            if limit is not None or name in ("token_budget", "max_batch_size"):
                check_int(name, limit, 1)
        if not callable(policy) and policy not in list(POLICIES):
            raise ValueError(f"there is no policy {policy!r}; choose from {sorted(POLICIES)}")
        self.policy = policy
        self.sort_key: SortKeyOf = POLICIES[policy] if isinstance(policy, str) else policy
        self.token_budget = token_budget
        self.max_kv_tokens = max_kv_tokens
        self.max_batch_size = max_batch_size
        self.max_prefilling = max_prefilling
        self.choose_victim = choose_victim
        self.waiting: list[Waiting] = []
        self.prefilling: list[Request] = []
        self.active: list[Request] = []
        self.preempted: list[Request] = []
        self._keys: dict[int, tuple[Any, ...]] = {}

    def check_new(self, request: Request) -> None:
        """Raises: ValueError for an id seen before, or for more KV tokens than the budget has."""
        if request.id in self._keys:
            raise ValueError(f"there is a request {request.id} already; ids must be unique")
        needed = kv_tokens_needed(request)
        if self.max_kv_tokens is not None and needed > self.max_kv_tokens:
            raise ValueError(
                f"request {request.id} needs {len(request.prompt_tokens)} + "
                f"{request.max_new_tokens} - 1 = {needed} KV tokens; "
                f"the KV budget of {self.max_kv_tokens} can never hold it"
            )

    def add_request(self, request: Request) -> None:
        """Put a new request among the waiting. Raises: as `check_new` does."""
        self.check_new(request)
        key = self.sort_key(request)
        self._push(request, key)
        self._keys[request.id] = key

    def is_done(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self.waiting or self.prefilling or self.active)

    def schedule(self, step: int) -> tuple[Request | None, list[Request]]:
        """Make room, admit, and say who prefills and who decodes in this step.

        `step` is part of the signature for policies whose keys depend on time.
        """
        victims = self.victims()
        startable, _ = self.admissible(victims)
        for victim in victims:
            self.preempt(victim)
        for request in startable:
            self.admit(request)
        return (self.prefilling[0] if self.prefilling else None), list(self.active)

    def victims(self) -> list[Request]:
        """Whom to preempt so that every active request can grow by one token. Changes nothing."""
        victims: list[Request] = []
        running = [*self.active, *self.prefilling]
        while self.max_kv_tokens is not None and self._growth(running) > self.max_kv_tokens:
            chosen = self.choose_victim(running)
            victim = next((request for request in running if request.id == chosen), None)
            if victim is None:
                raise ValueError(
                    f"choose_victim named request {chosen}; "
                    f"only {[request.id for request in running]} are running"
                )
            victims.append(victim)
            running.remove(victim)
        return victims

    def admissible(self, leaving: Sequence[Request] = ()) -> tuple[list[Request], str | None]:
        """The waiting requests that may start now, in order, and why the next one may not.

        The queue is strict: nobody overtakes a head that does not fit. `leaving` are victims that
        are about to be preempted: their K/V is free, and they cannot come back in the same step.
        Changes nothing.
        """
        running = [r for r in [*self.active, *self.prefilling] if r not in leaving]
        num_prefilling = sum(r not in leaving for r in self.prefilling)
        admitted: list[Request] = []
        if leaving:
            return admitted, "a request was just preempted to make room"
        for *_, candidate in sorted(self.waiting, key=lambda entry: entry[:3]):
            reason = self._blocked(candidate, running, num_prefilling)
            if reason:
                return admitted, reason
            admitted.append(candidate)
            running.append(candidate)
            num_prefilling += 1
        return admitted, None

    def admit(self, request: Request) -> None:
        """Move a waiting request to prefill; its arrival time stays what it was."""
        self.waiting = [entry for entry in self.waiting if entry[3] is not request]
        heapq.heapify(self.waiting)
        request.status = "prefilling"
        self.prefilling.append(request)

    def promote(self, request: Request) -> None:
        """Move a request that has sampled from its last known token from prefill to decode."""
        self.prefilling.remove(request)
        request.status = "active"
        self.active.append(request)

    def preempt(self, request: Request) -> None:
        """Send a running request back to wait. It keeps its tokens and its place, not its K/V."""
        self._remove(request)
        request.clear_cache()
        request.status = "waiting"
        self.preempted.append(request)
        self._push(request, self._keys[request.id])

    def complete(self, request: Request) -> None:
        """Take a finished request out."""
        self._remove(request)
        request.status = "done"

    def _remove(self, request: Request) -> None:
        (self.active if request in self.active else self.prefilling).remove(request)

    def _push(self, request: Request, key: tuple[Any, ...]) -> None:
        heapq.heappush(self.waiting, (key, request.arrival_time, request.id, request))

    def _growth(self, running: Sequence[Request]) -> int:
        """KV tokens that the running requests will hold once their known tokens are computed."""
        return sum(request.num_known for request in running)

    def _blocked(
        self, candidate: Request, running: Sequence[Request], num_prefilling: int
    ) -> str | None:
        """Why `candidate` may not start beside `running`, in words; None when it may."""
        if len(running) >= self.max_batch_size:
            return f"the batch is full ({len(running)} of {self.max_batch_size})"
        if self.max_prefilling is not None and num_prefilling >= self.max_prefilling:
            return "another request is being prefilled"
        if self.max_kv_tokens is not None:
            held = self._growth(running)
            if held + candidate.num_known > self.max_kv_tokens:
                return (
                    f"the KV budget is short: {held} in use + {candidate.num_known} "
                    f"to compute > {self.max_kv_tokens}"
                )
        return None
