"""Engines with K/V in blocks: the oracle's texts, books that agree after every step, sharing."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from fakes import (
    any_legal_plan,
    assert_equals_oracle,
    fake_model,
    prompt_of,
    sometimes_right,
    tiny_llama,
    tiny_model,
)
from hypothesis import given
from hypothesis import strategies as st
from lockstep import Spoilt, watched
from tiers import examples

from nanogpt import Engine, EngineConfig, Policies
from nanogpt.block_pool import BlockPool
from nanogpt.config import EXECUTORS
from nanogpt.executors.paged_attention import contiguous_groups
from nanogpt.kv_cache import KVCache
from nanogpt.kv_cache_manager import kv_limit
from nanogpt.outputs import PrefixHit, Requeue, Row, SchedulerOutput
from nanogpt.planning import Candidates
from nanogpt.policies.blocks import block_hashes
from nanogpt.policies.queueing import ResumeState, assign_tokens
from nanogpt.request import Request
from nanogpt.trace import StepRecord
from nanogpt.window.window_blocks import longest_window_match

SHARING = EngineConfig(token_budget=64, block_size=4, share_prefixes=True)


def blocks_of(engine: Engine) -> KVCache:
    assert isinstance(engine.cache, KVCache)
    return engine.cache


def any_policies(rng: random.Random) -> Policies:
    """Any legal plan; loads some of what a host tier has, and keeps some blocks in any order."""

    def spill(published: list[str], host: list[str], capacity: int) -> list[str]:
        known = list(dict.fromkeys([*published, *host]))
        return rng.sample(known, min(len(known), capacity))

    plan, load = any_legal_plan(rng.randrange(99)), ["load", "load", "compute"]
    return Policies(plan_step=plan, load_or_compute=lambda *_: rng.choice(load), spill=spill)


def spoiling(rng: random.Random) -> Callable[..., Any]:
    """A policy that lets one step in five fail when its K/V is written."""

    def assign(*given: Any) -> Any:
        if rng.random() < 0.2:
            raise Spoilt
        return assign_tokens(*given)

    return assign


@pytest.mark.filterwarnings("ignore:the compiled executor gives way")  # to a Llama
@examples(1)
@given(st.integers(0, 10**9))
def test_whatever_is_shared_and_copied_the_texts_and_the_kv_are_the_oracles(seed: int):
    """Requests that begin alike under tiers, preemption, drafts, windows, salts and failures."""
    rng, arrivals = random.Random(seed), list[tuple[int, Request]]()
    size = rng.choice([1, 2, 3, 3, 4, 8])
    for i in range(rng.randint(3, 9)):
        prompt = prompt_of(rng.randrange(3), rng.randint(9, 16)) + [5] * rng.randrange(4)
        salt = rng.choice([None, None, None, "tenant"])
        request = Request(i, prompt, rng.randint(1, 7), rng.randrange(3), cache_salt=salt)
        arrivals.append((rng.choice([0, 2, 6, 9]) + (arrivals[-1][0] if i else 0), request))
    most = max(len(r.prompt_tokens) + r.max_new_tokens - 1 for _, r in arrivals)
    settings: dict[str, Any] = {
        "temperature": rng.choice([0.0, 0.0, 1.0]), "executor": rng.choice([*EXECUTORS, "packed"]),
    }  # fmt: skip
    if rng.random() < 0.4:
        window, sinks = rng.randint(1, 12), rng.randrange(6)
        settings |= {"sliding_window": window, "num_sinks": sinks}
        most = min(most, kv_limit(window, sinks, size))
    elif rng.random() < 0.5:  # of sampled texts with drafts, the oracle knows only the law
        settings |= {"num_draft_tokens": rng.choice([1, 3, 6]), "temperature": 0.0}
        settings["executor"] = rng.choice(["packed", "batch_invariant"])
    share, room = rng.random() < 0.9, (-(-most // size) + rng.randrange(3)) * size
    config = EngineConfig(
        token_budget=rng.randint(1, 30), max_kv_tokens=rng.choice([None, *[room] * 6]),
        max_batch_size=3, seed=5, block_size=size, share_prefixes=share,
        host_kv_tokens=rng.randint(1, 90) if share and rng.random() < 0.8 else None,
        preempt_to_admit=rng.random() < 0.5, policy=rng.choice(["fcfs", "priority"]), **settings,
    )  # fmt: skip
    policies = rng.choice([Policies(), any_policies(rng)])
    if rng.random() < 0.5:
        policies = replace(policies, assign_tokens=spoiling(rng))
    model = rng.choice([tiny_model, tiny_model, tiny_llama])
    trace = watched(arrivals, config, policies, draft=sometimes_right, model=model)
    assert share or not any(step.prefix_hits for step in trace.steps)
    crowded = [step for step in trace.steps if step.preempted]
    assert not any(work.drafted for step in crowded for work in step.work)


# ---------------------------------------------------------------- sharing


def serve(engine: Engine, *requests: Request) -> list[int]:
    """Serve requests one after another; return how many tokens each prefilled."""
    for request in requests:
        engine.run([(engine.step_number, request)])
        blocks_of(engine).check()
    works = [work for step in engine.trace().steps for work in step.work if work.kind == "prefill"]
    return [sum(w.end - w.start for w in works if w.request_id == each.id) for each in requests]


def hits(steps: Sequence[StepRecord]) -> list[tuple[int, int]]:
    """(request, tokens that it found) of every hit."""
    return [(hit.request_id, hit.num_tokens) for step in steps for hit in step.prefix_hits]


def test_full_blocks_are_shared_and_what_differs_is_computed():
    engine = Engine(tiny_model(), SHARING)
    prompt = prompt_of(1, 18)
    first = Request(0, prompt, 11)
    assert serve(engine, first, Request(1, [*prompt[:11], 7, 7, 7], 3)) == [18, 14 - 8]
    assert serve(engine, Request(2, [7], 3), Request(3, prompt[:16], 3)) == [1, 16 - 12]
    generated = Request(4, [*first.tokens_so_far, 3], 2)
    assert serve(engine, generated) == [30 - 28], "blocks that decodes filled are found too"


def test_shared_blocks_are_charged_once():
    engine, prompt = Engine(tiny_model(), replace(SHARING, max_kv_tokens=24)), prompt_of(1, 16)
    serve(engine, Request(0, prompt, 1))
    for i in (1, 2):  # five blocks each, of which they share four
        engine.submit(Request(i, [*prompt, i], 3))
    assert engine.step().admitted == (1, 2)
    assert not engine.step().preempted


def test_requests_with_other_salts_share_nothing_and_get_the_same_text():
    engine, salts = Engine(tiny_model(), SHARING), [None, "a", "b"]
    requests = [Request(i, prompt_of(1, 17), 3, cache_salt=salts[i % 3]) for i in range(6)]
    for i, request in enumerate(requests):
        engine.submit(request)
        tables = dict(engine.step().blocks.tables)
        others = [block for j in tables if (i - j) % 3 for block in tables[j]]
        assert set(tables[i]).isdisjoint(others)
    engine.run([])
    assert hits(engine.trace().steps) == [(3, 16), (4, 16), (5, 16)]
    assert_equals_oracle([(0, request) for request in requests])
    salt: Any = 7
    with pytest.raises(ValueError, match=r"request 9: cache_salt is 7; it must be a text of 1"):
        engine.submit(Request(9, [1, 2], 3, cache_salt=salt))


# ---------------------------------------------------------------- where K/V lies


def test_requests_alone_in_a_roomy_pool_lie_as_slots_do():
    engine = Engine(tiny_model(), EngineConfig(token_budget=64, block_size=4, max_batch_size=4))
    for i in range(3):
        engine.submit(Request(i, prompt_of(i, 9 + i), 20))
    for _ in range(9):
        engine.step()
    assert [engine.cache.slot(i) for i in range(3)] == [0, 16, 32]
    held, storage = engine.cache.held(1), engine.cache.storage
    assert held.untyped_storage().data_ptr() == storage.untyped_storage().data_ptr(), "a view"


@pytest.mark.parametrize(
    ("tables", "groups"),
    [
        ([[0], [2], [4], [5]], [([0, 1, 2], 8), ([3], 0)]),
        ([[0, 1], [3, 4], [9]], [([0, 1], 12), ([2], 0)]),
        ([[0, 1, 2], [11]], [([0], 0), ([1], 0)]),  # a view of both would end behind the pool
        ([[0], [0], [0]], [([0, 1, 2], 0)]),
        ([[4], [0]], [([0], 0), ([1], 0)]),
        # A view of all three would let the first two read the third one's K/V, NaN and all.
        ([[0], [1], [2, 3, 4, 5]], [([0, 1], 4), ([2], 0)]),
        ([[0, 2], [4, 3], [5]], [([0, 1], None), ([2], 0)]),  # scattered: gathered together
    ],
)
def test_rows_at_even_distances_attend_in_one_call(tables: Any, groups: Any):
    cache = blocks_of(Engine(fake_model(), EngineConfig(block_size=4, max_kv_tokens=48)))
    for i, table in enumerate(tables):
        cache.reserve(i)
        cache.attach(i, PrefixHit(tuple(table), 4 * len(table)))
    rows = [Row(i, [0], [0], 4 * len(table) - 1, True, []) for i, table in enumerate(tables)]
    own = contiguous_groups(rows, cache)
    found = [([row.request_id for row in each], step) for each, step in own]
    assert found == groups


# ---------------------------------------------------------------- the record


def test_the_record_says_what_happened_to_the_pool_and_is_json():
    config = EngineConfig(token_budget=64, block_size=4, share_prefixes=True, max_kv_tokens=24)
    engine, prompt = Engine(tiny_model(), config), prompt_of(1, 6)
    serve(engine, Request(0, prompt, 4), Request(1, prompt, 2))
    first, *_, last = engine.trace().to_json()["steps"]
    assert first["blocks"] == {
        "block_size": 4, "num_blocks": 6, "tables": [[0, [0, 1]]], "idle": [], "allocated": [0, 1],
        "freed": [], "evicted": [], "published": [[0, block_hashes(prompt, 4, "")[0]]],
    }  # fmt: skip
    assert last["blocks"]["tables"] == [] and last["blocks"]["idle"] == [1, 0]
    assert last["blocks"]["freed"] == [0, 2]


# ---------------------------------------------------------------- hashes and the pool


def test_a_hash_depends_on_the_salt_and_is_the_same_on_every_machine():
    assert block_hashes([1, 2], 2, "") != block_hashes([1, 2], 2, "tenant")
    assert block_hashes([1, 2, 9], 2, "")[0].startswith("131088e07b7d1034")


def test_a_pool_that_is_too_small_says_so_and_gives_nothing():
    pool = BlockPool(3, 1, Policies())
    pool.take([], 8, 4)
    with pytest.raises(ValueError, match="2 blocks are wanted; 1 of 3 are free"):
        pool.take([], 8, 4)
    assert pool.num_free == 1


def test_a_cached_block_that_a_failed_step_has_written_to_is_found_no_more():
    pool = BlockPool(2, 1, Policies())
    table = pool.take([], 8, 4)
    pool.publish([(0, table[0], "first"), (1, table[1], "second")])
    pool.drop(table)
    pool.begin()
    [taken] = pool.take([], 4, 4)
    pool.restore()
    pool.check([])
    assert pool.num_free == 2
    assert pool.block_of == {"first": table[0]} and taken == table[1]


def test_a_step_that_fails_gives_those_that_it_preempted_their_kv_back():
    engine, victim = (
        Engine(tiny_model(), EngineConfig(block_size=4)),
        Request(0, prompt_of(0, 9), 5),
    )
    engine.submit(victim)
    engine.step()
    cache = blocks_of(engine)
    table, held = cache.table(0), cache.held(0).clone()
    requeue = Requeue(victim, ResumeState(victim.tokens_so_far, 0, 0, 0), (), "for a test")
    preempting = SchedulerOutput(1, 0, 0, (), (requeue,), Candidates((), (), ()), None, [], {}, ())
    with suppress(KeyError), cache.transaction(preempting):
        cache.pool.take([], cache.pool.num_free * 4, 4)
        cache.storage[:] = 0  # as others write to all of it
        raise KeyError
    assert cache.table(0) == table and torch.equal(cache.held(0), held)


def test_under_a_window_too_the_last_token_of_a_prompt_is_computed():
    published = {"first": 3, "second": 4}
    for prompt_len, found in ((4, ([3], 2)), (5, ([3, 4], 4))):
        match = longest_window_match(["first", "second"], published, prompt_len, 2, 3, 0)
        assert match == found
