"""The KV cache: one slot of preallocated K/V per running request, addressed by logical position.

Knows tensors and request ids; does not know scheduling. A step first writes and then commits:
what was written is held, and counted, only from the commit on, so a step that fails holds nothing.

    slot of request 7:   [ held: positions 0 .. length - 1 | written, not committed | free ]

Shapes: L layers, P slots, H heads, S positions, D head size, N tokens.
"""

import math
import mmap
import weakref
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from nanogpt.config import ModelConfig
from nanogpt.request import KVView, OwnKV


class KVCache:
    """K and V of every layer for up to P requests, each in a slot of the model's context length.

    Raises: ValueError for more slots than there is memory for.
    Mutable: which request sits in which slot, and how many tokens it holds.
    """

    def __init__(
        self, config: ModelConfig, num_slots: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        shape = (
            2, config.num_layers, num_slots, config.num_heads, config.context_len, config.head_size
        )  # fmt: skip
        # Zeros, not garbage: a masked key has weight 0, but 0 * NaN would still be NaN.
        try:
            self.storage = zeros_on_demand(shape, dtype).to(device)  # (2, L, P, H, S, D)
        except (OSError, OverflowError, ValueError, MemoryError):
            raise ValueError(
                f"max_batch_size is {num_slots}; this machine has no memory for as many slots of "
                f"{config.context_len} tokens"
            ) from None
        self.k, self.v = self.storage.unbind(0)  # (L, P, H, S, D) each
        # One row for each token and head of a layer, so that a write is two plain copies.
        by_layer = self.storage.flatten(2, 4).transpose(0, 1)  # (L, 2, P * H * S, D)
        self._rows = [tuple(kv.unbind()) for kv in by_layer.unbind()]
        self._heads = torch.arange(config.num_heads, device=device) * config.context_len  # (H,)
        self._slot_of: dict[int, int] = {}
        self._length_of: dict[int, int] = {}
        self._free = list(range(num_slots))
        self._left_in: dict[int, weakref.ref[OwnKV]] = {}

    def reserve(self, request_id: int) -> None:
        """Give the request an empty slot, the lowest that is free.

        Raises: ValueError when it has one already or none is left.
        """
        if request_id in self._slot_of:
            raise ValueError(f"request {request_id} holds a slot already")
        if not self._free:
            raise ValueError(f"all {len(self._slot_of)} slots are taken")
        # The lowest slot keeps running requests side by side, so that a batch can be a view.
        slot = min(self._free)
        self._free.remove(slot)
        self._move_out(slot)
        self._slot_of[request_id] = slot
        self._length_of[request_id] = 0

    def place(self, rows: Sequence[tuple[int, int]]) -> Tensor:
        """Where the new tokens of [(request id, how many), ...] go, head by head: (N * H,)."""
        _, _, _, num_heads, context_len, _ = self.storage.shape
        first: list[int] = []
        for request_id, num_new in rows:
            start = self._slot_of[request_id] * num_heads * context_len
            start += self._length_of[request_id]
            first += range(start, start + num_new)
        starts = torch.tensor(first, device=self._heads.device).unsqueeze(1)  # (N, 1)
        return (starts + self._heads).flatten()  # (N * H,)

    def write(self, layer: int, place: Tensor, k: Tensor, v: Tensor) -> None:
        """Store K/V of N new tokens. Shapes: place (N * H,), k, v (N, H, D)."""
        keys, values = self._rows[layer]
        keys.index_copy_(0, place, k.flatten(0, 1))
        values.index_copy_(0, place, v.flatten(0, 1))

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Count `num_tokens` freshly written tokens as held."""
        self._length_of[request_id] += num_tokens

    def discard_written(self, request_id: int) -> None:
        """Wipe what was written and never committed, for a step that failed.

        A failed step may have written NaN, and a batch reads each slot up to its longest member.
        """
        slot, length = self._slot_of[request_id], self._length_of[request_id]
        self.storage[:, :, slot, :, length:] = 0

    def held(self, request_id: int) -> Tensor:
        """What the request holds in all layers, a view. Shapes: -> (2, L, H, S, D)."""
        slot, length = self._slot_of[request_id], self._length_of[request_id]
        return self.storage[:, :, slot, :, :length]  # (2, L, H, S, D)

    def release(self, request_id: int) -> None:
        """Give the request's slot back."""
        self._free.append(self._slot_of.pop(request_id))
        del self._length_of[request_id]

    def transaction(
        self, worked: Sequence[int], newcomers: Sequence[int], leaving: Sequence[int]
    ) -> AbstractContextManager[None]:
        """A step's writes, see `transaction`; those that leave keep their slots till its commit."""
        return transaction(self, worked, newcomers)

    def leave(self, request_id: int) -> OwnKV:
        """Give the request's slot back, and leave it its K/V to look at.

        That stays where it lies until the slot is taken again; then it is copied, if it is still
        of use to anything.
        """
        left = OwnKV(self.view(request_id))
        self._left_in[self._slot_of[request_id]] = weakref.ref(left)
        self.release(request_id)
        return left

    def _move_out(self, slot: int) -> None:
        """Copy what a finished request left in the slot, unless that request is gone."""
        left = self._left_in[slot]() if slot in self._left_in else None
        if left is not None:
            k, _ = left.kv[0, 0]  # (1, S, D)
            kv = self.storage[:, :, slot, :, : k.shape[1]].clone()  # (2, L, H, S, D)
            left.kv = view_by_head(list(zip(*kv, strict=True)))
        self._left_in.pop(slot, None)

    def slot(self, request_id: int) -> int:
        """The slot that the request sits in."""
        return self._slot_of[request_id]

    def length(self, request_id: int) -> int:
        """How many tokens the request holds; 0 when it has no slot."""
        return self._length_of.get(request_id, 0)

    def positions(self, request_id: int) -> range:
        """The positions whose K/V is held: all of them."""
        return range(self.length(request_id))

    def mask(self, request_id: int, num_new: int) -> None:
        """None: the causal mask applies."""

    def gather(self, request_id: int, layer: int) -> tuple[Tensor, Tensor]:
        """What the request holds in one layer, oldest first. Shapes: -> k, v (H, S, D), views."""
        slot, length = self._slot_of[request_id], self._length_of[request_id]
        return self.k[layer, slot, :, :length], self.v[layer, slot, :, :length]  # (H, S, D)

    def view(self, request_id: int) -> KVView:
        """What the request holds, by (layer, head) as the posts store it: k, v (1, S, D) each."""
        if request_id not in self._slot_of:
            return MappingProxyType({})
        return view_by_head(list(zip(*self.held(request_id), strict=True)))

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory set aside for the request: a whole slot, however little of it is held."""
        return self.storage.nbytes // self.k.shape[1]

    def held_tokens(self) -> int:
        """KV tokens held by all requests together."""
        return sum(self._length_of.values())

    def holders(self) -> Sequence[int]:
        """Ids of the requests that have a slot, in the order they got it."""
        return list(self._slot_of)

    def check(self) -> None:
        """Assert that every slot is either free or held by exactly one request."""
        num_slots = self.k.shape[1]
        owned = list(self._slot_of.values())
        assert sorted(owned + self._free) == list(range(num_slots)), (owned, self._free)
        assert self._slot_of.keys() == self._length_of.keys()
        assert all(0 <= n <= self.k.shape[3] for n in self._length_of.values())


@contextmanager
def transaction(cache: Any, worked: Sequence[int], newcomers: Sequence[int]) -> Generator[None]:
    """A step's writes: newcomers get their slots, and an error takes back all that was written."""
    for request_id in newcomers:
        cache.reserve(request_id)
    try:
        yield
    except BaseException:
        for request_id in worked:
            cache.discard_written(request_id)
        for request_id in newcomers:
            cache.release(request_id)
        raise


def view_by_head(layers: Sequence[tuple[Tensor, Tensor]]) -> KVView:
    """One (k, v) per layer, (H, S, D) each, as the posts store it: (layer, head) -> (1, S, D)."""
    view: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    for layer, (k, v) in enumerate(layers):
        for head in range(len(k)):
            view[layer, head] = (k[head : head + 1], v[head : head + 1])  # (1, S, D)
    return MappingProxyType(view)


def zeros_on_demand(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that take up memory only where they are touched.

    `torch.zeros` writes all of them at once, which for a cache costs more than serving a few
    requests; private memory from the operating system reads as zero until it is written.
    """
    pages = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, access=mmap.ACCESS_COPY)
    return torch.frombuffer(pages, dtype=dtype).view(shape)
