"""A pool of blocks: how many tables name each block, its hash if it has one, and which are free.

A block is in a table, or free. A free block that has a hash can still be found, until it gives way:

    empty --take--> in tables --drop--> cached (free, with a hash) --take, then without--> in tables
      ^                |   ^                       |
      +----- drop -----+   +-------- hold ---------+

Knows neither tensors nor requests. The decisions are policies (`policies/blocks.py`).
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from itertools import chain, islice
from typing import Any

from nanogpt.policies import Policies
from nanogpt.policies.blocks import num_lacking
from nanogpt.validate import is_reference
from nanogpt.views.request_view import CachedBlock

_STATE = (
    "ref_counts", "block_of", "_alike", "_hash_of", "_worth", "_empty", "_idle", "_now",
    "_published",
)  # fmt: skip


class EmptyBlocks(set[int]):
    """Numbers of empty blocks, of which the lowest is found in O(log n).

    Beside the set stand heaps of all numbers and of the multiples of `lane`. A block that was taken
    stays in them until it would be the lowest.
    """

    def __init__(self, blocks: Iterable[int], lane: int) -> None:
        super().__init__(blocks)
        self.lane = lane
        self._fill_heaps()

    def __copy__(self) -> "EmptyBlocks":
        twin = EmptyBlocks((), self.lane)
        twin.update(self)
        twin._heaps = {lane: heap.copy() for lane, heap in self._heaps.items()}
        return twin

    def add(self, block: int) -> None:
        """Add a block, in O(log n)."""
        if block in self:
            return
        super().add(block)
        for lane, heap in self._heaps.items():
            if block % lane == 0:
                heapq.heappush(heap, block)
        if len(self._heaps[1]) > 2 * len(self) + self.lane:
            self._fill_heaps()

    def lowest(self, n: int, lane: int = 1, without: Collection[int] = ()) -> list[int]:
        """The `n` lowest multiples of `lane`, or as many as there are."""
        heap, found = self._heaps[lane], dict[int, None]()
        passed = list[int]()
        while heap and len(found) < n:
            block = heapq.heappop(heap)
            if block in without:
                passed.append(block)
            elif block in self:
                found[block] = None
        for block in (*passed, *found):
            heapq.heappush(heap, block)
        return list(found)

    def _fill_heaps(self) -> None:
        ordered = sorted(self)
        starts = [block for block in ordered if block % self.lane == 0]
        self._heaps = {self.lane: starts, 1: ordered}


class BlockPool:
    """`num_blocks` blocks, for about `num_lanes` tables at a time.

    Mutable: all of its state, and what happened since `events` was last asked.
    """

    def __init__(self, num_blocks: int, num_lanes: int, policies: Policies) -> None:
        self.policies = policies
        self.ref_counts = [0] * num_blocks
        self.block_of: dict[str, int] = {}  # by hash; the first of its blocks that hold the same
        self._alike: dict[str, tuple[int, ...]] = {}  # by hash, all of them
        self._hash_of: dict[int, str] = {}
        self._worth: dict[int, tuple[int, int]] = {}  # last used, depth; of those with a hash
        self._lane = max(1, num_blocks // num_lanes)
        self._empty = EmptyBlocks(range(num_blocks), self._lane)
        self._idle: dict[int, None] = {}  # free and with a hash, least recently used first
        self._now = 0
        self.version = 0  # of `block_of`
        self._events: dict[str, list[int]] = {"allocated": [], "freed": [], "evicted": []}
        self._published: list[tuple[int, str]] = []
        self._saved: dict[str, Any] | None = None  # the state to return to; {} until it changes

    def take(self, table: Sequence[int], num_tokens: int, size: int) -> list[int]:
        """Give a table the blocks of `size` that it needs besides, to hold `num_tokens` tokens.

        Cached ones are evicted where nothing is empty.
        Raises: ValueError when too few are free, of which admission has to take care.
        """
        self._save()
        more = num_lacking(len(table), num_tokens, size)
        free = self.best_first(table, more)
        blocks = self.policies.allocate(len(table), num_tokens, size, free)
        if blocks is None:
            raise ValueError(
                f"{more} blocks are wanted; {self.num_free} of {len(self.ref_counts)} are free"
            )
        for block in blocks:
            self._empty.discard(block)
            if block in self._hash_of:
                self._evict(block)
            self.ref_counts[block] = 1
        self._events["allocated"] += blocks
        return blocks

    def hold(self, blocks: Sequence[int]) -> None:
        """Count blocks once more, for another table that names them."""
        self._save()
        for block in blocks:
            self.ref_counts[block] += 1
            self._idle.pop(block, None)
            self._empty.discard(block)

    def drop(self, blocks: Sequence[int]) -> None:
        """Count blocks once less; those that no table names are free, and found if they can be."""
        if not blocks:
            return
        self._save()
        freed = set(self.policies.free_table(self.ref_counts, blocks))
        self._now += 1
        for block in reversed(blocks):  # the last is the first to give way
            self.ref_counts[block] -= 1
            if block in freed and block in self._hash_of:
                self._worth[block] = self._now, self._worth[block][1]
                self._idle[block] = None
            elif block in freed:
                self._empty.add(block)
        self._events["freed"] += [block for block in blocks if block in freed]

    def publish(self, blocks: Iterable[tuple[int, int, str]]) -> None:
        """Let blocks be found: (how deep it lies in its text, the block, its hash) of each.

        Requests that ran side by side may have computed the same: the first block is found, and
        another when that is gone.
        """
        self._save()
        for depth, block, block_hash in blocks:
            if block not in self._hash_of:
                self._alike[block_hash] = (*self._alike.get(block_hash, ()), block)
                self.block_of[block_hash] = self._alike[block_hash][0]
                self._hash_of[block] = block_hash
                self._worth[block] = 0, depth
                self._published.append((block, block_hash))
                self.version += 1

    def put_back(self, blocks: Sequence[int]) -> None:
        """Free blocks again that were claimed and never filled."""
        self._save()
        for block in blocks:
            self.ref_counts[block] = 0
            self._empty.add(block)
        self._events["freed"] += blocks

    @property
    def num_free(self) -> int:
        """How many blocks may be taken."""
        return len(self._empty) + len(self._idle)

    def idle(self) -> tuple[int, ...]:
        """The free blocks that can still be found, least recently used first."""
        return tuple(self._idle)

    def events(self) -> tuple[dict[str, list[int]], list[tuple[int, str]]]:
        """What was allocated, freed and evicted, and what was published, since this was asked."""
        events, published = self._events, self._published
        self._events, self._published = {name: [] for name in events}, []
        return events, published

    def begin(self) -> None:
        """Start a step that `restore` may undo; the state is copied only if the step changes it."""
        self._saved = {}

    def _save(self) -> None:
        if self._saved == {}:
            events = {name: list(blocks) for name, blocks in self._events.items()}
            state = {name: copy(getattr(self, name)) for name in _STATE}
            self._saved = state | {"_events": events}

    def restore(self) -> None:
        """Undo a step that failed. Cached blocks that it evicted stay evicted: it wrote to them."""
        if not self._saved:
            return
        evicted = self._events["evicted"][len(self._saved["_events"]["evicted"]) :]
        for name, value in self._saved.items():
            setattr(self, name, value)
        self._saved = None
        self.version += 1
        for block in evicted:
            if block in self._idle:
                self._evict(block)
                self._empty.add(block)

    def check(self, tables: Sequence[Sequence[int]]) -> None:
        """Assert that every block is empty, cached or in tables, and counted as often as named."""
        named = list(chain(*tables))
        times = Counter(named)
        assert [times[block] for block in range(len(self.ref_counts))] == self.ref_counts
        assert all(len(set(table)) == len(table) for table in tables), tables
        states = [*self._empty, *self._idle, *set(named)]
        assert sorted(states) == list(range(len(self.ref_counts))), states
        assert self._worth.keys() == self._hash_of.keys() >= self._idle.keys()
        assert {b: name for name, alike in self._alike.items() for b in alike} == self._hash_of
        assert self.block_of == {name: alike[0] for name, alike in self._alike.items()}
        assert not self._hash_of.keys() & self._empty
        assert not self.policies.are_references or self._evictable() == list(self._idle)

    def best_first(self, table: Sequence[int], n: int) -> list[int]:
        """Free blocks in the order to take them, `n` if there are: neighbours, so that K/V is read
        where it lies; then empty ones; then cached ones, in the order of the policy.
        """
        start = table[-1] + 1 if table else next(iter(self._empty.lowest(1, self._lane)), 0)
        chosen: list[int] = []
        while len(chosen) < n and start + len(chosen) in self._empty:
            chosen.append(start + len(chosen))
        if len(chosen) < n:
            chosen += self._empty.lowest(n - len(chosen), without={*chosen})
        if len(chosen) < n and self._idle:
            more = n - len(chosen)
            in_order = is_reference(self.policies, "evict_order")  # as `_idle` is
            chosen += sorted(islice(self._idle, more) if in_order else self._evictable()[:more])
        return chosen

    def _evictable(self) -> list[int]:
        """The cached blocks that may give way, in the policy's order, which asks about each."""
        worth = self._worth.items()
        return self.policies.evict_order(
            [CachedBlock(b, self.ref_counts[b], used, depth) for b, (used, depth) in worth]
        )

    def _evict(self, block: int) -> None:
        """Let a free block be found no more."""
        block_hash = self._hash_of.pop(block)
        del self._worth[block], self.block_of[block_hash]
        self._idle.pop(block, None)  # a policy may have lost it
        alike = tuple(each for each in self._alike.pop(block_hash) if each != block)
        if alike:
            self._alike[block_hash], self.block_of[block_hash] = alike, alike[0]
        self._events["evicted"].append(block)
        self.version += 1
