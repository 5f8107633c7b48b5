"""A window: what fits, what wrong policies do, what it costs in bytes, and the oracle under it."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from fakes import oracle, prompt_of, tiny_model
from lockstep import BYTES_PER_TOKEN, served_by, text_after, text_of, watched

from nanogpt import Engine, EngineConfig, Policies, Request, Trace, generate, interleaved_generate
from nanogpt.config import EXECUTORS
from nanogpt.policies.sliding_window import evict, live_bytes, visible
from nanogpt.validate import PolicyError

ALL = pytest.mark.parametrize("executor", EXECUTORS)
BOTH = pytest.mark.parametrize("kv_storage", ["ring", "evict"])


def test_the_run_functions_take_a_window():
    request, rule = Request(0, prompt_of(0, 20), 6), {"sliding_window": 8, "num_sinks": 1}
    trace = interleaved_generate(tiny_model(), [request], "fcfs", 16, 30, **rule).trace
    assert trace is not None and (trace.sliding_window, trace.num_sinks) == (8, 1)
    assert tuple(request.tokens_so_far) == text_of(0, 20, 6, 0.0, 8, 1)


# ---------------------------------------------------------------- what fits


def test_what_fits_the_budget_is_what_the_window_holds():
    config = EngineConfig(8, 12, sliding_window=10, num_sinks=2, seed=5)
    watched([(0, Request(0, prompt_of(0, 40), 5))], config)
    with pytest.raises(ValueError, match="the KV budget of 12 can never hold it"):
        Engine(tiny_model(), EngineConfig(8, 12)).submit(Request(0, prompt_of(0, 40), 5))
    engine = Engine(tiny_model(), EngineConfig(8, 12, sliding_window=12, num_sinks=1))
    engine.submit(Request(0, prompt_of(0, 6), 7))  # 12 KV tokens, fewer than the window
    with pytest.raises(ValueError, match=r"13 KV tokens under a window of 12; the KV budget of 12"):
        engine.submit(Request(1, prompt_of(1, 6), 8))


@BOTH
def test_a_window_does_not_lengthen_the_context(kv_storage: str):
    config = EngineConfig(16, sliding_window=4, kv_storage=kv_storage, seed=5)
    with pytest.raises(ValueError, match=r"needs 30 \+ 36 - 1 = 65 positions, .* context of 64"):
        Engine(tiny_model(), config).submit(Request(0, prompt_of(0, 30), 36))
    watched([(0, Request(0, prompt_of(0, 30), 35))], config)


# ---------------------------------------------------------------- wrong answers


def run_with(policies: Policies, kv_storage: str, **limits: Any) -> tuple[Trace, int]:
    config = EngineConfig(9, sliding_window=5, num_sinks=1, kv_storage=kv_storage, seed=5, **limits)
    return served_by(policies, config, [(0, 14, 8, 0), (1, 9, 8, 0)])


@pytest.mark.parametrize(
    ("name", "kv_storage", "part"),
    [
        ("evict", "evict", lambda k, v, w, s: (k[:, : w + s].clone(), v[:, : w + s].clone())),
        ("evict", "evict", lambda k, v, w, s: evict(k, v, w - 1, s)),
        ("rolling_buffer_index", "ring", lambda p, w, s: p % w),
        ("rolling_buffer_index", "ring", lambda p, w, s: min(p, w + s - 1)),
        ("visible", "ring", lambda q, k, w, s: visible(q, k, w - 1, s)),
        ("visible", "evict", lambda q, k, w, s: visible(q, k, w + 1, s)),
    ],
    ids=["the first", "one too few", "on the sinks", "in no order", "too near", "too far"],
)
@ALL
def test_a_wrong_answer_runs_and_shows_in_the_text(
    name: str, kv_storage: str, part: Any, executor: str
):
    line = nullcontext()
    if executor == "compiled" and name == "visible":
        line = pytest.warns(UserWarning, match="a custom mask needs Python in every step")
    with line:
        assert run_with(Policies(**{name: part}), kv_storage, executor=executor)[1] >= 1


def test_a_view_shows_in_the_bytes_and_not_in_the_tokens_held():
    trace, _ = run_with(Policies(evict=lambda k, v, w, s: (k[:, -w:], v[:, -w:])), "evict")
    records = [kv for step in trace.steps for kv in step.kv]
    assert max(kv.kv_tokens for kv in records) == 5
    assert any(kv.live_bytes > kv.kv_tokens * BYTES_PER_TOKEN for kv in records)


def test_an_evict_that_keeps_other_positions_than_k_v_is_refused():
    part = Policies(evict=lambda k, v, w, s: (k, v) if len(k) == 1 else (k[:, -w:], v[:, -w:]))
    engine = Engine(tiny_model(), EngineConfig(4, sliding_window=4, kv_storage="evict"), part)
    with pytest.raises(PolicyError, match="evict kept 4 entries of K/V and 8 of their positions"):
        engine.run([(0, Request(0, prompt_of(0, 20), 3))])


def test_counting_the_full_length_ends_in_words_and_not_in_an_endless_loop():
    """What the window lets in, the wrong count pushes out again, alone and for ever."""
    config = EngineConfig(4, 10, sliding_window=8)
    engine = Engine(tiny_model(), config, Policies(kv_usage=lambda c, n, w, s: (c + n, c + n)))
    with pytest.raises(PolicyError, match=r"kv_usage charges request 0 \d+ KV tokens.* of 10"):
        engine.run([(0, Request(0, prompt_of(0, 20), 3))], max_steps=200)


# ---------------------------------------------------------------- bytes


def test_the_bytes_of_a_storage_count_once_and_whole():
    whole, other = torch.zeros(100, 4), torch.zeros(3, dtype=torch.float64)
    assert live_bytes([]) == 0
    assert live_bytes([whole[-1:], whole[:2], whole]) == 1600
    assert live_bytes([whole[0], other]) == 1624
    assert live_bytes([torch.zeros(1).expand(1000)]) == 4
    kept = evict(whole.unsqueeze(0), whole.unsqueeze(0), 5, 1)
    assert live_bytes(kept) == 2 * 6 * 4 * 4, "what is evicted is free, not only out of sight"


# ---------------------------------------------------------------- the oracle under a window


def test_a_window_and_its_sinks_change_the_oracles_text():
    """Engines are held to this text and to K/V by the rule (`lockstep.watched`)."""
    prompt, rules = prompt_of(2, 14), [(1, 0), (3, 0), (3, 2), (30, 4)]
    texts = {text_after(tuple(prompt), 8, window=w, sinks=s) for w, s in rules}
    assert len(texts) == 4
    # Prompt and text are 22 tokens; the last one computed looks back at 20 others.
    for window, is_none in [(20, True), (1000, True), (3, False)]:
        text = tuple(generate(tiny_model(), prompt, 8, sliding_window=window))
        assert (text == oracle(tuple(prompt), 8)) == is_none
    with pytest.raises(ValueError, match="num_sinks is 2; without a window"):
        generate(tiny_model(), prompt, 8, num_sinks=2)
