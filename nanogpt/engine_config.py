"""The limits and settings of a run, and the executors to choose from."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from nanogpt.executors.base import Executor
from nanogpt.executors.batch_invariant import BatchInvariantExecutor
from nanogpt.executors.fused import FusedExecutor
from nanogpt.executors.packed import PackedExecutor
from nanogpt.executors.padded import PaddedExecutor
from nanogpt.executors.strip import StripExecutor
from nanogpt.kv_cache import KVCache
from nanogpt.kv_store import KVStore
from nanogpt.model import GPT
from nanogpt.parts import Parts
from nanogpt.parts.layout_checks import mask_of_pairs, slots_of_all
from nanogpt.parts.ranking import Policy
from nanogpt.parts.sliding_window import check_sinks
from nanogpt.sampling import check_temperature
from nanogpt.scheduler import Scheduler
from nanogpt.validate import check_bool, check_callable, check_int, check_is
from nanogpt.window.window_storage import EvictingStorage, RingStorage, WindowStorage
from nanogpt.window.windowed_kv_cache import WindowedKVCache

MakeExecutor = Callable[[GPT, KVStore, Parts], Executor]

EXECUTORS: dict[str, MakeExecutor] = {
    "packed": PackedExecutor,
    "strip": StripExecutor,
    "fused": FusedExecutor,
    "padded": PaddedExecutor,
}
KV_STORAGES = ("ring", "evict")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits and settings of a run; the limits are explained in `Scheduler`.

    `executor` is "packed" (one flat row, the fast one), "strip" (one flat row under one mask),
    "fused" (one left-padded forward) or "padded" (two). `temperature` 0 is greedy; `seed` fixes
    every draw. Under a `sliding_window`, `kv_storage` is "ring" or "evict". `batch_invariant` gives
    a token the same float32 bits in every batch, several times slower; it is a form of "packed".
    `num_draft_tokens` are guessed ahead of every decode at most (0: none); K/V of
    `prefix_cache_tokens` tokens is kept for requests that begin like earlier ones (0: none).
    """

    token_budget: int = 16
    max_kv_tokens: int | None = None
    max_batch_size: int = 8
    max_prefilling: int | None = None
    policy: Policy = "fcfs"
    preempt_to_admit: bool = False
    sliding_window: int | None = None
    num_sinks: int = 0
    kv_storage: str = "ring"
    executor: str = "packed"
    batch_invariant: bool = False
    temperature: float = 0.0
    seed: int = 0
    num_draft_tokens: int = 0
    prefix_cache_tokens: int = 0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_int("seed", self.seed, 0)
        if self.executor not in list(EXECUTORS):
            raise ValueError(
                f"there is no executor {self.executor!r}; choose from {sorted(EXECUTORS)}"
            )
        check_bool("batch_invariant", self.batch_invariant)
        check_bool("preempt_to_admit", self.preempt_to_admit)
        if self.batch_invariant and self.executor != "packed":
            raise ValueError(
                f"batch_invariant goes with the executor 'packed'; this one is {self.executor!r}"
            )
        if self.kv_storage not in KV_STORAGES:
            raise ValueError(
                f"there is no K/V storage {self.kv_storage!r}; choose from {sorted(KV_STORAGES)}"
            )
        if self.sliding_window is not None:
            check_int("sliding_window", self.sliding_window, 1)
        check_sinks(self.num_sinks, self.sliding_window)
        self._check_extras()

    def _check_extras(self) -> None:
        """Raises: ValueError for drafts or a prefix cache where they cannot work."""
        extras = {
            "num_draft_tokens": "K/V that the window evicted cannot be rolled back",
            "prefix_cache_tokens": "a shared prefix has to be held whole",
        }
        for name, why in extras.items():
            check_int(name, getattr(self, name), 0)
            if getattr(self, name) and self.sliding_window is not None:
                raise ValueError(
                    f"{name} is {getattr(self, name)} under a sliding window of "
                    f"{self.sliding_window}; it must be 0: {why}"
                )
        if self.num_draft_tokens and self.executor != "packed":
            raise ValueError(
                f"drafts are verified by the executor 'packed'; this one is {self.executor!r}"
            )


