"""The host tier: what is copied and loaded, when it pays, and what a failed step leaves."""

import dataclasses
import random
from typing import Any

import pytest
import torch
from fakes import (
    any_legal_plan,
    assert_equals_oracle,
    prompt_of,
    snapshot,
    sometimes_right,
    tiny_model,
)
from hypothesis import given
from hypothesis import strategies as st
from lockstep import arrivals_of, decisions, watched
from tiers import examples

from nanogpt.block_tables import BlockTables
from nanogpt.clock import CostClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.packed import PackedExecutor
from nanogpt.host_tier import HostTier
from nanogpt.kv_cache_manager import kv_limit
from nanogpt.outputs import ModelOutput
from nanogpt.policies import Policies
from nanogpt.policies.blocks import block_hashes
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.request import Request
from nanogpt.trace import TieredStepRecord, Trace

SETTINGS = EngineConfig(
    token_budget=64, max_kv_tokens=40, max_batch_size=2, block_size=4, share_prefixes=True,
    host_kv_tokens=80,
)  # fmt: skip
PREFIXES = [prompt_of(i, 16) for i in range(3)]


def tier_of(engine: Engine) -> HostTier:
    assert isinstance(engine.cache, BlockTables) and engine.cache.host is not None
    return engine.cache.host


def turns() -> list[tuple[int, Request]]:
    """Three agents take two turns each; their texts together are larger than the pool."""
    texts = [[*PREFIXES[i % 3], *[7] * (i // 3)] for i in range(6)]
    return [(12 * i, Request(i, text, 5)) for i, text in enumerate(texts)]


def loads(trace: Trace) -> list[tuple[int, int]]:
    """(request, blocks loaded) of each that loaded any."""
    steps = [step for step in trace.steps if isinstance(step, TieredStepRecord)]
    ids = [request_id for step in steps for request_id, _, _ in step.host.loaded]
    return [(i, ids.count(i)) for i in dict.fromkeys(ids)]


def test_agents_find_in_the_host_tier_what_the_pool_has_evicted():
    engine, plain = (
        Engine(tiny_model(), dataclasses.replace(SETTINGS, host_kv_tokens=tokens))
        for tokens in (80, None)
    )
    arrivals = turns()
    trace, without = engine.run(arrivals), plain.run(turns())
    assert_equals_oracle(arrivals)
    found = [(h.request_id, h.num_tokens) for step in trace.steps for h in step.prefix_hits]
    assert found == [(3, 16), (4, 16), (5, 16)]
    assert not [hit for step in without.steps for hit in step.prefix_hits if hit.num_tokens == 16]
    assert dict(loads(trace)).keys() == {3, 4, 5}
    first = trace.steps[0]
    assert isinstance(first, TieredStepRecord)
    assert first.host.stored == tuple(reversed(block_hashes(PREFIXES[0], 4, "")))
    # The same decisions where nothing is computed and the copies are only counted.
    texts = {r.id: r.tokens_so_far for _, r in arrivals}
    counted = Engine(RecordedTexts(texts, tiny_model().config), SETTINGS).run(turns())
    assert decisions(counted) == decisions(trace) and loads(counted) == loads(trace)


def test_the_clock_is_charged_for_each_copy_and_a_slow_link_is_not_used():
    clocks = [CostClock(), CostClock(), CostClock()]
    slow = dataclasses.replace(clocks[2].model, link=dataclasses.replace(clocks[2].model.link,
                               bytes_per_us=100))  # fmt: skip
    clocks[2].model = slow
    settings = [dataclasses.replace(SETTINGS, host_kv_tokens=None), SETTINGS, SETTINGS]
    plain, tiered, slowly = (
        Engine(RecordedTexts(), config, clock=clock).run(turns()[:1])
        for config, clock in zip(settings, clocks, strict=True)
    )
    copies = [model.copy_us(16) + model.copy_us(4) for model in (clocks[1].model, slow)]
    times = [trace.steps[-1].end_us for trace in (plain, tiered, slowly)]
    assert [time - times[0] for time in times[1:]] == copies
    assert loads(Engine(RecordedTexts(), SETTINGS, clock=CostClock(slow)).run(turns())) == []


@pytest.mark.parametrize("choice", ["load", "compute"])
def test_a_preempted_request_is_loaded_back_or_computed_again_as_the_policy_says(choice: str):
    config = dataclasses.replace(SETTINGS, max_kv_tokens=44, host_kv_tokens=200)
    engine = Engine(tiny_model(), config, Policies(load_or_compute=lambda *_: choice))
    arrivals = arrivals_of([(0, 16, 20, 0), (0, 16, 20, 0)])
    trace = engine.run(arrivals)
    assert_equals_oracle(arrivals)
    victims = {i for step in trace.steps for i in step.preempted}
    assert victims and dict(loads(trace)).keys() == (victims if choice == "load" else set())


def any_tiers(seed: int) -> Policies:
    """Any legal plan; loads some of what it finds, and keeps some blocks in any order."""
    rng = random.Random(seed)

    def spill(published: list[str], host: list[str], capacity: int) -> list[str]:
        known = list(dict.fromkeys([*published, *host]))
        return rng.sample(known, min(len(known), capacity))

    return Policies(
        plan_step=any_legal_plan(seed),
        load_or_compute=lambda *_: rng.choice(["load", "load", "compute"]),
        spill=spill if seed % 2 else Policies().spill,
    )


@st.composite
def agents(draw: st.DrawFn) -> list[tuple[int, Request]]:
    """Turns of a few agents, each a beginning of its text and a few tokens of its own."""
    turn = st.tuples(
        st.integers(0, 2), st.integers(6, 16), st.integers(0, 3), st.integers(1, 6),
        st.integers(0, 9), st.sampled_from([None, None, None, "tenant"]),
    )  # fmt: skip
    arrivals: list[tuple[int, Request]] = []
    step = 0
    for i, (agent, length, more, new, gap, salt) in enumerate(draw(st.lists(turn, max_size=9))):
        step += gap
        prompt = PREFIXES[agent][:length] + [5] * more
        arrivals.append((step, Request(i, prompt, new, i % 3, cache_salt=salt)))
    return arrivals


@examples(2)
@given(
    arrivals=agents(),
    size=st.sampled_from([1, 2, 3, 4]),
    window=st.none() | st.tuples(st.integers(1, 9), st.integers(0, 3)),
    blocks=st.integers(0, 3),
    settings=st.fixed_dictionaries(
        {
            "host_kv_tokens": st.integers(1, 80),
            "token_budget": st.integers(1, 30),
            "preempt_to_admit": st.booleans(),
            "policy": st.sampled_from(["fcfs", "priority"]),
            "executor": st.sampled_from(["packed", "batch_invariant"]),
            "num_draft_tokens": st.sampled_from([0, 0, 2, 5]),
        }
    ),
    policies=st.just(Policies()) | st.builds(any_tiers, st.integers(0, 99)),
)
def test_whatever_is_copied_texts_and_kv_and_copies_are_the_oracles(
    arrivals, size, window, blocks, settings, policies
):
    if window is not None:
        settings |= {"sliding_window": window[0], "num_sinks": window[1], "num_draft_tokens": 0}
    largest = max((len(r.prompt_tokens) + r.max_new_tokens - 1 for _, r in arrivals), default=1)
    largest = min(largest, kv_limit(*window, size)) if window else largest
    most = (-(-largest // size) + blocks) * size
    config = EngineConfig(
        max_kv_tokens=most, max_batch_size=3, seed=5, block_size=size, share_prefixes=True,
        **settings,
    )  # fmt: skip
    watched(arrivals, config, policies, draft=sometimes_right)


def test_a_step_that_fails_leaves_both_tiers_as_they_were():
    class FailsAtLoads(PackedExecutor):
        failures = 0

        def execute(self, rows: Any) -> Any:
            output = super().execute(rows)
            if not tier_of(engine)._loaded or self.failures > 1:  # pyright: ignore[reportPrivateUsage]
                return output
            self.failures += 1
            return ModelOutput(torch.full_like(output.logits, torch.nan), output.forwards)

    engine = Engine(tiny_model(), SETTINGS, make_executor=FailsAtLoads)
    arrivals = turns()
    for step, request in arrivals:
        engine.step_number = max(engine.step_number, step)
        engine.submit(request)
        while not engine.scheduler.is_done():
            before, copies = snapshot(engine), tier_of(engine).kv_of
            try:
                engine.step()
            except ValueError:
                assert snapshot(engine) == before and tier_of(engine).kv_of is copies
            engine.cache.check()
    assert isinstance(engine.executor, FailsAtLoads) and engine.executor.failures == 2
    assert_equals_oracle(arrivals)
    assert loads(engine.trace())


def test_a_small_tier_keeps_the_beginning_of_the_newest_text():
    config = dataclasses.replace(SETTINGS, host_kv_tokens=8)
    engine = Engine(RecordedTexts(), config)
    engine.run(turns()[:2])
    assert [*tier_of(engine).kv_of] == block_hashes(PREFIXES[1], 4, "")[1::-1]
    with pytest.raises(ValueError, match="host_kv_tokens is 8; it goes with share_prefixes"):
        dataclasses.replace(config, share_prefixes=False)
