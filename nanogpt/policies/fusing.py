"""One forward for decodes and chunks alike: how rows of unequal length share a tensor, and how not.

First the textbook form: every row is left-padded, in front of its past and again in front of its
new tokens, so a row of the key tensor holds padding in two places:

    [ . . past past | . . . new ]        S past columns, then T new ones

Then the packed form: all new tokens in one flat row, all keys in another, and cumulative lengths
that say whose is whose. Knows lengths and tensors; does not know requests or storage.

Shapes: B rows, T longest new part, S longest past, N new tokens in all, K keys in all, D channels.
Source: the interleaving post, with its masks and positions put right; FlashAttention-2's varlen
interface (cu_seqlens) for the packed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from nanogpt.policies.masks import chunk_mask

if TYPE_CHECKING:
    from torch import Tensor


def prepare_inputs(
    token_ids: Sequence[Sequence[int]],
    num_computed_tokens: Sequence[int],
    num_scheduled_tokens: Sequence[int],
) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids and positions of one fused forward, rows left-padded with zeros.

    Request i knows `token_ids[i]`; so many of them are computed already, and so many are now.
    Shapes: -> (B, T), (B, T).

    >>> prepare_inputs([[5, 6, 7], [1, 2, 3, 4]], [2, 0], [1, 3])
    ([[0, 0, 7], [1, 2, 3]], [[0, 0, 2], [0, 1, 2]])
    """
    longest = max(num_scheduled_tokens)
    tokens: list[list[int]] = []
    positions: list[list[int]] = []
    rows = zip(token_ids, num_computed_tokens, num_scheduled_tokens, strict=True)
    for mine, num_computed, n in rows:
        padding = [0] * (longest - n)
        tokens.append([*padding, *mine[num_computed : num_computed + n]])
        positions.append([*padding, *range(num_computed, num_computed + n)])
    return tokens, positions


def new_mask(num_scheduled_tokens: Sequence[int]) -> Tensor:
    """Which new columns see which: causal, and no query sees padding.

    A padding query sees itself: its output is thrown away, but a row that sees nothing turns into
    NaN, and 0 * NaN is NaN where the next layer masks it. Shapes: -> (B, T, T) bool.
    """
    import torch

    longest = max(num_scheduled_tokens)
    columns = torch.arange(longest)  # (T,)
    causal = columns <= columns.unsqueeze(1)  # (T, T)
    first_real = longest - torch.tensor(num_scheduled_tokens)  # (B,)
    real = columns >= first_real.view(-1, 1, 1)  # (B, 1, T)
    itself = torch.eye(longest, dtype=torch.bool)  # (T, T)
    return causal & real | itself  # (B, T, T)


def full_mask(context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]) -> Tensor:
    """Which keys each query sees in a fused forward: all of its own past, the new by `new_mask`.

    Shapes: -> (B, T, S + T) bool, S = max(context_lens) columns of past first.
    """
    import torch

    longest_past, longest_new = max(context_lens), max(num_scheduled_tokens)
    first_held = longest_past - torch.tensor(context_lens)  # (B,)
    past = torch.arange(longest_past) >= first_held.view(-1, 1, 1)  # (B, 1, S)
    past = past.expand(-1, longest_new, -1)  # (B, T, S)
    return torch.cat([past, new_mask(num_scheduled_tokens)], dim=2)  # (B, T, S + T)


def split_kv(
    k: Tensor, context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]
) -> list[Tensor]:
    """Each row's own keys (or values) out of a padded tensor: its past, then its new ones.

    Shapes: k (B, S + T, D) -> B tensors (context_lens[i] + num_scheduled_tokens[i], D).
    """
    import torch

    longest_past, total = max(context_lens), max(context_lens) + max(num_scheduled_tokens)
    return [
        torch.cat([row[longest_past - past : longest_past], row[total - new :]])  # (past + new, D)
        for row, past, new in zip(k, context_lens, num_scheduled_tokens, strict=True)
    ]


def pack(
    context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]
) -> tuple[list[int], list[int], Tensor]:
    """Where each request begins in the flat row of new tokens and in that of keys, and the mask.

    Request i owns queries cu_seqlens_q[i]:cu_seqlens_q[i + 1], and its keys by cu_seqlens_k; the
    mask is a staircase of blocks, each with its diagonal at the bottom right.
    Shapes: -> (B + 1), (B + 1), (N, K) bool.
    """
    import torch

    cu_seqlens_q = [0, *accumulate(num_scheduled_tokens)]
    seq_lens = [past + new for past, new in zip(context_lens, num_scheduled_tokens, strict=True)]
    cu_seqlens_k = [0, *accumulate(seq_lens)]
    mask = torch.zeros(cu_seqlens_q[-1], cu_seqlens_k[-1], dtype=torch.bool)  # (N, K)
    for i, (past, new) in enumerate(zip(context_lens, num_scheduled_tokens, strict=True)):
        mask[cu_seqlens_q[i] : cu_seqlens_q[i + 1], cu_seqlens_k[i] : cu_seqlens_k[i + 1]] = (
            chunk_mask(past, new)
        )
    return cu_seqlens_q, cu_seqlens_k, mask
