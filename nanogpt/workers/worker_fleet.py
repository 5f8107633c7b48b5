"""A fleet: engine workers in processes of their own, and the router that gives them requests.

    arrivals ──> waiting ──route──> worker 0: engine, blocks ──┐
                    ^        └────> worker 1: engine, blocks ──┤ after every committed step: tokens,
                    │                                          │ progress, hashes of blocks
                    └── requests of a lost worker ── books <───┘

A request waits with the router until a worker has room, so that it is routed by what is known then.
Recomputed elsewhere, it gets the same text, as its draws depend on its id and positions alone.
"""

import math
import pickle
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.fleet import decisions
from nanogpt.fleet.fleet_parts import routed
from nanogpt.model import GPT
from nanogpt.request import Request, check_request
from nanogpt.validate import check_int
from nanogpt.workers.router_state import Result, Ticket, WorkerBook
from nanogpt.workers.routing import Route
from nanogpt.workers.shared_model import write_model
from nanogpt.workers.worker_messages import Crashed, Forget, Load, Ready, Serve, Stepped
from nanogpt.workers.worker_processes import Heard, WorkerProcess, start_worker

CONFIG = EngineConfig(token_budget=64, block_size=16, share_prefixes=True)
"""Settings of a worker's engine, unless others are given."""

_START_S = 120.0
"""How long workers may take to import torch on a busy machine."""

_LOOK_EVERY_S = 0.1

Results = dict[int, Result]


class WorkersFailed(RuntimeError):
    """Workers are lost and none is left to do their work; the message says how each ended."""


