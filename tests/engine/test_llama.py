"""A Llama behind the engine: fewer heads of K/V, and texts that no setting changes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import TINY, prompt_of, tiny_llama
from lockstep import arrivals_of, watched

from nanogpt import Engine, EngineConfig, Request, generate
from nanogpt.preemption.sharded_model import check_num_ranks

ASKS = [(i, 5 + 3 * i, 8, i % 2) for i in range(4)]


def sometimes_right(known: Sequence[int]) -> list[float]:
    """A draft that is right in two of three cases."""
    token = generate(tiny_llama(), known, 1)[0] if len(known) < TINY.max_model_len else 0
    guess = (token + (sum(known) % 3 == 0)) % TINY.vocab_size
    return [float(token == guess) for token in range(TINY.vocab_size)]


@pytest.mark.parametrize("executor", ["packed", "batch_invariant"])
@pytest.mark.parametrize("settings", [{}, {"block_size": 3, "share_prefixes": True}])
def test_chunks_blocks_preemption_and_drafts_leave_the_oracles_texts(
    executor: str, settings: dict[str, Any]
):
    config = EngineConfig(9, 40, executor=executor, num_draft_tokens=3, seed=5, **settings)
    trace = watched(arrivals_of(ASKS), config, draft=sometimes_right, model=tiny_llama)
    assert any(step.preempted for step in trace.steps)
    assert any(work.num_accepted for step in trace.steps for work in step.work)


def test_half_the_heads_take_half_the_memory_for_kv():
    for settings in ({}, {"sliding_window": 7}, {"block_size": 4}):
        engine = Engine(tiny_llama(), EngineConfig(**settings))
        request = Request(0, prompt_of(0, 8), 4)
        engine.submit(request)
        engine.step()
        held = {"block_size": 8, "sliding_window": 7}.get(next(iter(settings), ""), 64)
        assert engine.cache.live_bytes(0) == 2 * 2 * 2 * 8 * 8 * held  # K, V; L, K, D; float64


def test_what_only_a_gpt_can_do_is_refused_or_given_up_in_a_sentence():
    model = tiny_llama()
    with pytest.raises(ValueError, match="only the layers of a GPT, not those of a Llama"):
        check_num_ranks(2, model.config)
    with pytest.warns(UserWarning, match="gives way .* of a GPT, and the model is a Llama"):
        assert Engine(model, EngineConfig(executor="compiled")).executor.name == "packed"
    for changes, said in (
        ({"num_key_value_heads": 3}, "4 query heads do not split evenly over 3 heads of K/V"),
        ({"head_dim": 7}, "head_dim is 7; rotary positions need an even one"),
        ({"intermediate_size": 0}, "intermediate_size is 0; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            dataclasses.replace(model.config, **changes)