def check_engine(
    model: object,
    config: object,
    parts: object,
    clock: object,
    make_executor: object,
    draft: object,
) -> None:
    """Raises: ValueError for an argument of `Engine` that is not what it has to be."""
    check_is("the model", model, GPT, "a GPT, for example load_model()")
    check_is("the config", config, EngineConfig, "an EngineConfig")
    check_is("parts", parts, Parts, "Parts")
    if clock is not None:
        check_callable("the clock", clock, "a clock, for example CostClock()", "now_us", "charge")
    if make_executor is not None:
        check_callable("make_executor", make_executor, "a function that makes an executor")
    if draft is not None:
        check_callable("the draft", draft, "a draft model, for example TrigramDraft.load()")


def executor_maker(config: EngineConfig) -> MakeExecutor:
    """The executor that the settings ask for."""
    return BatchInvariantExecutor if config.batch_invariant else EXECUTORS[config.executor]


def check_extras(config: EngineConfig, executor: Executor, draft: object) -> None:
    """Refuse drafts without a draft model, and what an executor from elsewhere cannot do.

    Raises: ValueError naming the setting.
    """
    check_callable("what make_executor made", executor, "an executor with `run`", "run")
    verifies = isinstance(executor, PackedExecutor | BatchInvariantExecutor)
    if config.num_draft_tokens and not verifies:
        raise ValueError(
            f"num_draft_tokens is {config.num_draft_tokens}; the executor {executor.name!r} gives "
            "no logits to verify drafts by, 'packed' does"
        )
    if config.num_draft_tokens and draft is None:
        raise ValueError(
            f"num_draft_tokens is {config.num_draft_tokens}, and there is no draft; give one, for "
            "example Engine(..., draft=TrigramDraft.load())"
        )
    reads_slots = verifies or isinstance(executor, StripExecutor | FusedExecutor | PaddedExecutor)
    if config.prefix_cache_tokens and not reads_slots:
        raise ValueError(
            f"prefix_cache_tokens is {config.prefix_cache_tokens}; the executor {executor.name!r} "
            "keeps its K/V elsewhere, where no prefix can be copied to"
        )


def make_scheduler(config: EngineConfig, parts: Parts) -> Scheduler:
    """The queues of a run, empty."""
    return Scheduler(
        config.policy,
        config.token_budget,
        config.max_kv_tokens,
        config.max_batch_size,
        config.max_prefilling,
        sliding_window=config.sliding_window,
        num_sinks=config.num_sinks,
        preempt_to_admit=config.preempt_to_admit,
        parts=parts,
    )


def make_cache(model: GPT, config: EngineConfig, parts: Parts) -> KVCache | WindowedKVCache:
    """The K/V storage of a run: slots when everything is kept, else what the window needs."""
    weight = model.token_embedding.weight
    place = (model.config, config.max_batch_size, weight.dtype, weight.device)
    if config.sliding_window is None:
        try:
            return KVCache(*place)
        except (OSError, OverflowError, ValueError, MemoryError):
            raise ValueError(
                f"max_batch_size is {config.max_batch_size}; this machine has no memory for as "
                f"many slots of {model.config.context_len} tokens"
            ) from None

    def new_storage(empty: Tensor, window: int, sinks: int) -> WindowStorage:
        if config.kv_storage == "evict":
            return EvictingStorage(empty, window, sinks, parts.evict)
        return RingStorage(empty, window, sinks, slots_of_all(parts.ring_slot))

    mask_of = mask_of_pairs(parts.visible)
    window, sinks = config.sliding_window, config.num_sinks
    return WindowedKVCache(*place, window, sinks, new_storage, mask_of)
