"""The posts' own calls: fields, run functions, a loop of theirs, and padded K/V call by call."""

import weakref
from collections.abc import Callable, Sequence

import pytest
import torch
from fakes import TINY, assert_close, assert_equals_oracle, oracle, prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from lockstep import kv_from_scratch, posts_kv, posts_loop, text_of
from tiers import examples
from torch import Tensor

from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    Policies,
    Request,
    Scheduler,
    TextbookModel,
    Trace,
    assemble_batch_cache,
    assemble_fused_batch,
    chunked_prefill_generate,
    decode,
    disassemble_batch_cache,
    disassemble_fused_cache,
    encode,
    evict_kv_cache,
    interleaved_generate,
    load_model,
    scheduled_generate,
)
from nanogpt.policies.queueing import ResumeState
from nanogpt.policies.sliding_window import kept_positions
from nanogpt.posts.post_engine import PostEngine, step_log
from nanogpt.views.request_view import RequestView

# ---------------------------------------------------------------- run functions


def test_chunked_prefill_generate_serves_a_queue_and_returns_the_completed_in_order():
    """One prefill at a time, and as many requests at once as there are."""
    asks = [(0, 5, 8), (0, 20, 3), (2, 3, 1), (4, 9, 5)]
    for settings in ({}, {"temperature": 5.0, "seed": 1}, {"executor": "padded"}):
        queue = [(step, Request(i, prompt_of(i, n), new)) for i, (step, n, new) in enumerate(asks)]
        completed = chunked_prefill_generate(tiny_model(), queue, token_budget=16, **settings)
        assert [request.id for request in completed] == [2, 1, 0, 3]
        assert [request.arrival_time for _, request in queue] == [0, 0, 2, 4]
        assert_equals_oracle(queue, settings.get("temperature", 0.0), settings.get("seed", 0))
    assert chunked_prefill_generate(tiny_model(), []) == []


def trace_of(scheduler: Scheduler) -> Trace:
    assert scheduler.trace is not None
    return scheduler.trace


def test_the_defaults_of_a_run_function_are_the_posts():
    s = scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 3)])
    assert (s.policy, s.token_budget, s.max_kv_tokens) == ("fcfs", 16, 256)
    assert (s.max_prefilling, s.config.preempt_to_admit) == (1, False)
    for most, first in ((1, (0,)), (2, (0, 1)), (None, (0, 1, 2))):
        reqs = [Request(i, prompt_of(i, 4), 3) for i in range(3)]
        s = scheduled_generate(tiny_model(), reqs, max_prefilling=most)
        assert trace_of(s).steps[0].admitted == first
    assert trace_of(scheduled_generate(tiny_model(), [])).steps == ()
    s = scheduled_generate(tiny_model(), [Request(0, prompt_of(0, 4), 20)], max_steps=5)
    assert trace_of(s).error == "stopped after 5 steps, before all were done"


def tight() -> list[Request]:
    """The requests of the scheduling post's tests 3 and 4, for a KV budget of 22."""
    return [
        Request(id=0, prompt_tokens=encode("A " * 5), max_new_tokens=10, priority=2),
        Request(id=1, prompt_tokens=encode("B " * 5), max_new_tokens=5, priority=0),
    ]


TEXTS = ["pito of th", "RIVER"]


@pytest.mark.parametrize(
    ("serve", "executor"), [(scheduled_generate, "padded"), (interleaved_generate, "fused")]
)
def test_a_run_function_returns_the_scheduler_whose_trace_prints_as_the_posts_do(
    model: GPT, serve: Callable[..., Scheduler], executor: str
):
    requests = tight()
    scheduler = serve(model, requests, "priority", 16, 22)
    assert scheduler.is_done() and trace_of(scheduler).executor == executor
    log = step_log(trace_of(scheduler)).splitlines()
    assert log[2] == "[step 2] prefill=None decode=[1] waiting=[0] kv=12 preempted=[0]"
    assert log[5] == "[step 5] prefill=0[0:11] decode=[] waiting=[] kv=11"
    assert [decode(request.generated_tokens) for request in requests] == TEXTS


# ---------------------------------------------------------------- a loop of the posts


def printed(request: Request) -> int:
    """The posts' `tokens_left`: what of the prompt is to be computed."""
    return len(request.prompt_tokens) - request.prefill_cursor


def from_the_start(request: RequestView) -> ResumeState:
    """The scheduling post's hint: `generated_tokens` is reset to [] on preemption."""
    return ResumeState(list(request.prompt_tokens), 0, request.arrival_time, 0)


