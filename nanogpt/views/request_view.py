"""What the engine's policies see of a request and of a block."""

from dataclasses import dataclass, field

Key = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as a policy sees it: plain data, a copy.

    `arrival_time` is the step it arrived in, set once; `admitted_at` the step it last left the
    queue in (None: never). `key` is its rank among the waiting, smaller is more important.
    `kv_limit` is the most KV tokens that a sliding window lets it hold (None: no window). It takes
    up KV tokens in blocks of `block_size`.
    """

    id: int
    priority: int
    arrival_time: int
    admitted_at: int | None
    prompt_tokens: tuple[int, ...]
    generated_tokens: tuple[int, ...]
    max_new_tokens: int
    kv_tokens: int
    key: Key = ()
    kv_limit: int | None = None
    block_size: int = field(default=1, repr=False)

    @property
    def num_tokens(self) -> int:
        """Known tokens, prompt and generated: what a prefill from scratch would compute."""
        return len(self.prompt_tokens) + len(self.generated_tokens)

    @property
    def kv_tokens_needed(self) -> int:
        """The most KV tokens it will ever hold: the last sampled token needs none."""
        most = len(self.prompt_tokens) + self.max_new_tokens - 1
        return kv_tokens_held(most, self.kv_limit, self.block_size)

    @property
    def kv_tokens_to_start(self) -> int:
        """KV tokens it holds once everything known is computed."""
        return kv_tokens_held(self.num_tokens, self.kv_limit, self.block_size)


def kv_tokens_held(num_computed_tokens: int, limit: int | None, block_size: int) -> int:
    """KV tokens, in whole blocks, of a request that has computed so many, under a window's limit.

    >>> kv_tokens_held(30, None, 16), kv_tokens_held(30, 20, 1)
    (32, 20)
    """
    held = num_computed_tokens if limit is None else min(num_computed_tokens, limit)
    return held + -held % block_size


@dataclass(frozen=True, slots=True)
class CachedBlock:
    """A block that can be found by its hash, as `evict_order` sees it.

    `count` tables name it. `last_used` is the time when it last left a table; a larger number is
    more recent. `depth` is its place in its text, from 0.
    """

    id: int
    count: int
    last_used: int
    depth: int
