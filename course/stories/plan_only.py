"""Runs of which only the plan matters: a packed engine that computes nothing."""

from collections.abc import Sequence

import torch

from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Parts
from nanogpt.clock import Clock
from nanogpt.executors.base import ForwardResult, KVStore, Row, forward_record, place_rows


class PlanOnlyExecutor:
    """Takes room for K/V and counts tokens as the packed form does; every logit is 0."""

    name = "packed"
    verifies_drafts = False
    reads_cache = True

    def __init__(self, model: GPT, cache: KVStore, parts: Parts) -> None:
        self.cache = cache
        self.logits = torch.zeros(1, model.config.vocab_size)

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Shapes: -> logits (R, V)."""
        place_rows(rows, self.cache)
        num_tokens = sum(len(row.tokens) for row in rows)
        logits = self.logits.expand(len(rows), -1)
        return ForwardResult(logits, (forward_record(rows, self.cache, num_tokens),))


def plan_engine(config: EngineConfig, parts: Parts = Parts(), clock: Clock | None = None) -> Engine:
    """An engine with these parts, a third as long at a step as with the smallest model."""
    smallest = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))
    return Engine(smallest, config, parts, clock=clock, make_executor=PlanOnlyExecutor)
