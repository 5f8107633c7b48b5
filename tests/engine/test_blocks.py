"""K/V in blocks: the oracle's texts, books that agree after every step, a pool never short."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from fakes import (
    FAKE,
    TINY,
    BlockFollower,
    FakeExecutor,
    OneText,
    SharingFake,
    any_legal_plan,
    assert_equals_oracle,
    fake_arrivals,
    fake_model,
    fake_request,
    one_text,
    oracle,
    prompt_of,
    snapshot,
    tiny_model,
)
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import kv_from_scratch, sharing_arrivals, steps_of

from nanogpt.blocks import BlockKVCache
from nanogpt.blocks.block_attention import together
from nanogpt.blocks.block_pool import BlockPool
from nanogpt.config import EXECUTORS, EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.base import ForwardResult, KVStore, Row
from nanogpt.executors.packed import PackedExecutor
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.blocks import block_hashes, evict_order
from nanogpt.request import Request
from nanogpt.speculative.drafting import within_blocks
from nanogpt.speculative.trigram import TrigramDraft
from nanogpt.trace import StepRecord, Trace

SHARING = EngineConfig(token_budget=64, block_size=4, share_prefixes=True)


def blocks_of(engine: Engine) -> BlockKVCache:
    assert isinstance(engine.cache, BlockKVCache)
    return engine.cache


def stepped(engine: Engine, arrivals: Sequence[tuple[int, Request]]) -> Iterator[StepRecord]:
    """Serve as `Engine.run` does, with a look at the books after every step."""
    for record in steps_of(engine, list(arrivals)):
        check_pool(engine)
        yield record


def check_pool(engine: Engine) -> None:
    """The books agree, hashes are of committed tokens, and no more is in use than is counted."""
    cache, scheduler = blocks_of(engine), engine.scheduler
    cache.check()
    size, found = cache.size, set[str]()
    running = [*scheduler.active, *scheduler.prefilling]
    for request in running:
        held = cache.length(request.id)
        assert held == request.prefill_cursor
        hashes = block_hashes(request.tokens_so_far[:held], size, "")
        if engine.config.share_prefixes:
            assert set(hashes) <= cache.pool.block_of.keys(), "every full block is published"
        found |= set(hashes)
    in_use = {block for request in running for block in cache.table(request.id)}
    hash_of = {block: block_hash for block_hash, block in cache.pool.block_of.items()}
    assert {hash_of[b] for b in in_use if b in hash_of} <= found, "only full and committed ones"
    counted = sum(scheduler.counted(request) for request in running) - scheduler.shared(running)
    assert counted == len(in_use) * size


def prefilled(trace: Trace, request_id: int) -> int:
    return sum(
        work.end - work.start
        for step in trace.steps
        for work in step.work
        if work.request_id == request_id and work.kind == "prefill"
    )


# --- texts ----------------------------------------------------------------------------------------

SHARED = prompt_of(3, 14)


@examples(400)
@given(
    arrivals=sharing_arrivals(SHARED, 6, 7),
    executor=st.sampled_from([*sorted(EXECUTORS), "packed", "batch invariant"]),
    budget=st.integers(1, 24),
    size=st.sampled_from([1, 2, 3, 4, 8, 16]),
    kv=st.one_of(st.none(), st.integers(32, 45)),
    share=st.booleans(),
    temperature=st.sampled_from([0.0, 1.0]),
    to_admit=st.booleans(),
    drafts=st.sampled_from([0, 0, 3]),
    plan=st.one_of(st.none(), st.integers(0, 99)),
)
def test_whatever_is_shared_the_tokens_are_the_oracles(
    arrivals, executor, budget, size, kv, share, temperature, to_admit, drafts, plan
):
    invariant = executor == "batch invariant"
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=kv, max_batch_size=3, policy="priority",
        preempt_to_admit=to_admit, executor="packed" if invariant else executor,
        batch_invariant=invariant, temperature=temperature,
        num_draft_tokens=drafts if executor == "packed" and not temperature else 0,
        block_size=size, share_prefixes=share,
    )  # fmt: skip
    parts = Parts() if plan is None else Parts(plan_step=any_legal_plan(plan))
    draft = TrigramDraft.load() if config.num_draft_tokens else None
    engine = Engine(tiny_model(), config, parts, draft=draft)
    for _ in stepped(engine, arrivals):
        pass
    assert_equals_oracle(arrivals, temperature)
    trace = engine.trace()
    BlockFollower(trace, config).check()
    assert share or not any(step.prefix_hits for step in trace.steps)
    assert not blocks_of(engine).holders()


def test_a_table_holds_the_kv_of_its_text():
    engine = Engine(tiny_model(), EngineConfig(token_budget=7, block_size=4, share_prefixes=True))
    arrivals = [(i, Request(i, SHARED + prompt_of(i, 3), 6)) for i in range(4)]
    for _ in stepped(engine, arrivals):
        for request in [*engine.scheduler.active, *engine.scheduler.prefilling]:
            text = (*request.prompt_tokens, *oracle(tuple(request.prompt_tokens), 6))
            right = kv_from_scratch(text)[:, :, :, : request.prefill_cursor]
            held = blocks_of(engine).held(request.id)
            torch.testing.assert_close(held, right, rtol=1e-9, atol=1e-9)
    assert any(step.prefix_hits for step in engine.trace().steps)


# --- a pool that is never short -------------------------------------------------------------------


ASKS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 14), st.integers(1, 9), st.integers(0, 2)),
    min_size=1, max_size=7,
)  # fmt: skip


@examples(700)
@given(
    asks=ASKS,
    same=st.booleans(),
    budget=st.integers(1, 20),
    size=st.integers(1, 6),
    more=st.integers(0, 12),
    batch=st.integers(1, 5),
    policy=st.sampled_from(["fcfs", "priority"]),
    to_admit=st.booleans(),
    plan=st.one_of(st.none(), st.integers(0, 99)),
    nan_at=st.one_of(st.none(), st.integers(0, 20)),
)
def test_a_tiny_pool_is_never_short_in_a_step(
    asks, same, budget, size, more, batch, policy, to_admit, plan, nan_at
):
    """`take` raises when it is; the pool is as large as the budget, and the budget hardly enough.

    Where `same`, all prompts are those of one request, and so are the texts of the fake's world.
    """
    largest = max(-(-(length + new - 1) // size) * size for _, length, new, _ in asks)
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=largest + more, max_batch_size=batch, policy=policy,
        preempt_to_admit=to_admit, block_size=size, share_prefixes=True,
    )  # fmt: skip
    fake = OneText(nan_at) if same else SharingFake(nan_at)
    parts = Parts() if plan is None else Parts(plan_step=any_legal_plan(plan))
    engine = Engine(fake_model(), config, parts, make_executor=fake.bind)
    assert len(blocks_of(engine).pool.counts) == (largest + more) // size
    arrivals = one_text(fake_arrivals(asks)) if same else fake_arrivals(asks)
    try:
        for _ in stepped(engine, arrivals):
            pass
    except ValueError as error:
        if "not finite" not in str(error):
            raise
        check_pool(engine)
        engine.run([])
    else:
        BlockFollower(engine.trace(), config).check()


# --- sharing --------------------------------------------------------------------------------------


def serve(engine: Engine, *requests: Request) -> list[int]:
    """Serve requests one after another; return how many tokens each prefilled."""
    for request in requests:
        for _ in stepped(engine, [(engine.step_number, request)]):
            pass
    return [prefilled(engine.trace(), request.id) for request in requests]


def test_full_blocks_are_shared_and_what_differs_is_computed():
    engine = Engine(tiny_model(), SHARING)
    prompt = prompt_of(1, 18)
    requests = [Request(0, prompt, 3), Request(1, [*prompt[:11], 7, 7, 7], 3), Request(2, [7], 3)]
    assert serve(engine, *requests) == [18, 14 - 8, 1]
    assert_equals_oracle([(0, request) for request in requests])


@pytest.mark.parametrize(("length", "computed"), [(18, 2), (17, 1), (16, 4), (3, 3), (4, 4)])
def test_a_prompt_that_is_there_whole_gives_its_last_block_up(length: int, computed: int):
    """As in vLLM: blocks are shared whole, and the last token has to be computed."""
    engine = Engine(tiny_model(), SHARING)
    prompt = prompt_of(1, length)
    assert serve(engine, Request(0, prompt, 2), Request(1, prompt, 2)) == [length, computed]


def test_running_requests_name_the_same_blocks_which_count_once():
    config = EngineConfig(
        token_budget=64, block_size=4, share_prefixes=True, max_kv_tokens=28, max_batch_size=3
    )
    engine = Engine(tiny_model(), config)
    prompt = prompt_of(1, 17)
    engine.submit(Request(0, prompt, 4))
    engine.step()
    for i in (1, 2):
        engine.submit(Request(i, prompt, 4))
    record = engine.step()
    tables = dict(record.blocks.tables)
    assert [len(table) for table in tables.values()] == [5, 5, 5]
    assert tables[0][:4] == tables[1][:4] == tables[2][:4]
    assert len({block for table in tables.values() for block in table}) == 4 + 3
    assert record.admitted == (1, 2), "28 KV tokens hold 60, for 16 of them are named three times"
    assert [w.end - w.start for w in record.work] == [1, 1, 1]
    check_pool(engine)


def test_what_a_decode_has_filled_is_found_too():
    engine = Engine(tiny_model(), SHARING)
    first = Request(0, prompt_of(1, 6), 11)
    serve(engine, first)
    assert serve(engine, Request(1, [*first.tokens_so_far, 3], 2)) == [18 - 16]


def test_nothing_is_found_before_the_step_that_computes_it_has_committed():
    engine = Engine(tiny_model(), SHARING)
    prompt = prompt_of(1, 20)
    engine.submit(Request(0, prompt, 2))
    engine.submit(Request(1, prompt, 2))
    together = engine.step()
    assert [work.end - work.start for work in together.work] == [20, 20]
    assert together.prefix_hits == ()
    check_pool(engine)
    engine.submit(Request(2, prompt, 2))
    assert [hit.num_tokens for hit in engine.step().prefix_hits] == [16]


def test_a_chunk_is_found_as_soon_as_it_is_committed():
    engine = Engine(tiny_model(), EngineConfig(token_budget=10, block_size=4, share_prefixes=True))
    prompt = prompt_of(1, 20)
    engine.submit(Request(0, prompt, 2))
    engine.step()
    engine.submit(Request(1, prompt, 2))
    record = engine.step()
    assert [(hit.request_id, hit.num_tokens) for hit in record.prefix_hits] == []
    record = engine.step()
    assert [(hit.request_id, hit.num_tokens) for hit in record.prefix_hits] == [(1, 16)]
    assert [(w.request_id, w.start, w.end) for w in record.work] == [(0, 20, 21), (1, 16, 20)]


class Listening(PackedExecutor):
    """Remembers the last logits of every row, by where the row ends."""

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        super().__init__(model, cache, parts)
        self.heard: dict[tuple[int, int], torch.Tensor] = {}

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        result = super().run(rows)
        for row, logits in zip(rows, result.logits, strict=True):
            self.heard[row.request_id, row.context_len] = logits.clone()  # (V,)
        return result


@pytest.mark.parametrize("chunk", [64, 3])
def test_logits_after_a_hit_are_those_of_a_run_without(chunk: int):
    heard = list[dict[tuple[int, int], torch.Tensor]]()
    for share in (True, False):
        config = EngineConfig(token_budget=chunk, block_size=4, share_prefixes=share)
        engine = Engine(tiny_model(), config, make_executor=Listening)
        shared, tail = prompt_of(1, 17), prompt_of(2, 9)
        serve(engine, Request(0, [*shared, 1, 2], 5), Request(1, [*shared, *tail], 8))
        found = [hit.num_tokens for step in engine.trace().steps for hit in step.prefix_hits]
        assert found == ([16] if share else [])
        assert isinstance(engine.executor, Listening)
        heard.append(engine.executor.heard)
    warm, cold = heard
    both = [end for end in warm.keys() & cold.keys() if end[0] == 1]
    assert (1, 26) in both and len(both) >= 8
    assert max((warm[end] - cold[end]).abs().max() for end in both) <= 1e-12


# --- salts ----------------------------------------------------------------------------------------


def salt_in_the_first_block(tokens: Any, size: int, salt: str) -> list[str]:
    """As vLLM has it: every other block's hash has the salt by way of its parent."""
    hashes = list[str]()
    for end in range(size, len(tokens) + 1, size):
        parent = hashes[-1] if hashes else salt
        hashes.append(block_hashes([*tokens[end - size : end]], size, parent)[0])
    return hashes


