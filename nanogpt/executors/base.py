"""What an executor is: rows in, logits out. It knows neither requests nor plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from nanogpt.kv_store import KVStore
from nanogpt.outputs import ModelOutput, Row
from nanogpt.policies import Policies
from nanogpt.trace import ForwardRecord

if TYPE_CHECKING:
    from torch import Tensor

    from nanogpt.model import GPT


class Executor(Protocol):
    """Runs the rows of one step. Writes their K/V; the caller commits it once all is well."""

    name: str
    verifies_drafts: bool  # gives the logits of every draft
    reads_cache: bool  # attends to the engine's KV cache, and to none of its own

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """Compute the logits after each row's last token; nothing for no rows."""
        ...


class CachedExecutor:
    """An executor that attends over the engine's KV cache; a subclass lays the rows out."""

    name = ""
    verifies_drafts = False
    reads_cache = True

    def __init__(self, model: GPT, cache: KVStore, policies: Policies) -> None:
        self.model = model
        self.cache = cache
        self.policies = policies

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V) in the order of `rows`."""
        import torch

        with torch.inference_mode():
            return self.forward(rows) if rows else ModelOutput(torch.empty(0, 0), ())

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """As `execute`, for at least one row."""
        raise NotImplementedError


def row_mask(row: Row, cache: KVStore, chunk_mask: Callable[[int, int], Tensor]) -> Tensor:
    """Which of the S held keys and of its own T the row's tokens may see.

    The window's rule where there is one; else the causal mask, and a single token sees all there
    is. Shapes: -> (T, S + T) bool.
    """
    windowed = cache.mask(row.request_id, len(row.input_ids))
    if windowed is not None:
        return windowed
    if len(row.input_ids) == 1:
        import torch

        return torch.ones(1, row.seq_len, dtype=torch.bool)
    return chunk_mask(row.context_len, len(row.input_ids))


def logits_indices(rows: Sequence[Row], order: Sequence[int]) -> list[int]:
    """Indices into the flat batch at which to compute logits, in the order of `rows`.

    The flat batch holds `rows[i]` for i in `order`.
    """
    ends = dict(zip(order, accumulate(len(rows[i].input_ids) for i in order), strict=True))
    return [t for i, row in enumerate(rows) for t in range(ends[i] - row.num_logits, ends[i])]


def forward_record(rows: Sequence[Row], cache: KVStore, computed_tokens: int) -> ForwardRecord:
    """Count what one model call over `rows` did."""
    useful = prefill = context = 0
    for row in rows:
        num_tokens = len(row.input_ids)
        useful += num_tokens
        context += cache.length(row.request_id) + num_tokens
        if not row.is_decode:
            prefill += num_tokens
    return ForwardRecord(useful, prefill, computed_tokens, context)
