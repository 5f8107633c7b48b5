"""Engines driven step by step through one workload, and held to the oracle's text and K/V."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from fakes import TINY, Ask, assert_close, follower, prompt_of, tiny_model
from hypothesis import strategies as st
from torch import Tensor

from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    Policies,
    Scheduler,
    TextbookModel,
    Trace,
    assemble_fused_batch,
    disassemble_fused_cache,
    generate,
)
from nanogpt.block_tables import BlockTables
from nanogpt.engine import Arrivals
from nanogpt.policies.blocks import block_hashes
from nanogpt.policies.sliding_window import kept_positions, visible
from nanogpt.request import Request
from nanogpt.speculative.drafting import Draft
from nanogpt.trace import StepRecord

BYTES_PER_TOKEN = 2 * TINY.num_layers * TINY.num_channels * 8
"""K and V of one token of the tiny model, in float64."""


def arrivals_of(asks: Sequence[Ask]) -> list[tuple[int, Request]]:
    """Fresh requests for the tiny model, as `Engine.run` takes them."""
    return [
        (step, Request(i, prompt_of(i, length), max_new, priority))
        for i, (step, length, max_new, priority) in enumerate(asks)
    ]


@st.composite
def workloads(draw: st.DrawFn, policies: Sequence[Any]) -> tuple[list[Ask], EngineConfig]:
    """Up to 8 requests, and limits from hopelessly tight to none at all."""
    one = st.tuples(st.integers(0, 10), st.integers(1, 14), st.integers(1, 9), st.integers(0, 2))
    asks = draw(st.lists(one, min_size=1, max_size=8))
    needed = max(length + max_new - 1 for _, length, max_new, _ in asks)
    return asks, EngineConfig(
        token_budget=draw(st.integers(1, 24)),
        max_kv_tokens=draw(st.none() | st.integers(needed, needed + 20)),
        max_batch_size=draw(st.integers(1, 6)),
        max_prefilling=draw(st.sampled_from([1, 1, 2, None])),
        policy=draw(st.sampled_from(policies)),
        preempt_to_admit=draw(st.booleans()),
        seed=5,
    )


class Spoilt(Exception):
    """What a policy raises that lets a step fail on purpose; the step is run again."""


def steps_of(engine: Engine, arrivals: Arrivals) -> Iterator[StepRecord]:
    """Serve as `Engine.run` does, stopping after every step for a look."""
    queue = sorted(arrivals, key=lambda arrival: arrival[0])
    while queue or not engine.scheduler.is_done():
        if engine.scheduler.is_done():
            engine.step_number = max(engine.step_number, queue[0][0])
        while queue and queue[0][0] <= engine.step_number:
            engine.submit(queue.pop(0)[1])
        with suppress(Spoilt):
            yield engine.step()
        assert engine.step_number < 2000, "this run does not end"


@functools.cache
def text_after(
    prompt: tuple[int, ...],
    max_new: int,
    name: int = 0,
    temperature: float = 0.0,
    window: int | None = None,
    sinks: int = 0,
    model: Callable[[], GPT] = tiny_model,
) -> tuple[int, ...]:
    """A prompt and what the oracle makes of it, with seed 5."""
    new = generate(
        model(),
        prompt,
        max_new,
        temperature=temperature,
        seed=5,
        request_id=name,
        sliding_window=window,
        num_sinks=sinks,
    )
    return (*prompt, *new)


def text_of(
    request_id: int,
    length: int,
    max_new: int,
    temperature: float = 0.0,
    window: int | None = None,
    sinks: int = 0,
) -> tuple[int, ...]:
    """The text of a request whose prompt is `prompt_of(request_id, length)`."""
    prompt = tuple(prompt_of(request_id, length))
    return text_after(prompt, max_new, request_id, temperature, window, sinks)


@functools.cache
def kv_from_scratch(
    tokens: tuple[int, ...],
    window: int | None = None,
    sinks: int = 0,
    model: Callable[[], GPT] = tiny_model,
) -> Tensor:
    """K and V of a whole text, every pair of tokens judged by `visible`: (2, L, H, S, D)."""
    tokens = tokens[: TINY.max_model_len]  # the last one of a full context is never computed
    everyone = range(len(tokens))
    mask = torch.tensor([[visible(q, k, window, sinks) for k in everyone] for q in everyone])
    layers: list[Tensor] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))  # (H or K, S, D) each
        layers.append(torch.stack([k, v]))
        k, v = (kv.repeat(len(q) // len(kv), 1, 1) for kv in (k, v))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5  # (H, S, S)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return (weights @ v).transpose(0, 1)  # (S, H, D)

    with torch.inference_mode():
        model().hidden(torch.tensor(tokens), torch.tensor(everyone), attend)
    return torch.stack(layers, dim=1)


def assert_holds_the_right_kv(
    engine: Engine,
    texts: Sequence[tuple[int, ...]] | Mapping[int, tuple[int, ...]],
    model: Callable[[], GPT] = tiny_model,
) -> None:
    """What every running request holds is what its text has from scratch, and nothing else."""
    window, sinks = engine.config.sliding_window, engine.config.num_sinks
    running = [*engine.scheduler.prefilling, *engine.scheduler.active]
    assert sorted(engine.cache.holders()) == sorted(request.id for request in running)
    for request in running:
        positions = list(engine.cache.positions(request.id))
        assert positions == kept_positions(request.num_computed_tokens, window, sinks)
        right = kv_from_scratch(texts[request.id], window, sinks, model)[:, :, :, positions]
        for layer in range(TINY.num_layers):
            held = torch.stack(engine.cache.gather(request.id, layer))  # (2, H, S, D)
            assert_close(held, right[:, layer])


def assert_copies_are_right(
    engine: Engine, texts: Mapping[int, tuple[int, ...]], model: Callable[[], GPT]
) -> None:
    """Every copy in a host tier is the K/V of the text whose hash it has."""
    if not isinstance(engine.cache, BlockTables) or engine.cache.host is None:
        return
    copies, size, rule = dict(engine.cache.host.kv_of), engine.cache.size, engine.config
    for tokens, salt in itertools.product(texts.values(), ("", "tenant")):
        right = kv_from_scratch(tokens, rule.sliding_window, rule.num_sinks, model)
        for i, name in enumerate(block_hashes(tokens, size, salt)):
            if name in copies:
                block = right[:, :, :, i * size : (i + 1) * size]
                assert_close(copies.pop(name), block)
    assert not copies


def watched(
    arrivals: Arrivals,
    config: EngineConfig,
    policies: Policies = Policies(),
    draft: Draft | None = None,
    model: Callable[[], GPT] = tiny_model,
) -> Trace:
    """Serve, and hold texts, K/V and books to what is right after every single step.

    Takes settings with seed 5.
    """
    engine = Engine(model(), config, policies, draft=draft)
    rule = config.temperature, config.sliding_window, config.num_sinks
    texts = {
        r.id: text_after(tuple(r.prompt_tokens), r.max_new_tokens, r.id, *rule, model)
        for _, r in arrivals
    }
    for _ in steps_of(engine, arrivals):
        engine.cache.check()
        assert_holds_the_right_kv(engine, texts, model)
        assert_copies_are_right(engine, texts, model)
    for _, request in arrivals:
        assert tuple(request.tokens_so_far) == texts[request.id], request.id
    trace = engine.trace()
    follower(trace, config).check()
    return trace


def decisions(trace: Trace) -> list[object]:
    """What the steps did, but for what they cost and where K/V lies."""
    return [
        (s.work, s.admitted, s.preempted, s.finished, s.kv_after, s.kv_peak) for s in trace.steps
    ]


def served_by(
    policies: Policies, config: EngineConfig, asks: Sequence[Ask], max_steps: int = 300
) -> tuple[Trace, int]:
    """The trace of a run with these parts, and how many of its tokens are not the oracle's."""
    trace = Engine(tiny_model(), config, policies).run(arrivals_of(asks), max_steps)
    assert trace.error is None
    wrong = 0
    for i, (_, length, max_new, _) in enumerate(asks):
        right = text_of(i, length, max_new, 0.0, config.sliding_window, config.num_sinks)[length:]
        wrong += sum(a != b for a, b in zip(trace.generated_tokens(i), right, strict=True))
    return trace, wrong


