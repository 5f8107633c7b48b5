"""Behind lesson 10's server: clients of real sockets, in threads, and a server that stands.

The clients know HTTP and server-sent events alone, as any client does.
"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from course.launcher.failure import learn_command
from nanogpt import Engine, Trace
from nanogpt.server import ServerParts, ServerSettings, running_server
from nanogpt.server.engine_thread import EngineThread

EVERY_STEP = ServerSettings(stream_interval_ms=0)
_WRAPPED = 'style="white-space:pre-wrap;overflow-wrap:anywhere"'
LIMIT_S = 30.0
"""No client waits longer for a server: only a mistake of the server's makes it."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach it


@dataclass(frozen=True, slots=True)
class Call:
    """What a client asks, greedily, and after how many events it leaves (None: it stays)."""

    prompt: str
    max_tokens: int
    leaves_after: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call. `times_s` are those of its events, from the sending on.

    `retry_after_s` comes with a refusal, and `message` with any error. `request_id` is the number
    under which the engine served it.
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
        """From the sending to the first text."""
        return 1000 * self.times_s[0]

    @property
    def worst_gap_ms(self) -> float:
        """The longest that its reader had to wait between two events."""
        pairs = zip(self.times_s, self.times_s[1:], strict=False)
        return 1000 * max((b - a for a, b in pairs), default=0.0)


@dataclass(frozen=True, slots=True)
class Served:
    """What clients had of a server, what its engine did, and which server parts failed."""

    answers: tuple[Answer, ...]
    trace: Trace
    problems: dict[str, str]


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
    """All these calls in the same moment, a client each."""
    answers: dict[int, Answer] = {}

    def ask(number: int) -> None:
        answers[number] = stream(url, calls[number])

    clients = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(len(calls))]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return [answers[i] for i in range(len(calls))]


def serve_calls(
    make_engine: Callable[[], Engine],
    parts: ServerParts,
    calls: Sequence[Call],
    settings: ServerSettings = EVERY_STEP,
) -> Served:
    """A real server on a free port of this machine, all calls at once, and its end."""
    with running_server(make_engine, settings, parts=parts) as (url, thread):
        answers = at_once(url, calls)
    return Served(tuple(answers), thread.engine.trace(), dict(thread.problems))


def by_another_client(url: str, prompt: str, num_tokens: int) -> tuple[str, str]:
    """(which client, the text): OpenAI's own where it is installed, else the one of this page."""
    try:
        import openai
    except ImportError:
        return "a client of the standard library", stream(url, Call(prompt, num_tokens)).text
    direct = openai.DefaultHttpxClient(trust_env=False)  # a proxy cannot reach it
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=direct
    ) as client:
        try:
            events = client.completions.create(
                model="nanogpt", prompt=prompt, max_tokens=num_tokens, temperature=0, stream=True
            )
            return "the `openai` client", "".join(event.choices[0].text for event in events)
        except openai.OpenAIError as error:
            return "the `openai` client", f"({error})"


class StandingServer:
    """A server that stands until it is let go: when its cell runs anew, or the kernel ends.

    Only where a learner edits the page: a page that is shown to many has no server of its own.
    """

    def __init__(
        self, make_engine: Callable[[], Engine], parts: ServerParts, settings: ServerSettings
    ) -> None:
        self._held = ExitStack()
        self.url = ""
        self.thread: EngineThread | None = None
        if _is_edited():
            running = running_server(make_engine, settings, parts=parts)
            self.url, self.thread = self._held.enter_context(running)

    def __del__(self) -> None:
        self._held.close()

    def _repr_html_(self) -> str:
        """Its address, and how to speak with it from a terminal."""
        if not self.url:
            opened = f"Opened with <code>{learn_command()}</code>"
            return f"<p>{opened}, this page keeps a server.</p>"
        direct = " --noproxy 127.0.0.1" if urllib.request.getproxies() else ""
        body = '{"model": "nanogpt", "prompt": "ROMEO:\\n", "max_tokens": 200, "stream": true}'
        return (
            f"<p>Your engine is served at <code>{self.url}/v1</code>. In a terminal of this "
            "machine:</p>"
            f"<pre {_WRAPPED}>curl -N{direct} {self.url}/v1/completions -d '{body}'</pre>"
        )


def _is_edited() -> bool:
    marimo = sys.modules.get("marimo")
    return marimo is not None and marimo.app_meta().mode == "edit"
