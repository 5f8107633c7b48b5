"""The sizes of a model, and the limits and settings of a run. Knows no tensors and no requests."""

from dataclasses import dataclass

from nanogpt.parts.ranking import Policy
from nanogpt.sampling import check_temperature
from nanogpt.validate import check_bool, check_int, check_limits, check_sinks

EXECUTORS = ("packed", "strip", "fused", "padded")
KV_STORAGES = ("ring", "evict")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a GPT: what its weights look like and how far it can see.

    Shapes: C = `num_heads` * D channels, V = `vocab_size`, positions 0 to `context_len` - 1.
    GPT-2 has a `bias` in its Linear layers and norms, and GELU in its tanh form; ours has neither.
    Raises: ValueError for a size below 1 or channels that do not split evenly into heads.
    Source: nanoGPT model.py, GPTConfig (`context_len` is its `block_size`).
    """

    num_layers: int = 4
    num_heads: int = 4
    num_channels: int = 128
    context_len: int = 512
    vocab_size: int = 65
    bias: bool = False
    tanh_gelu: bool = False

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_heads", "num_channels", "context_len", "vocab_size"):
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


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits and settings of a run; the limits are explained in `Scheduler`.

    `executor` is "packed" (one flat row, the fast one), "strip" (one flat row under one mask),
    "fused" (one left-padded forward) or "padded" (two). `temperature` 0 is greedy; `seed` fixes
    every draw. Under a `sliding_window` without blocks, `kv_storage` is "ring" or "evict".
    `batch_invariant` gives a token the same float32 bits in every batch, several times slower; it
    is a form of "packed". `num_draft_tokens` are guessed ahead of every decode at most (0: none).
    With a `block_size` K/V lies in blocks of so many tokens, full ones shared by requests that
    begin alike if `share_prefixes` (None: in a slot of the context's length for each request). The
    newest `keep_steps` steps are remembered, with the requests in them (None: all of them); the id
    of one that is forgotten may come again, so that in every trace an id means one request.
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
    block_size: int | None = None
    share_prefixes: bool = False
    keep_steps: int | None = None

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_int("seed", self.seed, 0)
        if self.executor not in EXECUTORS:
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
        limits = ("sliding_window", "keep_steps", "block_size")
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
        if size is not None and most is not None and size > most:
            raise ValueError(f"block_size is {size}, more than the {most} KV tokens")
        if self.num_draft_tokens and self.executor != "packed":
            raise ValueError(
                f"drafts are verified by the executor 'packed'; this one is {self.executor!r}"
            )