@pytest.mark.parametrize("hashes", [block_hashes, salt_in_the_first_block])
def test_requests_of_other_salts_share_nothing_and_get_the_same_text(hashes: Any):
    engine = Engine(tiny_model(), SHARING, Parts(block_hashes=hashes))
    prompt = prompt_of(1, 18)
    salts = [None, "a", "b", "a", None]
    requests = [Request(i, prompt, 4, cache_salt=salt) for i, salt in enumerate(salts)]
    for request in requests:
        engine.run([(engine.step_number, request)])
    trace = engine.trace()
    assert [prefilled(trace, request.id) for request in requests] == [18, 18, 18, 2, 2]
    assert_equals_oracle([(0, request) for request in requests])
    blocks_of(engine).check()


def test_requests_of_two_salts_that_run_side_by_side_name_no_block_together():
    engine = Engine(tiny_model(), SHARING)
    for i in range(4):
        engine.submit(Request(i, prompt_of(1, 17), 3, cache_salt="ab"[i % 2]))
        record = engine.step()
    tables = {i: set(table) for i, table in record.blocks.tables}
    for i, j in ((0, 1), (1, 2), (2, 3)):
        assert not tables.get(i, set()) & tables.get(j, set())
    hits = [(hit.request_id, hit.num_tokens) for s in engine.trace().steps for hit in s.prefix_hits]
    assert hits == [(2, 16), (3, 16)]


