"""A fleet of two pools: some workers compute prompts, the others generate, K/V goes across.

    request ──> prefill worker ──writes──> frame ──reads──> decode worker ──> tokens
                                             │                    │
                         kept until ─────────┴── acknowledged <───┘   or aborted, or a side is lost

A prompt's full blocks travel; the decode worker computes the rest of the prompt and every token.
Whatever does not arrive it computes itself, so no transfer can change a text. A request of a lost
worker is served whole by any worker, as in `Fleet`.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nanogpt.config import EngineConfig
from nanogpt.fleet import decisions, transfers
from nanogpt.fleet.fleet_policies import Route
from nanogpt.fleet.transfers import BlocksToSend, Event, MayFree
from nanogpt.model import GPT
from nanogpt.request import Request
from nanogpt.validate import check_int
from nanogpt.workers.router_state import Ticket, WorkerBook
from nanogpt.workers.worker_fleet import CONFIG, Fleet, WorkerHandle, WorkersFailed, rank
from nanogpt.workers.worker_messages import Abort, Aborted, Decode, Prefill, Received, Sent

_SHARED = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer, in microseconds since the run began; None: it did not come to that.

    `ended`: "acknowledged", "refused", "aborted" or "lost"; "kept" while it is not freed.
    """

    request_id: int
    source: int
    blocks: tuple[int, ...]
    start_us: int
    sent_us: int | None = None
    target: int | None = None
    ordered_us: int | None = None
    freed_us: int | None = None
    num_bytes: int = 0
    ended: str = "kept"
    error: str = ""


@dataclass(eq=False)
class _Held:
    """A frame that is not freed. Mutable: its record, and the workers that may still touch it."""

    path: Path
    record: Transfer
    workers: set[int]
    is_aborted: bool = False


