"""Each request's table of block numbers: a store of K/V as the scheduler sees it, without tensors.

Blocks are allocated as a sequence grows. Without a `block_size` one block spans the whole context,
so that each request has a slot. K/V that a step writes is held, and counted, from `commit` on. With
sharing, a full block can be found by its hash once the step that computed it has committed, and
requests that begin alike share it. Behind the pool there may be a `HostTier`.

    table of request 7: blocks 4, 9     [ 4: positions 0 .. 15 ] [ 9: 16 .. length - 1 | free ]

`KVCache` puts K/V into the blocks.
"""

from collections.abc import Callable, Sequence
from typing import Any

from nanogpt.block_pool import BlockPool
from nanogpt.host_tier import HostTier
from nanogpt.kv_store import KVStore
from nanogpt.outputs import PrefixHit, Row, SchedulerOutput
from nanogpt.policies import Policies
from nanogpt.policies.blocks import extend_hashes
from nanogpt.request import Request
from nanogpt.trace import BlocksRecord, StepRecord, with_blocks
from nanogpt.validate import is_reference


class BlockTables(KVStore):
    """Counts `num_blocks` blocks of `block_size` tokens, of `block_bytes` bytes each.

    `num_lanes` requests at most are expected side by side; `share` lets requests of the same salt
    share full blocks, `host` keeps copies of these, and `records_blocks` tells the trace of blocks.
    Mutable: the tables, how many tokens they hold, the pool and the host tier.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        policies: Policies,
        *,
        block_bytes: int,
        num_lanes: int,
        share: bool = False,
        host: HostTier | None = None,
        records_blocks: bool = False,
    ) -> None:
        self.pool = BlockPool(num_blocks, num_lanes, policies)
        self.size = block_size
        self.block_bytes = block_bytes
        self.policies = policies
        self.share = share
        self.host = host
        self.records_blocks = records_blocks
        self._table_of: dict[int, tuple[int, ...]] = {}
        self._length_of: dict[int, int] = {}
        self._num_registered: dict[int, int] = {}  # so many blocks of the table
        self._snapshot: tuple[Any, ...] = ()  # of these three, before the step

    # --- a request's table ------------------------------------------------------------------------

    def reserve(self, request_id: int) -> None:
        """Give the request an empty table. Raises: ValueError when it has one already."""
        if request_id in self._table_of:
            raise ValueError(f"request {request_id} has a table already")
        self._table_of[request_id] = ()
        self._length_of[request_id] = self._num_registered[request_id] = 0

    def attach(self, request_id: int, hit: PrefixHit) -> None:
        """Let the request's empty table name the blocks of a hit: only their numbers are copied.

        The table lacks the blocks that only the host tier has, until `load`.
        """
        self._table_of[request_id] = blocks = tuple([b for b in hit.blocks if b is not None])
        self.pool.hold(blocks)
        self._length_of[request_id] = hit.num_tokens
        self._num_registered[request_id] = hit.num_tokens // self.size

    def load(self, request_id: int, hit: PrefixHit) -> None:
        """Take blocks for what the host tier has of a hit, copy it, and let others find it.

        Raises: ValueError when too few are free.
        """
        assert self.host is not None
        self.host.touch(hit.hashes)
        num_tokens, held = len(hit.blocks) * self.size, self._table_of[request_id]
        taken = iter(self.pool.take(held, num_tokens, self.size))
        table = tuple([next(taken) if block is None else block for block in hit.blocks])
        named = zip(self._held_blocks(hit.num_tokens), hit.blocks, table, hit.hashes, strict=True)
        loaded = [(depth, block, name) for depth, had, block, name in named if had is None]
        for _, block, name in loaded:
            self.write_block(block, self.host.load(request_id, block, name))
        self.pool.publish(loaded)
        self._table_of[request_id] = table

    def read_block(self, block: int) -> Any:
        """A copy of a block's K/V for the host tier; tables have none."""

    def write_block(self, block: int, kv: Any) -> None:
        """Put K/V of the host tier into a block; tables have nowhere to."""

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Hold `num_tokens` freshly written tokens; blocks beyond them are free again."""
        self._length_of[request_id] += num_tokens
        self._truncate(request_id, self.pool.drop)

    def discard_written(self, request_id: int) -> None:
        """Give back the blocks of what was written and never committed."""
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
        if self.host is not None:
            self.host.begin()
        for request_id in preempted:
            self.free(request_id)
        for request_id in (*preempted, *scheduled.admitted):
            self.reserve(request_id)
        for request_id, hit in scheduled.prefix_hits.items():
            self.attach(request_id, hit)
        for request_id, hit in scheduled.prefix_hits.items() if self.host else ():
            self.load(request_id, hit)  # once no block of any hit can be taken for it
        self.allocate(scheduled.rows)

    def end_step(self, scheduled: SchedulerOutput, *, failed: bool) -> None:
        """If the step failed, restore tables and counts. Evicted blocks stay evicted."""
        if self.host is not None:
            self.host.end(failed=failed)
        if failed:
            for row in scheduled.rows:
                if row.request_id in self._table_of:
                    self.discard_written(row.request_id)
            self._table_of, self._length_of, self._num_registered = self._snapshot
            self.pool.restore()

    def allocate(self, rows: Sequence[Row]) -> None:
        """Take blocks for the new tokens, short rows first, so that decodes are neighbours."""
        sizes = [(len(row.input_ids), row.request_id) for row in rows]
        tables, lengths, size = self._table_of, self._length_of, self.size
        growing = [(n, i) for n, i in sizes if lengths[i] + n > len(tables[i]) * size]
        for num_tokens, i in sorted(growing, key=lambda each: (each[0], self.slot(each[1]))):
            tables[i] += tuple(self.pool.take(tables[i], lengths[i] + num_tokens, size))

    def table(self, request_id: int) -> tuple[int, ...]:
        """The request's blocks, in the order of its text."""
        return self._table_of[request_id]

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
        return self.block_bytes * len(self._table_of[request_id])

    def held_tokens(self) -> int:
        """KV tokens held by all requests together; those in shared blocks count for each."""
        return sum(self._length_of.values())

    def holders(self) -> Sequence[int]:
        """Ids of the requests that have a table, in the order they got it."""
        return list(self._table_of)

    # --- what is shared ---------------------------------------------------------------------------

    def match(self, request: Request) -> PrefixHit | None:
        """The longest run of blocks, registered or in the host tier, that the tokens begin with.

        Looked up once, and again only when other blocks are registered or the request has grown.
        """
        asked = self.pool.version, request.num_tokens
        if not self.share or request.prefix_match[0] == asked:
            return request.prefix_match[1]
        if len(request.block_hashes) < request.num_tokens // self.size:
            request.block_hashes = self.hashes(request, request.tokens_so_far)
        hashes, block_of = request.block_hashes, self.pool.block_of
        find = self.policies.longest_match if self.host is None else self.host.match
        blocks, found = find(hashes, block_of, request.num_tokens, self.size)
        names = [hashes[i] for i in self._held_blocks(found)] if self.host else []
        hit = PrefixHit(tuple(blocks), found, tuple(names)) if found else None
        request.prefix_match = asked, hit
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
        blocks = [(i, block, hashes[i]) for i, block in held if i < full]
        self.pool.publish(blocks)
        if self.host is not None:
            self.host.store({name: block for _, block, name in blocks}, self.read_block)
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
        return [block for index, block in named if index in lasting and block is not None]

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
        return with_blocks(record, blocks, self.host and self.host.record(self.block_bytes))

    def check(self) -> None:
        """Assert that the state is consistent, and only full, committed blocks can be found."""
        assert self._table_of.keys() == self._length_of.keys() == self._num_registered.keys()
        for request_id, table in self._table_of.items():
            held = self._held_blocks(self._length_of[request_id])
            assert len(table) == len(held), (request_id, table)
            assert 0 <= self._num_registered[request_id] <= self._length_of[request_id] // self.size
        self.pool.check(list(self._table_of.values()))
        assert self.share or not self.pool.block_of
        assert self.host is None or len(self.host.kv_of) <= self.host.num_blocks

    def _held_blocks(self, num_computed_tokens: int) -> Sequence[int]:
        """The blocks of a text, by index, that a request's table names by now."""
        return range(-(-num_computed_tokens // self.size))

    def _drop(self, blocks: Sequence[int]) -> None:
        """Let go of blocks."""
        self.pool.drop(blocks)

    def _truncate(self, request_id: int, give_back: Callable[[Sequence[int]], None]) -> None:
        """Give back the blocks behind the held tokens."""
        table, num_blocks = self._table_of[request_id], -(-self._length_of[request_id] // self.size)
        if len(table) > num_blocks:
            give_back(table[num_blocks:])
            self._table_of[request_id] = table[:num_blocks]
