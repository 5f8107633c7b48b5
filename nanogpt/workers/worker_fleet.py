"""A router and its workers: engines in processes of their own.

    arrivals ──> waiting ──route──> worker 0: engine, blocks ──┐
                    ^        └────> worker 1: engine, blocks ──┤ after every committed step: tokens,
                    │                                          │ progress, hashes of blocks
                    └── requests of a lost worker ── books <───┘

A request waits with the router until a worker has room, so that it is routed by the newest
information. Recomputed elsewhere it gets the same text, as its draws depend only on its id and
positions. A request that a lost worker or a failed step hands on may be what failed: it is tried
once more, after all others and alone on its worker, and is aborted if that fails too.
"""

import pickle
import time
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nanogpt.child_process import ChildGroup, ChildProcess, receive, send
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.fleet import decisions
from nanogpt.fleet.fleet_policies import Route, routed
from nanogpt.model import GPT
from nanogpt.request import Request, validate_request
from nanogpt.validate import check_int, check_is, show
from nanogpt.workers.router_state import Result, Ticket, WorkerBook
from nanogpt.workers.worker_messages import Aborted, Crashed, Forget, Load, Ready, Stepped
from nanogpt.workers.worker_process import write_model

CONFIG = EngineConfig(token_budget=64, block_size=16, share_prefixes=True)
"""Settings of a worker's engine, unless others are given."""

_START_S = 120.0
"""The time that workers may take to import torch on a busy machine."""

_SILENT_S = 30.0
_DAY_S = 86_400
_LOOK_EVERY_S = 0.1


class WorkersFailed(RuntimeError):
    """No worker is left; the message says how each ended. `results` are those of the run so far."""

    def __init__(self, message: str, results: Iterable[Result] = ()) -> None:
        super().__init__(message)
        self.results = tuple(results)


@dataclass(eq=False)
class WorkerHandle:
    """One worker as the router holds it. Mutable."""

    child: ChildProcess
    pipe: "Connection[Any, Any]"
    book: WorkerBook
    is_ready: bool = False
    quiet_since_ns: int = 0
    reason: str = ""  # why it ended, if the router knows better than the system

    def order(self, order: object) -> None:
        """Send an order; the router learns of a lost worker when it listens."""
        with suppress(OSError):
            send(self.pipe, order)

    def reap(self) -> None:
        """End it, wait for its end and close everything."""
        self.child.reap()
        self.pipe.close()


