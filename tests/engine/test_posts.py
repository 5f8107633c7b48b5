"""The posts' own calls, run against this package: fields, run functions, and a loop of theirs.

The calls on padded K/V, each by itself, are tested in `test_textbook`.
"""

import weakref
from collections.abc import Callable

import pytest
import torch
from fakes import assert_equals_oracle, prompt_of, tiny_model
from lockstep import kv_from_scratch, posts_kv, posts_loop, text_of

from nanogpt import (
    GPT,
    EngineConfig,
    Policies,
    Request,
    Scheduler,
    Trace,
    chunked_prefill_generate,
    decode,
    encode,
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
    torch.testing.assert_close(posts_kv(request), right, rtol=1e-9, atol=1e-9)
    engine.run([(0, Request(1, prompt_of(1, 9), 5))])
    torch.testing.assert_close(posts_kv(request), right, rtol=1e-9, atol=1e-9)
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
