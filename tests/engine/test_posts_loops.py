"""The posts' loops over the posts' own calls, driven until memory is short and requests give way.

Each loop is a post's, call by call, over `TextbookModel`, and what it writes is held against the
oracle. Two things differ from print: greedy tokens, and K/V stored by the textbook call that there
is for it (`kv_cache` is read-only).
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from fakes import oracle, prompt_of, tiny_model
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import BYTES_PER_TOKEN, kv_from_scratch, text_of
from torch import Tensor

from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    Parts,
    Request,
    Scheduler,
    TextbookModel,
    assemble_batch_cache,
    assemble_fused_batch,
    decode,
    disassemble_batch_cache,
    disassemble_fused_cache,
    encode,
    evict_kv_cache,
    generate,
    load_model,
)
from nanogpt.kv_cache import KVCache
from nanogpt.parts.request_view import RequestView
from nanogpt.parts.sliding_window import kept_positions
from nanogpt.policies import Resumed

SOME = examples(15)
MIXES = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 7), st.integers(0, 2)), min_size=2, max_size=4
)
"""(prompt length, max_new_tokens, priority) of each request."""

TokensLeft = Callable[[Request], int]


def printed(request: Request) -> int:
    """The posts' `tokens_left`: what of the prompt is to be computed."""
    return len(request.prompt_tokens) - request.prefill_cursor


def known(request: Request) -> int:
    """All that is to be computed: behind the prompt, what a preempted request had generated."""
    return request.remaining


def from_the_start(request: RequestView) -> Resumed:
    """The scheduling post's hint: `generated_tokens` is reset to [] on preemption."""
    return Resumed(list(request.prompt_tokens), 0, request.arrival_time, 0)


WAYS = [
    pytest.param(printed, Parts(resume=from_the_start), id="as printed, from the start"),
    pytest.param(known, Parts(), id="all that is known again"),
]
"""How a loop computes a preempted request again: the post's way, and the course's."""


@torch.inference_mode()
def interleaved_loop(
    gpt: GPT,
    requests: Sequence[Request],
    policy: str,
    token_budget: int,
    max_kv_tokens: int,
    tokens_left_of: TokensLeft = known,
    parts: Parts = Parts(),
) -> Scheduler:
    """The interleaving post's loop: one model call per step."""
    model = TextbookModel(gpt)
    scheduler = Scheduler(
        policy, token_budget=token_budget, max_kv_tokens=max_kv_tokens, parts=parts
    )
    step = 0
    for req in requests:
        req.arrival_time = step
        scheduler.add_request(req)
    while not scheduler.is_done():
        prefill_req, decode_reqs = scheduler.schedule(step)
        chunk_size = 0
        remaining_budget = token_budget - len(decode_reqs)
        if remaining_budget > 0 and prefill_req is not None:
            chunk_size = min(remaining_budget, tokens_left_of(prefill_req))
        if chunk_size == 0 and not decode_reqs:
            step += 1
            continue
        batch_tokens, batch_positions, past_kvs, attn_mask, _ = assemble_fused_batch(
            decode_reqs, prefill_req if chunk_size > 0 else None, chunk_size
        )
        logits, _, new_kvs = model(
            batch_tokens, pos=batch_positions, past_kvs=past_kvs, attn_mask=attn_mask
        )
        all_reqs = decode_reqs[:]
        num_new_tokens_per_req = [1] * len(decode_reqs)
        if chunk_size > 0:
            assert prefill_req is not None
            all_reqs.append(prefill_req)
            num_new_tokens_per_req.append(chunk_size)
        disassemble_fused_cache(all_reqs, new_kvs, num_new_tokens_per_req)
        idx_next = logits[:, -1, :].argmax(-1)
        for i, req in enumerate(decode_reqs):
            req.generated_tokens.append(int(idx_next[i].item()))
            if req.is_done:
                scheduler.complete(req)
        if chunk_size > 0:
            assert prefill_req is not None
            prefill_req.prefill_cursor += chunk_size
            if prefill_req.is_fully_prefilled:
                prefill_req.generated_tokens.append(int(idx_next[-1].item()))
                scheduler.promote(prefill_req)
                if prefill_req.is_done:
                    scheduler.complete(prefill_req)
        step += 1
        assert step < 500, "the post's loop must end"
    return scheduler


