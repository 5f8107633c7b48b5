"""The server under load: many streams, clients that die or do not read, its end, its live page."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from fakes import prompt_of, tiny_model
from fleets import EXTREMES
from http_serving import (
    LIMIT_S,
    MODEL,
    PROMPT,
    Running,
    completion,
    engine,
    events_of,
    long_model,
    oracle,
    read_all,
    serving,
    text_of,
)
from launching import free_port, wait_for
from support import ROOT

from nanogpt.request import Request
from nanogpt.server import live_feed
from nanogpt.server.live_feed import MOST_REQUESTS, MOST_STEPS, LiveFeed
from nanogpt.server.server_settings import ServerSettings

LONG_BODY = completion(max_tokens=4000, stream=True)


@pytest.mark.parametrize("num_streams", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_many_streams_lose_double_and_reorder_nothing(num_streams: int):
    kinds = [(PROMPT[: 3 + n % 5], 0.9, n) for n in range(10)] * (num_streams // 10)
    bodies = [
        completion(prompt, 30, temperature=degree, seed=seed, stream=True)
        for prompt, degree, seed in kinds
    ]
    with serving(engine(token_budget=128, max_batch_size=24, max_kv_tokens=600)) as busy:
        answers = asyncio.run(read_all(busy, bodies))
        busy.wait_until_idle()
        assert busy.metrics()["vllm:request_success_total", "length"] == num_streams
        assert busy.metrics()["vllm:num_preemptions_total",] > 0
    for events, (prompt, degree, seed) in zip(answers, kinds, strict=True):
        assert text_of(events) == oracle(prompt, 30, degree, seed)
        assert events[-1] == "[DONE]" and events[-2]["choices"][0]["finish_reason"] == "length"


def test_an_interval_gathers_tokens_and_changes_no_text():
    body = completion(max_tokens=300, temperature=0, stream=True)
    with serving(engine(long_model()), stream_interval_ms=60_000) as paced:
        [events] = asyncio.run(read_all(paced, [body]))
        assert text_of(events) == paced.complete(max_tokens=300)
    # At once the first token, the rest with the end: the interval is never over before it.
    assert len(events[:-2]) <= 3


# --- clients that leave ---------------------------------------------------------------------------


def request_bytes(body: Any) -> bytes:
    """A POST as it goes over the socket."""
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: here\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def test_a_client_that_closes_its_stream_or_gives_up_waiting_leaves_at_once():
    import openai

    with serving(engine(long_model())) as left:
        stream = left.client().completions.create(**LONG_BODY)
        next(iter(stream))
        stream.close()
        left.wait_until_idle()
        impatient = left.client().with_options(timeout=0.3)
        with pytest.raises(openai.APITimeoutError):
            impatient.completions.create(model=MODEL, prompt=PROMPT, max_tokens=4000)
        left.wait_until_idle()
        seen = left.metrics()
        assert seen["vllm:request_success_total", "abort"] == 2
        assert [name for name in seen if name[0] == "nanogpt:requests_refused_total"] == []
        assert left.metrics()["vllm:generation_tokens_total",] < 2 * 4000


@pytest.mark.nightly
def test_a_client_that_does_not_read_holds_nothing_up_and_grows_no_further():
    """Its events are made long, by the model's name: no buffer on the way takes them all."""
    name = "a" * 50_000
    body = completion(max_tokens=600, seed=1, model=name)
    with (
        serving(engine(long_model(), temperature=1.0), model_name=name) as slow,
        socket.socket() as lazy,
    ):
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.settimeout(LIMIT_S)
        lazy.connect(("127.0.0.1", int(slow.url.rpartition(":")[2])))
        lazy.sendall(request_bytes(body | {"stream": True}))
        slow.wait_until(lambda: slow.thread.served)
        [one] = list(slow.thread.served.values())
        assert len(slow.complete(max_tokens=40, model=name)) == 40
        # It is served to its end all the same, and its K/V is free.
        slow.wait_until_idle()
        assert one.stream.end is not None and 0 < len(one.stream._text) <= 600
        data = b""
        while b"data: [DONE]" not in data:
            more = lazy.recv(65536)
            assert more, "the server closed before the end"
            data += more
        events = events_of(re.findall(r"data: .+", data.partition(b"\r\n\r\n")[2].decode()))
        texts = [each["choices"][0]["text"] for each in events[:-2]]
        whole = slow.post("/v1/completions", body).json()["choices"][0]["text"]
        assert "".join(texts) == whole and len(texts) < 600