@pytest.fixture(scope="module")
def model() -> GPT:
    return load_model(dtype=torch.float64)


def kv_len(request: Request) -> int:
    return request.kv_cache[(0, 0)][0].shape[1]


def test_the_printed_chunks_of_a_request_that_keeps_its_words_end_in_a_sentence(model: GPT):
    """They end with the prompt: what was generated would have no K/V, silently."""
    words = r"request 0 was preempted, and \d of the tokens that it generated are still to be"
    with pytest.raises(ValueError, match=words):
        posts_loop(model, Scheduler("priority", 16, 22), tight(), printed)


def test_a_request_of_the_posts_that_starts_over_writes_the_oracles_text(model: GPT):
    """With the printed chunks, and with the hint: what was generated is thrown away."""
    req0, req1 = requests = tight()
    policies = Policies(requeue=from_the_start)
    scheduler = Scheduler("priority", token_budget=16, max_kv_tokens=22, policies=policies)
    posts_loop(model, scheduler, requests, printed)
    assert {victim.id for victim in scheduler.preempted} == {0}
    assert [decode(req.generated_tokens) for req in requests] == TEXTS
    assert (kv_len(req0), kv_len(req1)) == (19, 14)


# ---------------------------------------------------------------- K/V of a request that is done


@pytest.mark.parametrize("kv_storage", [None, "ring", "evict"])
def test_the_kv_of_a_done_request_can_be_looked_at_also_once_others_took_its_place(
    kv_storage: str | None,
):
    window = None if kv_storage is None else 4
    config = EngineConfig(
        16, max_batch_size=1, sliding_window=window, kv_storage=kv_storage or "ring"
    )
    engine, request = PostEngine(tiny_model(), config), Request(0, prompt_of(0, 6), 3)
    engine.run([(0, request)])
    kept = kept_positions(8, window, 0)
    right = kv_from_scratch(text_of(0, 6, 3, 0.0, window), window)[:, :, :, kept]
    assert_close(posts_kv(request), right)
    engine.run([(0, Request(1, prompt_of(1, 9), 5))])
    assert_close(posts_kv(request), right)
    engine.cache.check()
    left = weakref.ref(request.kv_cache[0, 0][0])
    request.clear_cache()
    assert left() is None
    assert dict(request.kv_cache) == {}


def test_a_requests_keys_and_values_can_be_looked_at_while_it_runs():
    engine = PostEngine(tiny_model(), EngineConfig(4))
    request = Request(0, prompt_of(0, 6), 3)
    assert dict(request.kv_cache) == {}
    engine.submit(request)
    lengths: list[int] = []
    while not request.is_done:
        engine.step()
        assert sorted(request.kv_cache) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        k, _ = request.kv_cache[1, 0]
        lengths.append(k.shape[1])
        if not request.is_done:
            assert torch.equal(k[0], engine.cache.gather(0, 1)[0][0])
    assert lengths == [4, 6, 7, 8]
    with pytest.raises(TypeError):
        request.kv_cache[0, 0] = ()  # pyright: ignore


# ---------------------------------------------------------------- padded K/V, call by call


MIXES = st.lists(st.tuples(st.integers(1, 10), st.integers(1, 5)), min_size=1, max_size=4)
"""(prompt length, max_new_tokens) of each request."""


def requests_of(mix: Sequence[tuple[int, int]]) -> list[Request]:
    return [Request(i, prompt_of(i, length), new) for i, (length, new) in enumerate(mix)]


def assert_oracle(requests: Sequence[Request]) -> None:
    for request in requests:
        right = oracle(tuple(request.prompt_tokens), request.max_new_tokens)
        assert tuple(request.generated_tokens) == right, request.id


# ---------------------------------------------------------------- the post's own loop


def assert_holds_what_texts_have(
    running: Sequence[Request], window: int | None = None, sinks: int = 0
) -> None:
    """Each request holds, in a storage of its own, the K/V that its text has from scratch."""
    for request in running:
        lengths = len(request.prompt_tokens), request.max_new_tokens
        text = text_of(request.id, *lengths, 0.0, window, sinks)
        assert request.tokens_so_far == list(text[: request.num_tokens])
        computed = request.num_tokens if request.status == "active" else request.prefill_cursor
        right = kv_from_scratch(text, window, sinks)
        right = right[:, :, :, kept_positions(computed, window, sinks)]
        assert_close(posts_kv(request), right)
        k, v = request.kv_cache[1, 1]
        assert k.untyped_storage().nbytes() == v.untyped_storage().nbytes() == k.numel() * 8


