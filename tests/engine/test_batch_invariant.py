"""The batch-invariant executor: the same bits for a token in every company, chunking and window."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from nanogpt import Engine, EngineConfig, encode, generate, load_model
from nanogpt.executors.compiled import CompiledExecutor
from nanogpt.features import executor_type
from nanogpt.outputs import ModelOutput, Row
from nanogpt.request import Request
from nanogpt.speculative.trigram import TrigramDraft

Bits = dict[tuple[int, int], Tensor]
"""(request id, tokens computed) -> the logits after them."""
PROMPTS = [
    "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name;",
    "K",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.",
]


def serve(**settings: Any) -> tuple[Bits, list[list[int]], int]:
    """Logits, texts, and how often a request was preempted."""
    bits: Bits = {}
    config = EngineConfig(**settings)

    maker = executor_type(config)
    base = maker if isinstance(maker, type) else CompiledExecutor

    class Watched(base):
        def execute(self, rows: Sequence[Row]) -> ModelOutput:
            result = super().execute(rows)
            ends = torch.tensor([row.num_logits for row in rows]).cumsum(0) - 1
            for row, logits in zip(rows, result.logits[ends], strict=True):
                if not row.drafted:
                    bits[row.request_id, row.seq_len] = logits.clone()
            return result

    requests = [Request(i, encode(prompt), 8) for i, prompt in enumerate(PROMPTS)]
    engine = Engine(load_model(), config, make_executor=Watched, draft=TrigramDraft.load())
    trace = engine.run([(2 * i, request) for i, request in enumerate(requests)])
    preempted = sum(len(step.preempted) for step in trace.steps)
    return bits, [request.generated_tokens for request in requests], preempted


@pytest.mark.parametrize("executor", ["batch_invariant", "compiled"])
@pytest.mark.parametrize("window", [None, 20])
def test_the_same_bits_in_every_batch_chunking_storage_and_after_preemption(
    executor: str, window: int | None
):
    common = {"executor": executor, "sliding_window": window}
    alone, texts, _ = serve(token_budget=512, max_batch_size=1, **common)
    model = load_model()
    right = [generate(model, encode(prompt), 8, sliding_window=window) for prompt in PROMPTS]
    assert texts == right, "over more than one tile of keys"
    kv = {"max_kv_tokens": 90 if window is None else 27}
    other: list[dict[str, Any]] = [{"token_budget": 7}, kv]
    other.append({"num_draft_tokens": 3} if window is None else {"kv_storage": "evict"})
    for settings in other:
        bits, written, preempted = serve(**settings, **common)
        assert written == texts, settings
        assert bool(preempted) == (settings is kv), settings
        both = alone.keys() & bits.keys()
        assert len(both) >= 10, settings
        assert all(torch.equal(alone[key], bits[key]) for key in both), settings


def test_the_number_of_threads_is_as_it_was_and_padded_executors_are_refused():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        serve(executor="batch_invariant")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
