"""One engine in one thread: commands come in by a queue, text goes out to the clients' event loop.

    submit, abort --> SimpleQueue --> the thread: Engine.submit, Engine.abort, Engine.step
                                           |
    TokenStream.put <-- call_soon_threadsafe, once for all streams that have news

While there is nothing to serve, the thread sleeps in the queue. No other thread touches the engine.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from queue import Empty, SimpleQueue

from nanogpt.checkpoints.tokenizer import CHARACTERS, Tokenizer
from nanogpt.engine import MAX_NONFINITE_STEPS, Engine
from nanogpt.server.admission import AdmissionControl, Deadlines, admission_limits
from nanogpt.server.api_errors import not_admitted, unavailable
from nanogpt.server.continuation import Continuation, End, Reason, TokenStream
from nanogpt.server.live_feed import LiveFeed
from nanogpt.server.served_request import Asked, Served
from nanogpt.server.server_metrics import ServerMetrics
from nanogpt.server.server_policies import NewRequest, ServerPolicies, validated_server_policies
from nanogpt.server.server_settings import ServerSettings
from nanogpt.trace import StepRecord
from nanogpt.validate import PolicyError, show

STOPPED = "the engine has stopped"
JOIN_S = 5.0
"""How long `close` waits for the last step; after that the process ends without the thread."""


def when_there_is_work(engine: Engine) -> float | None:
    """The usual pace: step as long as a request is unfinished."""
    return None if engine.scheduler.is_done() else 0.0


class EngineThread:
    """An engine that serves many clients. Its public methods are called in the event loop.

    `pace` says after how many seconds the next step begins; None: not before another command.
    When one of the `policies` fails, the request that it was asked about gets an error, and
    `problems` keeps the newest exception by the policy's name. Mutable: the thread's `served`
    requests by id; in the event loop, all those known to `admission` and whether it is `closing`.
    Raises: ValueError for a model whose tokens are not the tokenizer's.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ServerSettings,
        *,
        deadlines: Deadlines | None = None,
        policies: ServerPolicies = ServerPolicies(),
        tokenizer: Tokenizer = CHARACTERS,
        live: LiveFeed | None = None,
        pace: Callable[[Engine], float | None] = when_there_is_work,
    ) -> None:
        tokenizer.check_fits(engine.model.config.vocab_size)
        if engine.config.keep_steps is None:  # a server runs without end
            engine.config = replace(engine.config, keep_steps=1)
        self.engine, self.settings, self.tokenizer, self.pace = engine, settings, tokenizer, pace
        self.deadlines, self.live = deadlines or Deadlines(), live or LiveFeed()
        self.problems: dict[str, Exception] = {}
        self.policies = validated_server_policies(policies, self.problems)
        self.metrics = ServerMetrics(settings.model_name)
        self.limits = admission_limits(engine, settings)
        self.admission = AdmissionControl()
        self.served: dict[int, Served] = {}
        self.closing = self._over = False
        self._shutdown: list[asyncio.Timeout] = []
        self._next_id = self._num_failures = 0
        self._commands = SimpleQueue[Callable[[], None]]()
        self._handed_over_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; text goes to the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, asked: Asked) -> TokenStream:
        """Submit a request, if it is admitted. Raises: ApiError; PolicyError."""
        stream = self.admit(asked)
        self.enter(stream, asked)
        return stream

    def admit(self, asked: Asked) -> TokenStream:
        """Admit a request, which waits until it may `enter`. Raises: ApiError; PolicyError."""
        queue = self.admission.queue(is_closing=self.closing or not self.is_alive)
        new = NewRequest(len(asked.prompt_tokens), asked.max_new_tokens)
        verdict = self.policies.admission_control(queue, self.limits, new)
        if verdict != "accept":
            raise not_admitted(*verdict, self.settings.max_requests)
        if self.closing or not self.is_alive:
            raise unavailable()  # whatever a policy says
        stream = TokenStream(self._next_id)
        self.admission.unfinished.add(self._next_id)
        self._next_id += 1
        return stream

    def enter(self, stream: TokenStream, asked: Asked) -> None:
        """Hand an admitted request to the engine."""
        arrived_s = time.perf_counter()
        self.order(lambda: self._take_in(stream, asked, arrived_s))

    def order(self, command: Callable[[], None]) -> None:
        """Run a command in the engine's thread, between two steps."""
        self._commands.put(command)

    def abort(self, stream: TokenStream) -> None:
        """Abort a request whose client has left, unless it has ended.

        One command serves for removals now and after the step: the thread takes commands only
        between two steps.
        """
        if stream.end is not None:
            return
        state = self.admission.state()
        try:
            after = self.policies.on_disconnect(state, stream.request_id)
        except PolicyError as error:
            said = str(error)
            self._commands.put(lambda: self._drop([stream.request_id], "error", said))
            return
        if going := self.admission.going(state, after):
            self._commands.put(lambda: self._drop(going, "abort"))

    def end_all(self, message: str) -> None:
        """End every unfinished request, and say why; also what runs under `until_shutdown`."""
        self._commands.put(lambda: self._drop(list(self.served), "abort", message))
        for limit in self._shutdown:
            limit.reschedule(0.0)

    @asynccontextmanager
    async def until_shutdown(self) -> AsyncGenerator[None]:
        """For work outside of the engine, as long as requests may take. Raises: ApiError then."""
        try:
            async with asyncio.timeout(None) as limit:
                self._shutdown.append(limit)
                try:
                    yield
                finally:
                    self._shutdown.remove(limit)
        except TimeoutError:
            raise unavailable() from None

    async def close(self) -> None:
        """End the thread after its step; unfinished requests are told."""
        self.closing = True
        self._commands.put(self._finish)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_S)
        await asyncio.sleep(0)  # for what the thread has handed over last

    def _hand_out(self, news: Sequence[tuple[TokenStream, str, End | None]]) -> None:
        for stream, text, end in news:
            if end is not None:
                self.admission.ended(stream.request_id)
            stream.put(text, end)

    # --- in the engine's thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._carry_out():
                self.admission.step_began_s = time.monotonic()
                self._step()
                self.admission.step_began_s = None
        finally:
            self._over = True
            self._drop(list(self.served), "error", STOPPED)
            while not self._commands.empty():
                self._commands.get()()

    def _carry_out(self) -> bool:
        """Carry out commands until the next step is due; False when there is none."""
        while not self._over:
            try:
                command = self._commands.get(timeout=self.pace(self.engine))
            except Empty:
                return True
            command()
        return False

    def _finish(self) -> None:
        self._drop(list(self.served), "abort", "the server has been shut down")
        self._over = True

    def _take_in(self, stream: TokenStream, asked: Asked, arrived_s: float) -> None:
        """Submit a request to the engine, which may refuse it."""
        if self._over:
            self._tell([(stream, "", End("error", 0, STOPPED))])
            return
        request = asked.request(stream.request_id)
        self.deadlines.note(request.id, arrived_s, asked.slo_ttft_s)
        try:
            self.engine.submit(request)
        except Exception as error:  # the engine's refusal, or whatever a policy raises
            self.deadlines.forget(request.id)
            reason = "refused" if isinstance(error, ValueError) else "error"
            self._tell([(stream, "", End(reason, 0, _said(error)))])
            return
        continuation = Continuation(
            asked.stops, self.tokenizer, self.policies.stream_delta, ignores_end=asked.ignores_end
        )
        self.served[request.id] = Served(request, stream, continuation, asked.slo_ttft_s, arrived_s)
        self._tell([(stream, "", None)])
        self._settle()

    def _step(self) -> None:
        """Run one step, and hand its text over."""
        self.admission.in_step, began_s = True, time.perf_counter()
        try:
            record = self.engine.step()
        except Exception as error:  # a policy may raise anything
            self._failed(error)
            return
        finally:
            self.admission.in_step = False
        self._num_failures = 0
        num_tokens = sum(len(work.tokens) for work in record.work)
        self.admission.throughput.step(num_tokens, time.perf_counter() - began_s)
        self._collect(record, began_s)
        self._settle()

    def _collect(self, record: StepRecord, began_s: float) -> None:
        """Take the new tokens of every request, and hand over the text that is due."""
        now_s = time.perf_counter()
        is_due = now_s - self._handed_over_s >= self.settings.stream_interval_ms / 1000
        news: list[tuple[TokenStream, str, End | None]] = []
        for hit in record.prefix_hits:
            one = self.served[hit.request_id]
            one.num_cached = one.num_cached if one.started_s else hit.num_tokens
        for one in list(self.served.values()):
            was_first = not one.num_seen
            end = self._look(one, began_s, now_s)
            if end or (one.text and (is_due or was_first)):
                news.append((one.stream, one.text, end))
                one.text = ""
        if is_due:
            self._handed_over_s = now_s
        self.metrics.step(record, self.engine)
        self.live.step(record)
        self._tell(news)

    def _look(self, one: Served, began_s: float, now_s: float) -> End | None:
        """Take a request's news of a step; how it ended, if it has."""
        try:
            one.look(began_s, now_s, self.metrics)
            reason = one.reason_to_end()
            message = "the engine has aborted the request" if reason == "error" else ""
            return reason and self._leave(one, reason, message)
        except PolicyError as error:
            return self._leave(one, "error", str(error))

    def _leave(self, one: Served, reason: Reason, message: str = "") -> End:
        """Remove a request, also from the engine; how it ended. Raises: PolicyError."""
        end = one.end(reason, message, self.metrics)
        del self.served[one.request.id]
        self.deadlines.forget(one.request.id)
        if one.request.id in self.engine.requests:
            self.engine.abort(one.request.id)
        return end

    def _drop(self, request_ids: Sequence[int], reason: Reason, message: str = "") -> None:
        """Remove these requests, and tell their clients."""
        going = [self.served[i] for i in request_ids if i in self.served]
        self._tell([(one.stream, one.text, self._leave(one, reason, message)) for one in going])
        self._settle()

    def _failed(self, error: Exception) -> None:
        """End the requests that the engine aborted in a failed step; after many failures, all."""
        self._num_failures += 1
        lost = [i for i, one in self.served.items() if one.request.status == "aborted"]
        if not lost and self._num_failures > MAX_NONFINITE_STEPS:
            lost = list(self.served)
        if lost:
            self._num_failures = 0
        self._drop(lost, "error", _said(error))

    def _settle(self) -> None:
        """Publish the state after a change."""
        self.metrics.state(self.engine)
        self.live.settle(self.engine)
        self.admission.note_running(self.engine)

    def _tell(self, news: Sequence[tuple[TokenStream, str, End | None]]) -> None:
        if news:
            self.in_loop(self._hand_out, news)

    def in_loop(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the clients' event loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function, *args)


def _said(error: Exception) -> str:
    """An error of the engine as a message."""
    of_ours = isinstance(error, ValueError | PolicyError)
    return str(error) if of_ours else f"the engine's step raised {show(error)}"