@torch.inference_mode()
def scheduled_loop(
    gpt: GPT,
    requests: Sequence[Request],
    policy: str,
    token_budget: int,
    max_kv_tokens: int,
    tokens_left_of: TokensLeft = known,
    parts: Parts = Parts(),
    sliding_window: int | None = None,
) -> Scheduler:
    """The scheduling post's loop, two model calls per step, with the sliding-window post's lines.

    As the latter prints it: who has just been promoted decodes in the same step.
    """
    model = TextbookModel(gpt)
    scheduler = Scheduler(
        policy,
        token_budget=token_budget,
        max_kv_tokens=max_kv_tokens,
        sliding_window=sliding_window,
        parts=parts,
    )
    step = 0
    for req in requests:
        req.arrival_time = step
        scheduler.add_request(req)
    while not scheduler.is_done():
        prefill_req, _ = scheduler.schedule(step)
        chunk_size = 0
        remaining_budget = token_budget - len(scheduler.active)
        if prefill_req and remaining_budget > 0:
            chunk_size = min(remaining_budget, tokens_left_of(prefill_req))
        if chunk_size > 0:
            p_req = scheduler.prefilling[0]
            if sliding_window is not None:
                # Within a chunk no token leaves the window: beyond it, one token at a time.
                chunk_size = min(chunk_size, max(1, sliding_window + 1 - p_req.prefill_cursor))
            prefill_chunk(model, p_req, chunk_size)
            evict_kv_cache(p_req, sliding_window)
            if p_req.is_fully_prefilled:
                p_req.generated_tokens.append(int(p_req._last_token.item()))  # pyright: ignore
                scheduler.promote(p_req)
        complete(scheduler)
        if scheduler.active:
            batch_tokens = torch.cat([req._last_token for req in scheduler.active])  # pyright: ignore
            batch_positions = torch.tensor(
                [[len(req.tokens_so_far) - 1] for req in scheduler.active]
            )
            past_kvs, attn_mask, pad_lengths = assemble_batch_cache(scheduler.active)
            logits, _, new_kvs = model(
                batch_tokens, pos=batch_positions, past_kvs=past_kvs, attn_mask=attn_mask
            )
            idx_next = logits[:, -1, :].argmax(-1, keepdim=True)
            disassemble_batch_cache(scheduler.active, new_kvs, pad_lengths)
            if scheduler.sliding_window is not None:
                for req in scheduler.active:
                    evict_kv_cache(req, scheduler.sliding_window)
            for i, req in enumerate(scheduler.active):
                req.generated_tokens.append(int(idx_next[i].item()))
                req._last_token = idx_next[i : i + 1]  # pyright: ignore
        complete(scheduler)
        step += 1
        assert step < 500, "the post's loop must end"
    return scheduler


def prefill_chunk(model: TextbookModel, p_req: Request, chunk_size: int) -> None:
    """The scheduling post's first model call: a chunk behind what the request holds."""
    chunk_start = p_req.prefill_cursor
    chunk_tokens = p_req.tokens_so_far[chunk_start : chunk_start + chunk_size]
    pos = torch.arange(chunk_start, chunk_start + chunk_size).unsqueeze(0)
    p_req.prefill_cursor += chunk_size
    past_kvs = None
    if p_req.kv_cache:
        config = model.model.config
        past_kvs = [
            [p_req.kv_cache[(layer_idx, hi)] for hi in range(config.num_heads)]
            for layer_idx in range(config.num_layers)
        ]
    logits, _, new_kvs = model(torch.tensor([chunk_tokens]), past_kvs=past_kvs, pos=pos)
    disassemble_batch_cache([p_req], new_kvs, [0])
    p_req._last_token = logits[:, -1, :].argmax(-1, keepdim=True)  # pyright: ignore


def complete(scheduler: Scheduler) -> None:
    for req in list(scheduler.active):
        if req.is_done:
            scheduler.complete(req)


LOOPS = pytest.mark.parametrize("loop", [interleaved_loop, scheduled_loop])


@pytest.fixture(scope="module")
def model() -> GPT:
    return load_model(dtype=torch.float64)


def tight() -> list[Request]:
    """The requests of the scheduling post's tests 3 and 4, for a KV budget of 22."""
    return [
        Request(id=0, prompt_tokens=encode("A " * 5), max_new_tokens=10, priority=2),
        Request(id=1, prompt_tokens=encode("B " * 5), max_new_tokens=5, priority=0),
    ]


