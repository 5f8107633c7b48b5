"""The contest's machine: costs of a forward pass, an engine's limits, the model and the clock."""

import functools
from dataclasses import dataclass

import torch

from nanogpt.clock import CostClock, CostModel
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.model import GPT
from nanogpt.policy_views import Policy

WHOLE_GPU = CostModel(
    name="a large GPU, in whole microseconds", modelled=True,
    fixed_us=500.0, floor_us=4800.0, token_us=32.0, context_us=0.0625, prompt_scale=16,
)  # fmt: skip
"""`clock.LARGE_GPU` with 1 us for a token of context in place of 0.64.

Every pass then costs a whole number of microseconds, so nothing is rounded and the bound is exact.
"""

MODEL = ModelConfig(num_layers=2, num_heads=2, num_channels=16, context_len=512, vocab_size=65)


@dataclass(frozen=True, slots=True)
class Machine:
    """A cost model and an engine's limits; with a `block_size`, equal prefixes share blocks."""

    cost: CostModel = WHOLE_GPU
    token_budget: int = 32
    max_kv_tokens: int = 640
    max_batch_size: int = 8
    block_size: int | None = None

    def settings(self, policy: Policy) -> EngineConfig:
        """An engine's configuration on this machine."""
        return EngineConfig(
            token_budget=self.token_budget,
            max_kv_tokens=self.max_kv_tokens,
            max_batch_size=self.max_batch_size,
            policy=policy,
            preempt_to_admit=True,
            block_size=self.block_size,
            share_prefixes=self.block_size is not None,
        )

    def pass_us(self, num_prefill: int, num_decodes: int, context_tokens: int) -> int:
        """What one forward pass over so many tokens costs."""
        return self.cost.step_us(num_prefill, num_decodes, context_tokens)


class PatientClock(CostClock):
    """The modelled clock, which can also wait until the next arrival."""

    def wait_until(self, time_us: int) -> None:
        """Advance the clock to a time, unless it is past it."""
        self._now_us = max(self._now_us, time_us)


@functools.cache
def contest_model() -> GPT:
    """Two random layers in float64, scaled so that texts vary and a wrong mask changes them.

    Scores depend on how many tokens a request has, never on which, so other random weights on
    another machine give the same scores.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT(MODEL).double().eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if name.endswith("embedding.weight"):  # else one token wins everywhere
            size = 1.0 if name.startswith("token") else 0.3
            weight.copy_(torch.nn.functional.normalize(weight) * size)
        elif weight.dim() == 2:
            weight.mul_(40)
    return model