@examples(0.2)
@given(MIXES, st.integers(1, 20), st.booleans())
def test_the_posts_loop_takes_the_engine_s_steps_and_stores_the_oracles_kv(
    mix: list[tuple[int, int]], token_budget: int, is_tight: bool
):
    max_kv_tokens = max(length + new - 1 for length, new in mix) if is_tight else 1000
    # The post's scheduler prefills only with what the decodes leave: keep one token for it.
    mine, theirs, token_budget = requests_of(mix), requests_of(mix), token_budget + len(mix)
    scheduler = Scheduler("fcfs", token_budget, max_kv_tokens)
    steps = posts_loop(tiny_model(), scheduler, mine, computed=assert_holds_what_texts_have)
    scheduler = interleaved_generate(tiny_model(), theirs, "fcfs", token_budget, max_kv_tokens)
    assert scheduler.trace is not None and len(scheduler.trace.steps) == steps
    assert_oracle([*mine, *theirs])


@pytest.mark.parametrize(("window", "sinks"), [(9, 2), (5, 4)])
def test_the_posts_eviction_keeps_what_the_windowed_oracle_sees(window: int, sinks: int):
    """Prompts no longer than the window: then cutting after each decode is the rule itself."""

    def cut(running: list[Request]) -> None:
        for request in running:
            evict_kv_cache(request, window, sinks)
        assert_holds_what_texts_have(running, window, sinks)

    requests = requests_of([(5, 10), (8, 10), (1, 10)])
    posts_loop(tiny_model(), Scheduler("fcfs", 8, 1000), requests, computed=cut)


# ---------------------------------------------------------------- one call for every occasion


def test_two_first_chunks_of_unequal_length_meet_without_nan():
    tokens = torch.tensor([prompt_of(0, 5), [0, 0, 0, *prompt_of(1, 2)]])
    positions = torch.tensor([range(5), [0, 0, 0, 0, 1]])
    real = torch.tensor([[True] * 5, [False] * 3 + [True] * 2]).unsqueeze(1)  # (B, 1, T)
    logits = TextbookModel(tiny_model())(tokens, pos=positions, attn_mask=real)[0]
    alone = tiny_model()(torch.tensor([prompt_of(1, 2)]))[0][0]  # (t, V)
    assert logits.isfinite().all()
    assert_close(logits[1, -2:], alone)


def test_a_training_step_through_it_has_the_models_own_loss_and_gradient():
    torch.manual_seed(1)
    tokens, targets = torch.randint(TINY.vocab_size, (2, 2, 9))
    losses: list[Tensor] = []
    grads: list[Tensor | None] = []
    for wrap in (TextbookModel, lambda model: model):
        model = GPT(TINY).double()
        model.load_state_dict(tiny_model().state_dict())
        losses.append(wrap(model)(tokens, targets)[1])
        losses[-1].backward()
        grads.append(model.blocks[0].qkv.weight.grad)
    assert_close(losses[0], losses[1], rtol=1e-12, atol=1e-12)
    assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-12)
    assert TextbookModel(tiny_model())(tokens)[1] is None


# ---------------------------------------------------------------- batches, call by call


@torch.inference_mode()
def prefilled(lengths: Sequence[int], max_new: int = 6) -> list[Request]:
    """Requests that each hold the K/V of their prompt and know one token more."""
    requests = requests_of([(length, max_new) for length in lengths])
    model = TextbookModel(tiny_model())
    for request in requests:
        tokens, positions, past, mask, _ = assemble_fused_batch([], request, request.remaining)
        logits, _, kvs = model(tokens, pos=positions, past_kvs=past, attn_mask=mask)
        disassemble_fused_cache([request], kvs, [tokens.shape[1]])
        request.prefill_cursor = len(request.prompt_tokens)
        request.generated_tokens.append(int(logits[0, -1].argmax()))
    return requests


@torch.inference_mode()
def test_the_posts_decode_loop_writes_the_oracles_tokens():
    requests = prefilled([5, 12, 1])
    for _ in range(5):
        tokens = torch.tensor([[r.tokens_so_far[-1]] for r in requests])
        positions = torch.tensor([[len(r.tokens_so_far) - 1] for r in requests])
        past, mask, pads = assemble_batch_cache(requests)
        logits, _, kvs = TextbookModel(tiny_model())(
            tokens, pos=positions, past_kvs=past, attn_mask=mask
        )
        disassemble_batch_cache(requests, kvs, pads)
        for request, row in zip(requests, logits[:, -1], strict=True):
            request.prefill_cursor += 1
            request.generated_tokens.append(int(row.argmax()))
    assert_oracle(requests)
    assert_holds_what_texts_have(requests)


