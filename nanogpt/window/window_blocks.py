"""The KV cache in blocks under a sliding window: a block goes back once no token in it is seen.

A step's new K/V lies beside the pool until the step has committed, as under every window: of a
chunk that is longer than the window, only what is still seen afterwards is put into blocks. So a
request never takes more than the blocks across which its window may lie, and those of its sinks.
What a table names is in the order of the text, with gaps where blocks went back. Of the parts,
`visible` and `held` are asked, and those of blocks but for `longest_match`.

Shapes: L layers, H heads, P blocks of E entries each, S entries held, T new tokens, D head size.
Source: vLLM's `SlidingWindowManager` (v1/core/single_type_kv_cache_manager.py), which puts a "null
block" into such gaps and asks, as `match` does, for no more blocks than the window still sees.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from nanogpt.executors.paged_attention import index_of
from nanogpt.kv_cache import KVCache
from nanogpt.model import Attend
from nanogpt.outputs import PrefixHit, Row
from nanogpt.policies.sliding_window import kept_positions, window_mask
from nanogpt.window.window_attention import window_attention
from nanogpt.window.window_policies import mask_of_pairs
from nanogpt.window.windowed_kv_cache import StepKV


class WindowBlockKVCache(KVCache):
    """A `KVCache` in which requests hold their first `sinks` tokens and the last `window`.

    Mutable: as that, and what the step under way has written.
    """

    writes_on_commit = True

    def __init__(self, window: int, sinks: int, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.window = window
        self.sinks = sinks
        self._mask_of = mask_of_pairs(self.policies.visible)
        self._written: dict[int, Tensor] = {}  # (2, L, H, T, D) each

    # --- a step's K/V -----------------------------------------------------------------------------

    def allocate(self, rows: Sequence[Row]) -> None:
        """Take nothing yet: `commit` takes blocks for what is still seen then."""

    def slot_mapping(self, rows: Sequence[Row]) -> StepKV:
        """Room beside the pool for the rows' new tokens."""
        return StepKV(rows, self.storage.shape[1])

    def write(self, layer: int, slot_mapping: StepKV, k: Tensor, v: Tensor) -> None:
        """Collect the layers, first to last. Shapes: k, v (N, H, D), of the tokens of all rows."""
        self._written.update(slot_mapping.with_layer(k, v))

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Give back the blocks that are no longer seen, and put what is new into those that are."""
        start, table = self._length_of[request_id], self._table_of[request_id]
        end = start + num_tokens
        before, after = self._held_blocks(start), self._held_blocks(end)
        gone = [block for index, block in zip(before, table, strict=True) if index not in after]
        self._drop(gone)
        table[:] = [block for block in table if block not in gone]
        table += self.pool.take(table, len(after) * self.size, self.size)
        self._length_of[request_id] = end
        new = [p for p in range(start, end) if p // self.size in after]
        kv = self._written.pop(request_id)  # (2, L, H, T, D)
        seen = kv[:, :, :, index_of([p - start for p in new])]
        self.storage[:, :, :, index_of(self._entries(request_id, new))] = seen

    def discard_written(self, request_id: int) -> None:
        """Let go of what a failed step wrote: the pool has nothing of it."""
        self._written.pop(request_id, None)

    # --- what executors ask -----------------------------------------------------------------------

    def attention(self, rows: Sequence[Row]) -> Attend:
        """Attention of a flat row of tokens, sorted by how many each of `rows` brings."""
        return window_attention(self, rows)

    def mask(self, request_id: int, num_new: int) -> Tensor:
        """Which keys a query may see, by position alone. Shapes: -> (T, S + T) bool."""
        computed = self._length_of[request_id]
        new = range(computed, computed + num_new)
        return self._mask_of(new, [*self.positions(request_id), *new], self.window, self.sinks)

    def in_sight(self, request_id: int) -> Tensor | None:
        """All that is held, if the next token sees all of it. Shapes: -> (2, L, H, S, D)."""
        return self.held(request_id) if self._mask_of is window_mask else None

    def positions(self, request_id: int) -> Sequence[int]:
        """The positions that a token to come may see, in the order of `gather`."""
        return kept_positions(self._length_of.get(request_id, 0), self.window, self.sinks)

    def length(self, request_id: int) -> int:
        """How many KV tokens the request holds; 0 when it has no table."""
        return len(self.positions(request_id))

    def held_tokens(self) -> int:
        """KV tokens held by all requests together; those in shared blocks count for each."""
        return sum(map(self.length, self._table_of))

    def check(self) -> None:
        """Assert that the books agree, and that between two steps nothing lies beside the pool."""
        super().check()
        assert not self._written

    # --- what is shared ---------------------------------------------------------------------------

    def match(self, token_ids: Sequence[int], salt: str | None = None) -> PrefixHit | None:
        """As many tokens of `token_ids` as there are blocks for all that is seen behind them.

        Blocks that the window has passed need not be there. Changes nothing.
        """
        if not self.share:
            return None
        hashes, published = self._hashes(tuple(token_ids), salt or ""), self.pool.block_of
        blocks, found = longest_window_match(
            hashes, published, len(token_ids), self.size, self.window, self.sinks
        )
        return PrefixHit(tuple(blocks), found) if found else None

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
) -> tuple[list[int], int]:
    """The most tokens of a prompt for which all blocks that are still seen are published.

    Returns those blocks and how many tokens that is; the last token is computed in any case.
    """
    for num_tokens in range((prompt_len - 1) // size * size, 0, -size):
        names = [hashes[index] for index in held_blocks(num_tokens, size, window, sinks)]
        if all(name in published for name in names):
            return [published[name] for name in names], num_tokens
    return [], 0