# --- its own end ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("shutdown_s", "num_tokens"), [(60, 300), (0, 4000)])
def test_what_runs_at_the_end_is_finished_or_told(shutdown_s: int, num_tokens: int):
    """The server is shut down while all are unfinished: two run, and one waits."""
    made = engine(long_model(), max_batch_size=2)
    bodies = [completion(max_tokens=num_tokens, stream=True, seed=n) for n in range(3)]
    with ExitStack() as closing:
        with serving(made, shutdown_s=shutdown_s) as ending:
            answers = closing.enter_context(streamed(ending, bodies))
            ending.wait_until(lambda: len(ending.thread.served) == 3)
        closing.close()
    for events in answers:
        assert events[-1] == "[DONE]"
        assert (len(text_of(events)) == num_tokens) == bool(shutdown_s)
        if not shutdown_s:
            error = events[-2]["error"]
            assert (error["type"], error["code"]) == ("server_error", "service_unavailable")
            assert error["message"] == "the server is shutting down; 0 s are over"
    assert not made.requests


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("stalls_first", [True, False])
def test_an_engine_that_never_ends_its_step_is_told_by_health_and_outlives_no_server(
    monkeypatch: pytest.MonkeyPatch, stalls_first: bool
):
    """Also where it is told to stop before anyone could see that the step takes too long."""
    from nanogpt.server import app, engine_thread, running_server, serving

    limit_s = 0.05 if stalls_first else 60.0
    for module, name, seconds in (
        (app, "STALLED_S", limit_s), (serving, "STALLED_S", limit_s),
        (serving, "_LAST_WORDS_S", 0.1), (engine_thread, "JOIN_S", 0.1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)
    made, hangs, goes_on = engine(), threading.Event(), threading.Event()

    def step() -> Any:
        hangs.set()
        goes_on.wait(LIMIT_S)
        raise OSError("it was only a test")

    made.step = step
    allowed = ServerSettings(shutdown_s=60 if stalls_first else 0)
    with ExitStack() as closing, running_server(lambda: made, allowed) as (url, thread):
        hung = Running(url, thread, closing)
        assert hung.get("/health").status_code == 200
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        client = closing.enter_context(socket.create_connection(address))
        client.sendall(request_bytes(completion()))
        assert hangs.wait(LIMIT_S)
        if stalls_first:
            hung.wait_until(lambda: hung.get("/health").status_code == 503)
            said = hung.get("/health").json()["error"]["message"]
            assert re.fullmatch(r"no step has ended for \d+ s", said)
        began_s = time.monotonic()
    assert thread.is_alive and time.monotonic() - began_s < LIMIT_S / 2
    goes_on.set()
    hung.wait_until(lambda: not thread.is_alive)


def test_an_address_is_announced_once_the_port_is_the_servers_own(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    import gc

    from nanogpt.server import serve

    monkeypatch.setattr(gc, "freeze", lambda: None)
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit):
        serve(engine, port=taken.getsockname()[1], announce=told.append)
    assert told == []


@pytest.mark.process
def test_the_command_serves_the_shipped_model_and_ends_by_sigterm():
    import openai

    port = free_port()
    command = [sys.executable, "-m", "nanogpt.server", "--port", str(port), "--shutdown-s", "20"]
    environment = {**os.environ, "NANOGPT_API_KEY": "secret"}

    def answers() -> bool:
        try:
            return [model.id for model in client.models.list()] == [MODEL]
        except openai.APIConnectionError:
            return False

    with (
        subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process,
        openai.OpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="secret", max_retries=0
        ) as client,
    ):
        assert process.stderr
        wait_for(answers)
        said = process.stderr.readline().decode()
        assert said == f"nanogpt is served at http://127.0.0.1:{port}\n"
        events = iter(
            client.completions.create(
                model=MODEL, prompt="ROMEO:\n", max_tokens=300, temperature=0, stream=True
            )
        )
        text = next(events).choices[0].text
        process.send_signal(signal.SIGTERM)
        text += "".join(chunk.choices[0].text for chunk in events)
        assert len(text) == 300 and text.startswith("The shall")
        assert process.wait(LIMIT_S) in (0, -signal.SIGTERM)
        assert process.stderr.read() == b""


# --- the live page: nothing is kept unwatched, little is kept watched, and it is true -------------


