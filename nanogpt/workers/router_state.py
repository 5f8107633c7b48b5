"""The router's state of every request and every worker, from the workers' messages.

The router keeps the hashes of the blocks that each worker can find: a block counts as published
from the message that reports its step, and as gone from the message that reports its eviction. The
router hashes a prompt as the engine does, so its longest match is what the worker will find.
Source: vLLM's `BlockStored` and `BlockRemoved` events (vllm/distributed/kv_events.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nanogpt.config import EngineConfig
from nanogpt.kv_cache_manager import kv_limit
from nanogpt.policies.blocks import block_hashes, longest_match
from nanogpt.request import Request
from nanogpt.trace import WorkRecord
from nanogpt.views.fleet_views import WorkerView
from nanogpt.views.request_view import kv_tokens_held
from nanogpt.window.window_blocks import longest_window_match
from nanogpt.workers.worker_messages import Stepped


class RoundRobin:
    """A route: every worker in turn, whatever prefix it has. Mutable: the last one."""

    def __init__(self) -> None:
        self.last = -1

    def __call__(self, workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
        """The next id after the last one chosen; after the highest comes the lowest."""
        self.last = min((w.id for w in workers), key=lambda i: (i <= self.last, i))
        return self.last


@dataclass(frozen=True, slots=True)
class Result:
    """A request that is done, or was aborted: then `error` says why.

    Times are from the request's arrival until the router reads of the first and of the last token.
    `hit_tokens` were found in the worker's blocks and `computed_prefill_tokens` computed there.
    `worker_ids`: all workers that had the request, at most two; a lost one hands it on to the next.
    An aborted request has the tokens up to then, and its latency as TTFT if there are none.
    """

    id: int
    tokens: tuple[int, ...]
    worker_ids: tuple[int, ...]
    ttft_us: int
    latency_us: int
    hit_tokens: int
    computed_prefill_tokens: int
    error: str = ""

    @property
    def worker_id(self) -> int:
        """The worker that made the whole text."""
        return self.worker_ids[-1]


@dataclass(eq=False)
class Ticket:
    """A request in the fleet. Mutable: its workers, and its progress at the last of them.

    `prefill_worker` computes its prompt for another worker, and makes no text.
    """

    request: Request
    arrival_ns: int
    worker_ids: list[int] = field(default_factory=list[int])
    first_token_ns: int | None = None
    tokens: list[int] = field(default_factory=list[int])
    num_computed_tokens: int = 0
    hit_tokens: int = 0
    computed_prefill_tokens: int = 0
    prefill_worker: int | None = None

    @property
    def backlog_tokens(self) -> int:
        """Tokens of the prompt that are still to be computed."""
        return max(0, len(self.request.prompt_tokens) - self.num_computed_tokens)

    def dispatched(self, worker_id: int, hit_tokens: int) -> None:
        """Start again at a worker, which will probably find `hit_tokens`.

        Its tokens from elsewhere are dropped and will be generated again, the same; the time of
        its first token stays.
        """
        self.worker_ids.append(worker_id)
        self.tokens = []
        self.num_computed_tokens = hit_tokens
        self.hit_tokens = self.computed_prefill_tokens = 0

    def worked(self, work: WorkRecord, at_ns: int) -> None:
        """Add its part of a committed step, read at `at_ns`."""
        if work.kind == "prefill":
            self.computed_prefill_tokens += work.end - work.start
        self.num_computed_tokens = work.end
        if self.prefill_worker is not None:
            return
        self.tokens += work.tokens
        if work.tokens and self.first_token_ns is None:
            self.first_token_ns = at_ns

    def result(self, at_ns: int, error: str = "") -> Result:
        """The outcome of a request that ended at `at_ns`."""
        first_ns = at_ns if self.first_token_ns is None else self.first_token_ns
        return Result(
            id=self.request.id,
            tokens=tuple(self.tokens),
            worker_ids=tuple(self.worker_ids),
            ttft_us=(first_ns - self.arrival_ns) // 1000,
            latency_us=(at_ns - self.arrival_ns) // 1000,
            hit_tokens=self.hit_tokens,
            computed_prefill_tokens=self.computed_prefill_tokens,
            error=error,
        )


class WorkerBook:
    """The router's view of one worker. Mutable: its requests, by id, and its published blocks."""

    def __init__(self, worker_id: int, config: EngineConfig, max_model_len: int) -> None:
        self.id = worker_id
        self.batch_size = config.max_batch_size
        self.block_size = size = config.block_size or 1
        context = max_model_len + -max_model_len % size  # in whole blocks, as its scheduler counts
        kv_tokens = config.max_kv_tokens or config.max_batch_size * context
        self.kv_tokens = kv_tokens - kv_tokens % size
        self._window, self._sinks, self._kv_limit = config.sliding_window, config.num_sinks, None
        if self._window is not None:
            self._kv_limit = kv_limit(self._window, self._sinks, size)
        self.tickets: dict[int, Ticket] = {}
        self._published: dict[str, int] = {}  # by hash; the router does not know block numbers

    def forget(self) -> None:
        """Assume that the worker's blocks are empty."""
        self._published.clear()

    def view(self) -> WorkerView:
        """The view for a route."""
        tickets = self.tickets.values()
        return WorkerView(
            id=self.id,
            backlog_tokens=sum(ticket.backlog_tokens for ticket in tickets),
            num_running=len(tickets),
            batch_size=self.batch_size,
            kv_free_tokens=self.kv_tokens - sum(map(self._needed, tickets)),
            kv_tokens=self.kv_tokens,
        )

    def has_room(self, ticket: Ticket) -> bool:
        """Whether the worker can start the request now, at the latest after its next step.

        A request that was handed on may be the one that ended its worker, so it runs alone.
        """
        if ticket.worker_ids or any(len(each.worker_ids) > 1 for each in self.tickets.values()):
            return not self.tickets
        view = self.view()
        return view.num_running < view.batch_size and self._needed(ticket) <= view.kv_free_tokens

    def _needed(self, ticket: Ticket) -> int:
        """KV tokens to reserve for it, in whole blocks, as if it shared none.

        The last generated token needs no K/V.
        """
        request = ticket.request
        num_tokens = len(request.prompt_tokens) + request.max_new_tokens - 1
        return kv_tokens_held(num_tokens, self._kv_limit, self.block_size)

    def hit(self, request: Request) -> int:
        """How many tokens of the prompt the worker has published; the last one never counts.

        The last token is always computed, because the first draw needs its logits.
        """
        if not self._published:
            return 0
        prompt = tuple(request.prompt_tokens)
        hashes = _hashes(prompt, self.block_size, request.cache_salt or "")
        asked = hashes, self._published, len(prompt), self.block_size
        if self._window is None:
            return longest_match(*asked)[1]
        return longest_window_match(*asked, self._window, self._sinks)[1]

    def take(self, ticket: Ticket) -> None:
        """Assign a request to the worker."""
        ticket.dispatched(self.id, self.hit(ticket.request))
        self.tickets[ticket.request.id] = ticket

    def hear(self, step: Stepped, at_ns: int) -> list[Result]:
        """Apply a committed step, read at `at_ns`; return the results of finished requests."""
        for request_id in step.preempted:
            self.tickets[request_id].num_computed_tokens = 0
        for hit in step.hits:
            self.tickets[hit.request_id].hit_tokens += hit.num_tokens
        for work in step.work:
            self.tickets[work.request_id].worked(work, at_ns)
        for block_hash in step.evicted:
            del self._published[block_hash]
        self._published |= dict.fromkeys(step.published, 0)
        done = [i for i in step.finished if self.tickets[i].prefill_worker is None]
        return [self.tickets.pop(request_id).result(at_ns) for request_id in done]


_hashes = lru_cache(256)(block_hashes)  # a prompt is asked about once for each worker
