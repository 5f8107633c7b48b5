"""The posts' padded calls, driven as the posts drive them, beside the engine and the oracle."""

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from fakes import TINY, oracle, prompt_of, tiny_model
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import kv_from_scratch, text_of
from torch import Tensor

from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    Request,
    Scheduler,
    TextbookModel,
    assemble_batch_cache,
    assemble_fused_batch,
    disassemble_batch_cache,
    disassemble_fused_cache,
    evict_kv_cache,
    interleaved_generate,
)
from nanogpt.parts.sliding_window import kept_positions
from nanogpt.posts import textbook

MIXES = st.lists(st.tuples(st.integers(1, 14), st.integers(1, 6)), min_size=1, max_size=5)
"""(prompt length, max_new_tokens) of each request."""
SOME = examples(12)
POSTS = [(5, 8), (20, 3), (3, 6), (1, 1), (9, 5)]


def requests_of(mix: Sequence[tuple[int, int]]) -> list[Request]:
    return [Request(i, prompt_of(i, length), new) for i, (length, new) in enumerate(mix)]


@torch.inference_mode()
def posts_loop(
    requests: Sequence[Request],
    token_budget: int,
    window: int | None = None,
    sinks: int = 0,
    seen: Callable[[list[Request]], None] = lambda running: None,
    past_mask_only: bool = False,
    model: TextbookModel | None = None,
) -> int:
    """The interleaving post's `interleaved_generate`, its calls in its order; returns the steps.

    `past_mask_only` hands the model the post's mask, which takes all new columns for real.
    """
    model = model or TextbookModel(tiny_model())
    scheduler = Scheduler("fcfs", token_budget=token_budget, max_kv_tokens=1000)
    for request in requests:
        scheduler.add_request(request)
    step = 0
    while not scheduler.is_done():
        prefill_req, decode_reqs = scheduler.schedule(step)
        chunk_size = 0
        remaining_budget = token_budget - len(decode_reqs)
        if remaining_budget > 0 and prefill_req is not None:
            tokens_left = len(prefill_req.prompt_tokens) - prefill_req.prefill_cursor
            chunk_size = min(remaining_budget, tokens_left)
        tokens, positions, past_kvs, attn_mask, _ = assemble_fused_batch(
            decode_reqs, prefill_req if chunk_size > 0 else None, chunk_size
        )
        if past_mask_only:
            attn_mask = attn_mask[:, :, : attn_mask.shape[2] - tokens.shape[1]]
        logits, _, new_kvs = model(tokens, pos=positions, past_kvs=past_kvs, attn_mask=attn_mask)
        all_reqs, num_new = decode_reqs[:], [1] * len(decode_reqs)
        if chunk_size > 0:
            assert prefill_req is not None
            all_reqs.append(prefill_req)
            num_new.append(chunk_size)
        disassemble_fused_cache(all_reqs, new_kvs, num_new)
        next_tokens = logits[:, -1].argmax(-1).tolist()
        for request, n in zip(all_reqs, num_new, strict=True):
            request.prefill_cursor += n
            evict_kv_cache(request, window, sinks)
        seen(all_reqs)
        for request, token in zip(all_reqs, next_tokens, strict=True):
            if request.prefill_cursor < request.num_known:
                continue
            request.generated_tokens.append(token)
            if request is prefill_req:
                scheduler.promote(request)
            if request.is_done:
                scheduler.complete(request)
        step += 1
        assert step < 500, "the post's loop must end"
    return step


def assert_oracle(requests: Sequence[Request]) -> None:
    for request in requests:
        right = oracle(tuple(request.prompt_tokens), request.max_new_tokens)
        assert tuple(request.generated_tokens) == right, request.id


def held_kv(request: Request) -> Tensor:
    """(2, L, H, S, D) of what lies in the request's own kv_cache."""
    kv = request.kv_cache
    layers = [
        torch.stack([torch.stack(kv[layer, head]) for head in range(TINY.num_heads)])
        for layer in range(TINY.num_layers)
    ]  # (H, 2, 1, S, D) each
    return torch.stack(layers).squeeze(3).permute(2, 0, 1, 3, 4)


# ---------------------------------------------------------------- the post's own loop


@SOME
@given(MIXES, st.integers(1, 20))
def test_the_posts_loop_writes_the_oracles_tokens_and_stores_its_kv(
    mix: list[tuple[int, int]], token_budget: int
):
    def look(running: list[Request]) -> None:
        for request in running:
            text = text_of(request.id, len(request.prompt_tokens), request.max_new_tokens)
            right = kv_from_scratch(text)[:, :, :, : request.prefill_cursor]
            torch.testing.assert_close(held_kv(request), right, rtol=1e-9, atol=1e-9)

    # The post's scheduler prefills only with what the decodes leave: keep one token for it.
    requests = requests_of(mix)
    posts_loop(requests, token_budget + len(mix), seen=look)
    assert_oracle(requests)