@pytest.fixture
def watched_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes on a busy machine."""
    monkeypatch.setattr(live_feed, "WATCHED_S", 600.0)


def state(running: Running, after: int = -1, **headers: str) -> dict[str, Any]:
    answer = running.get("/live/state", params={"after": after}, headers=headers)
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    return answer.json()


@contextmanager
def streamed(running: Running, bodies: list[Any]) -> Iterator[list[list[Any]]]:
    """While these are streamed; their events are there in the end."""
    answers: list[list[Any]] = []
    reading = threading.Thread(
        target=lambda: answers.extend(asyncio.run(read_all(running, bodies)))
    )
    reading.start()
    yield answers
    reading.join(LIMIT_S)


@pytest.mark.usefixtures("watched_until_the_end")
def test_the_steps_told_are_the_engines_own_and_nothing_is_kept_unwatched():
    with serving(engine(block_size=8, share_prefixes=True, max_kv_tokens=128)) as watched:
        watched.complete(max_tokens=20)
        watched.wait_until_idle()
        feed = watched.thread.live
        assert (feed._frames, feed._requests, feed._limits) == ((), (), {})
        seen = state(watched)
        assert (seen["steps"], list(seen["requests"]), seen["tokens"]) == ([], [], 20)
        assert seen["model"] == MODEL and not seen["closing"]
        watched.complete(max_tokens=5, prompt="O, what say")
        watched.wait_until_idle()
        seen = state(watched)
        first = seen["steps"][0]["step"]
        assert [each["step"] for each in seen["steps"]] == list(range(first, first + 5))
        assert [each["work"] for each in seen["steps"]] == [[[1, 0, 11]], *([[[1, 1, 1]]] * 4)]
        assert [each["kv"] for each in seen["steps"]] == [11, 12, 13, 14, 0]
        # Two blocks are held to the end; of what was full then, three can still be found.
        assert [each["blocks"][0] for each in seen["steps"]] == [2, 2, 2, 2, 0]
        assert {each["blocks"][2] for each in seen["steps"]} == {16}
        assert (seen["requests"], seen["tokens"]) == ([], 25)
        later = [each["step"] for each in state(watched, first + 2)["steps"]]
        assert later == [first + 3, first + 4]


@pytest.mark.usefixtures("watched_until_the_end")
def test_a_key_of_any_number_is_shown_in_valid_json():
    numbers = [number for number in EXTREMES if number == number]
    feed, made = LiveFeed(), engine(policy=lambda view: (numbers[view.id], 2.34567))
    feed.state(-1)
    for number in range(len(numbers)):
        made.submit(Request(number, [1], 2))
    feed.settle(made)
    shown = feed.state(-1)["requests"]
    assert json.loads(json.dumps(shown, allow_nan=False)) == list(shown)
    for each in shown:
        assert each["key"][0] in (numbers[each["id"]], "∞", "-∞") and each["key"][1] == 2.346


def test_the_key_is_asked_for_the_state_and_the_page_asks_nothing_of_other_machines():
    from nanogpt.server.app import LIVE_FILES

    key = {"Authorization": "Bearer secret"}
    with serving(api_key="secret") as guarded:
        assert guarded.get("/live/state").status_code == 401
        assert not guarded.thread.live.is_watched
        assert state(guarded, **key)["model"] == MODEL
        for wrong in ("x", "1.5", "9" * 40, "--1"):
            refused = guarded.get("/live/state", params={"after": wrong}, headers=key)
            assert refused.status_code == 400
            assert "it must be a whole number of at most 18" in refused.json()["error"]["message"]
        for path in ("/live", *(f"/live/{name}" for name in LIVE_FILES)):
            answer = guarded.get(path)
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            text = answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text and "https:" not in text


@pytest.mark.usefixtures("watched_until_the_end")
def test_what_a_watcher_has_not_read_is_bounded(monkeypatch: pytest.MonkeyPatch):
    feed, made = LiveFeed(), engine(tiny_model(), max_batch_size=4, max_kv_tokens=900)
    feed.state(-1)
    for number in range(90):
        made.submit(Request(number, prompt_of(number, 4), 12))
    feed.settle(made)
    told = feed.state(-1)
    assert [each["id"] for each in told["requests"]] == list(range(MOST_REQUESTS))
    known = {"id", "status", "prompt", "known", "generated", "wanted", "key"}
    assert all(each.keys() == known for each in told["requests"]), "no text"
    assert (told["num_in_flight"], told["max_kv_tokens"]) == (90, 900)
    for _ in range(MOST_STEPS + 40):
        feed.step(made.step())
        feed.settle(made)
    steps = [each["step"] for each in feed.state(-1)["steps"]]
    assert steps == list(range(40, MOST_STEPS + 40))
    assert len(feed._frames) == MOST_STEPS
    # A page that asks no more is forgotten, and what was kept for it.
    monkeypatch.setattr(live_feed, "WATCHED_S", 0.0)
    feed.state(-1)
    feed.step(made.step())
    feed.settle(made)
    assert (feed._frames, feed._requests, feed._limits) == ((), (), {})