def test_the_fused_batch_of_the_post_with_positions_and_padding():
    decodes, chunk = prefilled([6, 3]), Request(2, prompt_of(2, 10), 4)
    tokens, positions, past, mask, pads = assemble_fused_batch(decodes, chunk, 4)
    assert tokens.tolist() == [
        [0, 0, 0, decodes[0].tokens_so_far[-1]],
        [0, 0, 0, decodes[1].tokens_so_far[-1]],
        prompt_of(2, 4),
    ]
    assert positions.tolist() == [[0, 0, 0, 6], [0, 0, 0, 3], [0, 1, 2, 3]]
    assert past is not None and past[0][0][0].shape == (3, 6, TINY.head_size)
    assert mask[:, 0].int().tolist() == [
        [1, 1, 1, 1, 1, 1, 0, 0, 0, 1],
        [0, 0, 0, 1, 1, 1, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 1, 1, 1, 1],
    ]
    assert pads == [(0, 3), (3, 3), (6, 0)]
    tokens, positions, past, mask, pads = assemble_fused_batch(decodes, chunk, 0)
    assert (tokens.shape, pads) == ((2, 1), [(0, 0), (3, 0)])
    _, _, kvs = TextbookModel(tiny_model())(tokens, pos=positions, past_kvs=past, attn_mask=mask)
    disassemble_fused_cache(decodes, kvs, [1, 0])  # one that computed nothing gains nothing
    assert [request.kv_cache[0, 0][0].shape[1] for request in decodes] == [7, 3]


def test_a_second_chunk_goes_on_at_its_own_positions_and_refuses_a_mask_of_another_width():
    prompt, model = prompt_of(0, 9), TextbookModel(tiny_model())
    _, _, past = model(torch.tensor([prompt[:4]]))
    logits, _, _ = model(torch.tensor([prompt[4:]]), past_kvs=past)
    right = tiny_model()(torch.tensor([prompt]))[0][:, 4:]
    assert_close(logits, right)
    with pytest.raises(ValueError, match=r"attn_mask has 3 columns; it must have .* or 6"):
        model(torch.tensor([[3, 4]]), past_kvs=past, attn_mask=torch.ones(1, 1, 3).bool())


def test_an_empty_batch_and_a_chunk_beyond_what_is_left_are_refused_in_words():
    request = Request(2, prompt_of(2, 10), 4)
    assert assemble_batch_cache([request])[0] is None  # which has no past
    with pytest.raises(ValueError, match="nothing to assemble: no request"):
        assemble_batch_cache([])
    with pytest.raises(ValueError, match="nothing to assemble"):
        assemble_fused_batch([], request, 0)
    for size in (-1, 11):
        with pytest.raises(ValueError, match=f"chunk_size is {size}; request 2 has 10 tokens"):
            assemble_fused_batch([], request, size)


# ---------------------------------------------------------------- eviction


def test_evicting_changes_the_cache_and_not_what_was_handed_out():
    (request,) = prefilled([10])
    before = dict(request.kv_cache)
    evict_kv_cache(request, None)
    assert dict(request.kv_cache) == before
    for window, sinks, words in ((0, 0, "is 0; it must be"), (2, -1, "num_sinks is -1; it must")):
        with pytest.raises(ValueError, match=words):
            evict_kv_cache(request, window, sinks)
    evict_kv_cache(request, 3, 1)
    for place, (k, v) in request.kv_cache.items():
        assert torch.equal(k, before[place][0][:, [0, 7, 8, 9]])
        assert torch.equal(v, before[place][1][:, [0, 7, 8, 9]])


# ---------------------------------------------------------------- not for an engine's requests


def test_requests_are_served_by_an_engine_or_by_hand_and_not_by_both():
    engine = Engine(tiny_model(), EngineConfig(4))
    request = Request(0, prompt_of(0, 6), 3)
    engine.submit(request)
    engine.step()
    for call in (
        lambda: assemble_batch_cache([request]),
        lambda: assemble_fused_batch([], request, 2),
        lambda: evict_kv_cache(request, 2),
        lambda: disassemble_fused_cache([request], [], [1]),
    ):
        with pytest.raises(ValueError, match="request 0 is served by an engine"):
            call()
    engine.run([])
    assert_oracle([request])
    with pytest.raises(ValueError, match="request 0 has been served before"):
        engine.submit(prefilled([3])[0])