def test_a_salt_that_is_in_the_first_block_alone_makes_all_hashes_differ():
    tokens = prompt_of(1, 16)
    ours, theirs = (salt_in_the_first_block(tokens, 4, salt) for salt in ("a", "b"))
    assert len({*ours, *theirs}) == 8


@pytest.mark.parametrize("salt", ["", 7, b"a", ["a"]])
def test_a_salt_that_is_no_text_is_refused(salt: Any):
    engine = Engine(tiny_model(), SHARING)
    with pytest.raises(ValueError, match=r"request 0: cache_salt is .*; it must be a text of 1"):
        engine.submit(Request(0, [1, 2], 3, cache_salt=salt))
    assert not engine.requests


# --- failed steps ---------------------------------------------------------------------------------


class Broken(PackedExecutor):
    """Answers with NaN while it is told to, and leaves NaN in what it wrote."""

    broken = False

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        super().__init__(model, cache, parts)

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        result = super().run(rows)
        if not self.broken:
            return result
        assert isinstance(self.cache, BlockKVCache)
        for row in rows:
            table, size = self.cache.table(row.request_id), self.cache.size
            for p in range(row.num_past, row.context_len):
                self.cache.storage[:, :, :, table[p // size] * size + p % size] = float("nan")
        return ForwardResult(result.logits * float("nan"), result.forwards)


def broken_engine(config: EngineConfig) -> tuple[Engine, Broken]:
    engine = Engine(tiny_model(), config, make_executor=Broken)
    assert isinstance(engine.executor, Broken)
    return engine, engine.executor


def test_a_failed_step_publishes_nothing_and_leaves_no_trace():
    engine, executor = broken_engine(SHARING)
    shared = prompt_of(1, 20)
    serve(engine, Request(0, shared[:9], 2))
    request = Request(1, shared, 3)
    engine.submit(request)
    before, found = snapshot(engine), dict(blocks_of(engine).pool.block_of)
    executor.broken = True
    with pytest.raises(ValueError, match="request 1 are not finite"):
        engine.step()
    executor.broken = False
    assert snapshot(engine) == before
    check_pool(engine)
    assert blocks_of(engine).pool.block_of == found
    assert blocks_of(engine).storage.isfinite().all()
    record = next(stepped(engine, []))
    assert record.blocks.allocated == record.blocks.tables[0][1][2:], "the failed step is not there"
    engine.run([])
    assert tuple(request.generated_tokens) == oracle(tuple(shared), 3)


@pytest.mark.parametrize("share", [False, True])
def test_a_step_that_fails_gives_a_victim_back_what_the_others_took(share: bool):
    config = EngineConfig(token_budget=64, max_kv_tokens=32, block_size=4, share_prefixes=share)
    engine, executor = broken_engine(config)
    arrivals = [(0, Request(i, prompt_of(i, 13), 12)) for i in range(2)]
    for _, request in arrivals:
        engine.submit(request)
    while not engine.scheduler.victims():
        engine.step()
    before, cache = snapshot(engine), blocks_of(engine)
    tables, kv = [cache.table(i) for i in (0, 1)], [cache.held(i).clone() for i in (0, 1)]
    executor.broken = True
    with pytest.raises(ValueError, match="not finite"):
        engine.step()
    executor.broken = False
    assert snapshot(engine) == before
    assert [cache.table(i) for i in (0, 1)] == tables
    assert all(torch.equal(cache.held(i), kv[i]) for i in (0, 1))
    check_pool(engine)
    record = engine.step()
    assert record.preempted == (1,)
    assert set(record.blocks.allocated) <= set(record.blocks.freed), "the pool was full"
    engine.run([])
    assert_equals_oracle(arrivals)


@pytest.mark.parametrize("executor", ["packed", "padded"])
def test_a_preempted_request_finds_its_blocks_again(executor: str):
    """Lesson 2's recompute, without sharing and with it: the same texts, less to compute."""
    computed, texts = list[int](), list[list[int]]()
    for share in (False, True):
        config = EngineConfig(
            token_budget=64, max_kv_tokens=48, block_size=4, share_prefixes=share, executor=executor
        )
        engine = Engine(tiny_model(), config)
        arrivals = [(0, Request(i, prompt_of(i, 15), 12)) for i in range(2)]
        for _ in stepped(engine, arrivals):
            pass
        trace = engine.trace()
        assert [victim for step in trace.steps for victim in step.preempted] == [1]
        assert_equals_oracle(arrivals)
        BlockFollower(trace, config).check()
        computed.append(prefilled(trace, 1))
        texts.append([r.generated_tokens for _, r in arrivals])
        hits = [(hit.request_id, hit.num_tokens) for s in trace.steps for hit in s.prefix_hits]
        assert hits == ([(1, 20)] if share else [])
    assert computed == [15 + 25, 15 + 25 - 20]
    assert texts[0] == texts[1]


# --- what gives way -------------------------------------------------------------------------------


def test_the_least_recently_used_gives_way_the_end_of_a_text_first_and_is_gone():
    config = EngineConfig(
        token_budget=64, block_size=4, share_prefixes=True, max_kv_tokens=32, max_batch_size=1
    )
    engine = Engine(tiny_model(), config)
    old, new = prompt_of(1, 16), prompt_of(2, 12)
    serve(engine, Request(0, old, 1), Request(1, new, 1))
    cache = blocks_of(engine)
    assert cache.num_tokens == 28
    serve(engine, Request(2, prompt_of(3, 12), 1))  # one block is empty, two are old's last
    assert cache.find([*old, 0]).num_tokens == 8
    assert cache.find([*new, 0]).num_tokens == 12
    gone = engine.trace().steps[-1].blocks.evicted
    assert len(gone) == 2
    hashes = block_hashes(old, 4, "")
    assert [each in cache.pool.block_of for each in hashes] == [True, True, False, False]


def test_of_two_blocks_that_hold_the_same_one_is_found_when_the_other_is_gone():
    pool = BlockPool(3, 1, Parts())
    first, second = pool.take([], 4, 4), pool.take([0], 8, 4)
    for depth, table in enumerate((first, second)):
        pool.publish([(depth, table[0], "same")])
    assert pool.block_of == {"same": 0}
    pool.drop(first)
    pool.take(second, 12, 4)
    assert pool.block_of == {"same": 1}
    pool.check([second, [0, 2]])


def test_a_lookup_that_is_not_served_keeps_nothing_from_giving_way():
    engine = Engine(tiny_model(), SHARING)
    serve(engine, Request(0, prompt_of(1, 9), 1), Request(1, prompt_of(2, 9), 1))
    cache = blocks_of(engine)
    before = cache.pool.idle()
    assert cache.find(prompt_of(1, 9)).num_tokens == 8
    assert cache.pool.idle() == before


def test_another_order_of_eviction_comes_in_as_a_part():
    asked: list[int] = []

    def newest_first(cached: Any) -> list[int]:
        asked.append(len(cached))
        return evict_order(cached)[::-1]

    config = EngineConfig(
        token_budget=64, block_size=4, share_prefixes=True, max_kv_tokens=32, max_batch_size=1
    )
    engine = Engine(tiny_model(), config, Parts(evict_order=newest_first))
    old, new = prompt_of(1, 16), prompt_of(2, 12)
    serve(engine, *(Request(i, p, 1) for i, p in enumerate((old, new, prompt_of(3, 12)))))
    assert asked == [7]
    assert blocks_of(engine).find([*old, 0]).num_tokens == 16
    assert blocks_of(engine).find([*new, 0]) is None, "its first block went first"


def test_a_hash_without_its_parent_is_found_where_it_should_not_be():
    """Why hashes are chained: the store believes a part that says that two blocks are the same."""

    def without_parent(tokens: Any, size: int, salt: str) -> list[str]:
        return [str(tokens[end - size : end]) for end in range(size, len(tokens) + 1, size)]

    engine = Engine(tiny_model(), SHARING, Parts(block_hashes=without_parent))
    same = [5, 9, 2, 7]
    first, second = [*prompt_of(1, 4), *same, 1], [*same, *prompt_of(2, 5)]
    requests = [Request(0, first, 6), Request(1, second, 6)]
    for request in requests:
        engine.run([(engine.step_number, request)])
    found = [hit.num_tokens for step in engine.trace().steps for hit in step.prefix_hits]
    assert found == [4], "its first block is taken for the other's second"
    assert tuple(requests[1].generated_tokens) != oracle(tuple(second), 6)


# --- copy on write --------------------------------------------------------------------------------


def forked(length: int) -> tuple[BlockKVCache, torch.Tensor]:
    engine = Engine(tiny_model(), EngineConfig(block_size=4, max_kv_tokens=32))
    cache = blocks_of(engine)
    cache.reserve(0)
    kv = torch.randn(length, TINY.num_heads, TINY.head_size, dtype=torch.float64)
    write(cache, 0, kv)
    cache.fork(0, 1)
    return cache, kv


def write(cache: BlockKVCache, request_id: int, kv: torch.Tensor) -> None:
    place = cache.place([(request_id, len(kv))])
    for layer in range(TINY.num_layers):
        cache.write(layer, place, kv, -kv)
    cache.commit(request_id, len(kv))


def test_a_fork_shares_all_and_the_first_to_write_gets_a_copy_of_the_last_block():
    cache, kv = forked(6)
    assert cache.table(1) == cache.table(0) == (0, 1)
    more = torch.ones(1, TINY.num_heads, TINY.head_size, dtype=torch.float64)
    write(cache, 1, more)
    assert cache.table(0) == (0, 1) and cache.table(1) == (0, 2)
    write(cache, 0, 2 * more)
    assert cache.table(0) == (0, 1), "it is its own again"
    for request_id, last in ((0, 2 * more), (1, more)):
        k, v = cache.gather(request_id, 1)  # (H, S, D)
        assert torch.equal(k, torch.cat([kv, last]).transpose(0, 1))
        assert torch.equal(v, -k)
    cache.check()


def test_a_fork_at_the_end_of_a_block_copies_nothing():
    cache, _ = forked(8)
    write(cache, 1, torch.ones(1, TINY.num_heads, TINY.head_size, dtype=torch.float64))
    assert cache.table(0) == (0, 1) and cache.table(1) == (0, 1, 2)
    cache.release(0)
    cache.check()
    assert cache.pool.counts[:3] == [1, 1, 1]


# --- where K/V lies -------------------------------------------------------------------------------


def groups_of(engine: Engine) -> list[tuple[list[int], int | None]]:
    running = sorted(engine.scheduler.active, key=lambda r: engine.cache.slot(r.id))
    rows = [Row(r.id, [0], [0], r.prefill_cursor, True, []) for r in running]
    return [([r.request_id for r in rows], step) for rows, step in together(rows, engine.cache)]


def test_requests_alone_in_a_roomy_pool_lie_as_slots_do_and_attend_in_one_call():
    engine = Engine(tiny_model(), EngineConfig(token_budget=64, block_size=4, max_batch_size=4))
    for i in range(3):
        engine.submit(Request(i, prompt_of(i, 9 + i), 20))
    for _ in range(9):
        engine.step()
    assert [engine.cache.slot(i) for i in range(3)] == [0, 16, 32]
    assert groups_of(engine) == [([0, 1, 2], TINY.context_len)]
    held, storage = engine.cache.held(1), engine.cache.storage
    assert held.untyped_storage().data_ptr() == storage.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("tables", "groups"),
    [
        ([[0], [2], [4], [5]], [([0, 1, 2], 8), ([3], 0)]),
        ([[0, 1], [3, 4], [9]], [([0, 1], 12), ([2], 0)]),
        ([[0, 1, 2], [11]], [([0], 0), ([1], 0)]),  # a view of both would end behind the pool
        ([[0], [0], [0]], [([0, 1, 2], 0)]),
        ([[4], [0]], [([0], 0), ([1], 0)]),
        ([[0, 2], [4, 3], [5]], [([0, 1], None), ([2], 0)]),
    ],
)
def test_rows_at_even_distances_attend_in_one_call(tables: Any, groups: Any):
    cache = blocks_of(Engine(fake_model(), EngineConfig(block_size=4, max_kv_tokens=48)))
    for i, table in enumerate(tables):
        cache.reserve(i)
        cache.adopt(i, table, 4 * len(table))
    rows = [Row(i, [0], [0], 4 * len(table) - 1, True, []) for i, table in enumerate(tables)]
    found = [([row.request_id for row in each], step) for each, step in together(rows, cache)]
    assert found == groups


def test_drafts_take_no_block_that_another_has_been_promised():
    """Two decodes of 6 and 7 tokens in blocks of 4, and 3 blocks that are not reserved."""
    engine = Engine(fake_model(), EngineConfig(block_size=4, max_kv_tokens=28))
    decodes = [fake_request(0, 6, 40), fake_request(1, 7, 40)]
    assert within_blocks(engine.scheduler, decodes, [9, 9], 12) == [2 + 4, 1 + 4]
    assert within_blocks(engine.scheduler, decodes, [9, 9], 4) == [2, 1]
    assert within_blocks(engine.scheduler, decodes, [1, 0], 12) == [1, 0]


def test_scattered_tables_are_gathered_together():
    engine = Engine(tiny_model(), SHARING)
    prompt = prompt_of(1, 12)
    serve(engine, Request(9, prompt, 1))
    for i in range(3):
        engine.submit(Request(i, [*prompt, i, i], 9))
    engine.step()
    first, *others = groups_of(engine)
    assert others == [] or first[1] is not None
    tables = [engine.cache.table(i) for i in range(3)]
    assert [engine.cache.is_run(i) for i in range(3)] == [
        list(table) == list(range(table[0], table[0] + 4)) for table in tables
    ]
    assert sum(engine.cache.is_run(i) for i in range(3)) == 1
    assert sorted(len(ids) for ids, step in groups_of(engine) if step is None) == [2]


# --- settings and the record ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"block_size": 0}, "block_size is 0; it must be at least 1"),
        ({"share_prefixes": True}, "it goes with a block_size"),
        ({"block_size": 4, "share_prefixes": 1}, "share_prefixes is 1; it must be True or False"),
        ({"block_size": 9, "max_kv_tokens": 8}, "block_size is 9, more than the 8 KV tokens"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], why: str):
    with pytest.raises(ValueError, match=why):
        EngineConfig(**settings)


