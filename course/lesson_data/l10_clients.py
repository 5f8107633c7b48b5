"""Behind lesson 10's server: a child process that serves, and its clients in threads here.

The clients know only HTTP and server-sent events, as any client does.
"""

import json
import math
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any, Generic, TypeVar

from course.calling.errors import blame
from course.calling.jobs import RunError, run
from course.launcher.failure import learn_command
from course.launcher.server import MODEL
from nanogpt import Engine, Trace, load_model
from nanogpt.checkpoints.tokenizer import tokenizer_for
from nanogpt.checkpoints.weights import SHIPPED_WEIGHTS
from nanogpt.server import ServerPolicies, ServerSettings, running_server
from nanogpt.server.serving import LOCAL

Result = TypeVar("Result")

EVERY_STEP = ServerSettings(stream_interval_ms=0)
WRAPPED = 'style="white-space:pre-wrap;overflow-wrap:anywhere"'
LIMIT_S = 30.0
"""No client waits longer; only a defect of the server could make it."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach it


@dataclass(frozen=True, slots=True)
class Call:
    """A greedy completion that a client asks for; it leaves after so many events (None: never)."""

    prompt: str
    max_tokens: int
    leaves_after: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call. `times_s` are the times of its events since the call was sent.

    `retry_after_s` comes with a refusal, and `message` with any error. `request_id` is the
    engine's number of the request.
    """

    call: Call
    status: int
    text: str
    times_s: tuple[float, ...]
    retry_after_s: int | None = None
    message: str = ""
    request_id: int | None = None

    @property
    def ttft_ms(self) -> float:
        """Milliseconds from sending the call to its first text."""
        return 1000 * self.times_s[0]

    @property
    def worst_gap_ms(self) -> float:
        """The longest gap between two events, in milliseconds."""
        pairs = zip(self.times_s, self.times_s[1:], strict=False)
        return 1000 * max((b - a for a, b in pairs), default=0.0)


@dataclass(frozen=True, slots=True)
class Served(Generic[Result]):
    """What clients received, the trace of the engine, and which policies of the server failed.

    `problems` are sentences by the policy's name.
    """

    result: Result
    trace: Trace
    problems: dict[str, str]

    @property
    def failures(self) -> str:
        """The problems as Markdown, for the end of a paragraph."""
        return "".join(f"\n\n**A policy failed:** {each}" for each in self.problems.values())


COMPLETION = '{"model": "nanogpt", "prompt": "ROMEO:\\n", "max_tokens": 40, "temperature": 0}'
"""The body of the page's first call."""


def answer_to(url: str) -> str:
    """The HTTP answer to `COMPLETION` as `curl -i` prints it: status line, headers, body."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/completions", COMPLETION.encode(), headers)
    try:
        with _DIRECT.open(request, timeout=LIMIT_S) as answer:
            return _as_printed(answer)
    except urllib.error.HTTPError as refusal:
        return _as_printed(refusal)


def _as_printed(answer: Any) -> str:
    return f"HTTP/1.1 {answer.status} {answer.reason}\n{answer.headers}{answer.read().decode()}"


def stream(url: str, call: Call) -> Answer:
    """Read one streamed completion, event by event."""
    body = {"model": "nanogpt", "prompt": call.prompt, "max_tokens": call.max_tokens,
            "temperature": 0, "stream": True}  # fmt: skip
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    text, times, message, sent_s = "", list[float](), "", time.perf_counter()
    number: int | None = None
    try:
        with _DIRECT.open(request, timeout=LIMIT_S) as answer:
            for line in answer:
                data = line.decode().strip().removeprefix("data: ")
                event: dict[str, Any] = json.loads(data) if data.startswith("{") else {}
                message = event.get("error", {}).get("message", "") or message
                if "id" in event:  # "cmpl-3-...": the engine's own number comes first
                    number = int(event["id"].split("-")[1])
                new = "".join(each["text"] for each in event.get("choices", ()))
                if new:
                    text += new
                    times.append(time.perf_counter() - sent_s)
                if call.leaves_after is not None and len(times) >= call.leaves_after:
                    break
    except urllib.error.HTTPError as refusal:
        wait = refusal.headers.get("retry-after")
        said = json.loads(refusal.read())["error"]["message"]
        return Answer(call, refusal.code, "", (), int(wait) if wait else None, said)
    except OSError as lost:
        return Answer(call, 0, text, tuple(times), None, f"the connection was lost: {lost}")
    return Answer(call, 200, text, tuple(times), None, message, number)


def at_once(url: str, calls: Sequence[Call]) -> list[Answer]:
    """The answers to calls that are sent at the same moment, each by its own client."""
    with ThreadPoolExecutor(len(calls)) as clients:
        return list(clients.map(partial(stream, url), calls))


def serve_while(
    use: Callable[[str], Result],
    make_engine: Callable[[], Engine],
    policies: ServerPolicies,
    settings: ServerSettings = EVERY_STEP,
) -> Served[Result]:
    """A real server in a child process, on a free port of this machine, while `use(url)` runs here.

    Raises: RunError when the server had to be stopped.
    """
    results: list[Result] = []

    def client() -> None:
        line, url = _reached(door)
        with line:
            if url:
                results.append(use(url))

    with socket.create_server((LOCAL, 0)) as door:
        clients = threading.Thread(target=client, daemon=True)
        clients.start()
        try:
            trace, problems = run(_serve, door.getsockname(), make_engine, policies, settings)
        finally:
            _give_up(door.getsockname())
            clients.join()
    return Served(results[0], trace, problems)


def _serve(
    address: tuple[str, int],
    make_engine: Callable[[], Engine],
    policies: ServerPolicies,
    settings: ServerSettings,
    folder: str = "",
) -> tuple[Trace, dict[str, str]]:
    """Serve, a folder's model if given, until the connection that gets the url is closed."""

    def make() -> Engine:
        own = make_engine()
        config = replace(own.config, block_size=own.config.block_size or 16)  # no whole contexts
        return Engine(load_model(folder), config, own.policies, clock=own.clock)

    make, tokenizer = make if folder else make_engine, tokenizer_for(folder or SHIPPED_WEIGHTS)
    with (
        running_server(make, settings, policies=policies, tokenizer=tokenizer) as (url, thread),
        socket.create_connection(address) as line,
    ):
        line.sendall(url.encode() + b"\n")
        line.recv(1)
    return thread.engine.trace(), {name: blame(each) for name, each in thread.problems.items()}


