"""Clocks in integer microseconds: a modelled one that charges a stated cost, and the wall clock.

The modelled clock makes every trace reproducible on any machine. A cost model is a formula with
five numbers: `SERVER_CPU` has those fitted to measured steps, `LARGE_GPU` those worked out for a
data-centre GPU. Such times are modelled, and whatever shows them says so. docs/costs.md lists all
cost models of the course.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nanogpt.trace import ClockRecord, ForwardRecord
from nanogpt.validate import check_amount, check_int
from nanogpt.views.step_cost import Link, StepCost


class Clock(Protocol):
    """Tells the time, and is told what the step computed."""

    record: ClockRecord

    def now_us(self) -> int:
        """Microseconds since some fixed start."""
        ...

    def charge(self, forwards: Sequence[ForwardRecord]) -> None:
        """Let the time that these forwards take pass."""
        ...


RAM = Link(20, 8_000)
"""Copies within this machine's memory, one thread: docs/costs.md."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """The cost of one forward pass: fixed + the larger of floor and token work + context read.

    `floor_us` is the time to read the weights once: on a GPU a small batch pays for the read, not
    for the arithmetic. `prompt_scale` lets one prompt token of ours stand for several of a real
    prompt, since our prompts are short; padding scales with them and decodes never do. A token's
    K/V of `kv_bytes` bytes goes to host memory and back over `link`, while nothing is computed.
    Units: microseconds; `token_us` and `context_us` per token.
    Raises: ValueError for a cost that is not a number from 0 to 10**12 (11 days).
    """

    name: str
    modelled: bool
    fixed_us: float
    floor_us: float
    token_us: float
    context_us: float
    prompt_scale: int
    kv_bytes: int = 4096
    link: Link = RAM

    def __post_init__(self) -> None:
        for name in ("fixed_us", "floor_us", "token_us", "context_us"):
            check_amount(name, getattr(self, name), 10**12)
        check_int("prompt_scale", self.prompt_scale, 1, 10**12)

    def forward_us(self, forward: ForwardRecord) -> int:
        """The cost of one forward pass, padding included."""
        # Padding is as long as the chunk that it pads to, and grows with it.
        padding = forward.computed_tokens - forward.useful_tokens
        scaled = (forward.prefill_tokens + padding) * (self.prompt_scale - 1)
        tokens = forward.computed_tokens + scaled
        compute_us = max(self.floor_us, tokens * self.token_us)
        context_us = forward.context_tokens * self.prompt_scale * self.context_us
        return round(self.fixed_us + compute_us + context_us)

    def step_us(self, num_prefill: int, num_decodes: int, context_tokens: int = 0) -> int:
        """The cost of one unpadded forward with so many prefill tokens and decodes."""
        useful = num_prefill + num_decodes
        return self.forward_us(ForwardRecord(useful, num_prefill, useful, context_tokens))

    @property
    def step_cost(self) -> StepCost:
        """The cost of a step by its prompt tokens, in whole microseconds, as policies see it."""
        fixed, each = round(self.fixed_us), round(self.prompt_scale * self.token_us)
        return StepCost(fixed, each, least=round(self.fixed_us + self.floor_us))

    def copy_us(self, num_tokens: int) -> int:
        """The cost of one transfer of so many tokens' K/V; none takes no time."""
        if not num_tokens:
            return 0
        return round(self.link.latency_us + num_tokens * self.kv_bytes / self.link.bytes_per_us)


SERVER_CPU = CostModel(
    name="a server CPU (fitted)", modelled=True,
    fixed_us=464.0, floor_us=0.0, token_us=29.4, context_us=0.091, prompt_scale=1,
)  # fmt: skip
"""The shipped model on one thread of an AMD EPYC, fitted to measured steps.

docs/benchmarks/scaling.md describes the fit. Its times are modelled: only the formula was measured.
"""

LARGE_GPU = CostModel(
    name="a large GPU", modelled=True,
    fixed_us=500.0, floor_us=4800.0, token_us=32.0, context_us=0.04, prompt_scale=16,
    kv_bytes=16 * 131_072, link=Link(20, 50_000),
)  # fmt: skip
"""An 8-billion-parameter model in 16-bit weights on one data-centre GPU, worked out, not timed.

16 GB of weights at 3.35 TB/s take 4.8 ms; 16 GFLOP per token at an achieved 500 TFLOP/s take
32 us; 128 KiB of K/V per token of context take 0.04 us. One of our prompt tokens stands for 16.
Its link to host memory is PCIe 5.0 with 16 lanes, of whose 64 GB/s 50 are achieved.
"""


class CostClock:
    """A clock that moves only when work is charged, by what its cost model says."""

    def __init__(self, model: CostModel = SERVER_CPU) -> None:
        self.model = model
        self.record = ClockRecord(model.name, model.modelled)
        self._now_us = 0

    def now_us(self) -> int:
        """Microseconds charged so far."""
        return self._now_us

    def charge(self, forwards: Sequence[ForwardRecord]) -> None:
        """Advance by the cost of each forward."""
        self._now_us += sum(self.model.forward_us(forward) for forward in forwards)

    def wait(self, duration_us: int) -> None:
        """Advance by a time in which nothing is computed."""
        self._now_us += duration_us


class WallClock:
    """Real time on this machine."""

    record = ClockRecord("this machine", False)

    def now_us(self) -> int:
        """Microseconds of the operating system's monotonic clock."""
        return time.perf_counter_ns() // 1000

    def charge(self, forwards: Sequence[ForwardRecord]) -> None:
        """Nothing to do: the time has passed already."""
