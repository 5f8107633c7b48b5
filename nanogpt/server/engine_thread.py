"""One engine in one thread: commands come in by a queue, text goes out to the clients' event loop.

    submit, cancel --> SimpleQueue --> the thread: Engine.submit, Engine.cancel, Engine.step
                                           |
    TokenStream.put <-- call_soon_threadsafe, once for all streams that have news

The thread sleeps in the queue while there is nothing to serve, and nothing else wakes it. An
engine's own state is touched by no other thread.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import NamedTuple

from nanogpt.checkpoints.pieces import CHARACTERS, Tokenizer
from nanogpt.engine import TRIES, Engine
from nanogpt.request import Request
from nanogpt.server.continuation import Continuation
from nanogpt.server.deadlines import Deadlines
from nanogpt.server.door import Door, RefusedError, door_limits
from nanogpt.server.live_feed import LiveFeed
from nanogpt.server.server_metrics import ServerMetrics
from nanogpt.server.server_parts import (
    UNAVAILABLE,
    DoorLimits,
    NewRequest,
    ServerParts,
    validated_server_parts,
)
from nanogpt.server.server_settings import ServerSettings
from nanogpt.server.token_stream import End, Reason, TokenStream
from nanogpt.trace import StepRecord
from nanogpt.validate import PartError, show

STOPPED = "the engine has stopped"
JOIN_S = 5.0
"""How long `close` waits for the last step; after that, the process ends without the thread."""


class Asked(NamedTuple):
    """What a client wants of the engine. Times in seconds."""

    prompt_tokens: Sequence[int]
    max_new_tokens: int
    temperature: float | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()
    priority: int = 0
    slo_ttft_s: float | None = None
    cache_salt: str | None = None
    ignores_end: bool = False


@dataclass(slots=True)
class Served:
    """A request in the engine's thread: its text so far, and when what happened to it.

    Times are of `time.perf_counter`; `started_s` is when the first step with the request began.
    `text` waits to be handed over; `num_seen` tokens are in it or went before it.
    """

    request: Request
    stream: TokenStream
    continuation: Continuation
    slo_ttft_s: float | None
    arrived_s: float
    started_s: float = 0.0
    first_s: float = 0.0
    last_s: float = 0.0
    num_seen: int = 0
    num_cached: int = 0
    text: str = ""


@dataclass(slots=True)
class EngineThread:
    """An engine that serves many clients. Its public methods are for the event loop's thread.

    `parts` decide what comes in, goes out and leaves. When one of them fails, the request that it
    was asked about gets an error, and `problems` keeps the newest exception by the part's name.
    Mutable: the thread's `served` requests by id; in the event loop, those at the `door` and
    whether it is `closing`. Raises: ValueError for a model whose tokens are not the tokenizer's.
    """

    engine: Engine
    settings: ServerSettings
    metrics: ServerMetrics
    deadlines: Deadlines = field(default_factory=Deadlines)
    parts: ServerParts = field(default_factory=ServerParts)
    tokenizer: Tokenizer = CHARACTERS
    live: LiveFeed = field(default_factory=LiveFeed)
    served: dict[int, Served] = field(default_factory=dict[int, Served])
    door: Door = field(default_factory=Door)
    closing: bool = False
    problems: dict[str, Exception] = field(default_factory=dict[str, Exception])
    limits: DoorLimits = field(init=False)
    _next_id: int = 0
    _commands: SimpleQueue[Callable[[], None]] = field(
        default_factory=SimpleQueue[Callable[[], None]]
    )
    _handed_over_s: float = 0.0
    _num_failures: int = 0
    _over: bool = False
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        if self.engine.config.keep_steps is None:  # a server has no end, and needs no history
            self.engine.config = replace(self.engine.config, keep_steps=1)
        self.parts = validated_server_parts(self.parts, self.problems)
        self.limits = door_limits(self.engine, self.settings)
        self.tokenizer.check_fits(self.engine.model.config.vocab_size)

    # --- in the event loop ------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve; what the engine gives goes to the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def num_unfinished(self) -> int:
        """How many requests wait or run, those included that the thread has not seen yet."""
        return len(self.door.unfinished)

    def submit(self, asked: Asked) -> TokenStream:
        """Hand a request over, if it comes in. Raises: RefusedError; PartError of a part."""
        queue = self.door.queue(is_closing=self.closing or not self.is_alive)
        new = NewRequest(len(asked.prompt_tokens), asked.max_new_tokens)
        verdict = self.parts.admit_or_refuse(queue, self.limits, new)
        if verdict != "accept":
            raise RefusedError(*verdict)
        if self.closing or not self.is_alive:
            raise RefusedError(UNAVAILABLE, None)  # whatever a part says of it
        stream, arrived_s = TokenStream(self._next_id), time.perf_counter()
        self.door.unfinished.add(self._next_id)
        self._next_id += 1
        self._commands.put(lambda: self._take_in(stream, asked, arrived_s))
        return stream

    def cancel(self, stream: TokenStream) -> None:
        """Let a request go whose client has left; nothing happens to one that has ended.

        What goes at once and what goes after the step is one command: the thread takes commands
        between two steps alone.
        """
        books = self.door.books()
        try:
            after = self.parts.on_disconnect(books, stream.request_id)
        except PartError as error:
            said = str(error)
            self._commands.put(lambda: self._drop([stream.request_id], "failed", said))
            return
        if going := self.door.going(books, after):
            self._commands.put(lambda: self._drop(going, "cancelled"))

    def end_all(self, message: str) -> None:
        """Let every unfinished request go, and say why."""
        self._commands.put(lambda: self._drop(list(self.served), "shutdown", message))

    async def close(self) -> None:
        """End the thread after its step, if that ends; what is unfinished is told."""
        self.closing = True
        self._commands.put(self._finish)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_S)
        await asyncio.sleep(0)  # what it has handed over last

    def _hand_out(self, news: Sequence[tuple[TokenStream, str, End | None]]) -> None:
        for stream, text, end in news:
            if end is not None:
                self.door.ended(stream.request_id)
            stream.put(text, end)

    # --- in the engine's thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._over:
                # Sleeps here, in `get`, for as long as there is nothing to serve.
                while self.engine.scheduler.is_done() or not self._commands.empty():
                    self.door.step_began_s = None
                    self._commands.get()()
                    if self._over:
                        return
                self.door.step_began_s = time.monotonic()
                self._step()
        finally:
            self._over = True
            self._drop(list(self.served), "failed", STOPPED)
            while not self._commands.empty():
                self._commands.get()()

    def _finish(self) -> None:
        self._drop(list(self.served), "shutdown", "the server has been shut down")
        self._over = True

    def _take_in(self, stream: TokenStream, asked: Asked, arrived_s: float) -> None:
        """Submit a request to the engine, which may refuse it."""
        if self._over:
            self._tell([(stream, "", End("failed", 0, STOPPED))])
            return
        request = Request(
            stream.request_id, list(asked.prompt_tokens), asked.max_new_tokens, asked.priority,
            temperature=asked.temperature, seed=asked.seed, cache_salt=asked.cache_salt,
        )  # fmt: skip
        self.deadlines.note(request.id, arrived_s, asked.slo_ttft_s)
        try:
            self.engine.submit(request)
        except Exception as error:  # the engine's refusal, or whatever a policy raises
            self.deadlines.forget(request.id)
            reason = "refused" if isinstance(error, ValueError) else "failed"
            self._tell([(stream, "", End(reason, 0, _said(error)))])
            return
        continuation = Continuation(
            asked.stops, self.tokenizer, self.parts.next_events, ignores_end=asked.ignores_end
        )
        self.served[request.id] = Served(request, stream, continuation, asked.slo_ttft_s, arrived_s)
        self._tell([(stream, "", None)])
        self._settle()

    def _step(self) -> None:
        """Run one step, and hand over what it gave."""
        self.door.in_step, began_s = True, time.perf_counter()
        try:
            record = self.engine.step()
        except Exception as error:  # a policy may raise anything
            self._failed(error)
            return
        finally:
            self.door.in_step = False
        self._num_failures = 0
        num_tokens = sum(len(work.tokens) for work in record.work)
        self.door.pace.step(num_tokens, time.perf_counter() - began_s)
        self._collect(record, began_s)
        self._settle()

    def _collect(self, record: StepRecord, began_s: float) -> None:
        """Note the new tokens of every request, and hand over what is due.

        They are counted at the requests, not in the record: what a preempted request computes
        again, and what ran inside a step that slept, comes once.
        """
        now_s = time.perf_counter()
        is_due = now_s - self._handed_over_s >= self.settings.stream_interval_ms / 1000
        news: list[tuple[TokenStream, str, End | None]] = []
        for hit in record.prefix_hits:
            one = self.served[hit.request_id]
            one.num_cached = one.num_cached if one.started_s else hit.num_tokens
        for one in list(self.served.values()):
            was_first = not one.num_seen
            try:
                self._look(one, began_s, now_s)
                end = self._end_of(one)
            except PartError as error:
                end = self._leave(one, "failed", str(error))
            if end or (one.text and (is_due or was_first)):
                news.append((one.stream, one.text, end))
                one.text = ""
        if is_due:
            self._handed_over_s = now_s
        self.metrics.step(record, self.engine)
        self.live.step(record)
        self._tell(news)

    def _look(self, one: Served, began_s: float, now_s: float) -> None:
        """Take up what a request has come to in the step from `began_s` to `now_s`."""
        request = one.request
        if not one.started_s and request.status != "waiting":
            one.started_s = began_s
            self.metrics.started(len(request.prompt_tokens))
        one.continuation.restart(request.num_generated)  # a preemption may have taken some back
        fresh = request.generated_tokens[one.continuation.num_tokens :]
        if request.num_generated > one.num_seen:
            if one.num_seen:
                self.metrics.gap(now_s - one.last_s)
            else:
                one.first_s = now_s
                self.metrics.first_token(now_s - one.arrived_s, one.slo_ttft_s)
            one.num_seen, one.last_s = request.num_generated, now_s
        if fresh:
            one.text += one.continuation.feed(fresh)

    def _end_of(self, one: Served) -> End | None:
        """How a request has ended, which then leaves; None while it goes on."""
        reason: Reason | None = None
        if one.continuation.is_stopped:
            reason = "stop"
        elif one.request.status == "done":
            reason = "length"
            one.text += one.continuation.rest()
        elif one.request.status == "failed":
            return self._leave(one, "failed", "the engine has given the request up")
        return self._leave(one, reason) if reason else None

    def _leave(self, one: Served, reason: Reason, message: str = "") -> End:
        """Take a request out, of the engine too if it is still there; how it ended."""
        del self.served[one.request.id]
        self.deadlines.forget(one.request.id)
        if one.request.id in self.engine.requests:
            self.engine.cancel(one.request.id)
        self.metrics.ended(
            reason, len(one.request.prompt_tokens), one.continuation.num_tokens,
            one.arrived_s, one.started_s, one.first_s, one.last_s,
        )  # fmt: skip
        if not one.num_seen and one.slo_ttft_s is not None:
            waited_s = time.perf_counter() - one.arrived_s
            if reason != "cancelled" or waited_s > one.slo_ttft_s:
                self.metrics.promised(kept=False)
        num_tokens = one.continuation.num_tokens
        token_ids = tuple(one.request.generated_tokens[:num_tokens])
        return End(reason, num_tokens, message, token_ids, one.num_cached)

    def _drop(self, request_ids: Sequence[int], reason: Reason, message: str = "") -> None:
        """Let these requests go, and say so to the clients that still listen."""
        going = [self.served[i] for i in request_ids if i in self.served]
        self._tell([(one.stream, one.text, self._leave(one, reason, message)) for one in going])
        self._settle()

    def _failed(self, error: Exception) -> None:
        """A step failed. Requests that the engine gave up are told; if it only fails, all are."""
        self._num_failures += 1
        lost = [i for i, one in self.served.items() if one.request.status == "failed"]
        if not lost and self._num_failures > TRIES:
            lost = list(self.served)
        if lost:
            self._num_failures = 0
        self._drop(lost, "failed", _said(error))

    def _settle(self) -> None:
        """After every change: show how things are."""
        self.metrics.state(self.engine)
        self.live.settle(self.engine)
        self.door.note_running(self.engine)

    def _tell(self, news: Sequence[tuple[TokenStream, str, End | None]]) -> None:
        if news and self._loop is not None:
            self._loop.call_soon_threadsafe(self._hand_out, news)


def _said(error: Exception) -> str:
    """What the engine refused, or what was raised in it."""
    of_ours = isinstance(error, ValueError | PartError)
    return str(error) if of_ours else f"the engine's step raised {show(error)}"