def test_an_executor_that_keeps_its_kv_elsewhere_shares_nothing():
    with pytest.raises(ValueError, match="share_prefixes is True; the executor 'fake' keeps"):
        Engine(fake_model(), SHARING, make_executor=FakeExecutor().bind)


def test_more_blocks_than_there_is_memory_for_are_refused():
    config = EngineConfig(block_size=2**40, max_kv_tokens=2**50)
    with pytest.raises(ValueError, match="no memory for 1024 blocks of 1099511627776 tokens"):
        Engine(fake_model(), config)


def test_a_request_that_never_fits_into_whole_blocks_is_refused_on_arrival():
    engine = Engine(fake_model(), EngineConfig(max_kv_tokens=23, block_size=8))
    engine.submit(Request(0, [1] * 10, 7))  # 16 of 16
    with pytest.raises(ValueError, match="24 KV tokens; the KV budget of 23 can never hold it"):
        engine.submit(Request(1, [1] * 10, 8))


def test_the_record_says_what_happened_to_the_pool_and_is_json():
    engine = Engine(tiny_model(), EngineConfig(token_budget=64, block_size=4, share_prefixes=True,
                                               max_kv_tokens=24))  # fmt: skip
    prompt = prompt_of(1, 6)
    serve(engine, Request(0, prompt, 4), Request(1, prompt, 2))
    first, *_, last = engine.trace().to_json()["steps"]
    assert first["blocks"] == {
        "block_size": 4, "num_blocks": 6, "tables": [[0, [0, 1]]], "idle": [], "allocated": [0, 1],
        "freed": [], "evicted": [], "published": [[0, block_hashes(prompt, 4, "")[0]]],
        "copied": [],
    }  # fmt: skip
    assert last["blocks"]["tables"] == [] and last["blocks"]["idle"] == [1, 0]
    assert last["blocks"]["freed"] == [0, 2]
    plain = Engine(tiny_model(), EngineConfig())
    serve_one = plain.run([(0, Request(0, prompt, 2))]).to_json()
    assert all("blocks" not in step for step in serve_one["steps"])


def test_what_a_finished_request_held_stays_its_own():
    engine = Engine(tiny_model(), EngineConfig(block_size=4, max_kv_tokens=24, token_budget=64))
    done = Request(0, prompt_of(1, 9), 3)
    serve(engine, done)
    k, _ = done.kv_cache[1, 0]
    before = k.clone()
    serve(engine, Request(1, prompt_of(2, 15), 6))
    assert k.shape[1] == 11 and torch.equal(done.kv_cache[1, 0][0], before)
    assert FAKE.context_len == TINY.context_len