def kv_len(request: Request) -> int:
    return request.kv_cache[(0, 0)][0].shape[1]


# ---------------------------------------------------------------- the loops, preempted


@LOOPS
@pytest.mark.parametrize(("tokens_left_of", "parts"), WAYS)
def test_a_preempted_request_of_the_posts_writes_the_oracles_text(
    model: GPT, loop: Callable[..., Scheduler], tokens_left_of: TokensLeft, parts: Parts
):
    req0, req1 = requests = tight()
    scheduler = loop(model, requests, "priority", 16, 22, tokens_left_of, parts)
    assert {victim.id for victim in scheduler.preempted} == {0}
    assert decode(req0.generated_tokens) == "pito of th"
    assert [req.generated_tokens for req in requests] == [
        generate(model, req.prompt_tokens, req.max_new_tokens) for req in requests
    ]
    assert [req.status for req in requests] == ["done", "done"]
    assert (kv_len(req0), kv_len(req1)) == (19, 14)


@LOOPS
@SOME
@given(MIXES, st.integers(5, 20), st.sampled_from(["fcfs", "priority"]))
def test_under_any_kv_budget_the_loops_write_the_oracles_texts(
    loop: Callable[..., Scheduler], mix: list[tuple[int, int, int]], token_budget: int, policy: str
):
    requests = [
        Request(i, prompt_of(i, length), new, priority)
        for i, (length, new, priority) in enumerate(mix)
    ]
    largest = max(length + new - 1 for length, new, _ in mix)
    scheduler = loop(tiny_model(), requests, policy, token_budget, largest)
    for req in requests:
        right = oracle(tuple(req.prompt_tokens), req.max_new_tokens)
        assert tuple(req.generated_tokens) == right, (req.id, len(scheduler.preempted))
        assert kv_len(req) == len(req.prompt_tokens) + req.max_new_tokens - 1


@LOOPS
def test_a_workload_of_many_preemptions_ends_with_every_text_right(loop: Callable[..., Scheduler]):
    requests = [Request(i, prompt_of(i, 4 + i), 12, priority=3 - i) for i in range(4)]
    scheduler = loop(tiny_model(), requests, "priority", 8, 24)
    assert len(scheduler.preempted) >= 3
    for req in requests:
        assert tuple(req.generated_tokens) == oracle(tuple(req.prompt_tokens), 12)


@LOOPS
@pytest.mark.parametrize("max_new", [5, 8, 10, 12])
def test_the_posts_workload_that_livelocked_ends_with_equal_priorities(
    model: GPT, loop: Callable[..., Scheduler], max_new: int
):
    requests = [Request(i, encode("A " * 5), max_new) for i in range(2)]
    scheduler = loop(model, requests, "fcfs", 16, 22)
    assert {victim.id for victim in scheduler.preempted} <= {1}
    right = generate(model, encode("A " * 5), max_new)
    assert [request.generated_tokens for request in requests] == [right, right]


@LOOPS
def test_the_printed_chunks_of_a_request_that_keeps_its_words_end_in_a_sentence(
    model: GPT, loop: Callable[..., Scheduler]
):
    """They end with the prompt: what was generated would have no K/V, silently."""
    words = r"request 0 was preempted, and \d of the tokens that it generated are still to be"
    with pytest.raises(ValueError, match=words):
        loop(model, tight(), "priority", 16, 22, printed)


@pytest.mark.parametrize(("tokens_left_of", "parts"), WAYS)
@pytest.mark.parametrize("window", [10, 12])
def test_the_sliding_window_posts_loop_writes_the_windowed_oracles_texts_though_preempted(
    model: GPT, window: int, tokens_left_of: TokensLeft, parts: Parts
):
    requests = [
        Request(id=0, prompt_tokens=encode("O Romeo, "), max_new_tokens=24, priority=2),
        Request(id=1, prompt_tokens=encode("KING:\n"), max_new_tokens=9, priority=1),
        Request(id=2, prompt_tokens=encode("To be "), max_new_tokens=9, priority=0),
    ]
    budget = 2 * window - 1
    scheduler = scheduled_loop(
        model, requests, "priority", 16, budget, tokens_left_of, parts, sliding_window=window
    )
    assert scheduler.preempted
    for req in requests:
        right = generate(model, req.prompt_tokens, req.max_new_tokens, sliding_window=window)
        assert req.generated_tokens == right, req.id
        assert kv_len(req) == min(window, len(req.prompt_tokens) + req.max_new_tokens - 1)


