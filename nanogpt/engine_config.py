"""The limits and settings of a run, and the executors to choose from."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from nanogpt.executors.executor import Executor
from nanogpt.executors.packed import PackedExecutor
from nanogpt.executors.padded import PaddedExecutor
from nanogpt.kv_cache import KVCache
from nanogpt.limits import check_int
from nanogpt.model import GPT
from nanogpt.sampling import check_temperature
from nanogpt.scheduler import KeyOf, TimedKey

MakeExecutor = Callable[[GPT, KVCache, Callable[[int, int], Tensor]], Executor]

EXECUTORS: dict[str, MakeExecutor] = {"packed": PackedExecutor, "padded": PaddedExecutor}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits and settings of a run; the limits are explained in `Scheduler`.

    `executor` is "packed" or "padded"; `temperature` 0 is greedy; `seed` fixes every draw.
    """

    token_budget: int = 16
    max_kv_tokens: int | None = None
    max_batch_size: int = 8
    max_prefilling: int | None = None
    policy: str | KeyOf | TimedKey = "fcfs"
    preempt_to_admit: bool = False
    executor: str = "packed"
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_int("seed", self.seed, 0)
        if self.executor not in list(EXECUTORS):
            raise ValueError(
                f"there is no executor {self.executor!r}; choose from {sorted(EXECUTORS)}"
            )
