"""Blocks under a window: the windowed oracle's texts, whole blocks, a pool never short."""

from collections.abc import Sequence

import pytest
import torch
from fakes import (
    OneText,
    SharingFake,
    any_legal_plan,
    fake_arrivals,
    fake_model,
    one_text,
    prompt_of,
    tiny_model,
)
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import kv_from_scratch, sharing_arrivals, steps_of

from nanogpt.blocks.window_blocks import WindowBlockKVCache
from nanogpt.config import EXECUTORS, EngineConfig
from nanogpt.engine import Engine
from nanogpt.parts import Parts
from nanogpt.parts.blocks import block_hashes
from nanogpt.parts.request_view import kv_limit
from nanogpt.parts.sliding_window import kept_positions
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.trace import StepRecord, Trace

SHARED = prompt_of(3, 24)


def blocks_of(engine: Engine) -> WindowBlockKVCache:
    assert isinstance(engine.cache, WindowBlockKVCache)
    return engine.cache


def check_books(engine: Engine) -> None:
    """Tables name exactly what is seen, and no more is in use than is counted."""
    cache, scheduler, config = blocks_of(engine), engine.scheduler, engine.config
    cache.check()
    running = [*scheduler.active, *scheduler.prefilling]
    assert sorted(cache.holders()) == sorted(request.id for request in running)
    for request in running:
        kept = kept_positions(request.prefill_cursor, config.sliding_window, config.num_sinks)
        assert list(cache.positions(request.id)) == kept
        assert len(cache.table(request.id)) == len({p // cache.size for p in kept})
        assert len(cache.table(request.id)) * cache.size <= scheduler.counted(request)
        assert cache.length(request.id) == len(kept)
    assert cache.held_tokens() == sum(cache.length(request.id) for request in running)
    in_use = {block for request in running for block in cache.table(request.id)}
    counted = sum(scheduler.counted(r, r.remaining) for r in running) - scheduler.shared(running)
    assert len(in_use) * cache.size <= counted
    most = config.max_kv_tokens
    assert most is None or len(in_use) * cache.size <= most


def check_whole_blocks(engine: Engine, texts: dict[int, tuple[int, ...]]) -> None:
    """Whatever lies in a block, seen or not, is right: another request may come to see it."""
    cache, config = blocks_of(engine), engine.config
    window, sinks, size = config.sliding_window, config.num_sinks, cache.size
    for request in [*engine.scheduler.active, *engine.scheduler.prefilling]:
        text, end = texts[request.id], request.prefill_cursor
        right = kv_from_scratch(text, window, sinks)  # (2, L, H, S, D)
        indexes = sorted({p // size for p in kept_positions(end, window, sinks)})
        for index, block in zip(indexes, cache.table(request.id), strict=True):
            length = min(size, end - index * size)
            held = cache.storage[:, :, :, block * size : block * size + length]
            wanted = right[:, :, :, index * size : index * size + length]
            torch.testing.assert_close(held, wanted, rtol=1e-9, atol=1e-9)
            hashes = block_hashes(text[:end], size, "")
            if config.share_prefixes and index < len(hashes):
                assert hashes[index] in cache.pool.block_of


def watched(arrivals: Sequence[tuple[int, Request]], engine: Engine) -> Trace:
    """Serve, with a look at books and K/V after every step; the texts are the oracle's."""
    config = engine.config
    texts = {
        request.id: (
            *request.prompt_tokens,
            *generate(
                tiny_model(), request.prompt_tokens, request.max_new_tokens,
                sliding_window=config.sliding_window, num_sinks=config.num_sinks,
            ),
        )
        for _, request in arrivals
    }  # fmt: skip
    for _ in steps_of(engine, list(arrivals)):
        check_books(engine)
        check_whole_blocks(engine, texts)
    for _, request in arrivals:
        assert request.tokens_so_far == list(texts[request.id]), request.id
    return engine.trace()


@examples(150)
@given(
    arrivals=sharing_arrivals(SHARED, 5, 8),
    executor=st.sampled_from([*sorted(EXECUTORS), "packed", "batch invariant"]),
    budget=st.integers(1, 30),
    size=st.sampled_from([1, 2, 3, 4, 8]),
    window=st.integers(1, 12),
    sinks=st.integers(0, 5),
    more=st.one_of(st.none(), st.integers(0, 12)),
    share=st.booleans(),
    to_admit=st.booleans(),
    plan=st.one_of(st.none(), st.integers(0, 99)),
)
def test_whatever_is_shared_the_tokens_are_the_windowed_oracles(
    arrivals, executor, budget, size, window, sinks, more, share, to_admit, plan
):
    invariant = executor == "batch invariant"
    least = kv_limit(window, sinks, size)
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=None if more is None else least + more,
        max_batch_size=3, policy="priority", preempt_to_admit=to_admit,
        executor="packed" if invariant else executor, batch_invariant=invariant,
        block_size=size, share_prefixes=share, sliding_window=window, num_sinks=sinks,
    )  # fmt: skip
    parts = Parts() if plan is None else Parts(plan_step=any_legal_plan(plan))
    engine = Engine(tiny_model(), config, parts)
    watched(arrivals, engine)
    assert not blocks_of(engine).holders()


@examples(1000)
@given(
    asks=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 14), st.integers(1, 9), st.integers(0, 2)),
        min_size=1, max_size=7,
    ),
    same=st.booleans(),
    budget=st.integers(1, 20),
    size=st.integers(1, 6),
    window=st.integers(1, 9),
    sinks=st.integers(0, 4),
    more=st.integers(0, 12),
    batch=st.integers(1, 5),
    to_admit=st.booleans(),
    plan=st.one_of(st.none(), st.integers(0, 99)),
    nan_at=st.one_of(st.none(), st.integers(0, 20)),
)  # fmt: skip
def test_a_tiny_pool_is_never_short_in_a_step(
    asks, same, budget, size, window, sinks, more, batch, to_admit, plan, nan_at
):
    """A pool that is hardly enough; where `same`, prompts begin with the same tokens."""
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=kv_limit(window, sinks, size) + more,
        max_batch_size=batch, policy="priority", preempt_to_admit=to_admit, block_size=size,
        share_prefixes=True, sliding_window=window, num_sinks=sinks,
    )  # fmt: skip
    fake = OneText(nan_at) if same else SharingFake(nan_at)
    parts = Parts() if plan is None else Parts(plan_step=any_legal_plan(plan))
    engine = Engine(fake_model(), config, parts, make_executor=fake.bind)
    arrivals = one_text(fake_arrivals(asks)) if same else fake_arrivals(asks)
    try:
        for _ in steps_of(engine, arrivals):
            check_books(engine)
    except ValueError as error:
        if "not finite" not in str(error):
            raise
        check_books(engine)
        engine.run([])
    assert not blocks_of(engine).holders()


