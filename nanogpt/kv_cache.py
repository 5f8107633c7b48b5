"""The paged KV cache: the K/V of all requests in one tensor, by the tables of `block_tables`.

Shapes: L layers, H heads, P blocks of E entries each, S entries held, D head size, N tokens.
Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", arXiv 2309.06180, section 4.
"""

import math
import mmap
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from nanogpt.block_tables import BlockTables
from nanogpt.config import ModelConfig
from nanogpt.executors.paged_attention import index_of, paged_attention
from nanogpt.model import Attend
from nanogpt.outputs import Row, SchedulerOutput
from nanogpt.policies import Policies


class KVCache(BlockTables):
    """K and V of every layer in `num_blocks` blocks of `block_size` tokens.

    The other `settings` are those of `BlockTables`.
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
        **settings: Any,
    ) -> None:
        entries = num_blocks * block_size
        shape = (2, config.num_layers, config.num_kv_heads, entries, config.head_size)
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
        self._heads = torch.arange(config.num_kv_heads, device=device) * entries  # (H,)
        self.group_size = config.num_heads // config.num_kv_heads
        block_bytes = self.storage.nbytes // num_blocks
        super().__init__(num_blocks, block_size, policies, block_bytes=block_bytes, **settings)
        self._dropped: list[tuple[list[int], Tensor]] = []
        self._keeps_dropped = False

    # --- a step -----------------------------------------------------------------------------------

    def discard_written(self, request_id: int) -> None:
        """Wipe what was written and never committed, and give its blocks back."""
        table, length = self._table_of[request_id], self._length_of[request_id]
        for index in range(length // self.size, len(table)):
            first, start = table[index] * self.size, max(0, length - index * self.size)
            self.storage[:, :, :, first + start : first + self.size] = 0
        super().discard_written(request_id)

    def begin_step(self, scheduled: SchedulerOutput) -> None:
        """Free the preempted requests, give admitted ones a table, and allocate for all rows."""
        self._keeps_dropped = True
        super().begin_step(scheduled)
        self._keeps_dropped = self.writes_on_commit

    def end_step(self, scheduled: SchedulerOutput, *, failed: bool) -> None:
        """If the step failed, restore tables, counts and K/V.

        Evicted blocks stay evicted, since the step may have overwritten them.
        """
        super().end_step(scheduled, failed=failed)
        for entries, kv in reversed(self._dropped if failed else ()):
            self.storage[:, :, :, entries] = kv
        self._dropped, self._keeps_dropped = [], False

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
        """The request's K/V in all layers. Shapes: -> (2, L, H, S, D), a view if it can be."""
        entries = self._entries(request_id, self.positions(request_id))
        return self.storage[:, :, :, index_of(entries)]

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

    def read_block(self, block: int) -> Tensor:
        """A copy of a block's K/V in host memory. Shapes: -> (2, L, H, E, D)."""
        first = block * self.size
        return self.storage[:, :, :, first : first + self.size].to("cpu", copy=True)

    def write_block(self, block: int, kv: Tensor) -> None:
        """Put K/V of the host tier into a block. Shapes: kv (2, L, H, E, D)."""
        first = block * self.size
        self.storage[:, :, :, first : first + self.size] = kv

    # --- blocks from and for another process ------------------------------------------------------

    def export_blocks(self, hashes: Sequence[str]) -> Tensor:
        """A copy of the K/V of these blocks. Shapes: -> (2, L, H, N * block_size, D)."""
        return self.storage[:, :, :, self._block_entries(self.pool.block_of[h] for h in hashes)]

    def import_blocks(self, hashes: Sequence[str], first: int, kv: Tensor) -> int:
        """Let blocks with this K/V be found, from block `first` of a text; return how many fit.

        `hashes` are those of the text from its beginning. The blocks before `first` are kept while
        room is made for the others.
        """
        before = [self.pool.block_of[h] for h in hashes[:first] if h in self.pool.block_of]
        self.pool.hold(before)
        num_blocks = min(len(hashes) - first, self.pool.num_free)
        blocks = self.pool.take((), num_blocks * self.size, self.size) if num_blocks else []
        self.storage[:, :, :, self._block_entries(blocks)] = kv[:, :, :, : num_blocks * self.size]
        named = enumerate(zip(blocks, hashes[first:], strict=False), first)
        self.pool.publish((depth, block, block_hash) for depth, (block, block_hash) in named)
        self.pool.drop([*before, *blocks])
        return num_blocks

    def _block_entries(self, blocks: Iterable[int]) -> list[int]:
        return [block * self.size + i for block in blocks for i in range(self.size)]

    def _drop(self, blocks: Sequence[int]) -> None:
        """Let go of blocks; a transaction that fails puts their K/V back."""
        if self._keeps_dropped and blocks:
            entries = self._block_entries(blocks)
            self._dropped.append((entries, self.storage[:, :, :, entries]))
        super()._drop(blocks)

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
