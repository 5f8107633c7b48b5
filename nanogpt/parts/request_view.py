"""What policies see of a request: plain data, and what is said where it does not fit."""

from dataclasses import dataclass, field

from nanogpt.validate import PartError


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
    key: tuple[float, ...] = ()
    kv_limit: int | None = None
    block_size: int = field(default=1, repr=False)

    @property
    def num_known(self) -> int:
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
        return kv_tokens_held(self.num_known, self.kv_limit, self.block_size)


def kv_tokens_held(computed: int, limit: int | None, block_size: int) -> int:
    """KV tokens, in whole blocks, of a request that has computed so many, under a window's limit.

    >>> kv_tokens_held(30, None, 16), kv_tokens_held(30, 20, 1)
    (32, 20)
    """
    held = computed if limit is None else min(computed, limit)
    return held + -held % block_size


def kv_limit(window: int, sinks: int, block_size: int) -> int:
    """The most KV tokens of whole blocks under a window, which may lie across one more."""
    return sum(-(-n // block_size) for n in (sinks, window - 1, 1)) * block_size


def never_fits(view: RequestView, max_kv_tokens: int | None, window: int | None) -> ValueError:
    """The error for a request that needs more KV tokens than the budget will ever have."""
    needs, under = f"{len(view.prompt_tokens)} + {view.max_new_tokens} - 1 = ", ""
    if window is not None:
        needs, under = "", f" under a window of {window}"
    return ValueError(
        f"request {view.id} needs {needs}{view.kv_tokens_needed} KV tokens{under}; the KV budget "
        f"of {max_kv_tokens} can never hold it"
    )


def check_count(view: RequestView, counted: int, max_kv_tokens: int | None) -> None:
    """Raises: PartError when a request alone is over the budget because of what `held` returned."""
    if counted > view.kv_tokens_to_start:
        raise PartError(
            f"held counts request {view.id} with {counted} KV tokens, more than the KV budget of "
            f"{max_kv_tokens}; it holds {view.kv_tokens_to_start}"
        )
