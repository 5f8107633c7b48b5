"""The KV cache in blocks under a sliding window: a block goes back once no token in it is seen.

A step's new K/V lies beside the pool until the step has committed, as under every window: of a
chunk that is longer than the window, only the tokens that are still seen afterwards go into blocks.
So a request never takes more than the blocks across which its window may lie, and those of its
sinks. A table is in the order of the text, with gaps where blocks went back. The policy
`longest_match` is not asked, nor `match_tiers`, since they know of no such gaps.

Shapes: L layers, H heads, P blocks of E entries each, S entries held, T new tokens, D head size.
Source: vLLM's `SlidingWindowManager` (v1/core/single_type_kv_cache_manager.py), which puts a "null
block" into such gaps and asks, as we do, for no more blocks than the window still sees.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from nanogpt.executors.paged_attention import index_of
from nanogpt.kv_cache import KVCache
from nanogpt.policies.sliding_window import kept_positions
from nanogpt.window.window_store import WindowStore


class WindowBlockKVCache(WindowStore, KVCache):
    """A `KVCache` in which requests hold their first `sinks` tokens and the last `window`.

    Mutable: as that, and the K/V that the step under way has written.
    """

    writes_on_commit = True

    def __init__(self, window: int, sinks: int, *args: Any, **settings: Any) -> None:
        KVCache.__init__(self, *args, **settings)
        num_layers = self.storage.shape[1]
        WindowStore.__init__(self, window, sinks, num_layers, self.policies.visible)
        longest_match = partial(longest_window_match, window=window, sinks=sinks)

        def match_tiers(hashes: Any, device: Any, host: Any, num_tokens: int, size: int) -> Any:
            return longest_match(hashes, device, num_tokens, size, host=host)

        own = {"longest_match": longest_match, "match_tiers": match_tiers}
        self.policies = replace(self.policies, **own)
        if self.host is not None:
            self.host.policies = self.policies
        self._written: dict[int, Tensor] = {}  # (2, L, H, T, D) each

    # --- a step's K/V -----------------------------------------------------------------------------

    def put(self, request_id: int, kv: Tensor) -> None:
        """Keep a request's new K/V beside the pool. Shapes: kv (2, L, H, T, D)."""
        self._written[request_id] = kv

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Give back the blocks that are no longer seen, and put what is new into those that are."""
        start, table = self._length_of[request_id], self._table_of[request_id]
        end = start + num_tokens
        before, after = self._held_blocks(start), self._held_blocks(end)
        gone = [block for index, block in zip(before, table, strict=True) if index not in after]
        self._drop(gone)
        kept = [block for block in table if block not in gone]
        taken = self.pool.take(kept, len(after) * self.size, self.size)
        self._table_of[request_id] = (*kept, *taken)
        self._length_of[request_id] = end
        new = [p for p in range(start, end) if p // self.size in after]
        kv = self._written.pop(request_id)  # (2, L, H, T, D)
        seen = kv[:, :, :, index_of([p - start for p in new])]
        self.storage[:, :, :, index_of(self._entries(request_id, new))] = seen

    def discard_written(self, request_id: int) -> None:
        """Let go of what a failed step wrote: the pool has nothing of it."""
        self._written.pop(request_id, None)

    # --- what executors ask -----------------------------------------------------------------------

    def num_computed(self, request_id: int) -> int:
        """How many tokens of the request are computed, evicted ones included."""
        return self._length_of.get(request_id, 0)

    def positions(self, request_id: int) -> list[int]:
        """The positions that a token to come may see, in the order of `held`."""
        return kept_positions(self.num_computed(request_id), self.window, self.sinks)

    def length(self, request_id: int) -> int:
        """How many KV tokens the request holds; 0 when it has no table."""
        return len(self.positions(request_id))

    def held_tokens(self) -> int:
        """KV tokens held by all requests together; those in shared blocks count for each."""
        return sum(map(self.length, self._table_of))

    def check(self) -> None:
        """Assert that the state is consistent, and that no K/V is uncommitted between two steps."""
        super().check()
        assert not self._written

    def _held_blocks(self, num_computed_tokens: int) -> Sequence[int]:
        """Which blocks of a text the table of a request names that has computed so much of it."""
        return held_blocks(num_computed_tokens, self.size, self.window, self.sinks)

    def _entries(self, request_id: int, positions: Iterable[int]) -> list[int]:
        """Where these positions of the request's text lie in the pool."""
        size, held = self.size, self._held_blocks(self._length_of[request_id])
        table = self._table_of[request_id]
        shift = {index: (block - index) * size for index, block in zip(held, table, strict=True)}
        return [shift[position // size] + position for position in positions]


def held_blocks(computed: int, size: int, window: int, sinks: int) -> list[int]:
    """Which blocks of a text a window still sees any of, once so many tokens are computed.

    >>> held_blocks(40, 4, 8, 1)
    [0, 8, 9]
    """
    first = max(0, computed - window) // size
    with_sinks = range(min(first, -(-min(sinks, computed) // size)))
    return [*with_sinks, *range(first, -(-computed // size))]


def longest_window_match(
    hashes: Sequence[str],
    published: Mapping[str, int],
    prompt_len: int,
    size: int,
    window: int,
    sinks: int,
    host: Collection[str] = (),
) -> tuple[list[int | None], int]:
    """The most tokens of a prompt for which all blocks that are still seen are published.

    Blocks that the window has passed need not be. Returns the blocks, None for one that only the
    host tier has, and how many tokens that is; the last token is computed in any case.
    """
    for num_tokens in range((prompt_len - 1) // size * size, 0, -size):
        names = [hashes[index] for index in held_blocks(num_tokens, size, window, sinks)]
        if all(name in published or name in host for name in names):
            return [published.get(name) for name in names], num_tokens
    return [], 0
