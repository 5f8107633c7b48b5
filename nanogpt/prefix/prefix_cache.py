"""The prefix cache: K/V of tokens that were served before, found again by the tokens themselves.

K/V depends on a token and all tokens before it, and on nothing else, so two requests that begin
alike can share it. It is copied out of a request's slot once the step that computed it has
committed, and into the slot of a request admitted later: room of its own, beside the KV budget.

Shapes: L layers, H heads, S positions, D head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nanogpt.executors.base import KVStore
from nanogpt.kv_cache import KVCache
from nanogpt.parts.seams import Prefixes
from nanogpt.prefix.radix import RadixTree
from nanogpt.request import Request


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """The first `num_tokens` of some known tokens; `pieces` is their K/V, (2, L, H, s, D) each."""

    num_tokens: int
    pieces: tuple[Tensor, ...]

    def copy_to(self, cache: KVStore, request_id: int) -> None:
        """Put it into the request's empty slot, where it counts as held."""
        assert isinstance(cache, KVCache)
        cache.load(request_id, torch.cat(self.pieces, dim=3))  # (2, L, H, S, D)


class PrefixCache(Prefixes):
    """K/V of at most `capacity_tokens` tokens, the least recently used out first; 0 keeps nothing.

    Mutable: what is stored.
    """

    def __init__(self, capacity_tokens: int) -> None:
        self.tree: RadixTree[Tensor] = RadixTree(capacity_tokens, _cut)

    @property
    def num_tokens(self) -> int:
        """How many tokens' K/V is stored."""
        return self.tree.num_tokens

    def find(self, known: Sequence[int]) -> PrefixHit | None:
        """The longest stored prefix of `known` that leaves a token to compute.

        The last known token has to go through the model, for its logits. Changes nothing, so that
        a step which fails leaves no trace.
        """
        num_tokens, pieces = self.tree.match(tuple(known[:-1]), touch=False)
        return PrefixHit(num_tokens, tuple(pieces)) if num_tokens else None

    def publish(self, request: Request, cache: KVStore) -> None:
        """Let others find a copy of what the request holds, all of it from committed steps."""
        if self.tree.capacity_tokens:
            assert isinstance(cache, KVCache), "the settings refuse a window beside a prefix cache"
            kv = cache.held(request.id)  # (2, L, H, S, D)
            self.tree.insert(tuple(request.tokens_so_far[: kv.shape[3]]), kv)


def _cut(kv: Tensor, start: int, end: int) -> Tensor:
    """A copy, since a view would keep all of the memory. Shapes: -> (2, L, H, end - start, D)."""
    return kv[:, :, :, start:end].clone()