# --- blocks that go back --------------------------------------------------------------------------


def served(engine: Engine, request: Request) -> list[StepRecord]:
    """Serve one request; return its steps."""
    return list(steps_of(engine, [(engine.step_number, request)]))


def test_a_block_goes_back_once_no_token_in_it_is_seen_and_a_sinks_block_never():
    config = EngineConfig(token_budget=4, block_size=4, sliding_window=6, num_sinks=1)
    engine = Engine(tiny_model(), config)
    steps = served(engine, Request(0, prompt_of(0, 16), 8))
    freed = [len(step.blocks.freed) for step in steps]
    # Behind 12 tokens 6 to 11 are seen: blocks 1 and 2 hold them, and block 0 the sink.
    assert [len(dict(step.blocks.tables).get(0, ())) for step in steps[:4]] == [1, 2, 3, 3]
    assert freed[:4] == [0, 0, 0, 1]
    assert all(dict(step.blocks.tables)[0][0] == 0 for step in steps[:-1])
    assert max(kv.kv_tokens for step in steps for kv in step.kv) == 7
    assert max(kv.counted_tokens for step in steps for kv in step.kv) == kv_limit(6, 1, 4) == 16


def hits(steps: Sequence[StepRecord]) -> list[int]:
    """Tokens that requests found on starting."""
    return [hit.num_tokens for step in steps for hit in step.prefix_hits]


