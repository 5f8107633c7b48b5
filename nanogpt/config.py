"""The sizes of a model, and the limits and settings of a run. Knows no tensors and no requests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from nanogpt.sampling import MOST_SEED, check_temperature
from nanogpt.validate import check_bool, check_int, check_limits, check_sinks, show
from nanogpt.views.request_view import Key, RequestView

EXECUTORS = ("packed", "compiled", "batch_invariant", "single_mask", "fused", "padded")
KV_STORAGES = ("ring", "evict")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a GPT: what its weights look like and how far it can see.

    Shapes: C = `num_heads` * D channels, V = `vocab_size`, positions 0 to `max_model_len` - 1.
    GPT-2 has a `bias` in its Linear layers and norms, and GELU in its tanh form; ours has neither.
    Raises: ValueError for a size below 1 or channels that do not split evenly into heads.
    Source: nanoGPT model.py, GPTConfig (`max_model_len` is its `block_size`).
    """

    num_layers: int = 4
    num_heads: int = 4
    num_channels: int = 128
    max_model_len: int = 512
    vocab_size: int = 65
    bias: bool = False
    tanh_gelu: bool = False

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_heads", "num_channels", "max_model_len", "vocab_size"):
            value = getattr(self, name)
            check_int(name, value, 1)
        check_bool("bias", self.bias)
        check_bool("tanh_gelu", self.tanh_gelu)
        if self.num_channels % self.num_heads:
            raise ValueError(
                f"{self.num_channels} channels do not split evenly into {self.num_heads} heads"
            )

    @property
    def head_size(self) -> int:
        """D, the channels of one head."""
        return self.num_channels // self.num_heads

    @property
    def num_kv_heads(self) -> int:
        """The heads that K/V is stored for: here all of them."""
        return self.num_heads


@dataclass(frozen=True, slots=True)
class TimedKey:
    """A policy whose keys change with time: `key(request, step)`.

    A heap whose keys change in place is no heap any more, so it is rebuilt at every step: each of n
    waiting requests is ranked again, where a step under any other policy looks at a few.
    """

    key: Callable[[RequestView, int], Key]


Policy: TypeAlias = str | Callable[[RequestView], Key] | TimedKey
"""The order of the queue: "fcfs", "priority", a key of a request, or one that changes with time."""


def check_policy(policy: Policy) -> None:
    """Raises: ValueError unless it is a known name or a key."""
    if isinstance(policy, TimedKey) and not callable(policy.key):
        raise ValueError(f"the key of a TimedKey is {show(policy.key)}; it must be callable")
    known = policy in ("fcfs", "priority") or isinstance(policy, TimedKey) or callable(policy)
    if not known:
        raise ValueError(f"there is no policy {show(policy)}; choose 'fcfs', 'priority' or a key")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits and settings of a run.

    A step computes up to `token_budget` tokens for up to `max_batch_size` requests, which hold up
    to `max_kv_tokens` KV tokens together (None: no limit); up to `max_prefilling` of them prefill
    (None: no limit). `policy` orders the queue: "fcfs", "priority", a key of a request, or a
    `TimedKey`; with `preempt_to_admit` a waiting request pushes out less important ones. Under a
    `sliding_window` a token sees so many before it and the first `num_sinks`; without blocks,
    `kv_storage` is "ring" or "evict". `executor` is "packed" (one flat row), "compiled"
    (the same in one compiled call; needs numba), "batch_invariant" (the same float32 bits in every
    batch, several times slower), "single_mask", "fused" (one left-padded forward) or "padded"
    (two). `temperature` 0 is greedy; `seed` fixes every draw. Up to `num_draft_tokens` are guessed
    ahead of every decode. With a `block_size` K/V lies in blocks of so many tokens, shared by
    requests that begin alike if `share_prefixes` (None: in a slot of the context's length for each
    request). Host memory keeps copies of shared blocks, up to `host_kv_tokens` tokens (None: none).
    The newest `keep_steps` steps are remembered, with the requests in them (None: all of them); the
    id of a forgotten one may come again.
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
    temperature: float = 0.0
    seed: int = 0
    num_draft_tokens: int = 0
    block_size: int | None = None
    share_prefixes: bool = False
    host_kv_tokens: int | None = None
    keep_steps: int | None = None

    def __post_init__(self) -> None:
        check_int("token_budget", self.token_budget, 1)
        check_int("max_batch_size", self.max_batch_size, 1)
        check_policy(self.policy)
        check_temperature(self.temperature)
        check_int("seed", self.seed, 0, MOST_SEED)
        if self.executor not in EXECUTORS:
            raise ValueError(
                f"there is no executor {show(self.executor)}; choose from {sorted(EXECUTORS)}"
            )
        check_bool("preempt_to_admit", self.preempt_to_admit)
        if self.kv_storage not in KV_STORAGES:
            raise ValueError(
                f"there is no K/V storage {show(self.kv_storage)}; choose from "
                f"{sorted(KV_STORAGES)}"
            )
        limits = ("max_kv_tokens", "max_prefilling", "sliding_window", "keep_steps", "block_size")
        limits += ("host_kv_tokens",)
        check_limits(**{name: getattr(self, name) for name in limits})
        check_sinks(self.num_sinks, self.sliding_window)
        self._check_extras()

    def _check_extras(self) -> None:
        """Raises: ValueError for drafts or blocks where they cannot work."""
        check_int("num_draft_tokens", self.num_draft_tokens, 0)
        if self.num_draft_tokens and self.sliding_window is not None:
            raise ValueError(
                f"num_draft_tokens is {self.num_draft_tokens} under a sliding window of "
                f"{self.sliding_window}; it must be 0: evicted K/V cannot be rolled back"
            )
        check_bool("share_prefixes", self.share_prefixes)
        size, most = self.block_size, self.max_kv_tokens
        if self.share_prefixes and size is None:
            raise ValueError("share_prefixes is True; it goes with a block_size")
        if self.host_kv_tokens is not None and not self.share_prefixes:
            what = f"host_kv_tokens is {self.host_kv_tokens}"
            raise ValueError(f"{what}; it goes with share_prefixes")
        if size is not None and most is not None and size > most:
            raise ValueError(f"block_size is {size}, more than the {most} KV tokens")
        if self.num_draft_tokens and self.executor not in ("packed", "compiled", "batch_invariant"):
            raise ValueError(
                f"num_draft_tokens is {self.num_draft_tokens}; the executor {self.executor!r} "
                "verifies no drafts: 'packed', 'compiled' and 'batch_invariant' do"
            )