@pytest.mark.parametrize("token_budget", [8, 16])
def test_the_posts_loop_takes_the_engines_steps_and_gives_its_tokens(token_budget: int):
    mine, theirs = requests_of(POSTS), requests_of(POSTS)
    steps = posts_loop(mine, token_budget)
    scheduler = interleaved_generate(tiny_model(), theirs, "fcfs", token_budget, 1000)
    assert scheduler.trace is not None and len(scheduler.trace.steps) == steps
    assert [r.generated_tokens for r in mine] == [r.generated_tokens for r in theirs]
    assert_oracle(mine)


def test_the_posts_mask_over_past_columns_alone_writes_other_tokens():
    """`new_valid` all True: a decode beside a chunk sees the padding in front of itself."""
    requests = requests_of(POSTS)
    posts_loop(requests, 8, past_mask_only=True)
    right = [oracle(tuple(r.prompt_tokens), r.max_new_tokens) for r in requests]
    flipped = sum(
        mine != theirs
        for request, text in zip(requests, right, strict=True)
        for mine, theirs in zip(request.generated_tokens, text, strict=True)
    )
    assert flipped >= 3


def first_chunks_together(mask: Callable[..., Tensor] | None = None) -> Tensor:
    """Two first chunks of unequal length in one call, by hand: logits (2, 5, V)."""
    tokens = torch.tensor([prompt_of(0, 5), [0, 0, 0, *prompt_of(1, 2)]])
    positions = torch.tensor([range(5), [0, 0, 0, 0, 1]])
    real = torch.tensor([[True] * 5, [False] * 3 + [True] * 2]).unsqueeze(1)  # (B, 1, T)
    return TextbookModel(tiny_model())(tokens, pos=positions, attn_mask=real)[0]


def test_two_first_chunks_of_unequal_length_meet_without_nan():
    logits = first_chunks_together()
    assert logits.isfinite().all()
    for row, length in ((0, 5), (1, 2)):
        alone = tiny_model()(torch.tensor([prompt_of(row, length)]))[0][0]  # (t, V)
        torch.testing.assert_close(logits[row, -length:], alone, rtol=1e-9, atol=1e-9)


def test_a_padding_query_that_sees_nothing_turns_the_whole_row_into_nan(
    monkeypatch: pytest.MonkeyPatch,
):
    def strict(batch: int, num_new: int, num_past: int, attn_mask: Tensor) -> Tensor:
        return torch.ones(num_new, num_new).tril().bool() & attn_mask

    monkeypatch.setattr(textbook, "textbook_mask", strict)
    logits = first_chunks_together()
    assert logits[0].isfinite().all()
    assert logits[1, :, 0].isnan().tolist() == [True] * 5  # 0 * NaN, one layer later


# ---------------------------------------------------------------- one call for every occasion


