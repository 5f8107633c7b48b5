"""One request's K/V under a sliding window: two ways to keep what is still visible.

`EvictingStorage` is the textbook's: append, then copy what stays. `RingStorage` overwrites the
entry that has just left the window, so nothing moves. Both keep as many entries alive as they
count, to the byte, and do what they do to all layers in one call: at this size a call costs more
than the numbers that it moves. Policies are asked in `plan` and `put`; an answer counts from the
`commit` on.

Shapes: L layers, H heads, S entries held, T new tokens, D head size.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from nanogpt.policies.sliding_window import kept_positions, live_bytes
from nanogpt.validate import PolicyError
from nanogpt.window.window_policies import IndicesOf

Evict = Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor]]


class WindowStorage(Protocol):
    """The K/V of one request, in all layers."""

    computed: int
    positions: list[int]

    def plan(self, num_new: int) -> None:
        """Get ready for a step of `num_new` tokens."""
        ...

    def forget(self) -> None:
        """Let go of what was put and never committed."""
        ...

    def put(self, kv: Tensor) -> None:
        """The step's new K/V. Shapes: kv (2, L, H, T, D)."""
        ...

    def commit(self) -> None:
        """Let what was put count, and evict what has left the window."""
        ...

    def held(self) -> Tensor:
        """What is held, oldest first. Shapes: -> (2, L, H, S, D)."""
        ...

    def stored(self) -> Tensor:
        """The same in the order in which it lies. Shapes: -> (2, L, H, S, D)."""
        ...

    def live_bytes(self) -> int:
        """Bytes of memory that the held K/V keeps alive."""
        ...


class EvictingStorage:
    """Contiguous K/V: concatenated and cut by `evict`, which sees every head of every layer."""

    def __init__(self, empty: Tensor, window: int, sinks: int, evict: Evict) -> None:
        """Shapes: empty (2, L, H, 0, D)."""
        self.window, self.sinks, self.evict = window, sinks, evict
        self.computed = 0
        self.positions: list[int] = []
        self._num_layers = empty.shape[1]
        self._k, self._v = empty.flatten(1, 2).unbind()  # (L * H, S, D) each
        self._next: tuple[Tensor, Tensor, list[int]] | None = None
        self._num_new = 0

    def plan(self, num_new: int) -> None:
        """Nothing to find out beforehand."""
        self.forget()
        self._num_new = num_new

    def forget(self) -> None:
        """Drop the longer tensors of a step that failed."""
        self._next = None

    def put(self, kv: Tensor) -> None:
        """Shapes: kv (2, L, H, T, D)."""
        k, v = kv.flatten(1, 2)  # (L * H, T, D) each
        longer = torch.cat([self._k, k], dim=1), torch.cat([self._v, v], dim=1)
        kept_k, kept_v = self.evict(*longer, self.window, self.sinks)  # (L * H, S, D) each
        # Whatever `evict` keeps, it is asked to keep the same of the positions themselves.
        end = self.computed + self._num_new
        where = k.new_tensor([*self.positions, *range(self.computed, end)]).view(1, -1, 1)
        kept, _ = self.evict(where, where, self.window, self.sinks)
        if kept.shape[1] != kept_k.shape[1]:
            raise PolicyError(
                f"evict kept {kept_k.shape[1]} entries of K/V and {kept.shape[1]} of their "
                "positions; it must keep the same of both"
            )
        self._next = kept_k, kept_v, kept.flatten().round().int().tolist()

    def commit(self) -> None:
        """Swap the new tensors in."""
        assert self._next is not None, "nothing was put"
        self._k, self._v, self.positions = self._next
        self.computed += self._num_new
        self._next = None

    def held(self) -> Tensor:
        """Shapes: -> (2, L, H, S, D)."""
        return torch.stack([self._k, self._v]).unflatten(1, (self._num_layers, -1))

    stored = held

    def live_bytes(self) -> int:
        """Bytes of the storages of K and V."""
        return live_bytes([self._k, self._v])


class RingStorage:
    """At most sinks + window entries, each in the slot that `indices_of` names for its position.

    Memory is taken for a slot when it is first used, so a short text takes no more than it holds.
    """

    def __init__(self, empty: Tensor, window: int, sinks: int, indices_of: IndicesOf) -> None:
        """Shapes: empty (2, L, H, 0, D)."""
        self.window, self.sinks, self.indices_of = window, sinks, indices_of
        self.computed = 0
        self.positions: list[int] = []
        self._kv = empty  # (2, L, H, S, D)
        self._entry_of_slot: dict[int, int] = {}
        self._slot_of: dict[int, int] = {}  # of every position held
        self._put: Tensor | None = None  # (2, L, H, T, D)

    def plan(self, num_new: int) -> None:
        """Look up the slots of everything new that will be held after the step."""
        self.forget()
        self._next_computed = self.computed + num_new
        self._next_positions = kept_positions(self._next_computed, self.window, self.sinks)
        self._fresh = [p for p in self._next_positions if p >= self.computed]
        self._fresh_slots = self.indices_of(self._fresh, self.window, self.sinks)

    def forget(self) -> None:
        """Drop the new entries of a step that failed."""
        self._put = None

    def put(self, kv: Tensor) -> None:
        """Shapes: kv (2, L, H, T, D)."""
        self._put = kv

    def commit(self) -> None:
        """Write the new entries that stay over those that have left."""
        assert self._put is not None, "nothing was put"
        for slot in self._fresh_slots:
            self._entry_of_slot.setdefault(slot, len(self._entry_of_slot))
        more = len(self._entry_of_slot) - self._kv.shape[3]
        if more > 0:
            shape = (*self._kv.shape[:3], more, self._kv.shape[4])
            self._kv = torch.cat([self._kv, self._kv.new_empty(shape)], dim=3)
        if len(self._fresh) == 1:  # a decode: no index tensors for a single entry
            entry = self._entry_of_slot[self._fresh_slots[0]]
            new = self._put.select(3, self._fresh[0] - self.computed)  # (2, L, H, D)
            self._kv.select(3, entry).copy_(new)
        else:
            entries = [self._entry_of_slot[slot] for slot in self._fresh_slots]
            source = [position - self.computed for position in self._fresh]
            self._kv[:, :, :, entries] = self._put[:, :, :, source]
        self._slot_of.update(zip(self._fresh, self._fresh_slots, strict=True))
        for position in set(self.positions).difference(self._next_positions):
            del self._slot_of[position]
        self.positions, self.computed = self._next_positions, self._next_computed
        self._put = None

    def held(self) -> Tensor:
        """Shapes: -> (2, L, H, S, D)."""
        entries = [self._entry_of_slot[slot] for slot in self._slot_of.values()]
        index = torch.tensor(entries, dtype=torch.long, device=self._kv.device)  # (S,)
        return self._kv.index_select(3, index)

    def stored(self) -> Tensor:
        """The whole ring, as it lies. Shapes: -> (2, L, H, S, D), a view."""
        return self._kv

    def live_bytes(self) -> int:
        """Bytes of the ring."""
        return live_bytes([self._kv])
