"""Which keys a query may see, as boolean matrices. Knows positions, not requests or storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def chunk_mask(context_len: int, num_scheduled_tokens: int) -> Tensor:
    """Causal mask of a chunk whose first token stands at position `context_len`.

    Query row t is position `context_len` + t and sees every key up to itself: all of the past, and
    the chunk's own tokens up to the diagonal, which is shifted right by `context_len`.

    Shapes: -> (T, S) bool, T = `num_scheduled_tokens`, S = `context_len` + T; True means "may see".

    >>> chunk_mask(2, 3).int().tolist()
    [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    """
    import torch

    queries = torch.arange(context_len, context_len + num_scheduled_tokens).unsqueeze(1)  # (T, 1)
    keys = torch.arange(context_len + num_scheduled_tokens)  # (S,)
    return keys <= queries  # (T, S)
