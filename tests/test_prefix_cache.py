"""The prefix cache: what was computed once is not computed again, and nothing else changes."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from fakes import (
    Follower,
    assert_equals_oracle,
    fake_engine,
    fake_request,
    oracle,
    prompt_of,
    snapshot,
    tiny_model,
)
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nanogpt.config import EXECUTORS, EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.base import ForwardResult, KVStore, Row
from nanogpt.executors.packed import PackedExecutor
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.request import Request
from nanogpt.trace import Trace

CACHED = EngineConfig(token_budget=64, prefix_cache_tokens=200)


class Listening(PackedExecutor):
    """Remembers the logits after every row, and answers call number `nan_at` with NaN."""

    nan_at: int | None = None

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        super().__init__(model, cache, parts)
        self.heard: list[dict[int, Tensor]] = []

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        result = super().run(rows)
        self.heard.append({row.request_id: result.logits[i].clone() for i, row in enumerate(rows)})
        if self.nan_at == len(self.heard) - 1:
            broken = result.logits.clone()
            broken[-1, 0] = float("nan")
            return ForwardResult(broken, result.forwards)
        return result


def serve(engine: Engine, *requests: Request) -> list[int]:
    """Serve requests to their end, one after another; return how many tokens each prefilled."""
    prefilled: list[int] = []
    for request in requests:
        before = len(engine.trace().steps)
        engine.run([(engine.step_number, request)])
        work = [w for step in engine.trace().steps[before:] for w in step.work]
        prefilled.append(sum(w.end - w.start for w in work if w.kind == "prefill"))
    return prefilled


def hits_of(trace: Trace) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for step in trace.steps:
        for hit in step.prefix_hits:
            found.setdefault(hit.request_id, []).append(hit.num_tokens)
    return found


def test_the_computed_prefill_falls_by_exactly_the_length_of_the_hit():
    engine = Engine(tiny_model(), CACHED)
    prompt = prompt_of(1, 20)
    others = [7, 7, 7]
    requests = [
        Request(0, prompt, 3),
        Request(1, prompt[:12] + others, 3),
        Request(2, prompt + others, 3),
        Request(3, others, 3),
    ]
    assert serve(engine, *requests) == [20, 15 - 12, 23 - 20, 3]
    assert hits_of(engine.trace()) == {1: [12], 2: [20]}
    assert_equals_oracle([(0, request) for request in requests])


def test_the_last_known_token_is_computed_even_when_it_is_stored():
    engine = Engine(tiny_model(), CACHED)
    prompt = prompt_of(1, 20)
    again = Request(1, prompt, 4)
    assert serve(engine, Request(0, prompt, 4), again) == [20, 1]
    assert tuple(again.generated_tokens) == oracle(tuple(prompt), 4)


def test_a_finished_text_is_stored_with_what_was_generated():
    engine = Engine(tiny_model(), CACHED)
    first = Request(0, prompt_of(1, 10), 6)
    serve(engine, first)
    longer = Request(1, [*first.tokens_so_far, 3, 4], 2)
    assert serve(engine, longer) == [3], "its last sampled token never had K/V"


@pytest.mark.parametrize("chunk", [64, 3])
def test_logits_and_kv_equal_those_of_a_cold_run(chunk: int):
    config = EngineConfig(token_budget=chunk, prefix_cache_tokens=200)
    warm = Engine(tiny_model(), config, make_executor=Listening)
    cold = Engine(tiny_model(), EngineConfig(token_budget=chunk), make_executor=Listening)
    shared, tail = prompt_of(1, 17), prompt_of(2, 9)
    serve(warm, Request(0, [*shared, 1, 2], 5))
    for engine in (warm, cold):
        engine.submit(Request(1, [*shared, *tail], 8))
        for _ in range(12):
            engine.step()
            if engine.cache.length(1) >= 28:
                break
    assert sum(hit.num_tokens for step in warm.trace().steps for hit in step.prefix_hits) == 17
    length = min(engine.cache.length(1) for engine in (warm, cold))
    warm_kv, cold_kv = (engine.cache.held(1)[:, :, :, :length] for engine in (warm, cold))
    assert (warm_kv - cold_kv).abs().max() <= 1e-12
    last = [engine.executor.heard for engine in (warm, cold)]
    by_position = [
        {
            work.end: heard[1]
            for step, heard in zip(engine.trace().steps, all_heard, strict=True)
            for work in step.work
            if work.request_id == 1
        }
        for engine, all_heard in zip((warm, cold), last, strict=True)
    ]
    both = by_position[0].keys() & by_position[1].keys()
    assert 26 in both and len(both) >= 2
    for end in both:
        assert (by_position[0][end] - by_position[1][end]).abs().max() <= 1e-12


def test_nothing_is_found_before_the_step_that_computes_it_has_committed():
    engine = Engine(tiny_model(), EngineConfig(token_budget=100, prefix_cache_tokens=200))
    prompt = prompt_of(1, 20)
    engine.submit(Request(0, prompt, 2))
    engine.submit(Request(1, prompt, 2))
    together = engine.step()
    assert [work.end - work.start for work in together.work] == [20, 20]
    assert together.prefix_hits == ()
    engine.submit(Request(2, prompt, 2))
    later = engine.step()
    assert [(hit.request_id, hit.num_tokens) for hit in later.prefix_hits] == [(2, 19)]


def test_a_chunk_is_found_as_soon_as_it_is_committed():
    engine = Engine(tiny_model(), EngineConfig(token_budget=12, prefix_cache_tokens=200))
    prompt = prompt_of(1, 20)
    engine.submit(Request(0, prompt, 2))
    engine.step()
    engine.submit(Request(1, prompt, 2))
    record = engine.step()
    assert [(w.request_id, w.start, w.end) for w in record.work] == [(0, 12, 20), (1, 12, 16)]


def test_a_failed_step_publishes_nothing_and_leaves_no_trace():
    engine = Engine(tiny_model(), CACHED, make_executor=Listening)
    shared = prompt_of(1, 20)
    serve(engine, Request(0, shared[:8], 2))
    assert isinstance(engine.executor, Listening)
    engine.executor.nan_at = len(engine.executor.heard)
    request = Request(1, shared, 3)
    engine.submit(request)
    before, stored = snapshot(engine), engine.prefix_cache.num_tokens
    with pytest.raises(ValueError, match="request 1 are not finite"):
        engine.step()
    assert snapshot(engine) == before
    assert request.status == "waiting" and request.prefill_cursor == 0
    assert engine.prefix_cache.num_tokens == stored
    assert engine.prefix_cache.find(shared).num_tokens == 8
    engine.run([])
    assert tuple(request.generated_tokens) == oracle(tuple(shared), 3)
    assert hits_of(engine.trace()) == {1: [8]}


def test_what_is_stored_is_a_copy_that_later_requests_cannot_overwrite():
    engine = Engine(tiny_model(), EngineConfig(token_budget=64, max_batch_size=1,
                                               prefix_cache_tokens=200))  # fmt: skip
    prompt = prompt_of(1, 16)
    serve(engine, Request(0, prompt, 3))
    before = torch.cat(engine.prefix_cache.find(prompt).pieces, dim=3)
    serve(engine, Request(1, prompt_of(5, 30), 8))  # sits in the same slot
    after = torch.cat(engine.prefix_cache.find(prompt).pieces, dim=3)
    assert torch.equal(before, after)
    bytes_held = sum(p.untyped_storage().nbytes() for p in engine.prefix_cache.find(prompt).pieces)
    assert bytes_held == before.numel() * before.itemsize, "a view would keep the whole slot"


def test_it_stays_within_its_room_and_forgets_the_least_recently_used():
    engine = Engine(tiny_model(), EngineConfig(token_budget=64, prefix_cache_tokens=30))
    old, new = prompt_of(1, 16), prompt_of(2, 16)
    serve(engine, Request(0, old, 1), Request(1, new, 1))
    assert engine.prefix_cache.num_tokens == 30
    assert engine.prefix_cache.find([*new, 0]).num_tokens == 16
    assert engine.prefix_cache.find([*old, 0]).num_tokens == 14
    assert serve(engine, Request(2, old, 1), Request(3, prompt_of(3, 10), 1)) == [2, 10]
    assert engine.prefix_cache.find([*old, 0]).num_tokens == 16
    assert engine.prefix_cache.find([*new, 0]).num_tokens == 4
    engine.prefix_cache.tree.check()


def test_a_lookup_by_somebody_who_is_not_served_keeps_nothing_from_being_forgotten():
    engine = Engine(tiny_model(), EngineConfig(token_budget=64, prefix_cache_tokens=30))
    old, new = prompt_of(1, 15), prompt_of(2, 15)
    serve(engine, Request(0, old, 1), Request(1, new, 1))
    assert engine.prefix_cache.find([*old, 0]).num_tokens == 15
    serve(engine, Request(2, prompt_of(3, 10), 1))
    assert engine.prefix_cache.find([*old, 0]).num_tokens == 5
    assert engine.prefix_cache.find([*new, 0]).num_tokens == 15


def test_a_preempted_request_finds_its_own_prefix_generated_tokens_and_all():
    config = EngineConfig(token_budget=64, max_kv_tokens=40, prefix_cache_tokens=200)
    engine = Engine(tiny_model(), config)
    arrivals = [(0, Request(i, prompt_of(i, 15), 12)) for i in range(2)]
    trace = engine.run(arrivals)
    victims = [victim for step in trace.steps for victim in step.preempted]
    assert victims == [1]
    left = next(step for step in trace.steps if step.preempted)
    back = next(step for step in trace.steps if step.prefix_hits)
    held_before = next(
        kv.kv_tokens for step in trace.steps for kv in step.kv
        if step.step == left.step - 1 and kv.request_id == 1
    )  # fmt: skip
    assert held_before > 15
    assert [(hit.request_id, hit.num_tokens) for hit in back.prefix_hits] == [(1, held_before)]
    assert [w.end - w.start for w in back.work if w.request_id == 1] == [1]
    assert_equals_oracle(arrivals)
    Follower(trace, config).check()


SHARED = prompt_of(3, 14)


@st.composite
def workloads(draw: Any) -> list[tuple[int, Request]]:
    """Requests that begin with a shared text of any length and go on by themselves or not."""
    arrivals: list[tuple[int, Request]] = []
    for i in range(draw(st.integers(1, 6))):
        prompt = SHARED[: draw(st.integers(0, 14))] + prompt_of(i % 2, draw(st.integers(0, 5)))
        step, new = draw(st.integers(0, 12)), draw(st.integers(1, 7))
        arrivals.append((step, Request(i, prompt or [1], new, draw(st.integers(0, 2)))))
    return arrivals


@examples(80)
@given(
    arrivals=workloads(),
    executor=st.sampled_from(sorted(EXECUTORS)),
    budget=st.integers(1, 24),
    kv=st.one_of(st.none(), st.integers(26, 45)),
    capacity=st.integers(1, 60),
    temperature=st.sampled_from([0.0, 1.0]),
    to_admit=st.booleans(),
)
def test_whatever_is_found_the_tokens_are_the_oracles(
    arrivals, executor, budget, kv, capacity, temperature, to_admit
):
    config = EngineConfig(
        token_budget=budget, max_kv_tokens=kv, max_batch_size=3, policy="priority",
        preempt_to_admit=to_admit, executor=executor, temperature=temperature,
        prefix_cache_tokens=capacity,
    )  # fmt: skip
    engine = Engine(tiny_model(), config)
    trace = engine.run(arrivals)
    assert_equals_oracle(arrivals, temperature)
    Follower(trace, config).check()
    engine.cache.check()
    engine.prefix_cache.tree.check()
    assert engine.prefix_cache.num_tokens <= capacity


def test_the_settings_refuse_a_window_and_a_room_that_is_no_number():
    with pytest.raises(ValueError, match="prefix_cache_tokens is 9 under a sliding window of 4"):
        EngineConfig(sliding_window=4, prefix_cache_tokens=9)
    with pytest.raises(ValueError, match="prefix_cache_tokens"):
        EngineConfig(prefix_cache_tokens=-1)


def test_an_executor_that_keeps_its_kv_elsewhere_is_refused():
    with pytest.raises(ValueError, match="'fake' keeps its K/V elsewhere"):
        fake_engine(EngineConfig(prefix_cache_tokens=9))


def test_without_room_nothing_is_kept():
    engine, _ = fake_engine(EngineConfig())
    engine.run([(0, fake_request(0, 9, 3))])
    assert engine.prefix_cache.num_tokens == 0