# ---------------------------------------------------------------- a loop of the posts

TokensLeft = Callable[[Request], int]


def known(request: Request) -> int:
    """All that is to be computed: behind the prompt, what a preempted request had generated."""
    return request.remaining


@torch.inference_mode()
def posts_loop(
    gpt: GPT,
    scheduler: Scheduler,
    requests: Sequence[Request],
    tokens_left: TokensLeft = known,
    computed: Callable[[list[Request]], None] = lambda requests: None,
) -> int:
    """The interleaving post's loop with greedy tokens; return how many steps it took.

    `computed` gets the requests of a step whose K/V is stored and whose tokens are not.
    """
    model, step = TextbookModel(gpt), 0
    for request in requests:
        scheduler.add_request(request)
    while not scheduler.is_done():
        prefill_req, decode_reqs = scheduler.schedule(step)
        step += 1
        assert step < 500, "the post's loop must end"
        chunk_size = 0
        remaining_budget = scheduler.token_budget - len(decode_reqs)
        if remaining_budget > 0 and prefill_req is not None:
            chunk_size = min(remaining_budget, tokens_left(prefill_req))
        if chunk_size == 0 and not decode_reqs:
            continue
        batch_tokens, batch_positions, past_kvs, attn_mask, _ = assemble_fused_batch(
            decode_reqs, prefill_req if chunk_size > 0 else None, chunk_size
        )
        logits, _, new_kvs = model(
            batch_tokens, pos=batch_positions, past_kvs=past_kvs, attn_mask=attn_mask
        )
        all_reqs, num_new = [*decode_reqs], [1] * len(decode_reqs)
        if prefill_req is not None and chunk_size > 0:
            prefill_req.prefill_cursor += chunk_size
            all_reqs.append(prefill_req)
            num_new.append(chunk_size)
        disassemble_fused_cache(all_reqs, new_kvs, num_new)
        computed(all_reqs)
        for req, token in zip(all_reqs, logits[:, -1, :].argmax(-1).tolist(), strict=True):
            if req.status == "active" or req.is_fully_prefilled:
                req.generated_tokens.append(token)
                if req.status == "prefilling":
                    scheduler.promote(req)
            if req.is_done:
                scheduler.complete(req)
    return step


def posts_kv(request: Request) -> Tensor:
    """(2, L, H, S, D) of what lies in the request's kv_cache."""
    layers = [
        torch.cat([torch.stack(request.kv_cache[layer, head]) for head in range(2)], 1)
        for layer in range(2)
    ]  # (2, H, S, D) each
    return torch.stack(layers, 1)
