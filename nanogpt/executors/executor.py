"""What an executor is: rows in, logits out. Knows neither requests nor plans."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nanogpt.config import ModelConfig
from nanogpt.trace import ForwardRecord

ChunkMask = Callable[[int, int], Tensor]
"""(num_past, num_new) -> (T, S) bool: which keys each new token of a chunk may see."""


@dataclass(frozen=True, slots=True)
class Row:
    """One request's tokens in this step: T ids, the positions to embed them at, and their past.

    The K/V of `tokens[i]` is stored at logical position `num_past + i`.
    """

    request_id: int
    tokens: Sequence[int]
    positions: Sequence[int]
    num_past: int
    is_decode: bool

    @property
    def context_len(self) -> int:
        """S, how many K/V entries the row's last token attends to."""
        return self.num_past + len(self.tokens)


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """`logits` (R, V), row i predicting what follows the last token of row i, and what it took."""

    logits: Tensor
    forwards: tuple[ForwardRecord, ...]


class Executor(Protocol):
    """Runs the rows of one step. Writes their K/V; the caller commits it once all is well."""

    name: str

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """Compute the logits after each row's last token."""
        ...


def row_mask(row: Row, chunk_mask: ChunkMask) -> Tensor:
    """Which keys each of the row's tokens may see; a single token sees all there is.

    Shapes: -> (T, S) bool.
    """
    if len(row.tokens) == 1:
        return torch.ones(1, row.context_len, dtype=torch.bool)
    return chunk_mask(row.num_past, len(row.tokens))


def forward_record(rows: Sequence[Row], computed_tokens: int) -> ForwardRecord:
    """Count what one model call over `rows` did."""
    return ForwardRecord(
        useful_tokens=sum(len(row.tokens) for row in rows),
        prefill_tokens=sum(len(row.tokens) for row in rows if not row.is_decode),
        computed_tokens=computed_tokens,
        context_tokens=sum(row.context_len for row in rows),
    )


def row_problem(row: Row, config: ModelConfig) -> str | None:
    """Why the model has no embedding for the row, in words; None when it has."""
    if max(row.tokens) >= config.vocab_size:
        return f"token {max(row.tokens)} is outside the vocabulary 0..{config.vocab_size - 1}"
    if max(row.positions) >= config.context_len:
        limit = config.context_len - 1
        return f"position {max(row.positions)} is outside the context 0..{limit}"
    return None
