"""The KV cache under a sliding window: each request holds what may still be seen, and no more.

The same interface as `KVCache`, for executors and engine alike. Memory is taken as tokens are held
and given back as they are evicted: what is counted is what is alive.

Shapes: L layers, H heads, S entries held, T new tokens, D head size, N new tokens of all rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType

import torch
from torch import Tensor

from nanogpt.config import ModelConfig
from nanogpt.executors.base import Row
from nanogpt.kv_cache import transaction, view_by_head
from nanogpt.model import Attend
from nanogpt.parts.sliding_window import WindowMask, kept_positions, window_mask
from nanogpt.request import KVView, OwnKV
from nanogpt.window.window_attention import window_attention
from nanogpt.window.window_storage import WindowStorage


class StepKV:
    """A step's new K/V, which comes layer by layer and is stored request by request."""

    def __init__(self, rows: Sequence[tuple[int, int]], num_layers: int) -> None:
        """`rows` are (request id, how many tokens), in the order of the flat row."""
        self.request_ids, self.lengths = [list(each) for each in zip(*rows, strict=True)]
        self.num_layers = num_layers
        self._layers: list[tuple[Tensor, Tensor]] = []  # (N, H, D) each

    def with_layer(self, k: Tensor, v: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Take one layer's (N, H, D) each; after the last, give each request's (2, L, H, T, D)."""
        self._layers.append((k, v))
        if len(self._layers) < self.num_layers:
            return iter(())
        keys, values = zip(*self._layers, strict=True)
        kv = torch.stack([*keys, *values]).unflatten(0, (2, -1))  # (2, L, N, H, D)
        return zip(self.request_ids, kv.transpose(2, 3).split(self.lengths, dim=3), strict=True)


class WindowedKVCache:
    """K and V of up to `num_slots` requests, a `WindowStorage` each, made by `new_storage`.

    Mutable: which requests there are and what they hold.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_slots: int,
        dtype: torch.dtype,
        device: torch.device,
        window: int,
        sinks: int,
        new_storage: Callable[[Tensor, int, int], WindowStorage],
        mask_of: WindowMask = window_mask,
    ) -> None:
        self.window = window
        self.sinks = sinks
        self.num_slots = num_slots
        self.num_layers = config.num_layers
        shape = (2, config.num_layers, config.num_heads, 0, config.head_size)
        self._empty = torch.empty(shape, dtype=dtype, device=device)  # (2, L, H, 0, D)
        self._new_storage = new_storage
        self._mask_of = mask_of
        self._storage_of: dict[int, WindowStorage] = {}

    def reserve(self, request_id: int) -> None:
        """Take the request in, holding nothing.

        Raises: ValueError when it is there already or no slot is left.
        """
        if request_id in self._storage_of:
            raise ValueError(f"request {request_id} holds a slot already")
        if len(self._storage_of) >= self.num_slots:
            raise ValueError(f"all {self.num_slots} slots are taken")
        self._storage_of[request_id] = self._new_storage(self._empty, self.window, self.sinks)

    def place(self, rows: Sequence[tuple[int, int]]) -> StepKV:
        """Announce the step's rows to their storages."""
        for request_id, num_new in rows:
            self._storage_of[request_id].plan(num_new)
        return StepKV(rows, self.num_layers)

    def write(self, layer: int, place: StepKV, k: Tensor, v: Tensor) -> None:
        """Collect the layers, first to last; the last hands everything out. k, v (N, H, D)."""
        for request_id, kv in place.with_layer(k, v):
            self._storage_of[request_id].put(kv)

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Count the `num_tokens` of this step as held, and evict what they push out."""
        self._storage_of[request_id].commit()

    def discard_written(self, request_id: int) -> None:
        """Let go of what a failed step wrote: nothing of it counts."""
        self._storage_of[request_id].forget()

    def release(self, request_id: int) -> None:
        """Give all of the request's memory back."""
        del self._storage_of[request_id]

    def transaction(
        self, worked: Sequence[int], newcomers: Sequence[int], leaving: Sequence[int]
    ) -> AbstractContextManager[None]:
        """A step's writes: see `kv_cache.transaction`."""
        return transaction(self, worked, newcomers)

    def leave(self, request_id: int) -> OwnKV:
        """Give all of the request's memory back, and leave it a copy of its K/V to look at."""
        left = OwnKV(self.view(request_id))
        self.release(request_id)
        return left

    def gather(self, request_id: int, layer: int) -> tuple[Tensor, Tensor]:
        """Shapes: -> k, v (H, S, D), oldest first."""
        k, v = self.held(request_id)[:, layer]
        return k, v

    def held(self, request_id: int) -> Tensor:
        """Everything that the request holds, a copy, oldest first. Shapes: -> (2, L, H, S, D)."""
        return self._storage_of[request_id].held()

    def slot(self, request_id: int) -> int:
        """0: a request's K/V has no neighbours to be attended to with it."""
        return 0

    def length(self, request_id: int) -> int:
        """How many KV tokens the request holds; 0 when it is unknown."""
        return len(self.positions(request_id))

    def positions(self, request_id: int) -> list[int]:
        """The positions whose K/V is held, in the order of `gather`."""
        storage = self._storage_of.get(request_id)
        return storage.positions if storage else []

    def mask(self, request_id: int, num_new: int) -> Tensor:
        """Which keys a query may see, by position alone. Shapes: -> (T, S + T) bool."""
        storage = self._storage_of[request_id]
        new = range(storage.computed, storage.computed + num_new)
        return self._mask_of(new, [*storage.positions, *new], self.window, self.sinks)

    def in_sight(self, request_id: int) -> Tensor | None:
        """All that is held, in any order, if the next token sees all of it.

        Shapes: -> (2, L, H, S, D), a view where that can be; not to be written to.
        """
        storage = self._storage_of[request_id]
        if self._mask_of is not window_mask:
            return None
        kept = kept_positions(storage.computed, self.window, self.sinks)
        return storage.stored() if storage.positions == kept else None

    def attention(self, rows: Sequence[Row]) -> Attend:
        """Attention of a flat row of tokens, sorted by how many each of `rows` brings."""
        return window_attention(self, rows)

    def view(self, request_id: int) -> KVView:
        """What the request holds, by (layer, head): k, v (1, S, D) each."""
        if request_id not in self._storage_of:
            return MappingProxyType({})
        return view_by_head(list(zip(*self.held(request_id), strict=True)))

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory that the request's K/V keeps alive."""
        return self._storage_of[request_id].live_bytes()

    def held_tokens(self) -> int:
        """KV tokens held by all requests together."""
        return sum(len(storage.positions) for storage in self._storage_of.values())

    def holders(self) -> Sequence[int]:
        """Ids of the requests that are in, in the order they came."""
        return list(self._storage_of)

    def check(self) -> None:
        """Assert that every request holds exactly what the window allows, in live bytes too."""
        per_token = self._empty.itemsize * 2 * self._empty.shape[1] * self._empty.shape[2]
        per_token *= self._empty.shape[4]
        for storage in self._storage_of.values():
            limit = self.window + self.sinks
            assert len(storage.positions) == min(storage.computed, limit), storage.positions
            assert storage.live_bytes() == len(storage.positions) * per_token
