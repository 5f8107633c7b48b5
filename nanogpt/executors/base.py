"""What an executor is: rows in, logits out. Knows neither requests nor plans."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor

from nanogpt.config import ModelConfig
from nanogpt.parts import ChunkMask
from nanogpt.trace import ForwardRecord


class KVStore(Protocol):
    """Holds the K/V of running requests. A step writes, and what it wrote counts from the commit.

    Shapes: L layers, H heads, S entries held, D head size, N new tokens of all rows in order.
    """

    def place(self, rows: Sequence[tuple[int, int]]) -> Any:
        """Where the new tokens of [(request id, how many), ...] will go, for `write`."""
        ...

    def write(self, layer: int, place: Any, k: Tensor, v: Tensor) -> None:
        """Put down one layer's K/V of the step, first to last. Shapes: k, v (N, H, D)."""
        ...

    def gather(self, request_id: int, layer: int) -> tuple[Tensor, Tensor]:
        """What is held, oldest first, without what this step wrote. Shapes: -> k, v (H, S, D)."""
        ...

    def held(self, request_id: int) -> Tensor:
        """The same in all layers at once. Shapes: -> (2, L, H, S, D)."""
        ...

    def length(self, request_id: int) -> int:
        """S, how many KV tokens the request holds; 0 when it is unknown."""
        ...

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory that the request's K/V keeps from others."""
        ...

    def holders(self) -> Sequence[int]:
        """Ids of the requests that are in, in the order they came."""
        ...

    def positions(self, request_id: int) -> Sequence[int]:
        """The positions whose K/V is held, in the order of `gather`."""
        ...

    def mask(self, request_id: int, num_new: int) -> Tensor | None:
        """Which keys, held and new, a query sees, (T, S + T) bool; None: the causal mask."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One request's tokens in this step: T ids, the positions to embed them at, and their past.

    The K/V of `tokens[i]` belongs to position `num_past + i`. `known` is every token that the
    request knows, computed or not. `drafted` are guessed tokens, with which the row ends. What
    follows is drawn by `sampling`: a temperature, a seed and an id.
    """

    request_id: int
    tokens: Sequence[int]
    positions: Sequence[int]
    num_past: int
    is_decode: bool
    known: Sequence[int]
    drafted: tuple[int, ...] = ()
    sampling: tuple[float, int, int] = (0.0, 0, 0)

    @property
    def num_logits(self) -> int:
        """After how many of its last tokens logits are wanted: the last known and every draft."""
        return 1 + len(self.drafted)

    @property
    def context_len(self) -> int:
        """How many positions there are up to the row's last token."""
        return self.num_past + len(self.tokens)


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """`logits` (R, V), what follows the last token of each row, and what it took to compute.

    A row with K drafts has K + 1 of them, one after another.
    """

    logits: Tensor
    forwards: tuple[ForwardRecord, ...]


class Executor(Protocol):
    """Runs the rows of one step. Writes their K/V; the caller commits it once all is well."""

    name: str
    verifies_drafts: bool  # gives the logits of every draft
    reads_cache: bool  # attends to the engine's KV cache, and to none of its own

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Compute the logits after each row's last token."""
        ...


def row_mask(row: Row, cache: KVStore, chunk_mask: ChunkMask) -> Tensor:
    """Which of the S held keys and of its own T the row's tokens may see.

    The window's rule where there is one; else the causal mask, and a single token sees all there
    is. Shapes: -> (T, S + T) bool.
    """
    windowed = cache.mask(row.request_id, len(row.tokens))
    if windowed is not None:
        return windowed
    if len(row.tokens) == 1:
        return torch.ones(1, row.context_len, dtype=torch.bool)
    return chunk_mask(row.num_past, len(row.tokens))


def wanted_tokens(rows: Sequence[Row], order: Sequence[int]) -> list[int]:
    """After which tokens of a flat row logits are wanted, by index, row after row.

    The flat row holds `rows[i]` for i in `order`.
    """
    ends = dict(zip(order, accumulate(len(rows[i].tokens) for i in order), strict=True))
    return [t for i, row in enumerate(rows) for t in range(ends[i] - row.num_logits, ends[i])]


def place_rows(rows: Sequence[Row], cache: KVStore) -> object:
    """Where the rows' new K/V goes, for `KVStore.write`."""
    return cache.place([(row.request_id, len(row.tokens)) for row in rows])


def forward_record(rows: Sequence[Row], cache: KVStore, computed_tokens: int) -> ForwardRecord:
    """Count what one model call over `rows` did."""
    return ForwardRecord(
        useful_tokens=sum(len(row.tokens) for row in rows),
        prefill_tokens=sum(len(row.tokens) for row in rows if not row.is_decode),
        computed_tokens=computed_tokens,
        context_tokens=sum(cache.length(row.request_id) + len(row.tokens) for row in rows),
    )


def row_problem(row: Row, config: ModelConfig) -> str | None:
    """Why the model has no embedding for the row, in words; None when it has."""
    if max(row.tokens) >= config.vocab_size:
        return f"token {max(row.tokens)} is outside the vocabulary 0..{config.vocab_size - 1}"
    if max(row.positions) >= config.context_len:
        limit = config.context_len - 1
        return f"position {max(row.positions)} is outside the context 0..{limit}"
    return None
