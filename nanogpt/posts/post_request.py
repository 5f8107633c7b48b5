"""A request with the names of the posts: `prefill_cursor`, and K/V that can be looked at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from torch import Tensor

from nanogpt import request
from nanogpt.kv_store import KVStore

KVView = Mapping[tuple[int, int], tuple[Tensor, Tensor]]
"""(layer, head) -> (k, v), each (1, S, D)."""


def no_kv() -> KVView:
    """The view of a request that holds nothing."""
    return MappingProxyType({})


class OwnKV:
    """A `kv_view` of K/V that is the request's own, and goes with `clear_cache`."""

    def __init__(self, kv: KVView) -> None:
        self.kv = kv

    def __call__(self) -> KVView:
        """(layer, head) -> (k, v)."""
        return self.kv


@dataclass(eq=False)
class Request(request.Request):
    """The engine's request, as the posts' calls read it.

    `kv_view` gives its K/V: the engine's while one serves it, its own in the textbook calls.
    Source: the field names of the scheduling post, so that its calls run unchanged.
    """

    kv_view: Callable[[], KVView] = field(default=no_kv, repr=False, kw_only=True)

    @property
    def prefill_cursor(self) -> int:
        """How many tokens have been computed."""
        return self.num_computed_tokens

    @prefill_cursor.setter
    def prefill_cursor(self, num_computed_tokens: int) -> None:
        self.num_computed_tokens = num_computed_tokens

    @property
    def kv_cache(self) -> KVView:
        """Read-only: (layer, head) -> (k, v), each (1, S, D), of what is held right now.

        Of a request that is done, what it held at the end: all but the last token's.
        """
        return self.kv_view()

    def clear_cache(self) -> None:
        """Forget what was computed, and let go of K/V of its own; an engine's, that releases."""
        super().clear_cache()
        if isinstance(self.kv_view, OwnKV):
            self.kv_view = no_kv


def view_of(cache: KVStore, request_id: int) -> KVView:
    """What the request holds, by (layer, head)."""
    if request_id not in cache.holders():
        return no_kv()
    return by_head(cache.held(request_id))


def by_head(held: Tensor) -> KVView:
    """Shapes: held (2, L, H, S, D) -> k, v (1, S, D) for each (layer, head)."""
    _, num_layers, num_heads, _, _ = held.shape
    places = [(layer, head) for layer in range(num_layers) for head in range(num_heads)]
    k, v = held.unsqueeze(3)  # (L, H, 1, S, D) each
    return MappingProxyType({place: (k[place], v[place]) for place in places})