class SplitFleet(Fleet):
    """`num_prefill` workers that compute prompts, and `num_decode` that generate the texts.

    The first ids are those of the prefill workers. Mutable: `transfers`, those of the last run that
    have ended; and the decisions, which it calls for every request and event.
    """

    _pools = "prefill", "decode"

    def __init__(
        self,
        model: GPT,
        num_prefill: int,
        num_decode: int,
        config: EngineConfig = CONFIG,
        *,
        route: Route = decisions.route,
        blocks_to_send: BlocksToSend = transfers.blocks_to_send,
        may_free: MayFree = transfers.may_free,
    ) -> None:
        """Start the workers. Raises: as `Fleet`, and ValueError for blocks that are not shared."""
        check_int("the number of prefill workers", num_prefill, 1)
        check_int("the number of decode workers", num_decode, 1)
        if not config.share_prefixes or config.sliding_window is not None:
            raise ValueError("two pools need share_prefixes and no sliding_window")
        self.num_prefill = num_prefill
        self.blocks_to_send, self.may_free = blocks_to_send, may_free
        self.transfers: list[Transfer] = []
        self._held: dict[int, _Held] = {}
        self._to_abort = deque[int]()
        self._size = config.block_size or 1
        where = _SHARED if _SHARED.is_dir() else None
        self._frames = TemporaryDirectory(prefix="nanogpt-frames-", dir=where)
        try:
            super().__init__(model, num_prefill + num_decode, config, route=route)
        except BaseException:
            self._frames.cleanup()
            raise

    @property
    def kept(self) -> tuple[Transfer, ...]:
        """The transfers whose K/V is not freed yet."""
        return tuple(held.record for held in self._held.values())

    def abort(self, request_id: int) -> None:
        """Abort a request of the run under way; one that is done stays done. From any thread."""
        self._to_abort.append(request_id)

    def close(self) -> None:
        """End every process and release what they share. A second time does nothing."""
        super().close()
        self._frames.cleanup()

    def _run(self, arrivals: Sequence[tuple[float, Request]]) -> None:
        for held in self._held.values():
            held.path.unlink(missing_ok=True)
        self.transfers, self._held = [], {}
        self._to_abort.clear()
        super()._run(arrivals)

    # --- a request's way --------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Send each waiting request on, unless one before it waits for the same pool."""
        self._abort_asked()
        self._waiting.sort(key=rank)
        full: set[str] = set()
        for ticket in list(self._waiting):
            is_fresh = not ticket.worker_ids and ticket.request.id not in self._held
            if is_fresh and "prefill" in full:
                continue
            blocks = self._plan(ticket) if is_fresh else ()
            pool = "prefill" if blocks else "any" if ticket.worker_ids else "decode"
            if pool in full or not self._send_on(ticket, pool, blocks):
                full.add(pool)
        if self._waiting and not any(each.book.tickets for each in self._workers.values()):
            ids = sorted(ticket.request.id for ticket in self._waiting)
            raise WorkersFailed(f"no idle worker has room for requests {ids}")

    def _plan(self, ticket: Ticket) -> tuple[int, ...]:
        """The blocks that a prefill worker should send; none: the request is served whole."""
        worker = self._worker_for(ticket, self._pool("decode"))
        if worker is None or not self._pool("prefill"):
            return ()
        num_tokens, hit = len(ticket.request.prompt_tokens), worker.book.hit(ticket.request)
        answer = self.blocks_to_send(num_tokens, self._size, hit)
        return transfers.sent(answer, num_tokens, self._size)

    def _pool(self, pool: str) -> list[WorkerBook]:
        """The books of the workers in a pool that are not lost."""
        books = [worker.book for worker in self._workers.values()]
        return [b for b in books if pool in ("any", self._pools[b.id >= self.num_prefill])]

    def _send_on(self, ticket: Ticket, pool: str, blocks: tuple[int, ...]) -> bool:
        """Give the request to a worker of the pool; return whether one had room."""
        books = self._pool(pool) or self._pool("any")
        worker = self._worker_for(ticket, [book for book in books if book.has_room(ticket)])
        if worker is None:
            return False
        self._waiting.remove(ticket)
        request, i = ticket.request, worker.book.id
        if blocks:
            ticket.prefill_worker = i
            ticket.num_computed_tokens = worker.book.hit(request)
            worker.book.tickets[request.id] = ticket
            path = Path(self._frames.name) / str(request.id)
            self._held[request.id] = _Held(path, Transfer(request.id, i, blocks, self._us()), {i})
            tokens = request.prompt_tokens[: (blocks[-1] + 1) * self._size]
            computed = replace(request, prompt_tokens=tokens, max_new_tokens=1, logits_params=None)
            worker.order(Prefill(computed, blocks, str(path)))
            return True
        worker.book.take(ticket)
        if pool == "decode" and (held := self._held.get(request.id)):
            held.workers.add(i)
            held.record = replace(held.record, target=i, ordered_us=self._us())
            worker.order(Decode(request, str(held.path)))
        else:
            worker.order(request)
        return True

    # --- what workers say -------------------------------------------------------------------------

    def _hear(self, worker: WorkerHandle, message: object) -> None:
        i = worker.book.id
        match message:
            case Sent(request_id, num_bytes):
                ticket, held = worker.book.tickets.pop(request_id), self._held[request_id]
                ticket.prefill_worker = None
                held.workers.discard(i)
                held.record = replace(held.record, sent_us=self._us(), num_bytes=num_bytes)
                self._waiting.append(ticket)
                if held.is_aborted:
                    self.abort(request_id)
            case Received(request_id, _, error):
                ended = "refused" if error else "acknowledged"
                self._happened(request_id, ("acknowledged", i), ended, error)
            case Aborted(ids):
                super()._hear(worker, message)
                for request_id in ids:
                    if held := self._held.get(request_id):
                        held.workers.discard(i)
                        self._happened(request_id, ("aborted", None), "aborted")
            case _:
                super()._hear(worker, message)

    def _happened(self, request_id: int, event: Event, ended: str, error: str = "") -> None:
        """Free the K/V of a transfer if the event allows it."""
        held = self._held.get(request_id)
        if held is None:
            return
        may_free = transfers.freed(self.may_free(tuple(sorted(held.workers)), event))
        held.workers.discard(-1 if event[1] is None else event[1])
        if may_free:
            held.path.unlink(missing_ok=True)
            record = self._held.pop(request_id).record
            self.transfers.append(replace(record, freed_us=self._us(), ended=ended, error=error))

    def _hand_on(self, tickets: Iterable[Ticket], reason: str) -> list[int]:
        tickets = list(tickets)
        for ticket in tickets:
            if ticket.prefill_worker is not None:  # it counts, or one request could end all workers
                ticket.worker_ids.append(ticket.prefill_worker)
                ticket.prefill_worker = None
        return super()._hand_on(tickets, reason)

    def _lose(self, worker_id: int) -> None:
        for request_id, held in list(self._held.items()):
            if worker_id in held.workers:
                self._happened(request_id, ("lost", worker_id), "lost")
        super()._lose(worker_id)

    def _abort_asked(self) -> None:
        """Abort where a request is: with the router, or at a worker, which then says so."""
        for request_id in [self._to_abort.popleft() for _ in range(len(self._to_abort))]:
            for ticket in [each for each in self._waiting if each.request.id == request_id]:
                self._waiting.remove(ticket)
                self._keep([ticket.result(time.perf_counter_ns(), "aborted")])
                self._happened(request_id, ("aborted", None), "aborted")
            for worker in self._workers.values():
                if request_id in worker.book.tickets:
                    worker.order(Abort(request_id))
                    if held := self._held.get(request_id):
                        held.is_aborted = True
                    self._happened(request_id, ("aborted", None), "aborted")

    def _us(self) -> int:
        return (time.perf_counter_ns() - self._start_ns) // 1000
