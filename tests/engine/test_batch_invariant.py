"""The batch-invariant executor: the same bits for a token in every company, chunking and window."""

import functools
from collections.abc import Sequence

import pytest
import torch
from fakes import TINY
from torch import Tensor

from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors import find_executor
from nanogpt.executors.base import Executor, ForwardResult, KVStore, Row
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.request import Request
from nanogpt.trace import Trace

Bits = dict[tuple[int, int], Tensor]
"""(request id, tokens computed) -> the logits after them."""
PROMPTS = [
    "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name;",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.",
    "To be, or not to be",
    "K",
    "Now is the winter of our discontent made glorious summer by this sun of York; and all the "
    "clouds that lour'd upon our house in the deep bosom of the ocean buried.",
]


class Watching:
    """An executor that also notes every row's logits."""

    def __init__(self, inner: Executor, bits: Bits) -> None:
        self.name, self.inner, self.bits = inner.name, inner, bits

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        result = self.inner.run(rows)
        for row, logits in zip(rows, result.logits, strict=True):
            self.bits[row.request_id, row.context_len] = logits.clone()
        return result


def serve(
    ids: Sequence[int], config: EngineConfig, model: GPT | None = None
) -> tuple[Bits, Trace, list[list[int]]]:
    bits: Bits = {}

    def watched(model: GPT, cache: KVStore, parts: Parts) -> Executor:
        return Watching(find_executor(config)(model, cache, parts), bits)

    requests = [Request(i, encode(PROMPTS[i]), 12) for i in ids]
    engine = Engine(model or shipped(), config, make_executor=watched)
    trace = engine.run([(2 * n, request) for n, request in enumerate(requests)])
    return bits, trace, [request.generated_tokens for request in requests]


@functools.cache
def shipped() -> GPT:
    return load_model()


def assert_same_bits(alone: Bits, together: Bits) -> int:
    """Equal to the last bit wherever both have logits; returns how many were compared."""
    both = alone.keys() & together.keys()
    for key in both:
        assert torch.equal(alone[key], together[key]), key
    return len(both)


WAYS = {
    "one at a time": EngineConfig(token_budget=512, max_batch_size=1, batch_invariant=True),
    "small chunks": EngineConfig(token_budget=7, batch_invariant=True),
    "whole prompts": EngineConfig(token_budget=400, batch_invariant=True),
    "preemption": EngineConfig(token_budget=24, max_kv_tokens=180, batch_invariant=True),
}


@pytest.mark.parametrize("window", [None, 40])
def test_the_same_bits_in_every_batch_chunking_and_after_preemption(window: int | None):
    runs = {
        name: serve(
            range(5),
            EngineConfig(
                token_budget=way.token_budget,
                max_batch_size=way.max_batch_size,
                max_kv_tokens=way.max_kv_tokens and (180 if window is None else 105),
                sliding_window=window,
                batch_invariant=True,
            ),
        )
        for name, way in WAYS.items()
    }
    alone, _, texts = runs["one at a time"]
    assert any(step.preempted for step in runs["preemption"][1].steps)
    for name, (bits, _, written) in runs.items():
        assert written == texts, name
        assert assert_same_bits(alone, bits) >= 60, name  # 12 tokens of 5 requests each


def test_ring_and_evicting_storage_give_the_same_bits():
    ring, evicting = (
        serve([0, 1, 4], EngineConfig(sliding_window=16, num_sinks=2, kv_storage=storage,
                                      batch_invariant=True))[0]
        for storage in ("ring", "evict")
    )  # fmt: skip
    assert assert_same_bits(ring, evicting) == len(ring)


def test_the_ordinary_executor_does_not_have_this_property():
    alone = serve(range(5), EngineConfig(token_budget=512, max_batch_size=1))[0]
    together = serve(range(5), EngineConfig(token_budget=24))[0]
    differing = [k for k in alone.keys() & together.keys() if not alone[k].equal(together[k])]
    assert len(differing) > 20


def test_another_number_of_heads_and_channels_changes_nothing():
    torch.manual_seed(1)
    model = GPT(TINY).eval().requires_grad_(False)
    short = {3: PROMPTS[3], 2: PROMPTS[2]}
    alone = serve(list(short), EngineConfig(max_batch_size=1, batch_invariant=True), model)[0]
    together = serve(list(short), EngineConfig(token_budget=5, batch_invariant=True), model)[0]
    assert assert_same_bits(alone, together) >= 24


def test_the_number_of_threads_is_as_it_was_afterwards():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        serve([3], EngineConfig(batch_invariant=True))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_it_is_refused_for_a_padded_executor():
    with pytest.raises(ValueError, match="batch_invariant goes with the executor 'packed'"):
        EngineConfig(batch_invariant=True, executor="fused")
