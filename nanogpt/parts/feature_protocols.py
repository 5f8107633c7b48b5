"""Signatures of the parts that features use: a fused step's layout, a window, blocks.

They stand apart so that the engine's core loads none of them; see `protocols`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from nanogpt.parts.blocks import Copy
from nanogpt.parts.cached_block import CachedBlock


class FusedRows(Protocol):
    """Left-padded ids and positions of one fused forward; see `fusing.fused_rows`."""

    def __call__(
        self, known: Sequence[Sequence[int]], cursors: Sequence[int], num_new: Sequence[int], /
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Lay out one step."""
        ...


class FullMask(Protocol):
    """Which keys each query sees in one fused forward; see `fusing.full_mask`."""

    def __call__(self, past_lens: Sequence[int], num_new: Sequence[int], /) -> Tensor:
        """Build one mask."""
        ...


class SplitKV(Protocol):
    """Each row's own K/V out of a padded tensor; see `fusing.split_kv`."""

    def __call__(
        self, k: Tensor, past_lens: Sequence[int], num_new: Sequence[int], /
    ) -> list[Tensor]:
        """Split one tensor."""
        ...


class Pack(Protocol):
    """Cumulative lengths and mask of one flat row; see `fusing.pack`."""

    def __call__(
        self, past_lens: Sequence[int], num_new: Sequence[int], /
    ) -> tuple[list[int], list[int], Tensor]:
        """Pack one step."""
        ...


class Visible(Protocol):
    """Whether one token may attend to another under a window; see `sliding_window.visible`."""

    def __call__(self, query: int, key: int, window: int | None, sinks: int, /) -> bool:
        """Judge one pair."""
        ...


class Evict(Protocol):
    """What K/V to keep under a window; see `sliding_window.evict`."""

    def __call__(self, k: Tensor, v: Tensor, window: int, sinks: int, /) -> tuple[Tensor, Tensor]:
        """Cut one layer's K/V."""
        ...


class Held(Protocol):
    """How many KV tokens a request is counted with; see `sliding_window.held`."""

    def __call__(
        self, cursor: int, num_tokens: int, window: int | None, sinks: int, /
    ) -> tuple[int, int]:
        """Count one request."""
        ...


class RingSlot(Protocol):
    """Where the K/V of a position lies; see `sliding_window.ring_slot`."""

    def __call__(self, position: int, window: int, sinks: int, /) -> int:
        """Find one slot."""
        ...


class Allocate(Protocol):
    """Which free blocks a table gets to hold more tokens; see `blocks.allocate`."""

    def __call__(
        self, num_blocks: int, num_tokens: int, size: int, free: Sequence[int], /
    ) -> list[int] | None:
        """Choose one table's blocks."""
        ...


class Release(Protocol):
    """Which blocks are free once a table is gone; see `blocks.release`."""

    def __call__(self, counts: Sequence[int], table: Sequence[int], /) -> list[int]:
        """Free one table."""
        ...


class BlockHashes(Protocol):
    """By what each full block of a text is found; see `blocks.block_hashes`."""

    def __call__(self, tokens: Sequence[int], size: int, salt: str, /) -> list[str]:
        """Hash one text."""
        ...


class LongestMatch(Protocol):
    """Which blocks a request need not compute; see `blocks.longest_match`."""

    def __call__(
        self, hashes: Sequence[str], cached: Mapping[str, int], num_tokens: int, size: int, /
    ) -> tuple[list[int], int]:
        """Match one text."""
        ...


class Writable(Protocol):
    """Whether a block is copied before it is written; see `blocks.writable`."""

    def __call__(
        self, table: Sequence[int], counts: Sequence[int], index: int, free: Sequence[int], /
    ) -> tuple[list[int], Copy | None]:
        """Judge one block."""
        ...


class EvictOrder(Protocol):
    """Which cached blocks give way first; see `blocks.evict_order`."""

    def __call__(self, blocks: Sequence[CachedBlock], /) -> list[int]:
        """Order the cached blocks."""
        ...
