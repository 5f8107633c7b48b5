"""The server under load: many streams, clients that die or do not read, and its own end."""

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

import httpx
import openai
import pytest
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
    serving,
    text_of,
)
from support import ROOT

TOKENS = 30
LONG_BODY = completion(max_tokens=4000, stream=True)


def request_bytes(body: Any) -> bytes:
    """A POST as it goes over the socket."""
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: here\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def connect(running: Running, receive_buffer: int | None = None) -> socket.socket:
    """A bare connection to the server."""
    host, port = running.url.removeprefix("http://").split(":")
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(LIMIT_S)
    connection.connect((host, int(port)))
    return connection


def read_events(connection: socket.socket) -> list[Any]:
    """All events up to the last, from a chunked answer."""
    data = b""
    while b"data: [DONE]" not in data:
        more = connection.recv(65536)
        assert more, "the server closed before the end"
        data += more
    body = data.partition(b"\r\n\r\n")[2]
    return events_of(re.findall(r"data: .+", body.decode()))


async def read_all(running: Running, bodies: list[Any], stagger_s: float = 0.0) -> list[list[Any]]:
    """Stream them all at once."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits, base_url=running.url) as client:

        async def one(body: Any) -> list[Any]:
            async with client.stream("POST", "/v1/completions", json=body) as answer:
                assert answer.status_code == 200
                return events_of([line async for line in answer.aiter_lines()])

        return await asyncio.gather(*map(one, bodies))


def test_two_hundred_streams_lose_double_and_reorder_nothing() -> None:
    kinds = [(PROMPT[: 3 + n % 5], 0.9, n) for n in range(10)]
    bodies = [
        completion(prompt, TOKENS, temperature=degree, seed=seed, stream=True)
        for prompt, degree, seed in kinds * 20
    ]
    with serving(engine(token_budget=128, max_batch_size=24, max_kv_tokens=600)) as busy:
        answers = asyncio.run(read_all(busy, bodies))
        busy.wait_until_idle()
        assert busy.metrics()["vllm:request_success_total", "length"] == 200
        assert busy.metrics()["vllm:num_preemptions_total",] > 0
    for events, (prompt, degree, seed) in zip(answers, kinds * 20, strict=True):
        assert text_of(events) == oracle(prompt, TOKENS, degree, seed)
        assert events[-1] == "[DONE]" and events[-2]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("interval_ms", [0, 60_000])
def test_an_interval_gathers_tokens_and_changes_no_text(interval_ms: int) -> None:
    with serving(engine(long_model()), stream_interval_ms=interval_ms) as paced:
        [events] = asyncio.run(read_all(paced, [completion(max_tokens=300, stream=True)]))
        whole = paced.post("/v1/completions", completion(max_tokens=300, temperature=0))
        texts = [e["choices"][0]["text"] for e in events[:-2]]
        assert len("".join(texts)) == 300
        # At once the first token, the rest with the end: the interval is never over before it.
        assert len(texts) <= 3 or not interval_ms
        greedy = completion(max_tokens=300, temperature=0, stream=True)
        [events] = asyncio.run(read_all(paced, [greedy]))
        assert text_of(events) == whole.json()["choices"][0]["text"]


CLIENT = """
import socket, sys
data = bytes.fromhex(sys.argv[2])
connections = []
for _ in range(6):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    connection.sendall(data)
    connections.append(connection)
for connection in connections[:int(sys.argv[3])]:
    assert connection.recv(1000)