class Fleet:
    """Worker processes that serve requests on one model. Use it in a `with`, or `close` it.

    A worker with requests that says nothing for `timeout_s` seconds is given up. Mutable: `route`,
    how requests are given to workers; `lost`, a sentence about every worker that is gone.
    """

    def __init__(
        self,
        model: GPT,
        num_workers: int,
        config: EngineConfig = CONFIG,
        *,
        route: Route = decisions.route,
        timeout_s: float = 30.0,
    ) -> None:
        """Start the workers and wait until they have the model.

        Raises: ValueError for settings that no engine takes or that cannot be sent to another
        process; WorkersFailed when a worker does not come up.
        """
        check_int("the number of workers", num_workers, 1)
        self._scheduler = Engine(model, config).scheduler  # refuses what no worker would accept
        self._model_config = model.config
        self.timeout_s = timeout_s
        self.route = route
        self.lost: list[str] = []
        context_len = model.config.context_len
        self._books = {i: WorkerBook(i, config, context_len) for i in range(num_workers)}
        self._quiet_since_ns = dict.fromkeys(self._books, 0)
        self._not_ready = set(self._books)
        self._reasons: dict[int, str] = {}
        self._waiting: list[Ticket] = []
        self._seen: set[int] = set()
        self._inbox: SimpleQueue[Heard] = SimpleQueue()
        self._processes: dict[int, WorkerProcess] = {}
        folder = TemporaryDirectory(prefix="nanogpt-workers-", ignore_cleanup_errors=True)
        # Also for a fleet that was not closed: a notebook cell that was run twice.
        self._close = weakref.finalize(self, _end, self._processes, folder)
        try:
            self._start(model, config, Path(folder.name) / "weights")
            folder.cleanup()  # a process that maps a file keeps it; on Windows, it goes in the end
        except BaseException:
            self.close()
            raise

    @property
    def process_ids(self) -> dict[int, int]:
        """The process id of every worker that is there, by worker id."""
        return {i: process.child.process.pid for i, process in self._processes.items()}

    @property
    def is_open(self) -> bool:
        """Whether there are workers to serve a request."""
        return self._close.alive

    def serve(self, requests: Sequence[Request], *, want_logits: bool = False) -> list[Result]:
        """Serve requests that all arrive now. Returns and raises: as `run` does."""
        return self.run([(0.0, request) for request in requests], want_logits=want_logits)

    def run(
        self, arrivals: Sequence[tuple[float, Request]], *, want_logits: bool = False
    ) -> list[Result]:
        """Serve requests as they arrive, each so many seconds from now; results in their order.

        With `want_logits`, the logits of each first token come along.
        Raises: ValueError for a bad request, before anything runs. PartError for a route that
        names no worker with room, and whatever it raises; WorkersFailed when the last worker is
        lost; these, or Ctrl-C, end the fleet.
        """
        self._check_open()
        self._check_arrivals(arrivals)
        try:
            results = self._run(arrivals, want_logits)
        except BaseException:
            self.close()
            raise
        return [results[request.id] for _, request in arrivals]

    def forget(self) -> None:
        """Empty the blocks of every worker: the next requests start cold; ids are new again.

        Raises: WorkersFailed when the last worker is lost, or when one does not answer.
        """
        self._check_open()
        try:
            for i, process in self._processes.items():
                process.order(Forget())
                self._books[i].forget()
            self._await_ready(self.timeout_s)
        except BaseException:
            self.close()
            raise
        self._seen.clear()

    def close(self) -> None:
        """End every worker. A second time does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, model: GPT, config: EngineConfig, weights: Path) -> None:
        try:
            pickle.dumps(config)
        except Exception as error:
            raise ValueError(f"these settings cannot be sent to another process: {error}") from None
        write_model(model, weights)
        for i in self._books:
            self._processes[i] = start_worker(i, self._inbox)
            self._processes[i].order(Load(str(weights), config))
        self._await_ready(_START_S)
        if self.lost:
            raise WorkersFailed("; ".join(self.lost))

    def _await_ready(self, limit_s: float) -> None:
        self._not_ready = set(self._books)
        deadline = time.monotonic() + limit_s
        while self._not_ready:
            self._listen(_LOOK_EVERY_S)
            if time.monotonic() > deadline:
                late = sorted(self._not_ready)
                raise WorkersFailed(f"workers {late} were not ready within {limit_s:g} s")

    def _run(self, arrivals: Sequence[tuple[float, Request]], want_logits: bool) -> Results:
        self._listen(0.0)  # a worker lost in the meantime is not routed to
        start_ns = time.perf_counter_ns()
        coming = deque(
            Ticket(_order(request, want_logits), start_ns + round(at_s * 1e9))
            for at_s, request in sorted(arrivals, key=lambda arrival: arrival[0])
        )
        self._seen.update(request.id for _, request in arrivals)
        results: Results = {}
        while len(results) < len(arrivals):
            while coming and coming[0].arrival_ns <= time.perf_counter_ns():
                self._waiting.append(coming.popleft())
            self._dispatch()
            wait_s = _LOOK_EVERY_S
            if coming:
                until_next_s = (coming[0].arrival_ns - time.perf_counter_ns()) / 1e9
                wait_s = min(wait_s, max(0.0, until_next_s))
            results |= {result.id: result for result in self._listen(wait_s)}
        return results

    def _dispatch(self) -> None:
        """Give workers with room the waiting, the most important and oldest first."""
        self._waiting.sort(key=lambda t: (t.order.priority, t.arrival_ns, t.order.request_id))
        while self._waiting:
            ticket = self._waiting[0]
            open_to = [book for book in self._books.values() if book.has_room(ticket)]
            if not open_to:
                if not any(book.tickets for book in self._books.values()):
                    raise WorkersFailed(
                        f"request {ticket.order.request_id} waits, and no worker, though all are "
                        "idle, has room for it"
                    )
                return
            hits = {book.id: n for book in open_to if (n := book.hit(ticket.order))}
            views = tuple(book.view() for book in open_to)
            chosen = routed(self.route(views, hits), views, hits)
            if not self._books[chosen].tickets:
                self._quiet_since_ns[chosen] = time.perf_counter_ns()
            self._books[chosen].take(self._waiting.pop(0))
            self._processes[chosen].order(ticket.order)

    def _listen(self, wait_s: float) -> list[Result]:
        """Take in what workers have said, waiting for it if need be; return results."""
        results: list[Result] = []
        try:
            heard = self._inbox.get(timeout=wait_s)
            while True:
                results += self._take_in(heard)
                heard = self._inbox.get_nowait()
        except Empty:
            self._give_up_the_silent()
        return results

    def _take_in(self, heard: Heard) -> list[Result]:
        self._quiet_since_ns[heard.worker_id] = heard.at_ns
        match heard.message:
            case Stepped() as step:
                return self._books[heard.worker_id].hear(step, heard.at_ns)
            case Ready():
                self._not_ready.discard(heard.worker_id)
            case Crashed(error):
                self._reasons[heard.worker_id] = f"failed: {error}"
            case None:
                self._lose(heard.worker_id)
        return []

    def _give_up_the_silent(self) -> None:
        """End workers that have requests and say nothing. That they are gone is heard then."""
        now_ns = time.perf_counter_ns()
        for i, book in self._books.items():
            quiet_s = (now_ns - self._quiet_since_ns[i]) / 1e9
            if book.tickets and quiet_s > self.timeout_s:
                self._reasons[i] = f"said nothing for {self.timeout_s:g} s and was ended"
                self._processes[i].kill()

    def _lose(self, worker_id: int) -> None:
        """Do without a worker: its requests wait again. Raises: WorkersFailed for the last one."""
        process, book = self._processes[worker_id], self._books.pop(worker_id)
        reason = self._reasons.get(worker_id) or process.how_it_ended()
        process.reap()
        del self._processes[worker_id]
        self._not_ready.discard(worker_id)
        self._waiting += book.tickets.values()
        ids = sorted(book.tickets)
        where = f"; its requests {ids} go to other workers" if ids and self._books else ""
        self.lost.append(f"worker {worker_id} {reason}{where}")
        if not self._books:
            undone = sorted(ticket.order.request_id for ticket in self._waiting)
            left = (
                f"no worker is left, and requests {undone} are not done"
                if undone
                else ("no worker is left")
            )
            raise WorkersFailed("; ".join([*self.lost, left]))

    def _check_open(self) -> None:
        if not self.is_open:
            raise WorkersFailed("the workers have been ended; start a new fleet")

    def _check_arrivals(self, arrivals: Sequence[tuple[float, Request]]) -> None:
        """Raises: ValueError naming what is wrong with an arrival, and the limit."""
        ids = set(self._seen)
        for at_s, request in arrivals:
            check_request(request, self._model_config)
            self._scheduler.check_new(request)
            if not 0 <= at_s < math.inf:
                raise ValueError(
                    f"request {request.id} arrives at {at_s!r} s; it must be 0 or later"
                )
            if request.id in ids:
                raise ValueError(f"there is a request {request.id} already; ids must be unique")
            if request.num_generated:
                raise ValueError(
                    f"request {request.id} has been served before; hand in a fresh one"
                )
            ids.add(request.id)


def _order(request: Request, want_logits: bool) -> Serve:
    return Serve(
        request_id=request.id,
        prompt_tokens=tuple(request.prompt_tokens),
        max_new_tokens=request.max_new_tokens,
        priority=request.priority,
        want_logits=want_logits,
        temperature=request.temperature,
        seed=request.seed,
        cache_salt=request.cache_salt,
    )


def _end(processes: Mapping[int, WorkerProcess], folder: "TemporaryDirectory[str]") -> None:
    """Release everything, all processes at once and not one after another."""
    for process in processes.values():
        process.kill()
    for process in processes.values():
        process.reap()
    folder.cleanup()