def test_blocks_that_the_window_has_passed_need_not_be_there():
    """As in vLLM. Here two blocks are all that is found, and they are the last two."""
    config = EngineConfig(
        token_budget=4, block_size=4, share_prefixes=True, sliding_window=8, max_kv_tokens=12,
    )  # fmt: skip
    engine, prompt = Engine(tiny_model(), config), prompt_of(1, 24)
    served(engine, Request(0, prompt, 1))
    assert len(blocks_of(engine).pool.block_of) == 3
    again = Request(1, [*prompt, 5], 6)
    assert hits(served(engine, again)) == [24]
    text = generate(tiny_model(), again.prompt_tokens, 6, sliding_window=8)
    assert again.generated_tokens == text


def test_of_a_chunk_longer_than_the_window_only_what_is_seen_behind_it_is_found():
    config = EngineConfig(token_budget=64, block_size=4, share_prefixes=True, sliding_window=4)
    engine, prompt = Engine(tiny_model(), config), prompt_of(1, 24)
    served(engine, Request(0, prompt, 1))
    assert hits(served(engine, Request(1, [*prompt[:20], 5, 5], 1))) == []
    assert hits(served(engine, Request(2, [*prompt, 5], 1))) == [24]


def test_a_preempted_request_finds_its_blocks_again():
    config = EngineConfig(
        token_budget=8, max_kv_tokens=24, block_size=4, share_prefixes=True, sliding_window=8,
        preempt_to_admit=True, policy="priority", max_batch_size=1,
    )  # fmt: skip
    engine = Engine(tiny_model(), config)
    first, urgent = Request(0, prompt_of(0, 16), 9, 2), Request(1, prompt_of(1, 6), 2, 0)
    trace = watched([(0, first), (5, urgent)], engine)
    assert [victim for step in trace.steps for victim in step.preempted] == [0]
    assert hits(trace.steps) == [16]


def test_a_failed_step_leaves_blocks_that_left_with_it_as_they_were():
    """Out of sight, but in a block that others may find: all of it comes back."""
    config = EngineConfig(
        token_budget=8, max_kv_tokens=16, block_size=4, share_prefixes=True, sliding_window=5,
    )  # fmt: skip
    engine = Engine(tiny_model(), config)
    served(engine, Request(0, prompt_of(0, 15), 1))
    cache = blocks_of(engine)
    cache.reserve(1)
    hit = cache.find(prompt_of(0, 13))
    assert hit is not None
    cache.adopt(1, hit.blocks, hit.num_tokens)
    before, found = cache.storage.clone(), dict(cache.pool.block_of)

    def fail_over_all_blocks() -> None:
        with cache.without([1]):
            cache.pool.drop(cache.pool.take([], 16, 4))
            cache.storage.zero_()
            raise KeyError

    with pytest.raises(KeyError):
        fail_over_all_blocks()
    for block in hit.blocks:
        entries = slice(block * 4, block * 4 + 4)
        assert torch.equal(cache.storage[:, :, :, entries], before[:, :, :, entries])
    assert {name: found[name] for name in found if found[name] in hit.blocks} == {
        name: block for name, block in cache.pool.block_of.items() if block in hit.blocks
    }


def test_another_visible_comes_in_as_a_part():
    """A learner's rule is asked for every pair; the text is that of slots under the same rule."""
    near = Parts(visible=lambda query, key, window, sinks: 0 <= query - key < 5)
    texts = []
    for block_size in (None, 4):
        request = Request(0, prompt_of(0, 20), 8)
        config = EngineConfig(token_budget=7, sliding_window=5, block_size=block_size)
        Engine(tiny_model(), config, near).run([(0, request)])
        texts.append(request.generated_tokens)
    assert texts[0] == texts[1] != generate(tiny_model(), prompt_of(0, 20), 8, sliding_window=5)