def test_clearing_a_request_lets_go_of_the_kv_that_the_calls_stored():
    request = Request(0, prompt_of(0, 5), 3)
    prefill_chunk(TextbookModel(tiny_model()), request, 5)
    assert kv_len(request) == 5
    request.clear_cache()
    assert dict(request.kv_cache) == {}
    assert request.prefill_cursor == 0
    prefill_chunk(TextbookModel(tiny_model()), request, 5)
    assert kv_len(request) == 5


def test_a_request_in_prefill_is_through_only_behind_its_newest_token():
    request = Request(0, prompt_of(0, 3), 4, generated_tokens=[7, 8], status="prefilling")
    request.prefill_cursor = 4
    assert not request.is_fully_prefilled
    request.prefill_cursor = 5
    assert request.is_fully_prefilled
    request.status, request.prefill_cursor = "active", 4
    assert request.is_fully_prefilled


# ---------------------------------------------------------------- K/V of a request that is done


def posts_kv(request: Request) -> Tensor:
    """(2, L, H, S, D) of what lies in the request's kv_cache."""
    config = tiny_model().config
    kv = request.kv_cache
    layers = [
        torch.cat([torch.stack(kv[layer, head]) for head in range(config.num_heads)], 1)
        for layer in range(config.num_layers)
    ]  # (2, H, S, D) each
    return torch.stack(layers, 1)


def left_alone(kv_storage: str | None) -> tuple[Engine, Request, Tensor]:
    """An engine, a request that it has served, and the K/V that the oracle says it held."""
    window = None if kv_storage is None else 4
    config = EngineConfig(16, max_batch_size=1, sliding_window=window)
    if kv_storage is not None:
        config = replace(config, kv_storage=kv_storage)
    engine = Engine(tiny_model(), config)
    request = Request(0, prompt_of(0, 6), 3)
    engine.run([(0, request)])
    text = text_of(0, 6, 3, 0.0, window)
    kept = kept_positions(8, window, 0)
    return engine, request, kv_from_scratch(text, window)[:, :, :, kept]


@pytest.mark.parametrize("kv_storage", [None, "ring", "evict"])
def test_the_kv_of_a_done_request_can_be_looked_at_also_once_others_took_its_place(
    kv_storage: str | None,
):
    engine, request, right = left_alone(kv_storage)
    torch.testing.assert_close(posts_kv(request), right, rtol=1e-9, atol=1e-9)
    engine.run([(0, Request(1, prompt_of(1, 9), 5))])
    torch.testing.assert_close(posts_kv(request), right, rtol=1e-9, atol=1e-9)
    assert engine.cache.held_tokens() == 0
    engine.cache.check()


def test_the_kv_of_a_done_request_is_not_copied_until_its_slot_is_needed():
    engine, request, _ = left_alone(None)
    assert isinstance(engine.cache, KVCache)
    slots = engine.cache.storage.untyped_storage().data_ptr()
    assert request.kv_cache[0, 0][0].untyped_storage().data_ptr() == slots
    engine.run([(0, Request(1, prompt_of(1, 9), 5))])
    copy = request.kv_cache[0, 0][0].untyped_storage()
    assert copy.data_ptr() != slots
    assert copy.nbytes() == 8 * BYTES_PER_TOKEN


def test_the_kv_of_a_request_that_is_gone_is_not_copied(monkeypatch: pytest.MonkeyPatch):
    engine, request, _ = left_alone(None)
    left = weakref.ref(request.kv_view)
    del request
    assert left() is None
    monkeypatch.setattr(torch.Tensor, "clone", None)
    engine.run([(0, Request(1, prompt_of(1, 9), 5))])


def test_clearing_a_done_request_lets_go_of_its_kv():
    _, request, _ = left_alone(None)
    left = weakref.ref(request.kv_view)
    request.clear_cache()
    assert left() is None
    assert dict(request.kv_cache) == {}


def test_the_kv_can_be_looked_at_while_the_run_goes_on():
    engine = Engine(tiny_model(), EngineConfig(4))
    request = Request(0, prompt_of(0, 6), 3)
    engine.submit(request)
    lengths: list[int] = []
    while not request.is_done:
        engine.step()
        lengths.append(kv_len(request))
    assert lengths == [4, 6, 7, 8]
