"""One request's K/V under a sliding window: two ways to keep what is still visible.

`EvictingStorage` is the textbook's: append, then copy what stays. `RingStorage` overwrites the
entry that has just left the window, so nothing moves. Both keep as many entries alive as they
count, to the byte. Learners' parts run in `plan` and `put`, and count from `commit` on.

Shapes: L layers, H heads, S entries held, T new tokens, D head size.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from nanogpt.sliding_window import kept_positions, live_bytes

Evict = Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor]]
SlotsOf = Callable[[Sequence[int], int, int], list[int]]
"""(positions, window, sinks) -> the slot of each."""


class WindowStorage(Protocol):
    """The K/V of one request, layer by layer."""

    computed: int
    positions: list[int]

    def plan(self, num_new: int) -> None:
        """Get ready for a step of `num_new` tokens."""
        ...

    def forget(self) -> None:
        """Let go of what was put and never committed."""
        ...

    def put(self, layer: int, k: Tensor, v: Tensor) -> None:
        """One layer's new K/V. Shapes: k, v (H, T, D)."""
        ...

    def commit(self) -> None:
        """Let what was put count, and evict what has left the window."""
        ...

    def gather(self, layer: int) -> tuple[Tensor, Tensor]:
        """What is held, oldest first. Shapes: -> (H, S, D) each."""
        ...

    def live_bytes(self) -> int:
        """Bytes of memory that the held K/V keeps alive."""
        ...


class EvictingStorage:
    """Contiguous K/V per layer: concatenated and cut by `evict`, once per layer and step."""

    def __init__(self, empty: Tensor, window: int, sinks: int, evict: Evict) -> None:
        """Shapes: empty (2, L, H, 0, D)."""
        self.window, self.sinks, self.evict = window, sinks, evict
        self.computed = 0
        self.positions: list[int] = []
        self._layers = [(k, v) for k, v in zip(*empty, strict=True)]  # (H, S, D) each
        self._next_layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._num_new = 0

    def plan(self, num_new: int) -> None:
        """Nothing to find out beforehand."""
        self.forget()
        self._num_new = num_new

    def forget(self) -> None:
        """Drop the longer tensors of a step that failed."""
        self._next_layers = {}

    def put(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Shapes: k, v (H, T, D)."""
        held_k, held_v = self._layers[layer]
        longer = torch.cat([held_k, k], dim=1), torch.cat([held_v, v], dim=1)  # (H, S + T, D)
        self._next_layers[layer] = self.evict(*longer, self.window, self.sinks)
        if layer == 0:
            # Whatever `evict` keeps, it is asked to keep the same of the positions themselves.
            end = self.computed + self._num_new
            where = k.new_tensor([*self.positions, *range(self.computed, end)]).view(1, -1, 1)
            kept, _ = self.evict(where, where, self.window, self.sinks)
            self._next_positions: list[int] = kept.flatten().round().int().tolist()

    def commit(self) -> None:
        """Swap the new tensors in."""
        self._layers = [self._next_layers[layer] for layer in range(len(self._layers))]
        self.positions = self._next_positions
        self.computed += self._num_new
        self._next_layers = {}

    def gather(self, layer: int) -> tuple[Tensor, Tensor]:
        """Shapes: -> (H, S, D) each."""
        return self._layers[layer]

    def live_bytes(self) -> int:
        """Bytes of all layers' storages."""
        return live_bytes(tensor for pair in self._layers for tensor in pair)


class RingStorage:
    """At most sinks + window entries, each in the slot that `slots_of` names for its position.

    Memory is taken for a slot when it is first used, so a short text takes no more than it holds.
    """

    def __init__(self, empty: Tensor, window: int, sinks: int, slots_of: SlotsOf) -> None:
        """Shapes: empty (2, L, H, 0, D)."""
        self.window, self.sinks, self.slots_of = window, sinks, slots_of
        self.computed = 0
        self.positions: list[int] = []
        self._kv = empty  # (2, L, H, S, D)
        self._entry_of_slot: dict[int, int] = {}
        self._order = torch.empty(0, dtype=torch.long)  # (S,)
        self._put: dict[int, tuple[Tensor, Tensor]] = {}

    def plan(self, num_new: int) -> None:
        """Look up the slots of everything that will be held after the step."""
        self.forget()
        self._next_computed = self.computed + num_new
        self._next_positions = kept_positions(self._next_computed, self.window, self.sinks)
        self._next_slots = self.slots_of(self._next_positions, self.window, self.sinks)

    def forget(self) -> None:
        """Drop the new entries of a step that failed."""
        self._put = {}

    def put(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Shapes: k, v (H, T, D)."""
        self._put[layer] = (k, v)

    def commit(self) -> None:
        """Write the new entries that stay over those that have left."""
        for slot in self._next_slots:
            self._entry_of_slot.setdefault(slot, len(self._entry_of_slot))
        more = len(self._entry_of_slot) - self._kv.shape[3]
        if more > 0:
            shape = (*self._kv.shape[:3], more, self._kv.shape[4])
            self._kv = torch.cat([self._kv, self._kv.new_empty(shape)], dim=3)
        entries = [self._entry_of_slot[slot] for slot in self._next_slots]
        fresh = [i for i, p in enumerate(self._next_positions) if p >= self.computed]
        target = torch.tensor([entries[i] for i in fresh], dtype=torch.long)
        source = torch.tensor([self._next_positions[i] - self.computed for i in fresh])
        for layer, (k, v) in self._put.items():
            self._kv[0, layer, :, target] = k[:, source]
            self._kv[1, layer, :, target] = v[:, source]
        self.positions, self.computed = self._next_positions, self._next_computed
        self._order = torch.tensor(entries, dtype=torch.long)  # (S,)
        self._put = {}

    def gather(self, layer: int) -> tuple[Tensor, Tensor]:
        """Shapes: -> (H, S, D) each."""
        k, v = self._kv[:, layer, :, self._order]  # (H, S, D) each
        return k, v

    def live_bytes(self) -> int:
        """Bytes of the ring."""
        return live_bytes([self._kv])