print("reading", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_is_killed_leaves_nothing_in_the_engine(streams: bool) -> None:
    """Some of its requests run, and some wait."""
    data = request_bytes(LONG_BODY | {"stream": streams}).hex()
    with serving(engine(long_model(), max_batch_size=4)) as left:
        port = left.url.rpartition(":")[2]
        command = [sys.executable, "-c", CLIENT, port, data, "4" if streams else "0"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as client:
            assert client.stdout and client.stdout.readline() == b"reading\n"
            left.wait_until(lambda: len(left.thread.served) == 6)
            client.send_signal(signal.SIGKILL)
        left.wait_until_idle()
        assert left.metrics()["vllm:request_success_total", "abort"] == 6
        assert left.metrics()["vllm:kv_cache_usage_perc",] == 0


def test_a_client_that_closes_its_stream_leaves_at_once() -> None:
    with serving(engine(long_model())) as left:
        stream = left.client().completions.create(
            model=MODEL, prompt=PROMPT, max_tokens=4000, stream=True
        )
        next(iter(stream))
        stream.close()
        left.wait_until_idle()
        assert left.metrics()["vllm:generation_tokens_total",] < 4000


def test_a_client_that_gives_up_waiting_leaves_at_once() -> None:
    with serving(engine(long_model())) as left:
        impatient = left.client().with_options(timeout=0.3)
        with pytest.raises(openai.APITimeoutError):
            impatient.completions.create(model=MODEL, prompt=PROMPT, max_tokens=4000)
        left.wait_until_idle()
        assert left.metrics()["vllm:request_success_total", "abort"] == 1


def test_a_client_that_does_not_read_holds_nothing_up_and_grows_no_further() -> None:
    """Its events are made long, by the model's name: no buffer on the way takes them all."""
    name = "a" * 50_000
    with serving(engine(long_model(), temperature=1.0), model_name=name) as slow:
        with connect(slow, receive_buffer=4096) as lazy:
            lazy.sendall(request_bytes(LONG_BODY | {"seed": 1, "model": name, "max_tokens": 600}))
            slow.wait_until(lambda: slow.thread.served)
            [one] = list(slow.thread.served.values())
            quick = slow.post("/v1/completions", completion(max_tokens=40, model=name))
            assert quick.json()["usage"]["completion_tokens"] == 40
            # It is served to its end all the same, and its K/V is free.
            slow.wait_until_idle()
            assert one.stream.end is not None and 0 < len(one.stream._text) <= 600
            events = read_events(lazy)
        texts = [e["choices"][0]["text"] for e in events[:-2]]
        body = completion(max_tokens=600, seed=1, model=name)
        whole = slow.post("/v1/completions", body).json()["choices"][0]["text"]
        assert "".join(texts) == whole and len(texts) < 600


# --- its own end ----------------------------------------------------------------------------------


@contextmanager
def reading(running: Running, num_tokens: int) -> Iterator[list[list[Any]]]:
    """Three long streams, read in a thread until they end."""
    answers: list[list[Any]] = []
    bodies = [completion(max_tokens=num_tokens, stream=True, seed=n) for n in range(3)]
    thread = threading.Thread(target=lambda: answers.extend(asyncio.run(read_all(running, bodies))))
    thread.start()
    running.wait_until(lambda: len(running.thread.served) == 3)
    yield answers
    thread.join()


@pytest.mark.parametrize(("shutdown_s", "num_tokens"), [(60, 600), (0, 4000)])
def test_what_runs_at_the_end_is_finished_or_told(shutdown_s: int, num_tokens: int) -> None:
    """The server is shut down while all are unfinished: two run, and one waits."""
    made = engine(long_model(), max_batch_size=2)
    with ExitStack() as closing:
        with serving(made, shutdown_s=shutdown_s) as ending:
            answers = closing.enter_context(reading(ending, num_tokens))
        closing.close()
    for events in answers:
        assert events[-1] == "[DONE]"
        if shutdown_s:
            assert len(text_of(events)) == num_tokens
            continue
        assert len(text_of(events)) < num_tokens
        error = events[-2]["error"]
        assert (error["type"], error["code"]) == ("server_error", "service_unavailable")
        assert error["message"] == "the server is shutting down; 0 s are over"
    assert not made.requests


def test_nothing_new_is_taken_while_the_server_ends() -> None:
    with serving() as ending:
        ending.thread.closing = True
        with pytest.raises(openai.InternalServerError) as refused:
            ending.client().completions.create(model=MODEL, prompt=PROMPT)
        assert refused.value.status_code == 503 and refused.value.code == "service_unavailable"
        assert httpx.get(f"{ending.url}/health").status_code == 503


def test_the_command_serves_the_shipped_model_and_ends_by_sigterm() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nanogpt.server", "--port", str(port), "--shutdown-s", "20"]
    environment = {**os.environ, "NANOGPT_API_KEY": "secret"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr
        said = process.stderr.readline().decode()
        assert said == f"nanogpt is served at http://127.0.0.1:{port}\n"
        url = f"http://127.0.0.1:{port}/v1"
        client = openai.OpenAI(base_url=url, api_key="secret", max_retries=0)
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                assert [model.id for model in client.models.list()] == [MODEL]
                break
            except openai.APIConnectionError:
                assert time.monotonic() < end
                time.sleep(0.05)
        stream = client.completions.create(
            model=MODEL, prompt="ROMEO:\n", max_tokens=300, temperature=0, stream=True
        )
        events = iter(stream)
        text = next(events).choices[0].text
        process.send_signal(signal.SIGTERM)
        text += "".join(chunk.choices[0].text for chunk in events)
        assert len(text) == 300 and text.startswith("The shall")
        assert process.wait(LIMIT_S) in (0, -signal.SIGTERM)
        assert process.stderr.read() == b""
        client.close()
