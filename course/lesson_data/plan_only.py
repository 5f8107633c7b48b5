"""Runs of which only the plan matters: a packed engine that computes nothing."""

from collections.abc import Sequence

import torch

from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Policies
from nanogpt.clock import Clock
from nanogpt.executors.base import CachedExecutor, forward_record
from nanogpt.outputs import ModelOutput, Row


class PlanOnlyExecutor(CachedExecutor):
    """Counts tokens as the packed form does; every logit is 0."""

    name = "packed"

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V)."""
        num_tokens = sum(len(row.input_ids) for row in rows)
        logits = torch.zeros(1, self.model.config.vocab_size).expand(len(rows), -1)  # (R, V)
        return ModelOutput(logits, (forward_record(rows, self.cache, num_tokens),))


def plan_engine(
    config: EngineConfig, policies: Policies = Policies(), clock: Clock | None = None
) -> Engine:
    """An engine with these policies, a third as long at a step as with the smallest model."""
    smallest = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))
    return Engine(smallest, config, policies, clock=clock, make_executor=PlanOnlyExecutor)
