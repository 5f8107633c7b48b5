"""What the server's tests share: small engines, servers on free ports, and clients of them."""

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from fakes import tiny_model

from nanogpt import GPT, Engine, EngineConfig, ModelConfig, decode, encode, generate
from nanogpt.checkpoints.tokenizer import CHARACTERS, Tokenizer
from nanogpt.clock import WallClock

if TYPE_CHECKING:  # they take long to import, and quick tests need none of them
    import httpx
    import openai

    from nanogpt.server.engine_thread import EngineThread

MODEL = "nanogpt"
LONG = ModelConfig(num_layers=1, num_heads=2, num_channels=16, max_model_len=4096)
PROMPT = "To be, or not"
LIMIT_S = 20.0


@functools.cache
def long_model() -> GPT:
    """One random layer whose texts may be long: what is aborted has not just ended."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return GPT(LONG).double().eval().requires_grad_(False)


def engine(model: GPT | None = None, *, policies: Any = None, **settings: Any) -> Engine:
    """An engine on the wall clock, with room for sixteen requests at once."""
    config = EngineConfig(**{"token_budget": 64, "max_batch_size": 16, **settings})
    more = {} if policies is None else {"policies": policies}
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
    thread: "EngineThread"
    closing: ExitStack

    def client(self, key: str = "any") -> "openai.OpenAI":
        import openai

        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)
        return self.closing.enter_context(client)

    def post(self, path: str, body: Any, **headers: str) -> "httpx.Response":
        import httpx

        return httpx.post(self.url + path, json=body, headers=headers, timeout=LIMIT_S)

    def get(self, path: str, **options: Any) -> "httpx.Response":
        import httpx

        return httpx.get(self.url + path, timeout=LIMIT_S, **options)

    def complete(self, **fields: Any) -> str:
        """The text of a completion, greedy unless the fields say otherwise."""
        answer = self.post("/v1/completions", completion(**{"temperature": 0, **fields}))
        return answer.json()["choices"][0]["text"]

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Every sample: (name, label values without the model's name) -> value."""
        from prometheus_client.parser import text_string_to_metric_families

        return {
            (each.name, *(v for k, v in sorted(each.labels.items()) if k != "model_name")): (
                each.value
            )
            for family in text_string_to_metric_families(self.get("/metrics").text)
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
        self.wait_until(lambda: not self.thread.admission.unfinished and not self.thread.served)
        assert not self.thread.engine.requests
        assert self.thread.engine.scheduler.is_done()
        assert list(self.thread.engine.cache.holders()) == []
        self.thread.engine.cache.check()


@contextmanager
def serving(
    made: Engine | None = None,
    deadlines: Any = None,
    tokenizer: Tokenizer = CHARACTERS,
    policies: Any = None,
    **settings: Any,
) -> Iterator[Running]:
    """A server of this engine, in this process. In the end it holds nothing."""
    from nanogpt.server import ServerPolicies, ServerSettings, running_server

    served = made or engine()
    allowed = ServerSettings(**{"stream_interval_ms": 0, **settings})
    more = {
        "deadlines": deadlines,
        "tokenizer": tokenizer,
        "policies": policies or ServerPolicies(),
    }
    with running_server(lambda: served, allowed, **more) as (url, thread), ExitStack() as closing:
        yield Running(url, thread, closing)
    assert not thread.is_alive and not thread.served
    last = served.steps[-1] if served.steps else None
    ended_last = {*last.finished, *last.aborted} if last else set[int]()
    aborted = {i for i in served.arrived if i not in ended_last}
    assert len(served.steps) <= 1 and len(aborted) <= allowed.max_requests
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


async def read_all(running: Running, bodies: list[Any]) -> list[list[Any]]:
    """The events of all these streams, read at once."""
    import asyncio

    import httpx

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits, base_url=running.url) as client:

        async def one(body: Any) -> list[Any]:
            async with client.stream("POST", "/v1/completions", json=body) as answer:
                assert answer.status_code == 200
                return events_of([line async for line in answer.aiter_lines()])

        return await asyncio.gather(*map(one, bodies))
