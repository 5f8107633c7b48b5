"""A request with the names of the posts: `prefill_cursor`, and K/V that can be looked at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from torch import Tensor

from nanogpt import request

KVView = Mapping[tuple[int, int], tuple[Tensor, Tensor]]
"""(layer, head) -> (k, v), each (1, S, D)."""


@dataclass(eq=False)
class Request(request.Request):
    """The engine's request, as the posts' calls read it.

    `own_kv` is the K/V that the textbook calls store and that a finished request keeps;
    `engine_kv` reads the engine's while one serves the request.
    Source: the field names of the scheduling post, so that its calls run unchanged.
    """

    own_kv: KVView = field(default_factory=dict, repr=False, kw_only=True)
    engine_kv: Callable[[], KVView] | None = field(default=None, repr=False, kw_only=True)

    @property
    def prefill_cursor(self) -> int:
        """How many tokens have been computed."""
        return self.num_computed_tokens

    @prefill_cursor.setter
    def prefill_cursor(self, num_computed_tokens: int) -> None:
        self.num_computed_tokens = num_computed_tokens

    @property
    def kv_cache(self) -> KVView:
        """The request's K/V, read-only: (layer, head) -> (k, v), each (1, S, D).

        A finished request keeps the K/V of all its tokens but the last.
        """
        return MappingProxyType({**(self.engine_kv() if self.engine_kv else self.own_kv)})

    def clear_cache(self) -> None:
        """Forget what was computed, and the request's own K/V; an engine frees its own."""
        super().clear_cache()
        self.own_kv = {}


def by_head(kv: Tensor) -> KVView:
    """Shapes: kv (2, L, H, S, D) -> k, v (1, S, D) for each (layer, head)."""
    _, num_layers, num_heads, _, _ = kv.shape
    places = [(layer, head) for layer in range(num_layers) for head in range(num_heads)]
    k, v = kv.unsqueeze(3)  # (L, H, 1, S, D) each
    return {place: (k[place], v[place]) for place in places}
