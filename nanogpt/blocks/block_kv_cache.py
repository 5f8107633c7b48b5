"""The KV cache in blocks: one pool for all requests, and a table of block numbers for each.

The same interface as `KVCache`. A request takes a block when its tokens reach it, so less than one
block of it is ever empty. With sharing on, a full block is published under its hash once the step
that computed it has committed, and requests that begin alike name the same block. So only a last
block that is not full is written, and it is never published: shared it is after a `fork` alone.

Shapes: L layers, H heads, P blocks of E entries each, S entries held, D head size, N tokens.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from nanogpt.blocks.block_attention import block_attention, index_of
from nanogpt.blocks.block_pool import BlockPool
from nanogpt.blocks.block_record import BlocksRecord, BlockStepRecord, with_blocks
from nanogpt.config import ModelConfig
from nanogpt.executors.base import Row
from nanogpt.kv_cache import view_by_head, zeros_on_demand
from nanogpt.model import Attend
from nanogpt.parts import Parts
from nanogpt.parts.seams import BlockHit, Prefixes
from nanogpt.request import KVView, OwnKV, Request
from nanogpt.trace import StepRecord


class BlockKVCache(Prefixes):
    """K and V of every layer in `num_blocks` blocks of `size` tokens, for `num_lanes` requests.

    `share` lets requests of the same salt share full blocks. Mutable: the tables, how many tokens
    they hold, and the pool.
    Raises: ValueError for more blocks than there is memory for.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        num_lanes: int,
        size: int,
        dtype: torch.dtype,
        device: torch.device,
        parts: Parts,
        *,
        share: bool,
    ) -> None:
        entries = num_blocks * size
        shape = (2, config.num_layers, config.num_heads, entries, config.head_size)
        # Zeros, not garbage: a masked key has weight 0, but 0 * NaN would still be NaN.
        try:
            self.storage = zeros_on_demand(shape, dtype).to(device)  # (2, L, H, P * E, D)
        except (OSError, OverflowError, ValueError, MemoryError):
            raise ValueError(
                f"this machine has no memory for {num_blocks} blocks of {size} tokens; a smaller "
                "max_kv_tokens or max_batch_size takes fewer"
            ) from None
        by_layer = self.storage.flatten(2, 3).transpose(0, 1)  # (L, 2, H * P * E, D)
        self._rows = [tuple(kv.unbind()) for kv in by_layer.unbind()]
        self._heads = torch.arange(config.num_heads, device=device) * entries  # (H,)
        self.pool = BlockPool(num_blocks, num_lanes, parts)
        self.size = size
        self.parts = parts
        self.share = share
        self._hashes = lru_cache(64)(lambda known, salt: parts.block_hashes([*known], size, salt))
        self._table_of: dict[int, list[int]] = {}
        self._length_of: dict[int, int] = {}
        self._published: dict[int, int] = {}  # so many blocks of the table
        self._copied: list[tuple[int, int]] = []
        self._let_go: list[tuple[list[int], Tensor]] | None = None  # in a transaction

    # --- a request's table ------------------------------------------------------------------------

    def reserve(self, request_id: int) -> None:
        """Give the request an empty table. Raises: ValueError when it has one already."""
        if request_id in self._table_of:
            raise ValueError(f"request {request_id} has a table already")
        self._table_of[request_id] = []
        self._length_of[request_id] = self._published[request_id] = 0

    def adopt(self, request_id: int, blocks: Sequence[int], num_tokens: int) -> None:
        """Let the request's empty table name these blocks, which hold its first tokens.

        Nothing is copied but their numbers.
        """
        self.pool.hold(blocks)
        self._table_of[request_id] = list(blocks)
        self._length_of[request_id] = num_tokens
        self._published[request_id] = num_tokens // self.size

    def fork(self, request_id: int, child_id: int) -> None:
        """Let a new request hold all that another holds, by naming its blocks: nothing is copied.

        The one way to a shared block that is not full; the first to write it gets a copy.
        """
        self.reserve(child_id)
        self.adopt(child_id, self._table_of[request_id], self._length_of[request_id])
        self._published[child_id] = self._published[request_id]

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Count `num_tokens` freshly written tokens as held; blocks beyond them are free again."""
        self._length_of[request_id] += num_tokens
        self._cut(request_id, self.pool.drop)

    def discard_written(self, request_id: int) -> None:
        """Wipe what was written and never committed, and give the blocks of it back."""
        table, length = self._table_of[request_id], self._length_of[request_id]
        for index in range(length // self.size, len(table)):
            block, start = table[index], max(0, length - index * self.size)
            if self.pool.counts[block] == 1:
                first = block * self.size
                self.storage[:, :, :, first + start : first + self.size] = 0
        self._cut(request_id, self.pool.put_back)

    def release(self, request_id: int) -> None:
        """Let go of the request's table; blocks that no other table names are free."""
        self._drop(self._table_of[request_id])
        for book in (self._table_of, self._length_of, self._published):
            del book[request_id]

    def leave(self, request_id: int) -> OwnKV:
        """Let go of the table, and leave the request a copy of its K/V to look at."""
        held = self.held(request_id).clone()  # (2, L, H, S, D)
        self.release(request_id)
        return OwnKV(view_by_head(list(zip(*held, strict=True))))

    @contextmanager
    def transaction(
        self, worked: Sequence[int], newcomers: Sequence[int], leaving: Sequence[int]
    ) -> Generator[None]:
        """A step: who joins or leaves has an empty table; an error undoes all but evictions."""
        tables = {i: list(table) for i, table in self._table_of.items()}
        books = tables, dict(self._length_of), dict(self._published)
        pool, num_copied, self._let_go = self.pool.books(), len(self._copied), []
        try:
            for request_id in leaving:
                self.release(request_id)
            for request_id in (*leaving, *newcomers):
                self.reserve(request_id)
            yield
        except BaseException:
            for request_id in self._table_of.keys() & {*worked}:
                self.discard_written(request_id)
            self._table_of, self._length_of, self._published = books
            self.pool.restore(pool)
            for entries, kv in reversed(self._let_go):
                self.storage[:, :, :, entries] = kv
            del self._copied[num_copied:]
            raise
        finally:
            self._let_go = None

    # --- what executors ask -----------------------------------------------------------------------

    def place(self, rows: Sequence[tuple[int, int]]) -> Any:
        """Where the new tokens of [(request id, how many), ...] go, head by head: (N * H,).

        Blocks are taken for them; one that another table names too is copied first.
        """
        entries: list[int] = []
        for request_id, num_new in rows:
            table, length = self._table_of[request_id], self._length_of[request_id]
            if length % self.size:
                self._make_writable(request_id, length // self.size)
                table = self._table_of[request_id]
            if length + num_new > len(table) * self.size:
                table += self.pool.take(table, length + num_new, self.size)
            entries += self._entries(request_id, range(length, length + num_new))
        starts = torch.tensor(entries, device=self._heads.device).unsqueeze(1)  # (N, 1)
        return (starts + self._heads).flatten()  # (N * H,)

    def write(self, layer: int, place: Any, k: Tensor, v: Tensor) -> None:
        """Store K/V of N new tokens. Shapes: place (N * H,), k, v (N, H, D)."""
        keys, values = self._rows[layer]
        keys.index_copy_(0, place, k.flatten(0, 1))
        values.index_copy_(0, place, v.flatten(0, 1))

    def attention(self, rows: Sequence[Row]) -> Attend:
        """Attention of a flat row of tokens, sorted by how many each of `rows` brings."""
        return block_attention(self, rows, self.parts.chunk_mask)

    def held(self, request_id: int) -> Tensor:
        """What the request holds in all layers. Shapes: -> (2, L, H, S, D), a view if it can be."""
        entries = self._entries(request_id, self.positions(request_id))
        return self.storage[:, :, :, index_of(entries)]

    def gather(self, request_id: int, layer: int) -> tuple[Tensor, Tensor]:
        """What the request holds in one layer, oldest first. Shapes: -> k, v (H, S, D)."""
        k, v = self.held(request_id)[:, layer]
        return k, v

    def table(self, request_id: int) -> tuple[int, ...]:
        """The request's blocks, in the order of its text."""
        return tuple(self._table_of[request_id])

    def is_run(self, request_id: int) -> bool:
        """Whether the request's blocks are neighbours in the pool, in the order of its text."""
        table = self._table_of[request_id]
        return not table or table == list(range(table[0], table[0] + len(table)))

    def slot(self, request_id: int) -> int:
        """The request's first block; 0 while it has none."""
        return next(iter(self._table_of[request_id]), 0) if request_id in self._table_of else 0

    def length(self, request_id: int) -> int:
        """How many tokens the request holds; 0 when it has no table."""
        return self._length_of.get(request_id, 0)

    def positions(self, request_id: int) -> Sequence[int]:
        """The positions whose K/V is held: all of them."""
        return range(self.length(request_id))

    def mask(self, request_id: int, num_new: int) -> Tensor | None:
        """None: the causal mask applies."""

    def view(self, request_id: int) -> KVView:
        """What the request holds, by (layer, head): k, v (1, S, D) each."""
        if request_id not in self._table_of:
            return MappingProxyType({})
        return view_by_head(list(zip(*self.held(request_id), strict=True)))

    def live_bytes(self, request_id: int) -> int:
        """Bytes of the blocks that the request's table names, whatever else names them."""
        return self.storage.nbytes // len(self.pool.counts) * len(self._table_of[request_id])

    def held_tokens(self) -> int:
        """KV tokens held by all requests together; those in shared blocks count for each."""
        return sum(self._length_of.values())

    def holders(self) -> Sequence[int]:
        """Ids of the requests that have a table, in the order they got it."""
        return list(self._table_of)

    # --- what is shared ---------------------------------------------------------------------------

    @property
    def num_tokens(self) -> int:
        """How many tokens' K/V can be found."""
        return len(self.pool.block_of) * self.size

    def find(self, known: Sequence[int], salt: str | None = None) -> BlockHit | None:
        """The longest run of published blocks that `known` begins with. Changes nothing."""
        if not self.share:
            return None
        hashes, published = self._hashes(tuple(known), salt or ""), self.pool.block_of
        blocks, found = self.parts.longest_match(hashes, published, len(known), self.size)
        return BlockHit(tuple(blocks), found) if found else None

    def publish(self, request: Request, new: Sequence[int] = ()) -> None:
        """Let others find the request's full blocks, all of them from committed steps."""
        length = self._length_of[request.id]
        full = length // self.size
        if not self.share or full == self._published[request.id]:
            return
        known = tuple([*request.tokens_so_far, *new][: full * self.size])
        hashes = self._hashes(known, request.cache_salt or "")
        held = zip(self._held_blocks(length), self._table_of[request.id], strict=True)
        self.pool.publish((i, block, hashes[i]) for i, block in held if i < full)
        self._published[request.id] = full

    def shared(self, requests: Sequence[Request]) -> int:
        """KV tokens in blocks that these name more than once, or will once those that wait start.

        A block counts once, so so many of the tokens that they count with one by one are too many.
        """
        if not self.share:
            return 0
        tables = [self._lasting(r) for r in requests]
        return (sum(map(len, tables)) - len(set().union(*tables))) * self.size

    def noted(self, record: StepRecord) -> BlockStepRecord:
        """The step's record, and what happened to the pool since the step before."""
        events, published = self.pool.events()
        copied, self._copied = self._copied, []
        blocks = BlocksRecord(
            block_size=self.size,
            num_blocks=len(self.pool.counts),
            tables=tuple((i, tuple(table)) for i, table in self._table_of.items()),
            idle=self.pool.idle(),
            published=tuple(published),
            copied=tuple(copied),
            **{name: tuple(blocks) for name, blocks in events.items()},
        )
        return with_blocks(record, blocks)

    def check(self) -> None:
        """Assert that the books agree, and that only full blocks that committed can be found."""
        assert self._table_of.keys() == self._length_of.keys() == self._published.keys()
        for request_id, table in self._table_of.items():
            held = self._held_blocks(self._length_of[request_id])
            assert len(table) == len(held), (request_id, table)
            assert 0 <= self._published[request_id] <= self._length_of[request_id] // self.size
        self.pool.check(list(self._table_of.values()))
        assert self.share or not self.pool.block_of

    def _lasting(self, request: Request) -> Sequence[int]:
        """Blocks that the request names, or will once it starts, until all it knows is computed."""
        table = self._table_of.get(request.id, ())
        computed = self._length_of.get(request.id, 0)
        if not table and (hit := self.find(request.tokens_so_far, request.cache_salt)):
            table, computed = hit.blocks, hit.num_tokens
        lasting = self._held_blocks(request.num_known)
        named = zip(self._held_blocks(computed), table, strict=True)
        return [block for index, block in named if index in lasting]

    def _held_blocks(self, computed: int) -> Sequence[int]:
        """Which blocks of a text the table of a request names that has computed so much of it."""
        return range(-(-computed // self.size))

    def _whole(self, table: Sequence[int]) -> list[int]:
        """All entries of these blocks in the pool."""
        return [block * self.size + entry for block in table for entry in range(self.size)]

    def _drop(self, blocks: Sequence[int]) -> None:
        """Let go of blocks; a transaction that fails puts their K/V back."""
        if self._let_go is not None and blocks:
            entries = self._whole(blocks)
            self._let_go.append((entries, self.storage[:, :, :, entries]))
        self.pool.drop(blocks)

    def _cut(self, request_id: int, give_back: Callable[[Sequence[int]], None]) -> None:
        """Give back the blocks behind the held tokens."""
        table, num_blocks = self._table_of[request_id], -(-self._length_of[request_id] // self.size)
        if len(table) > num_blocks:
            give_back(table[num_blocks:])
            del table[num_blocks:]

    def _make_writable(self, request_id: int, index: int) -> None:
        """Copy a block before it is written, if another table names it and the policy says so."""
        table, counts = self._table_of[request_id], self.pool.counts
        one_more = len(table) * self.size + 1
        free = self.pool.choose(table, one_more, self.size) if counts[table[index]] > 1 else []
        new_table, copy = self.parts.writable(table, counts, index, free)
        old, new = table[index], new_table[index]
        if new == old:
            return
        self.pool.claim([new])
        self._table_of[request_id] = new_table
        if copy is not None:
            origin, target = (slice(b * self.size, (b + 1) * self.size) for b in copy)
            self.storage[:, :, :, target] = self.storage[:, :, :, origin]
            self._copied.append(copy)
        self.pool.drop([old])

    def _entries(self, request_id: int, positions: Iterable[int]) -> list[int]:
        """Where these positions of the request's text lie in the pool."""
        table, size = self._table_of[request_id], self.size
        return [table[p // size] * size + p % size for p in positions]
