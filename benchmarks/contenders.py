"""All engines of the comparison, each as a function that serves a load and returns its tokens."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import baseline
from benchmarks.gpt2_folder import gpt2_config, gpt2_weights
from benchmarks.loads import Load
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.int8 import Int8Executor
from nanogpt.executors.prepacked import backend_for
from nanogpt.features import MakeExecutor
from nanogpt.model import GPT, PLAIN, LinearBackend
from nanogpt.request import Request
from nanogpt.trace import Trace

Tokens = list[list[int]]
Serve = Callable[[Load], Tokens | None]
"""Serve every request of a load; -> the tokens generated for each, None where there are none."""


def same_text(tokens: Tokens | None, expected: Tokens | None) -> float | None:
    """Share of the requests with exactly the expected tokens; float32 may flip a near-tie."""
    if tokens is None or expected is None:
        return None
    return statistics.mean(ours == theirs for ours, theirs in zip(tokens, expected, strict=True))


@dataclass(frozen=True, slots=True)
class Contender:
    """A name for the table, and what makes its `Serve` from a model."""

    name: str
    prepare: Callable[[GPT], Serve]


def prepare_engine(model: GPT, make_executor: MakeExecutor | None = None, **settings: Any) -> Serve:
    """The engine, which lives on between loads, as a server does; `settings` of the engine."""
    engines: dict[Load, Engine] = {}

    def serve(load: Load) -> Tokens:
        if load not in engines:
            engines[load] = make_engine(model, load, make_executor, **settings)
        requests = requests_of(load, len(engines[load].arrived))
        engines[load].run([(0, request) for request in requests])
        return [request.generated_tokens for request in requests]

    return serve


def make_engine(
    model: GPT, load: Load, make_executor: MakeExecutor | None = None, **settings: Any
) -> Engine:
    """An engine with room for all requests of a load, on the wall clock."""
    config = EngineConfig(
        token_budget=load.token_budget, max_batch_size=load.num_requests, **settings
    )
    return Engine(model, config, clock=WallClock(), make_executor=make_executor)


def requests_of(load: Load, first: int) -> list[Request]:
    """The load's requests, with ids from `first` on."""
    return [Request(i, list(p), load.max_new_tokens) for i, p in enumerate(load.prompts, first)]


def run_engine(engine: Engine, load: Load) -> Trace:
    """Serve a load on an engine that may have served it before; the trace is of this time only."""
    before = engine.trace()
    first = len(before.requests)
    trace = engine.run([(0, request) for request in requests_of(load, first)])
    return replace(trace, requests=trace.requests[first:], steps=trace.steps[len(before.steps) :])


POSTS_BUDGET = 16
"""The token budget that the posts' run functions default to."""


def prepare_baseline(model: GPT, token_budget: int | None = None, *, fused: bool = False) -> Serve:
    """The frozen engine in the posts' style, with the load's token budget or one of its own."""
    converted = baseline.convert(model)

    def serve(load: Load) -> Tokens:
        requests = [baseline.BaselineRequest(list(p), load.max_new_tokens) for p in load.prompts]
        # With every request in the batch, each decode needs a token of the budget.
        budget = max(token_budget or load.token_budget, load.num_requests)
        baseline.serve(converted, requests, budget, load.num_requests, fused=fused)
        return [request.generated_tokens for request in requests]

    return serve


def prepare_products(model: GPT) -> Serve:
    """Only the Linear layers' products, over the rows of each step that `packed` takes.

    No attention, no normalisation, no sampling: the time that an engine over these products cannot
    get below. Of the plain and the prepacked ones those count that were quicker for the load.
    """
    rows_of: dict[str, list[tuple[int, int]]] = {}
    config = model.config
    channels = config.num_channels
    most = 512
    x, wide = torch.randn(most, channels), torch.randn(most, 4 * channels)
    x, wide = x.to(model.ln_f.weight.dtype), wide.to(model.ln_f.weight.dtype)

    @torch.inference_mode()
    def multiply(load: Load, products: LinearBackend) -> float:
        start = time.perf_counter()
        for num_tokens, num_rows in rows_of[load.name]:
            for layer, block in enumerate(model.blocks, start=1):
                products.linear(x[:num_tokens], block.qkv)
                rest = num_rows if layer == config.num_layers else num_tokens
                products.linear(x[:rest], block.proj)
                products.linear(x[:rest], block.up)
                products.linear(wide[:rest], block.down)
            F.linear(x[:num_rows], model.token_embedding.weight)
        return time.perf_counter() - start

    quicker: dict[str, LinearBackend] = {}

    def serve(load: Load) -> None:
        if load.name not in rows_of:
            trace = run_engine(make_engine(model, load), load)
            rows_of[load.name] = [(step.used_tokens, len(step.work)) for step in trace.steps]
            quicker[load.name] = min(
                (PLAIN, backend_for(model)),
                key=lambda each: min(multiply(load, each) for _ in range(3)),
            )
        multiply(load, quicker[load.name])

    return serve


def static_batch(peer: Any) -> Serve:
    """A model of transformers that generates for one static batch, left-padded."""

    @torch.inference_mode()
    def serve(load: Load) -> Tokens:
        longest = max(map(len, load.prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in load.prompts])  # (B, T)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in load.prompts])
        out = peer.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=load.max_new_tokens,
            do_sample=False,
            pad_token_id=0,
        )  # (B, T + new)
        return out[:, longest:].tolist()

    return serve


def gpt2_of(model: GPT) -> Any:
    """transformers' GPT-2 with our weights. Raises: ImportError where it is not installed."""
    from transformers import GPT2Config, GPT2LMHeadModel

    peer = GPT2LMHeadModel(GPT2Config(**gpt2_config(model), bos_token_id=None, eos_token_id=None))
    peer.load_state_dict(gpt2_weights(model))
    return peer.to(model.ln_f.weight.dtype).eval()


CONTENDERS = (
    Contender("packed", prepare_engine),
    Contender("compiled", lambda model: prepare_engine(model, executor="compiled")),
    Contender("int8", lambda model: prepare_engine(model, Int8Executor)),
    Contender("padded", lambda model: prepare_engine(model, executor="padded")),
    Contender("invariant", lambda model: prepare_engine(model, executor="batch_invariant")),
    Contender("baseline", lambda model: prepare_baseline(model, POSTS_BUDGET)),
    Contender("baseline-256", prepare_baseline),
    Contender("fused", lambda model: prepare_baseline(model, POSTS_BUDGET, fused=True)),
    Contender("fused-256", lambda model: prepare_baseline(model, fused=True)),
    Contender("transformers", lambda model: static_batch(gpt2_of(model))),
    Contender("products", prepare_products),
)
