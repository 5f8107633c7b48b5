"""A sliding window with attention sinks: what is visible, what is kept, and where it lies.

With a window W and S sinks, query t sees the first S positions and the last W + 1, itself included.
Visibility alone decides the text; eviction only frees what no query sees again, so the text never
depends on the chunk size or the schedule. After a step the last W positions are kept, since the
next query adds itself, and the first S. A window of None means no window. Pure functions of numbers
and tensors.

Source: the sliding-window post; StreamingLLM (Xiao et al., 2023), section 3, for the sinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Whether the token at position `query` may attend to the one at position `key`."""
    if key > query:
        return False
    return window is None or key < sinks or query - key <= window


def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    """The K/V to keep: the first `sinks` entries and the last `window`, each once.

    Copies, not views: a slice would keep the whole storage alive.
    Shapes: k and v (H, S, D), oldest first -> (H, min(S, sinks + window), D) each.
    """
    length = k.shape[1]
    if length <= sinks + window:
        return k, v
    kept = [*range(sinks), *range(length - window, length)]
    return k[:, kept], v[:, kept]  # (H, sinks + window, D) each; indexing with a list copies


def rolling_buffer_index(position: int, window: int, sinks: int) -> int:
    """Where in sinks + window entries of storage the K/V of `position` lies.

    The sinks stay where they are; behind them a new entry takes the place of the one that just
    left the window. Attention does not mind the order: a key carries its position with it.
    """
    if position < sinks:
        return position
    return sinks + (position - sinks) % window


def kv_usage(
    num_computed_tokens: int, num_scheduled_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    """KV tokens that a request holds at the peak of a step, and after it.

    All of a chunk's K/V is there before any of it can be evicted.

    >>> kv_usage(0, 40, 20, 0)
    (40, 20)
    >>> kv_usage(32, 8, 20, 4)
    (32, 24)
    """
    end = num_computed_tokens + num_scheduled_tokens
    if window is None:
        return end, end
    limit = sinks + window
    return min(num_computed_tokens, limit) + num_scheduled_tokens, min(end, limit)


def kept_positions(computed: int, window: int | None, sinks: int) -> list[int]:
    """The positions whose K/V is held once `computed` tokens are computed, in order."""
    if window is None or computed <= sinks + window:
        return list(range(computed))
    return [*range(sinks), *range(computed - window, computed)]


def live_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of memory that these tensors keep alive: each storage once, and whole.

    A view keeps all of its storage, however little of it shows in `.shape`.
    """
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }
    return sum(storages.values())


def compare_logits(
    full_logits: Tensor, window_logits: Tensor, targets: Tensor
) -> tuple[float, float]:
    """How much a window costs, teacher-forced on a known text: greedy agreement, and added loss.

    The share of positions whose most likely token stays the same, and the increase of the mean
    negative log likelihood of `targets`, in nats per token.
    Shapes: both logits (T, V), targets (T,).
    """
    import torch.nn.functional as F

    same = full_logits.argmax(-1) == window_logits.argmax(-1)  # (T,)
    added = F.cross_entropy(window_logits, targets) - F.cross_entropy(full_logits, targets)
    return same.float().mean().item(), added.item()


def window_mask(
    queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int
) -> Tensor:
    """`visible` for every pair at once. Shapes: T queries, S keys -> (T, S) bool."""
    import torch

    query = torch.tensor(queries).unsqueeze(1)  # (T, 1)
    key = torch.tensor(keys)  # (S,)
    causal = key <= query  # (T, S)
    if window is None:
        return causal
    return causal & ((key < sinks) | (query - key <= window))
