"""What the server's tests share: small engines, servers on free ports, and clients of them."""

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import torch
from fakes import tiny_model
from prometheus_client.parser import text_string_to_metric_families

from nanogpt.checkpoints.pieces import CHARACTERS, Tokenizer
from nanogpt.checkpoints.tokenizer import decode, encode
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.server_settings import ServerSettings
from nanogpt.server.serving import running_server

MODEL = "nanogpt"
LONG = ModelConfig(num_layers=1, num_heads=2, num_channels=16, context_len=4096)
PROMPT = "To be, or not"
LIMIT_S = 20.0


@functools.cache
def long_model() -> GPT:
    """One random layer whose texts may be long: what is cancelled has not just ended."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return GPT(LONG).double().eval().requires_grad_(False)


def engine(model: GPT | None = None, *, parts: Any = None, **settings: Any) -> Engine:
    """An engine on the wall clock, with room for sixteen requests at once."""
    config = EngineConfig(**{"token_budget": 64, "max_batch_size": 16, **settings})
    more = {} if parts is None else {"parts": parts}
    return Engine(model or tiny_model(), config, clock=WallClock(), **more)


@functools.cache
def oracle(prompt: str, num_tokens: int, temperature: float = 0.0, seed: int = 0) -> str:
    """What a server of the tiny model has to answer."""
    how = {"temperature": temperature, "seed": seed}
    return decode(generate(tiny_model(), encode(prompt), num_tokens, **how))


@dataclass(frozen=True)
class Running:
    """A server, and ways to speak with it."""

    url: str
    thread: EngineThread
    closing: ExitStack

    def client(self, key: str = "any") -> openai.OpenAI:
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)
        return self.closing.enter_context(client)

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers=headers, timeout=LIMIT_S)

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Every sample: (name, label values without the model's name) -> value."""
        text = httpx.get(f"{self.url}/metrics").text
        return {
            (each.name, *(v for k, v in sorted(each.labels.items()) if k != "model_name")): (
                each.value
            )
            for family in text_string_to_metric_families(text)
            for each in family.samples
        }

    def wait_until(self, done: Callable[[], Any]) -> None:
        """Look again and again, up to a limit that only a mistake reaches."""
        end = time.monotonic() + LIMIT_S
        while not done():
            assert time.monotonic() < end, "it never came to that"
            time.sleep(0.01)

    def wait_until_idle(self) -> None:
        """Until no request is unfinished; then nothing may be held."""
        self.wait_until(lambda: self.thread.num_unfinished == 0 and not self.thread.served)
        assert not self.thread.engine.requests
        assert self.thread.engine.scheduler.is_done()
        assert list(self.thread.engine.cache.holders()) == []
        self.thread.engine.cache.check()


@contextmanager
def serving(
    made: Engine | None = None,
    deadlines: Any = None,
    tokenizer: Tokenizer = CHARACTERS,
    **settings: Any,
) -> Iterator[Running]:
    """A server of this engine, in this process. In the end it holds nothing."""
    served = made or engine()
    allowed = ServerSettings(**{"stream_interval_ms": 0, **settings})
    with (
        running_server(lambda: served, allowed, deadlines=deadlines, tokenizer=tokenizer) as (
            url,
            thread,
        ),
        ExitStack() as closing,
    ):
        yield Running(url, thread, closing)
    assert not thread.is_alive and not thread.served
    last = served.steps[-1] if served.steps else None
    ended_last = {*last.finished, *last.given_up} if last else set[int]()
    cancelled = {i for i in served.arrived if i not in ended_last}
    assert len(served.steps) <= 1 and len(cancelled) <= allowed.max_requests
    assert list(served.cache.holders()) == []


def completion(prompt: Any = PROMPT, max_tokens: int = 20, **fields: Any) -> dict[str, Any]:
    """A body."""
    return {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens, **fields}


def events_of(lines: Sequence[str]) -> list[Any]:
    """The data of server-sent events; the last of a whole stream is "[DONE]"."""
    data = [line.removeprefix("data: ") for line in lines if line]
    assert all(line.startswith("data: ") for line in lines if line)
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def text_of(events: Sequence[Any]) -> str:
    """The text of a completion's events."""
    return "".join(each["choices"][0]["text"] for each in events if _has_text(each))


def _has_text(event: Any) -> bool:
    return isinstance(event, dict) and bool(event.get("choices"))