class Fleet(ChildGroup):
    """Worker processes that serve requests on one model. Use it in a `with`, or `close` it.

    A worker that has requests and sends nothing for 30 s is ended, and no lost worker is started
    again. Mutable: `route`; and `lost`, a sentence about every lost worker.
    """

    def __init__(
        self,
        model: GPT,
        num_workers: int,
        config: EngineConfig = CONFIG,
        *,
        route: Route = decisions.route,
    ) -> None:
        """Start the workers and wait until they have the model.

        Raises: ValueError for settings that no engine takes, or that cannot be sent to another
        process or used there; WorkersFailed when a worker does not start.
        """
        check_int("the number of workers", num_workers, 1)
        self._scheduler = Engine(model, config).scheduler  # refuses what no worker would accept
        try:
            pickle.dumps(config)
        except Exception as error:
            raise ValueError(f"these settings cannot be sent to another process: {error}") from None
        self._model_config = model.config
        self.route = route
        self.lost: list[str] = []
        self._results: dict[int, Result] = {}
        self._waiting: list[Ticket] = []
        self._seen: set[int] = set()
        self._workers: dict[int, WorkerHandle] = {}
        folder = TemporaryDirectory(prefix="nanogpt-workers-", ignore_cleanup_errors=True)
        self._close = weakref.finalize(self, _end, self._workers, folder)
        with self.ended_on_error():
            weights = Path(folder.name) / "weights"
            write_model(model, weights)
            for i in range(num_workers):
                book = WorkerBook(i, config, model.config.max_model_len)
                child = ChildProcess.start("nanogpt.workers.worker_process")
                self._workers[i] = WorkerHandle(child, Connection(child.link.detach()), book)
                self._workers[i].order(Load(str(weights), config))
            self._await_ready(_START_S)
            if self.lost:
                raise WorkersFailed("; ".join(self.lost))
            folder.cleanup()  # a process that maps a file keeps it; on Windows, it goes in the end

    @property
    def process_ids(self) -> dict[int, int]:
        """The process id of every worker, by worker id."""
        return {i: worker.child.process.pid for i, worker in self._workers.items()}

    def serve(self, requests: Sequence[Request]) -> list[Result]:
        """Serve requests that all arrive now. Returns and raises: as `run` does."""
        return self.run([(0.0, request) for request in requests])

    def run(self, arrivals: Sequence[tuple[float, Request]]) -> list[Result]:
        """Serve requests as they arrive, each so many seconds from now; results in their order.

        The result of a request that was aborted, as an engine does, says why in `error`.
        Raises: ValueError for a bad request, before anything runs. PolicyError for a route that
        names no worker with room, and whatever it raises; WorkersFailed when the last worker is
        lost; these, or Ctrl-C, end the fleet.
        """
        self._check_open()
        self._check_arrivals(arrivals)
        with self.ended_on_error():
            self._run(arrivals)
        return [self._results[request.id] for _, request in arrivals]

    def forget(self) -> None:
        """Empty the blocks of every worker: the next requests start cold; ids are new again.

        Raises: WorkersFailed when the last worker is lost, or when one does not answer.
        """
        self._check_open()
        with self.ended_on_error():
            for worker in self._workers.values():
                worker.is_ready = False
                worker.order(Forget())
                worker.book.forget()
            self._await_ready(_SILENT_S)
        self._seen.clear()

    def _await_ready(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while late := [i for i, worker in self._workers.items() if not worker.is_ready]:
            self._listen(_LOOK_EVERY_S)
            if time.monotonic() > deadline:
                raise WorkersFailed(f"workers {late} were not ready within {limit_s:g} s")

    def _run(self, arrivals: Sequence[tuple[float, Request]]) -> None:
        self._listen(0.0)  # a worker lost in the meantime is not routed to
        self._start_ns = start_ns = time.perf_counter_ns()
        coming = deque(
            Ticket(request, start_ns + round(at_s * 1e9))
            for at_s, request in sorted(arrivals, key=lambda arrival: arrival[0])
        )
        self._seen.update(request.id for _, request in arrivals)
        self._results = {}
        while len(self._results) < len(arrivals):
            while coming and coming[0].arrival_ns <= time.perf_counter_ns():
                self._waiting.append(coming.popleft())
            self._dispatch()
            wait_s = _LOOK_EVERY_S
            if coming:
                until_next_s = (coming[0].arrival_ns - time.perf_counter_ns()) / 1e9
                wait_s = min(wait_s, max(0.0, until_next_s))
            self._listen(wait_s)

    def _dispatch(self) -> None:
        """Give the waiting requests to workers with room, by priority, then age.

        Those that were handed on come last.
        """
        self._waiting.sort(key=rank)
        books = [worker.book for worker in self._workers.values()]
        while self._waiting:
            ticket = self._waiting[0]
            worker = self._worker_for(ticket, [book for book in books if book.has_room(ticket)])
            if worker is None:
                if any(book.tickets for book in books):
                    return
                raise WorkersFailed(f"no idle worker has room for request {ticket.request.id}")
            worker.book.take(self._waiting.pop(0))
            worker.order(ticket.request)

    def _worker_for(self, ticket: Ticket, books: Sequence[WorkerBook]) -> WorkerHandle | None:
        """The worker that the route chooses among these; None if there are none."""
        if not books:
            return None
        hits = {book.id: n for book in books if (n := book.hit(ticket.request))}
        views = tuple(book.view() for book in books)
        worker = self._workers[routed(self.route(views, hits), views, hits)]
        if not worker.book.tickets:
            worker.quiet_since_ns = time.perf_counter_ns()
        return worker

    def _listen(self, wait_s: float) -> None:
        """Handle the workers' messages, waiting up to `wait_s` for one."""
        ready = wait([worker.pipe for worker in self._workers.values()], wait_s)
        for i, worker in list(self._workers.items()):
            if worker.pipe in ready:
                self._handle_message(i, worker)
        now_ns = time.perf_counter_ns()
        for worker in self._workers.values():
            if worker.book.tickets and (now_ns - worker.quiet_since_ns) / 1e9 > _SILENT_S:
                worker.reason = f"said nothing for {_SILENT_S:g} s and was ended"
                worker.child.kill()  # then its pipe ends

    def _handle_message(self, worker_id: int, worker: WorkerHandle) -> None:
        """Receive one message of a worker."""
        try:
            message = receive(worker.pipe)
        except (EOFError, OSError):
            self._lose(worker_id)
            return
        worker.quiet_since_ns = time.perf_counter_ns()
        self._hear(worker, message)

    def _hear(self, worker: WorkerHandle, message: object) -> None:
        """Apply a worker's message. Raises: ValueError if it cannot start as it should."""
        match message:
            case Stepped() as step:
                self._keep(worker.book.hear(step, worker.quiet_since_ns))
            case Aborted(request_ids, error, is_certain):
                tickets = map(worker.book.tickets.pop, request_ids)
                if is_certain:
                    self._keep(ticket.result(worker.quiet_since_ns, error) for ticket in tickets)
                else:
                    worker.book.forget()
                    self._hand_on(tickets, error)
            case Ready():
                worker.is_ready = True
            case Crashed(error) if not worker.is_ready:
                raise ValueError(f"a worker cannot start with these settings: {error}")
            case Crashed(error):
                worker.reason = f"failed: {error}"
            case _:
                raise TypeError(f"a worker sent {show(message)}")

    def _keep(self, results: Iterable[Result]) -> None:
        self._results |= {result.id: result for result in results}

    def _hand_on(self, tickets: Iterable[Ticket], reason: str) -> list[int]:
        """Queue requests again and return their ids; abort those that were handed on before."""
        now_ns, again = time.perf_counter_ns(), list[Ticket]()
        for ticket in tickets:
            if len(ticket.worker_ids) > 1:
                self._keep([ticket.result(now_ns, f"failed twice, the last time so: {reason}")])
            else:
                again.append(ticket)
        self._waiting += again
        return sorted(ticket.request.id for ticket in again)

    def _lose(self, worker_id: int) -> None:
        """Remove a lost worker and queue its requests again. Raises: WorkersFailed for the last."""
        worker = self._workers.pop(worker_id)
        reason = worker.reason or worker.child.how_it_ended()
        worker.reap()
        ids = self._hand_on(worker.book.tickets.values(), f"worker {worker_id} {reason}")
        where = f"; its requests {ids} go to other workers" if ids and self._workers else ""
        self.lost.append(f"worker {worker_id} {reason}{where}")
        if not self._workers:
            undone = sorted(ticket.request.id for ticket in self._waiting)
            left = f", and requests {undone} are not done" if undone else ""
            said = "; ".join([*self.lost, f"no worker is left{left}"])
            raise WorkersFailed(said, self._results.values())

    def _check_open(self) -> None:
        if not self.is_open:
            raise WorkersFailed("the workers have been ended; start a new fleet")

    def _check_arrivals(self, arrivals: Sequence[tuple[float, Request]]) -> None:
        """Raises: ValueError naming what is wrong with an arrival, and the limit."""
        check_is("arrivals", arrivals, Sequence, "a list of pairs (seconds, Request)")
        ids = set(self._seen)
        for arrival in arrivals:
            match arrival:
                case (at_s, request):
                    validate_request(request, self._model_config)
                case _:  # pyright: ignore[reportUnnecessaryComparison]
                    wanted = "a pair (seconds, Request)"
                    raise ValueError(f"an arrival is {show(arrival)}; it must be {wanted}")
            self._scheduler.check_new(request)
            is_time = isinstance(at_s, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
            if not (is_time and 0 <= at_s <= _DAY_S):
                raise ValueError(
                    f"request {request.id} arrives at {show(at_s)} s; it must be 0 or later, and "
                    "within a day"
                )
            if request.id in ids:
                raise ValueError(f"there is a request {request.id} already; ids must be unique")
            ids.add(request.id)


def rank(ticket: Ticket) -> tuple[int, int, int, int]:
    """The order of the waiting: those handed on last; by priority, then age."""
    request = ticket.request
    return len(ticket.worker_ids), request.priority, ticket.arrival_ns, request.id


def _end(workers: Mapping[int, WorkerHandle], folder: "TemporaryDirectory[str]") -> None:
    """Release everything, all processes at once and not one after another."""
    for worker in workers.values():
        worker.child.kill()
    for worker in workers.values():
        worker.reap()
    folder.cleanup()
