"""The paged KV cache: blocks of K/V for all requests, and a table of block numbers for each.

Blocks are allocated as a sequence grows. Without a `block_size` one block spans the whole context,
so that each request has a slot. K/V that a step writes is held, and counted, from `commit` on. With
sharing, a full block can be found by its hash once the step that computed it has committed, and
requests that begin alike share it.

    table of request 7: blocks 4, 9     [ 4: positions 0 .. 15 ] [ 9: 16 .. length - 1 | free ]

Shapes: L layers, H heads, P blocks of E entries each, S entries held, D head size, N tokens.
Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", arXiv 2309.06180, section 4.
"""

import math
import mmap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from nanogpt.block_pool import BlockPool
from nanogpt.config import ModelConfig
from nanogpt.executors.paged_attention import index_of, paged_attention
from nanogpt.kv_store import KVStore
from nanogpt.model import Attend
from nanogpt.outputs import PrefixHit, Row, SchedulerOutput
from nanogpt.policies import Policies
from nanogpt.policies.blocks import extend_hashes
from nanogpt.request import Request
from nanogpt.trace import BlocksRecord, StepRecord, with_blocks
from nanogpt.validate import is_reference


class KVCache(KVStore):
    """K and V of every layer in `num_blocks` blocks of `block_size` tokens.

    `num_lanes` requests at most are expected side by side; `share` lets requests of the same salt
    share full blocks, and `records_blocks` tells the trace of blocks. Mutable: the tables, how many
    tokens they hold, and the pool.
    Raises: ValueError for more blocks than there is memory for.
    """

    writes_on_commit = False
    """Whether commits write to the pool, so that K/V of blocks freed there has to be saved."""

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
        policies: Policies,
        *,
        num_lanes: int,
        share: bool = False,
        records_blocks: bool = False,
    ) -> None:
        entries = num_blocks * block_size
        shape = (2, config.num_layers, config.num_heads, entries, config.head_size)
        # Zeros, not garbage: a masked key has weight 0, but 0 * NaN would still be NaN.
        try:
            self.storage = zeros_on_demand(shape, dtype).to(device)  # (2, L, H, P * E, D)
        except (OSError, OverflowError, ValueError, MemoryError, torch.OutOfMemoryError):
            raise ValueError(
                f"this machine has no memory for {num_blocks} blocks of {block_size} tokens; a "
                "smaller max_kv_tokens or max_batch_size takes fewer"
            ) from None
        by_layer = self.storage.flatten(2, 3).transpose(0, 1)  # (L, 2, H * P * E, D)
        self._rows = [tuple(kv.unbind()) for kv in by_layer.unbind()]
        keys, values = self.storage.unbind()
        self.by_layer = keys.unbind(), values.unbind()  # L times (H, P * E, D) each
        self._heads = torch.arange(config.num_heads, device=device) * entries  # (H,)
        self.pool = BlockPool(num_blocks, num_lanes, policies)
        self.size = block_size
        self._block_bytes = self.storage.nbytes // num_blocks
        self.policies = policies
        self.share = share
        self.records_blocks = records_blocks
        self._table_of: dict[int, tuple[int, ...]] = {}
        self._length_of: dict[int, int] = {}
        self._num_registered: dict[int, int] = {}  # so many blocks of the table
        self._snapshot: tuple[Any, ...] = ()  # of these three, before the step
        self._dropped: list[tuple[list[int], Tensor]] = []
        self._keeps_dropped = False

    # --- a request's table ------------------------------------------------------------------------

    def reserve(self, request_id: int) -> None:
        """Give the request an empty table. Raises: ValueError when it has one already."""
        if request_id in self._table_of:
            raise ValueError(f"request {request_id} has a table already")
        self._table_of[request_id] = ()
        self._length_of[request_id] = self._num_registered[request_id] = 0

    def attach(self, request_id: int, hit: PrefixHit) -> None:
        """Let the request's empty table name the blocks of a hit: only their numbers are copied."""
        self.pool.hold(hit.blocks)
        self._table_of[request_id] = hit.blocks
        self._length_of[request_id] = hit.num_tokens
        self._num_registered[request_id] = hit.num_tokens // self.size

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Hold `num_tokens` freshly written tokens; blocks beyond them are free again."""
        self._length_of[request_id] += num_tokens
        self._truncate(request_id, self.pool.drop)

    def discard_written(self, request_id: int) -> None:
        """Wipe what was written and never committed, and give its blocks back."""
        table, length = self._table_of[request_id], self._length_of[request_id]
        for index in range(length // self.size, len(table)):
            first, start = table[index] * self.size, max(0, length - index * self.size)
            self.storage[:, :, :, first + start : first + self.size] = 0
        self._truncate(request_id, self.pool.put_back)

    def free(self, request_id: int) -> None:
        """Drop the request's table; blocks that no other table names are free."""
        self._drop(self._table_of[request_id])
        for state in (self._table_of, self._length_of, self._num_registered):
            del state[request_id]

    def begin_step(self, scheduled: SchedulerOutput) -> None:
        """Free the preempted requests, give admitted ones a table, and allocate for all rows."""
        preempted = [requeue.request.id for requeue in scheduled.preempted]
        self._snapshot = dict(self._table_of), dict(self._length_of), dict(self._num_registered)
        self.pool.begin()
        self._keeps_dropped = True
        for request_id in preempted:
            self.free(request_id)
        self._keeps_dropped = self.writes_on_commit
        for request_id in (*preempted, *scheduled.admitted):
            self.reserve(request_id)
        for request_id, hit in scheduled.prefix_hits.items():
            self.attach(request_id, hit)
        self.allocate(scheduled.rows)

    def end_step(self, scheduled: SchedulerOutput, *, failed: bool) -> None:
        """If the step failed, restore tables, counts and K/V.

        Evicted blocks stay evicted, since the step may have overwritten them.
        """
        if failed:
            for row in scheduled.rows:
                if row.request_id in self._table_of:
                    self.discard_written(row.request_id)
            self._table_of, self._length_of, self._num_registered = self._snapshot
            self.pool.restore()
            for entries, kv in reversed(self._dropped):
                self.storage[:, :, :, entries] = kv
        self._dropped, self._keeps_dropped = [], False

    def allocate(self, rows: Sequence[Row]) -> None:
        """Take blocks for the new tokens, short rows first, so that decodes are neighbours."""
        sizes = [(len(row.input_ids), row.request_id) for row in rows]
        tables, lengths, size = self._table_of, self._length_of, self.size
        growing = [(n, i) for n, i in sizes if lengths[i] + n > len(tables[i]) * size]
        for num_tokens, i in sorted(growing, key=lambda each: (each[0], self.slot(each[1]))):
            tables[i] += tuple(self.pool.take(tables[i], lengths[i] + num_tokens, size))

    # --- what executors ask -----------------------------------------------------------------------

    def slot_mapping(self, rows: Sequence[Row]) -> Any:
        """Where the rows' new tokens go, head by head: (N * H,)."""
        entries: list[int] = []
        for row in rows:
            length = self._length_of[row.request_id]
            entries += self._entries(row.request_id, range(length, length + len(row.input_ids)))
        starts = torch.tensor(entries, device=self._heads.device).unsqueeze(1)  # (N, 1)
        return (starts + self._heads).flatten()  # (N * H,)

    def write(self, layer: int, slot_mapping: Any, k: Tensor, v: Tensor) -> None:
        """Store K/V of N new tokens. Shapes: slot_mapping (N * H,), k, v (N, H, D)."""
        keys, values = self._rows[layer]
        keys.index_copy_(0, slot_mapping, k.flatten(0, 1))
        values.index_copy_(0, slot_mapping, v.flatten(0, 1))

    def attention(self, rows: Sequence[Row]) -> Attend:
        """Attention of a flat row of tokens, sorted by how many each of `rows` brings."""
        return paged_attention(self, rows, self.policies.chunk_mask)

    def held(self, request_id: int) -> Tensor:
        """What the request holds in all layers. Shapes: -> (2, L, H, S, D), a view if it can be."""
        entries = self._entries(request_id, self.positions(request_id))
        return self.storage[:, :, :, index_of(entries)]

    def table(self, request_id: int) -> tuple[int, ...]:
        """The request's blocks, in the order of its text."""
        return self._table_of[request_id]

    def is_run(self, request_id: int) -> bool:
        """Whether the request's blocks are neighbours in the pool, in the order of its text."""
        table = self._table_of[request_id]
        return not table or table == tuple(range(table[0], table[0] + len(table)))

    def reach(self, request_id: int, most: int) -> int:
        """How many entries from its first on no other request holds, counted up to `most`."""
        table, counts = self._table_of[request_id], self.pool.ref_counts
        end, last = table[0] + len(table), min(table[0] + -(-most // self.size), len(counts))
        while end < last and not counts[end]:
            end += 1
        return (end - table[0]) * self.size

    def slot(self, request_id: int) -> int:
        """The request's first block; 0 while it has none."""
        return next(iter(self._table_of.get(request_id, ())), 0)

    def length(self, request_id: int) -> int:
        """How many tokens the request holds; 0 when it has no table."""
        return self._length_of.get(request_id, 0)

    def positions(self, request_id: int) -> Sequence[int]:
        """The positions whose K/V is held: all of them."""
        return range(self.length(request_id))

    def live_bytes(self, request_id: int) -> int:
        """Bytes of the blocks that the request's table names, whatever else names them."""
        return self._block_bytes * len(self._table_of[request_id])

    def held_tokens(self) -> int:
        """KV tokens held by all requests together; those in shared blocks count for each."""
        return sum(self._length_of.values())

    def holders(self) -> Sequence[int]:
        """Ids of the requests that have a table, in the order they got it."""
        return list(self._table_of)

    # --- what is shared ---------------------------------------------------------------------------

    def match(self, request: Request) -> PrefixHit | None:
        """The longest run of registered blocks that the request's tokens begin with.

        Looked up once, and again only when other blocks are registered or the request has grown.
        """
        asked = self.pool.version, request.num_tokens
        if not self.share or request.prefix_match[0] == asked:
            return request.prefix_match[1]
        if len(request.block_hashes) < request.num_tokens // self.size:
            request.block_hashes = self.hashes(request, request.tokens_so_far)
        hashes, block_of = request.block_hashes, self.pool.block_of
        blocks, found = self.policies.longest_match(hashes, block_of, request.num_tokens, self.size)
        request.prefix_match = asked, PrefixHit(tuple(blocks), found) if found else None
        return request.prefix_match[1]

    def hashes(self, request: Request, token_ids: list[int]) -> list[str]:
        """The hashes of the full blocks of a request's tokens, which extend those it has."""
        known, salt = request.block_hashes, request.cache_salt or ""
        if is_reference(self.policies, "block_hashes"):
            return extend_hashes(known, token_ids, self.size, salt)
        return self.policies.block_hashes(token_ids, self.size, salt)

    def register(self, request: Request, new: Sequence[int] = ()) -> None:
        """Let others find the request's full blocks, all of them from committed steps."""
        if not self.share:
            return
        length = self._length_of[request.id]
        full = length // self.size
        if full == self._num_registered[request.id]:
            return
        hashes = request.block_hashes
        if len(hashes) < full:  # the step may still fail: the request gets only those it is sure of
            hashes = self.hashes(request, [*request.tokens_so_far, *new][: full * self.size])
            request.block_hashes = hashes[: request.num_tokens // self.size]
        held = zip(self._held_blocks(length), self._table_of[request.id], strict=True)
        self.pool.publish((i, block, hashes[i]) for i, block in held if i < full)
        self._num_registered[request.id] = full

    def lasting_blocks(self, request: Request) -> Sequence[int]:
        """Blocks that the request names, or will once it starts, until all its tokens are there."""
        if not self.share:
            return ()
        table = self._table_of.get(request.id, ())
        computed = self._length_of.get(request.id, 0)
        if not table and (hit := self.match(request)):
            table, computed = hit.blocks, hit.num_tokens
        lasting = self._held_blocks(request.num_tokens)
        named = zip(self._held_blocks(computed), table, strict=True)
        return [block for index, block in named if index in lasting]

    def annotate(self, record: StepRecord) -> StepRecord:
        """The step's record, and what happened to the pool since the step before."""
        events, published = self.pool.events()
        if not self.records_blocks:
            return record
        blocks = BlocksRecord(
            block_size=self.size,
            num_blocks=len(self.pool.ref_counts),
            tables=tuple(self._table_of.items()),
            idle=self.pool.idle(),
            published=tuple(published),
            **{name: tuple(blocks) for name, blocks in events.items()},
        )
        return with_blocks(record, blocks)

    def check(self) -> None:
        """Assert that the state is consistent, and only full, committed blocks can be found."""
        assert self._table_of.keys() == self._length_of.keys() == self._num_registered.keys()
        for request_id, table in self._table_of.items():
            held = self._held_blocks(self._length_of[request_id])
            assert len(table) == len(held), (request_id, table)
            assert 0 <= self._num_registered[request_id] <= self._length_of[request_id] // self.size
        self.pool.check(list(self._table_of.values()))
        assert self.share or not self.pool.block_of

    def _held_blocks(self, num_computed_tokens: int) -> Sequence[int]:
        """The blocks of a text, by index, that a request's table names by now."""
        return range(-(-num_computed_tokens // self.size))

    def _drop(self, blocks: Sequence[int]) -> None:
        """Let go of blocks; a transaction that fails puts their K/V back."""
        if self._keeps_dropped and blocks:
            entries = [block * self.size + i for block in blocks for i in range(self.size)]
            self._dropped.append((entries, self.storage[:, :, :, entries]))
        self.pool.drop(blocks)

    def _truncate(self, request_id: int, give_back: Callable[[Sequence[int]], None]) -> None:
        """Give back the blocks behind the held tokens."""
        table, num_blocks = self._table_of[request_id], -(-self._length_of[request_id] // self.size)
        if len(table) > num_blocks:
            give_back(table[num_blocks:])
            self._table_of[request_id] = table[:num_blocks]

    def _entries(self, request_id: int, positions: Iterable[int]) -> list[int]:
        """Where these positions of the request's text lie in the pool."""
        table, size = self._table_of[request_id], self.size
        return [table[p // size] * size + p % size for p in positions]


def zeros_on_demand(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that take up memory only where they are touched.

    `torch.zeros` writes all of them at once, which for a cache costs more than serving a few
    requests; private memory from the operating system reads as zero until it is written.
    """
    pages = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, access=mmap.ACCESS_COPY)
    return torch.frombuffer(pages, dtype=dtype).view(shape)
