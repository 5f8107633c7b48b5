"""How much K/V each request is charged, and the commit of a step's K/V.

`kv_tokens_charged` is the one measure of K/V: admission, preemption, drafts and the suspended
passes of the tensor-parallel engine all use it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nanogpt.config import EngineConfig
from nanogpt.kv_store import KVStore
from nanogpt.outputs import Row, Sampled, SchedulerOutput, Update
from nanogpt.policies import Policies
from nanogpt.request import Request
from nanogpt.validate import PolicyError, is_reference
from nanogpt.views.request_view import RequestView


class KVCacheManager:
    """Charges KV tokens against `max_kv_tokens`, in whole blocks, under a window if there is one.

    `window_kv_limit` is the most that a window lets one request hold (None: no window).
    """

    def __init__(self, config: EngineConfig, policies: Policies, cache: KVStore) -> None:
        self.max_kv_tokens = config.max_kv_tokens
        self.window, self.num_sinks = config.sliding_window, config.num_sinks
        self.block_size = config.block_size or 1
        self.policies = policies
        self._charges_all = self.window is None and is_reference(policies, "kv_usage")
        self.cache = cache
        self.window_kv_limit, self._partial_block_slack = None, 0
        if self.window is not None:
            self.window_kv_limit = kv_limit(self.window, self.num_sinks, self.block_size)
            self._partial_block_slack = self.window_kv_limit - self.window - self.num_sinks

    def kv_tokens_charged(self, request: Request, num_scheduled_tokens: int = 0) -> int:
        """KV tokens that the request is charged, once so many more tokens are computed."""
        done = request.num_computed_tokens
        held = done + num_scheduled_tokens
        if not self._charges_all:
            more, window = num_scheduled_tokens, self.window
            _, held = self.policies.kv_usage(done, more, window, self.num_sinks)
        # A window that does not start at a block's border touches one more block than it fills.
        if self._partial_block_slack:
            held += min(self._partial_block_slack, max(0, done + num_scheduled_tokens - held))
        return held + -held % self.block_size

    def reserve(self, requests: Iterable[Request]) -> "Reservation":
        """The K/V that these requests need once all their tokens are computed."""
        reservation = Reservation(self)
        for request in requests:
            reservation.add(request)
        return reservation

    def is_exceeded(self, requests: Sequence[Request]) -> bool:
        """Whether these requests need more than there is."""
        limit = self.max_kv_tokens
        return limit is not None and self.reserve(requests).kv_tokens > limit

    def growth_by_next_step(self, requests: Sequence[Request]) -> int:
        """KV tokens that these requests can add by the next step: one token each, if they go on."""
        going_on = [r for r in requests if r.num_generated + 1 < r.max_new_tokens]
        after = sum(self.kv_tokens_charged(r, r.remaining + 1) for r in going_on)
        return after - sum(self.kv_tokens_charged(r, r.remaining) for r in going_on)

    def check_fits(self, view: RequestView) -> None:
        """Raises: ValueError for a request that needs more KV tokens than there will ever be."""
        if self.max_kv_tokens is None or view.kv_tokens_needed <= self.max_kv_tokens:
            return
        needs, under = f"{len(view.prompt_tokens)} + {view.max_new_tokens} - 1 = ", ""
        if self.window is not None:
            needs, under = "", f" under a window of {self.window}"
        raise ValueError(
            f"request {view.id} needs {needs}{view.kv_tokens_needed} KV tokens{under}; the KV "
            f"budget of {self.max_kv_tokens} can never hold it"
        )

    def check_charge(self, request: Request, view: RequestView) -> None:
        """Raises: PolicyError if `kv_usage` alone puts the request over the budget."""
        charged = self.kv_tokens_charged(request, request.remaining)
        if charged > view.kv_tokens_to_start:
            raise PolicyError(
                f"kv_usage charges request {view.id} {charged} KV tokens, more than the KV budget "
                f"of {self.max_kv_tokens}; it holds {view.kv_tokens_to_start}"
            )

    def commit(
        self,
        scheduled: SchedulerOutput,
        sampled: Mapping[int, Sampled],
        requests: Mapping[int, Request],
    ) -> Update:
        """Make the K/V of a step count, and free that of preempted and finished requests.

        Policies are asked on the way, so it has to run within the store's transaction.
        """
        computed = {row.request_id: self._computed(row, sampled) for row in scheduled.rows}
        # `kv_usage` is asked about every holder before anything is freed.
        charged: dict[int, int] = {}
        for request_id in self.cache.holders():
            request = requests[request_id]
            done = request.num_computed_tokens
            more = computed.get(request_id, done) - done
            charged[request_id] = self.kv_tokens_charged(request, more)
        for requeue in scheduled.preempted:  # in a store of blocks, only an empty table is left
            self.cache.free(requeue.request.id)
        kv_peak = self.cache.held_tokens() + sum(len(row.input_ids) for row in scheduled.rows)
        new_tokens = {row.request_id: row.new_tokens(sampled) for row in scheduled.rows}
        finished, matchers = list[int](), dict[int, Any]()
        for row in scheduled.rows:
            request, new = requests[row.request_id], new_tokens[row.request_id]
            self.cache.commit(request.id, computed[request.id] - row.context_len)
            self.cache.register(request, new)
            if new and request.matcher is not None:
                matchers[request.id] = request.matcher.after(new)
            is_complete = request.id in matchers and matchers[request.id].is_complete
            if is_complete or request.num_generated + len(new) >= request.max_new_tokens:
                finished.append(request.id)
                self.free_finished(request.id)
        return Update(kv_peak, computed, charged, new_tokens, tuple(finished), matchers)

    def free_finished(self, request_id: int) -> None:
        """Free the K/V of a finished request."""
        self.cache.free(request_id)

    def _computed(self, row: Row, sampled: Mapping[int, Sampled]) -> int:
        """How many tokens of the row's request are computed, rejected drafts rolled back."""
        if not row.drafted:
            return row.seq_len
        accepted = sampled[row.request_id].num_accepted
        return self.policies.roll_back_kv(row.seq_len, len(row.drafted), accepted)


class Reservation:
    """KV tokens of running requests once all their tokens are computed; shared blocks once.

    Mutable: `kv_tokens`, of `num_requests`, which refer to `blocks`.
    """

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv = kv
        self.kv_tokens = self.num_requests = 0
        self.blocks: set[int] = set()

    def add(self, request: Request) -> None:
        """Reserve the K/V of one more request."""
        blocks = self.kv.cache.lasting_blocks(request)
        shared = len(self.blocks.intersection(blocks)) * self.kv.block_size
        self.kv_tokens += self.kv.kv_tokens_charged(request, request.remaining) - shared
        self.blocks.update(blocks)
        self.num_requests += 1

    def shared_with(self, request: Request) -> int:
        """KV tokens that the request is charged for, and that are reserved already."""
        if not self.blocks:
            return 0
        blocks = self.kv.cache.lasting_blocks(request)
        return len(self.blocks.intersection(blocks)) * self.kv.block_size


def kv_limit(window: int, num_sinks: int, block_size: int) -> int:
    """The most KV tokens of whole blocks under a window, which may lie across one more."""
    return sum(-(-n // block_size) for n in (num_sinks, window - 1, 1)) * block_size