def test_the_training_loss_and_its_gradient_are_the_models_own():
    model = tiny_model()
    torch.manual_seed(0)
    tokens = torch.randint(TINY.vocab_size, (3, 12))
    targets = torch.randint(TINY.vocab_size, (3, 12))
    logits, loss, new_kvs = TextbookModel(model)(tokens, targets)
    right_logits, right_loss = model(tokens, targets)
    assert loss is not None and right_loss is not None
    torch.testing.assert_close(logits, right_logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(loss, right_loss, rtol=1e-12, atol=1e-12)
    assert [len(heads) for heads in new_kvs] == [TINY.num_heads] * TINY.num_layers
    assert all(k.shape == v.shape == (3, 12, TINY.head_size) for k, v in itertools.chain(*new_kvs))


def test_a_training_step_through_it_has_the_models_own_gradient():
    torch.manual_seed(1)
    tokens = torch.randint(TINY.vocab_size, (2, 9))
    grads: list[Tensor] = []
    for wrap in (False, True):
        model = GPT(TINY).double()
        model.load_state_dict(tiny_model().state_dict())
        loss = TextbookModel(model)(tokens, tokens)[1] if wrap else model(tokens, tokens)[1]
        assert loss is not None
        loss.backward()
        grads.append(model.blocks[0].qkv.weight.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-12)


def test_without_a_loss_asked_for_there_is_none():
    assert TextbookModel(tiny_model())(torch.tensor([[1, 2]]))[1] is None


def test_a_chunk_after_a_chunk_goes_on_at_its_own_positions_when_none_are_given():
    prompt = prompt_of(0, 9)
    model = TextbookModel(tiny_model())
    _, _, past = model(torch.tensor([prompt[:4]]))
    logits, _, new = model(torch.tensor([prompt[4:]]), past_kvs=past)
    torch.testing.assert_close(
        logits, tiny_model()(torch.tensor([prompt]))[0][:, 4:], rtol=1e-9, atol=1e-9
    )
    assert new[0][0][0].shape == (1, 9, TINY.head_size)


@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_mask_of_another_width_is_refused_in_words(width: int):
    model = TextbookModel(tiny_model())
    _, _, past = model(torch.tensor([[1, 2]]))
    with pytest.raises(ValueError, match=f"attn_mask has {width} columns; it must have 2 .* or 4"):
        model(torch.tensor([[3, 4]]), past_kvs=past, attn_mask=torch.ones(1, 1, width).bool())


# ---------------------------------------------------------------- the batch of decodes alone


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


@pytest.mark.parametrize("window", [None, 30])
@torch.inference_mode()
def test_the_posts_decode_loop_writes_the_oracles_tokens(window: int | None):
    requests = prefilled([5, 12, 1])
    model = TextbookModel(tiny_model())
    for _ in range(5):
        tokens = torch.tensor([[r.tokens_so_far[-1]] for r in requests])
        positions = torch.tensor([[len(r.tokens_so_far) - 1] for r in requests])
        past, mask, pads = assemble_batch_cache(requests)
        assert pads == [12 - n for n in (5, 12, 1)]
        logits, _, kvs = model(tokens, pos=positions, past_kvs=past, attn_mask=mask)
        disassemble_batch_cache(requests, kvs, pads)
        for request, row in zip(requests, logits[:, -1], strict=True):
            request.prefill_cursor += 1
            request.generated_tokens.append(int(row.argmax()))
            evict_kv_cache(request, window)
    assert_oracle(requests)


def test_a_batch_of_pasts_is_left_padded_and_the_mask_says_so():
    requests = prefilled([3, 1])
    past, mask, pads = assemble_batch_cache(requests)
    assert past is not None
    assert pads == [0, 2]
    assert mask.shape == (2, 1, 3)
    assert mask[:, 0].int().tolist() == [[1, 1, 1], [0, 0, 1]]
    assert [len(past), len(past[0])] == [TINY.num_layers, TINY.num_heads]
    k, v = past[1][0]
    assert k.shape == v.shape == (2, 3, TINY.head_size)
    assert not k[1, :2].any() and not v[1, :2].any()
    assert torch.equal(k[1:, 2:], requests[1].kv_cache[1, 0][0])


def test_nobody_with_a_past_makes_no_past():
    past, mask, pads = assemble_batch_cache(requests_of([(3, 1), (2, 1)]))
    assert past is None
    assert (mask.shape, pads) == ((2, 1, 0), [0, 0])


def test_an_empty_batch_is_refused_in_words():
    with pytest.raises(ValueError, match="nothing to assemble: no request"):
        assemble_batch_cache([])
    with pytest.raises(ValueError, match="nothing to assemble"):
        assemble_fused_batch([], None, 0)
    with pytest.raises(ValueError, match="nothing to assemble"):
        assemble_fused_batch([], requests_of([(3, 1)])[0], 0)


# ---------------------------------------------------------------- the fused batch, call by call


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


def test_a_chunk_of_no_tokens_leaves_the_decodes_alone():
    decodes, waiting = prefilled([4, 2]), Request(2, prompt_of(2, 10), 4)
    tokens, _, _, _, pads = assemble_fused_batch(decodes, waiting, 0)
    assert tokens.shape == (2, 1)
    assert pads == [(0, 0), (2, 0)]
    assert dict(waiting.kv_cache) == {}


def test_a_request_that_computed_nothing_gains_nothing():
    requests = prefilled([4, 2])
    tokens, positions, past, mask, _ = assemble_fused_batch(requests, None, 0)
    _, _, kvs = TextbookModel(tiny_model())(tokens, pos=positions, past_kvs=past, attn_mask=mask)
    disassemble_fused_cache(requests, kvs, [1, 0])
    assert [request.kv_cache[0, 0][0].shape[1] for request in requests] == [5, 2]


@pytest.mark.parametrize("chunk_size", [-1, 11])
def test_a_chunk_beyond_what_is_left_is_refused_in_words(chunk_size: int):
    request = Request(2, prompt_of(2, 10), 4)
    with pytest.raises(ValueError, match=f"chunk_size is {chunk_size}; request 2 has 10 tokens"):
        assemble_fused_batch([], request, chunk_size)


def test_a_request_that_comes_back_computes_its_own_words_again():
    request = Request(0, prompt_of(0, 4), 6, generated_tokens=[7, 8])
    tokens, positions, _, _, _ = assemble_fused_batch([], request, 6)
    assert tokens.tolist() == [[*prompt_of(0, 4), 7, 8]]
    assert positions.tolist() == [[0, 1, 2, 3, 4, 5]]


@torch.inference_mode()
def test_nobody_keeps_the_batch_alive_after_it_was_taken_apart():
    for request in prefilled([20, 2]):
        for k, v in request.kv_cache.values():
            assert k.untyped_storage().nbytes() == k.numel() * 8
            assert v.untyped_storage().nbytes() == v.numel() * 8
    requests = prefilled([20, 2])
    tokens = torch.tensor([[1], [1]])
    past, mask, pads = assemble_batch_cache(requests)
    _, _, kvs = TextbookModel(tiny_model())(tokens, pos=tokens, past_kvs=past, attn_mask=mask)
    disassemble_batch_cache(requests, kvs, pads)
    assert [r.kv_cache[1, 1][0].shape[1] for r in requests] == [21, 3]
    assert requests[1].kv_cache[1, 1][0].untyped_storage().nbytes() == 3 * TINY.head_size * 8


# ---------------------------------------------------------------- eviction


@pytest.mark.parametrize(("window", "sinks"), [(9, 0), (9, 2), (5, 4)])
@torch.inference_mode()
def test_the_posts_eviction_during_decode_writes_the_windowed_oracles_tokens(
    window: int, sinks: int
):
    """Prompts no longer than the window: then cutting after each decode is the rule itself."""
    lengths = [5, 8, 1]
    requests = prefilled(lengths, 10)
    model = TextbookModel(tiny_model())
    for _ in range(9):
        tokens, positions, past, mask, _ = assemble_fused_batch(requests, None, 0)
        logits, _, kvs = model(tokens, pos=positions, past_kvs=past, attn_mask=mask)
        disassemble_fused_cache(requests, kvs, [1] * 3)
        for request, row in zip(requests, logits[:, -1], strict=True):
            request.prefill_cursor += 1
            request.generated_tokens.append(int(row.argmax()))
            evict_kv_cache(request, window, sinks)
            text = text_of(request.id, lengths[request.id], 10, 0.0, window, sinks)
            assert request.tokens_so_far == list(text[: request.num_known])
            kept = kept_positions(request.prefill_cursor, window, sinks)
            right = kv_from_scratch(text, window, sinks)[:, :, :, kept]
            torch.testing.assert_close(held_kv(request), right, rtol=1e-9, atol=1e-9)
            k, v = request.kv_cache[1, 1]
            assert k.untyped_storage().nbytes() == len(kept) * TINY.head_size * 8
            assert v.untyped_storage().nbytes() == len(kept) * TINY.head_size * 8


def test_a_loop_of_small_chunks_holds_no_more_than_the_window_and_a_chunk():
    peaks: list[int] = []
    requests = requests_of([(30, 4), (12, 4)])
    posts_loop(
        requests,
        6,
        window=8,
        sinks=1,
        seen=lambda running: peaks.extend(r.kv_cache[0, 0][0].shape[1] for r in running),
    )
    assert max(peaks) == 9


def test_evicting_changes_the_cache_and_not_what_was_handed_out():
    (request,) = prefilled([10])
    before = dict(request.kv_cache)
    evict_kv_cache(request, None)
    assert dict(request.kv_cache) == before
    evict_kv_cache(request, 3, 1)
    assert all(k.shape == v.shape == (1, 4, TINY.head_size) for k, v in request.kv_cache.values())
    assert all(k.shape[1] == 10 for k, _ in before.values())
    for place, (k, v) in request.kv_cache.items():
        assert torch.equal(k, before[place][0][:, [0, 7, 8, 9]])
        assert torch.equal(v, before[place][1][:, [0, 7, 8, 9]])
    with pytest.raises(TypeError):
        request.kv_cache[0, 0] = before[0, 0]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize(
    ("window", "sinks", "words"),
    [
        (0, 0, "is 0; it must be at least 1"),
        (-1, 0, "is -1; it must be at least 1"),
        (True, 0, "is True; it must be a whole number"),
        (2.0, 0, "is 2.0; it must be a whole number"),
        ("3", 0, "is '3'; it must be a whole number"),
        (2, -1, "num_sinks is -1; it must be at least 0"),
    ],
)
def test_evicting_to_what_is_no_window_is_refused(window: int, sinks: int, words: str):
    (request,) = prefilled([6])
    with pytest.raises(ValueError, match=words):
        evict_kv_cache(request, window, sinks)
    assert request.kv_cache[0, 0][0].shape[1] == 6


# ---------------------------------------------------------------- not for an engine's requests


def test_an_engines_request_cannot_be_taken_apart_by_hand():
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


def test_an_engine_takes_no_request_that_was_served_by_hand():
    engine = Engine(tiny_model(), EngineConfig())
    with pytest.raises(ValueError, match="request 0 has been served before"):
        engine.submit(prefilled([3])[0])