def _reached(door: socket.socket) -> tuple[socket.socket, str]:
    """The connection of the server that starts, and its url; "" when it has not started."""
    line, _ = door.accept()
    with line.makefile() as words:
        return line, words.readline().strip()


def _give_up(address: tuple[str, int]) -> None:
    """Let `_reached` wait no longer."""
    with suppress(OSError):
        socket.create_connection(address).close()


def serve_calls(
    make_engine: Callable[[], Engine],
    policies: ServerPolicies,
    calls: Sequence[Call],
    settings: ServerSettings = EVERY_STEP,
) -> Served[list[Answer]]:
    """Send all calls at once to a real server. If it had to be stopped, the trace says so."""
    try:
        return serve_while(lambda url: at_once(url, calls), make_engine, policies, settings)
    except RunError as error:
        nothing = [Answer(call, 0, "", (), None, str(error)) for call in calls]
        return Served(nothing, make_engine().trace(str(error)), {})


class StandingServer:
    """A server that runs until its cell runs again or the kernel ends.

    There is one only where a learner edits the page: a page that is shown to many people has no
    server of its own, and its `url` is "".
    """

    def __init__(
        self, make_engine: Callable[[], Engine], policies: ServerPolicies, settings: ServerSettings
    ) -> None:
        self.url, problems = "", list[str]()
        self._line: socket.socket | None = None
        self._problems = problems
        if not _is_edited():
            return

        def serve(address: tuple[str, int]) -> None:
            try:
                folder = os.environ.get(MODEL, "")
                run(_serve, address, make_engine, policies, settings, folder, limit_s=math.inf)
            except RunError as error:
                problems.append(str(error))
            finally:
                _give_up(address)

        with socket.create_server((LOCAL, 0)) as door:
            threading.Thread(target=serve, args=(door.getsockname(),), daemon=True).start()
            self._line, self.url = _reached(door)

    def __del__(self) -> None:
        if self._line is not None:
            self._line.close()

    def _repr_html_(self) -> str:
        """Its address, and a `curl` command for a terminal."""
        if self._problems:
            return f"<p>The server stopped: {escape(self._problems[0])}</p>"
        if not self.url:
            opened = f"Opened with <code>{learn_command()}</code>"
            return f"<p>{opened}, this page keeps a server running.</p>"
        direct = " --noproxy 127.0.0.1" if urllib.request.getproxies() else ""
        body = '{"model": "nanogpt", "prompt": "ROMEO:\\n", "max_tokens": 200, "stream": true}'
        return (
            f"<p>Your engine is served at <code>{self.url}/v1</code>. In a terminal of this "
            "machine:</p>"
            f"<pre {WRAPPED}>curl -N{direct} {self.url}/v1/completions -d '{body}'</pre>"
        )


def _is_edited() -> bool:
    marimo = sys.modules.get("marimo")
    return marimo is not None and marimo.app_meta().mode == "edit"
