"""Recorded workloads, as plain data: requests with arrivals and SLOs, and their machine.

Each is a pure function of its name and its seed. Times are integer microseconds.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nanogpt.clock import CostModel
from nanogpt.config import EngineConfig, ModelConfig, Policy
from nanogpt.request import Request
from nanogpt.validate import check_int

MODEL = ModelConfig(num_layers=2, num_heads=2, num_channels=16, max_model_len=512, vocab_size=65)

WHOLE_GPU = CostModel(
    name="a large GPU, in whole microseconds", modelled=True,
    fixed_us=500.0, floor_us=4800.0, token_us=32.0, context_us=0.0625, prompt_scale=16,
)  # fmt: skip
"""`clock.LARGE_GPU` with 1 us for a token of context in place of 0.64.

Every pass then costs a whole number of microseconds, so nothing is rounded and the bound is exact.
"""


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
            self.token_budget,
            self.max_kv_tokens,
            self.max_batch_size,
            policy=policy,
            preempt_to_admit=True,
            block_size=self.block_size,
            share_prefixes=self.block_size is not None,
        )


class Draws:
    """An endless sequence of whole numbers that its key fixes: SHA-256 of the key and a count.

    Of Python's `random` only `random()` promises the same numbers everywhere. Mutable.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._count = 0

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; for limits below 2**32 evenly, to one part in 2**32."""
        digest = hashlib.sha256(self._key + b"\0" + str(self._count).encode()).digest()
        self._count += 1
        return int.from_bytes(digest[:8], "big") % limit

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, inclusive."""
        return low + self.below(high - low + 1)

    def tokens(self, low: int, high: int) -> tuple[int, ...]:
        """Between `low` and `high` random token ids."""
        return tuple(self.below(MODEL.vocab_size) for _ in range(self.between(low, high)))


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it arrives, and its SLO.

    Its first token is due `ttft_us` after it arrived, and each further one `itl_us` after that.
    `priority` 0 is the most important.
    """

    id: int
    arrival_us: int
    prompt_tokens: tuple[int, ...]
    max_new_tokens: int
    priority: int
    ttft_us: int
    itl_us: int

    def due_us(self, index: int) -> int:
        """When its generated token number `index`, from 0, is due."""
        return self.arrival_us + self.ttft_us + index * self.itl_us

    def request(self) -> Request:
        """A fresh request for an engine."""
        return Request(self.id, list(self.prompt_tokens), self.max_new_tokens, self.priority)


@dataclass(frozen=True, slots=True)
class Workload:
    """Calls in order of arrival, with ids from 0 on, and the machine that serves them."""

    name: str
    seed: int
    machine: Machine
    calls: tuple[Call, ...]


def workload(name: str, seed: int) -> Workload:
    """Make a workload. Raises: ValueError for an unknown name or a negative seed."""
    if name not in MAKERS:
        raise ValueError(f"there is no workload {name!r}; choose from {', '.join(MAKERS)}")
    check_int("the seed of a workload", seed, 0, 2**63)
    machine, make = MAKERS[name]
    now_us, calls = 0, list[Call]()
    for gap_us, prompt, *rest in make(Draws(f"{name}, seed {seed}")):
        now_us += gap_us
        calls.append(Call(len(calls), now_us, prompt, *rest))
    return Workload(name, seed, machine, tuple(calls))


Arrival = tuple[int, tuple[int, ...], int, int, int, int]
"""Microseconds after the call before it, then the fields of a `Call` from its prompt on."""


def _chat(draw: Draws) -> Iterator[Arrival]:
    """Short turns behind one of three long instructions, a little faster than they can be served.

    Those with the same instructions share K/V: blocks of one token, which stands for 16.
    """
    instructions = [draw.tokens(40, 72) for _ in range(3)]
    for _ in range(32):
        gap_us = draw.below(20_000)
        prompt = instructions[draw.below(3)] + draw.tokens(6, 24)
        yield gap_us, prompt, draw.between(8, 16), 1, 120_000, 25_000


def _documents(draw: Draws) -> Iterator[Arrival]:
    """Long prompts with short answers, and short questions that come between them."""
    for _ in range(24):
        gap_us = draw.below(60_000)
        if draw.below(2):
            prompt = draw.tokens(96, 256)
            ttft_us = 1_000 * len(prompt) + 100_000
            yield gap_us, prompt, draw.between(4, 8), 2, ttft_us, 50_000
        else:
            yield gap_us, draw.tokens(8, 24), draw.between(4, 12), 1, 60_000, 30_000


def _bursts(draw: Draws) -> Iterator[Arrival]:
    """Groups that arrive at once, with silence between them."""
    for _ in range(4):
        silence_us = draw.between(120_000, 260_000)
        for i in range(draw.between(7, 12)):
            gap_us = draw.below(1_000) + (0 if i else silence_us)
            prompt = draw.tokens(16, 64)
            ttft_us = draw.between(60, 240) * 1_000
            yield gap_us, prompt, draw.between(4, 16), 1, ttft_us, 20_000


def _urgent(draw: Draws) -> Iterator[Arrival]:
    """Batch work that has time, and urgent requests of the highest priority among it."""
    for _ in range(32):
        gap_us = draw.below(32_000)
        if draw.below(5) < 2:
            yield gap_us, draw.tokens(8, 32), draw.between(4, 10), 0, 50_000, 15_000
        else:
            yield gap_us, draw.tokens(32, 96), draw.between(16, 28), 2, 400_000, 40_000


MAKERS: Mapping[str, tuple[Machine, Callable[[Draws], Iterator[Arrival]]]] = {
    "chat": (Machine(block_size=1), _chat),
    "documents": (Machine(), _documents),
    "bursts": (Machine(), _bursts),
    "urgent": (Machine(max_kv_tokens=400), _urgent),
}
"""Name -> the machine, and what makes the calls."""
NAMES = tuple(MAKERS)
