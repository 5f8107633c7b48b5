"""The waiting requests in order: a heap of keys, and what policies see of a request."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from nanogpt.config import Policy, TimedKey
from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.policies import Policies
from nanogpt.policies.validate_policies import checked_key
from nanogpt.request import Request
from nanogpt.views.request_view import Key, RequestView

Entry = tuple[Key, int, int, Request]
"""(key, arrival time, id, request): the smallest goes first."""


class RequestQueue:
    """A priority queue of requests. Mutable: `heap`, as `heapq` orders it, and all keys by id.

    `policy` gives the keys at `step`. They are kept until `forget`, so that running and waiting
    requests can be compared. A request that left stays in the heap until it is `removed` with a
    few others, or reaches the top.
    """

    def __init__(self, policy: Policy, policies: Policies, kv: KVCacheManager) -> None:
        self.policy = policy
        self.policies = policies
        self.kv = kv
        self.step = 0
        self.heap: list[Entry] = []
        self.removed: set[Request] = set()
        self.keys: dict[int, Key] = {}
        self.admitted_at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.heap) - len(self.removed)

    def __iter__(self) -> Iterator[Request]:
        """The waiting requests in order; the first k of n cost O(k log n)."""
        return (entry[3] for entry in in_order(self.heap) if entry[3] not in self.removed)

    def peek_request(self) -> Request:
        """The first waiting request."""
        return self.heap[0][3]

    def push(self, request: Request, key: Key | None = None) -> None:
        """Put a request among the waiting, under the given key or the one of the policy."""
        self.keys[request.id] = self.compute_key(self.view(request)) if key is None else key
        heapq.heappush(self.heap, self.sort_entry(request))

    def pop_request(self, request: Request) -> None:
        """Take out a request that is admitted, near the head of the queue: O(k log n)."""
        passed = list[Entry]()
        while (entry := heapq.heappop(self.heap))[3] is not request:
            passed.append(entry)
        for entry in passed:
            heapq.heappush(self.heap, entry)
        self._drop_removed()
        self.admitted_at[request.id] = self.step

    def remove(self, request: Request) -> None:
        """Take out a request wherever it stands: O(sqrt n) each, where many leave."""
        self.removed.add(request)
        self._drop_removed()

    def _drop_removed(self) -> None:
        """Keep removed requests off the top, and their number below the square root of n."""
        if len(self.removed) ** 2 > len(self.heap):
            self.heap = [entry for entry in self.heap if entry[3] not in self.removed]
            heapq.heapify(self.heap)
            self.removed.clear()
        while self.heap and self.heap[0][3] in self.removed:
            self.removed.remove(heapq.heappop(self.heap)[3])

    def forget(self, request_id: int) -> None:
        """Drop the key of a request that has left."""
        self.keys.pop(request_id, None)
        self.admitted_at.pop(request_id, None)

    def rank_anew(self, requests: Sequence[Request]) -> None:
        """Give these and all waiting requests new keys, and rebuild the heap."""
        waiting = [entry[3] for entry in self.heap if entry[3] not in self.removed]
        self.keys.update({r.id: self.compute_key(self.view(r)) for r in (*requests, *waiting)})
        self.heap = [self.sort_entry(request) for request in waiting]
        heapq.heapify(self.heap)
        self.removed.clear()

    def sort_entry(self, request: Request) -> Entry:
        """The request's place in the order, whether it waits or runs."""
        return self.keys[request.id], request.arrival_time, request.id, request

    def compute_key(self, view: RequestView) -> Key:
        """The key that the policy gives at this step. Raises: PolicyError unless it is a tuple."""
        if isinstance(self.policy, str):
            return self.policies.sort_key(self.policy, view)
        if isinstance(self.policy, TimedKey):
            return checked_key("policy", self.policy.key(view, self.step), view)
        return checked_key("policy", self.policy(view), view)

    def view(self, request: Request) -> RequestView:
        """The request as policies see it: a copy, with its key."""
        return RequestView(
            id=request.id,
            priority=request.priority,
            arrival_time=request.arrival_time,
            admitted_at=self.admitted_at.get(request.id),
            prompt_tokens=tuple(request.prompt_tokens),
            generated_tokens=tuple(request.generated_tokens),
            max_new_tokens=request.max_new_tokens,
            kv_tokens=request.num_computed_tokens,
            key=self.keys.get(request.id, ()),
            kv_limit=self.kv.window_kv_limit,
            block_size=self.kv.block_size,
        )


def in_order(heap: Sequence[Any], top: int = 0) -> Iterator[Any]:
    """The entries of a heap, the smallest first, without changing it.

    A heap is its top entry and two smaller heaps, which begin at 2 * top + 1 and 2 * top + 2.
    """
    if top < len(heap):
        yield heap[top]
        yield from heapq.merge(in_order(heap, 2 * top + 1), in_order(heap, 2 * top + 2))
