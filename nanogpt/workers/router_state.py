"""What the router knows of every request and every worker, from what workers have said.

Knows no process. A block counts as published from the message on that says its step committed, and
as gone from the one on that says it was evicted: the router keeps the hashes that each worker can
find. It hashes a prompt as the engine does, so its longest match is what the worker will find.
Source: vLLM's `BlockStored` and `BlockRemoved` events (vllm/distributed/kv_events.py).
"""

from dataclasses import dataclass, field
from functools import lru_cache

from torch import Tensor

from nanogpt.blocks.window_blocks import longest_window_match
from nanogpt.config import EngineConfig
from nanogpt.fleet.views import WorkerView
from nanogpt.parts.blocks import block_hashes, longest_match
from nanogpt.parts.request_view import kv_limit, kv_tokens_held
from nanogpt.trace import WorkRecord
from nanogpt.workers.worker_messages import Serve, Stepped


@dataclass(frozen=True, slots=True)
class Result:
    """A request that is done: its text, where it was made, what that took.

    Times are from the request's arrival, on the parent's clock, to the moment when the
    parent read of the first and of the last token. `hit_tokens` were found in the worker's blocks
    and `computed_prefill_tokens` computed there; without preemption they add up to the prompt.
    `worker_ids` are all that had the request: a lost one hands on to the next.
    `first_logits` (V,) are those that the first token was drawn from, if they were wanted.
    """

    id: int
    tokens: tuple[int, ...]
    worker_ids: tuple[int, ...]
    ttft_us: int
    latency_us: int
    hit_tokens: int
    computed_prefill_tokens: int
    first_logits: Tensor | None

    @property
    def worker_id(self) -> int:
        """The worker that made the whole text."""
        return self.worker_ids[-1]


@dataclass(eq=False)
class Ticket:
    """A request on its way. Mutable: where it is and how far it has come there."""

    order: Serve
    arrival_ns: int
    worker_ids: list[int] = field(default_factory=list[int])
    first_token_ns: int | None = None
    tokens: list[int] = field(default_factory=list[int])
    computed_to: int = 0
    hit_tokens: int = 0
    computed_prefill_tokens: int = 0
    first_logits: Tensor | None = None

    @property
    def num_computed_at_end(self) -> int:
        """Tokens that are computed for it in all: the last generated one needs no K/V."""
        return len(self.order.prompt_tokens) + self.order.max_new_tokens - 1

    @property
    def backlog_tokens(self) -> int:
        """Tokens of the prompt that are still to be computed."""
        return max(0, len(self.order.prompt_tokens) - self.computed_to)

    def dispatched(self, worker_id: int, hit_tokens: int) -> None:
        """It goes to a worker, from the beginning, and will probably find `hit_tokens` there.

        What it has generated elsewhere is forgotten and will be generated again, the same; its
        first token stays the first that was seen.
        """
        self.worker_ids.append(worker_id)
        self.tokens = []
        self.computed_to = hit_tokens
        self.hit_tokens = self.computed_prefill_tokens = 0

    def worked(self, work: WorkRecord, at_ns: int) -> None:
        """Its share of a committed step, read at `at_ns`."""
        if work.kind == "prefill":
            self.computed_prefill_tokens += work.end - work.start
        self.computed_to = work.end
        self.tokens += work.tokens
        if work.tokens and self.first_token_ns is None:
            self.first_token_ns = at_ns

    def result(self, at_ns: int) -> Result:
        """The outcome of a request whose last token came at `at_ns`."""
        assert self.first_token_ns is not None
        return Result(
            id=self.order.request_id,
            tokens=tuple(self.tokens),
            worker_ids=tuple(self.worker_ids),
            ttft_us=(self.first_token_ns - self.arrival_ns) // 1000,
            latency_us=(at_ns - self.arrival_ns) // 1000,
            hit_tokens=self.hit_tokens,
            computed_prefill_tokens=self.computed_prefill_tokens,
            first_logits=self.first_logits,
        )


class WorkerBook:
    """What is known of one worker. Mutable: its requests, by id, and its published blocks."""

    def __init__(self, worker_id: int, config: EngineConfig, context_len: int) -> None:
        self.id = worker_id
        self.batch_size = config.max_batch_size
        self.block_size = size = config.block_size or 1
        context = context_len + -context_len % size  # in whole blocks, as its scheduler counts
        kv_tokens = config.max_kv_tokens or config.max_batch_size * context
        self.kv_tokens = kv_tokens - kv_tokens % size
        self._window, self._sinks, self._kv_limit = config.sliding_window, config.num_sinks, None
        if self._window is not None:
            self._kv_limit = kv_limit(self._window, self._sinks, size)
        self.tickets: dict[int, Ticket] = {}
        self.forget()

    def forget(self) -> None:
        """Take it that the worker's blocks are empty."""
        self._published: dict[str, int] = {}  # by hash; which block it is, the worker knows

    def view(self) -> WorkerView:
        """The worker as a route sees it."""
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
        """Whether the worker can start the request now, at the latest after its next step."""
        view = self.view()
        return view.num_running < view.batch_size and self._needed(ticket) <= view.kv_free_tokens

    def _needed(self, ticket: Ticket) -> int:
        """KV tokens to set aside for it, in whole blocks, as if it shared none."""
        return kv_tokens_held(ticket.num_computed_at_end, self._kv_limit, self.block_size)

    def hit(self, order: Serve) -> int:
        """How many tokens of the prompt the worker has published; never the last one.

        The last token is computed in any case: its logits are what the first draw needs.
        """
        if not self._published:
            return 0
        hashes = _hashes(order.prompt_tokens, self.block_size, order.cache_salt or "")
        asked = hashes, self._published, len(order.prompt_tokens), self.block_size
        if self._window is None:
            return longest_match(*asked)[1]
        return longest_window_match(*asked, self._window, self._sinks)[1]

    def take(self, ticket: Ticket) -> None:
        """Give it a request."""
        ticket.dispatched(self.id, self.hit(ticket.order))
        self.tickets[ticket.order.request_id] = ticket

    def hear(self, step: Stepped, at_ns: int) -> list[Result]:
        """Note what a committed step did, read at `at_ns`; return the results of those done."""
        for request_id in step.preempted:
            self.tickets[request_id].computed_to = 0
        for hit in step.hits:
            self.tickets[hit.request_id].hit_tokens += hit.num_tokens
        for work in step.work:
            self.tickets[work.request_id].worked(work, at_ns)
        for request_id, logits in step.logits.items():
            self.tickets[request_id].first_logits = logits
        for block_hash in step.evicted:
            del self._published[block_hash]
        self._published |= dict.fromkeys(step.published, 0)
        return [self.tickets.pop(request_id).result(at_ns) for request_id in step.finished]


_hashes = lru_cache(256)(block_hashes)  # a prompt is asked about once for each worker
