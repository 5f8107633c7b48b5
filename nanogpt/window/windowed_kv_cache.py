"""The KV cache under a sliding window: each request holds what may still be seen, and no more.

`EvictingStorage` is the textbook's: append, then copy what stays. `RingStorage` overwrites the
entry that has just left the window, so nothing moves. Both keep as many entries alive as they
count, to the byte, and treat all layers in one call: at this size a call costs more than the
numbers that it moves. Policies are asked in `put`; their answers count from `commit` on.

Shapes: L layers, H heads, S entries held, T new tokens, D head size.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.executors.paged_attention import index_of
from nanogpt.policies import Policies
from nanogpt.policies.sliding_window import kept_positions, live_bytes
from nanogpt.policies.validate_policies import as_natural
from nanogpt.validate import PolicyError, refused
from nanogpt.window.window_store import WindowStore

Evict = Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor]]
IndicesOf = Callable[[Sequence[int], int, int], list[int]]
"""(positions, window, sinks) -> where in the rolling buffer the K/V of each lies."""


class EvictingStorage:
    """One request's K/V in order: concatenated and cut by `evict`, which sees every head."""

    def __init__(self, empty: Tensor, window: int, sinks: int, evict: Evict) -> None:
        """Shapes: empty (2, L, H, 0, D)."""
        self.window, self.sinks, self.evict = window, sinks, evict
        self.computed = 0
        self.positions: list[int] = []
        self._num_layers = empty.shape[1]
        self._k, self._v = empty.flatten(1, 2).unbind()  # (L * H, S, D) each

    def put(self, kv: Tensor) -> None:
        """Shapes: kv (2, L, H, T, D)."""
        k, v = kv.flatten(1, 2)  # (L * H, T, D) each
        longer = torch.cat([self._k, k], dim=1), torch.cat([self._v, v], dim=1)
        kept_k, kept_v = self.evict(*longer, self.window, self.sinks)  # (L * H, S, D) each
        # Whatever `evict` keeps, it is asked to keep the same of the positions themselves.
        end = self.computed + kv.shape[3]
        where = k.new_tensor([*self.positions, *range(self.computed, end)]).view(1, -1, 1)
        kept, _ = self.evict(where, where, self.window, self.sinks)
        if kept.shape[1] != kept_k.shape[1]:
            raise PolicyError(
                f"evict kept {kept_k.shape[1]} entries of K/V and {kept.shape[1]} of their "
                "positions; it must keep the same of both"
            )
        self._next = kept_k, kept_v, kept.flatten().round().int().tolist(), end

    def commit(self) -> None:
        """Swap the new tensors in."""
        self._k, self._v, self.positions, self.computed = self._next
        del self._next

    def held(self) -> Tensor:
        """What is held, oldest first. Shapes: -> (2, L, H, S, D)."""
        return torch.stack([self._k, self._v]).unflatten(1, (self._num_layers, -1))

    stored = held

    def live_bytes(self) -> int:
        """Bytes of memory that K and V keep alive."""
        return live_bytes([self._k, self._v])


class RingStorage:
    """One request's K/V in sinks + window slots at most, by position as `indices_of` says.

    Memory is taken for a slot when it is first used, so a short text takes no more than it holds.
    """

    def __init__(self, empty: Tensor, window: int, sinks: int, indices_of: IndicesOf) -> None:
        """Shapes: empty (2, L, H, 0, D)."""
        self.window, self.sinks, self.indices_of = window, sinks, indices_of
        self.computed = 0
        self.positions: list[int] = []
        self._kv = empty  # (2, L, H, S, D)
        self._entry_of_slot: dict[int, int] = {}
        self._entry_of: dict[int, int] = {}  # of every position held

    def put(self, kv: Tensor) -> None:
        """Shapes: kv (2, L, H, T, D)."""
        kept = kept_positions(self.computed + kv.shape[3], self.window, self.sinks)
        fresh = [position for position in kept if position >= self.computed]
        self._next = kv, kept, fresh, self.indices_of(fresh, self.window, self.sinks)

    def commit(self) -> None:
        """Write the new entries that stay over those that have left."""
        kv, kept, fresh, slots = self._next
        del self._next
        for slot in slots:
            self._entry_of_slot.setdefault(slot, len(self._entry_of_slot))
        more = len(self._entry_of_slot) - self._kv.shape[3]
        if more > 0:
            shape = (*self._kv.shape[:3], more, self._kv.shape[4])
            self._kv = torch.cat([self._kv, self._kv.new_empty(shape)], dim=3)
        entries = [self._entry_of_slot[slot] for slot in slots]
        source = [position - self.computed for position in fresh]
        self._kv[:, :, :, index_of(entries)] = kv[:, :, :, index_of(source)]
        entry_of = self._entry_of | dict(zip(fresh, entries, strict=True))
        self._entry_of = {position: entry_of[position] for position in kept}
        self.positions, self.computed = kept, self.computed + kv.shape[3]

    def held(self) -> Tensor:
        """What is held, oldest first. Shapes: -> (2, L, H, S, D)."""
        return self._kv[:, :, :, list(self._entry_of.values())]

    def stored(self) -> Tensor:
        """The whole ring, as it lies. Shapes: -> (2, L, H, S, D), a view."""
        return self._kv

    def live_bytes(self) -> int:
        """Bytes of memory that the ring keeps alive."""
        return live_bytes([self._kv])


class WindowedKVCache(WindowStore):
    """K and V of a batch of requests, each with a storage of its own.

    Memory is taken as tokens are held and given back as they are evicted: what is charged is what
    is alive. Mutable: which requests there are and what they hold.
    """

    def __init__(
        self,
        model: ModelConfig,
        config: EngineConfig,
        policies: Policies,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        assert config.sliding_window is not None
        window = config.sliding_window
        super().__init__(window, config.num_sinks, model.num_layers, policies.visible)
        self.kind, self.num_slots = config.kv_storage, config.max_batch_size
        self._evict = policies.evict
        self._indices_of = indices_of(policies.rolling_buffer_index)
        shape = (2, model.num_layers, model.num_heads, 0, model.head_size)
        self._empty = torch.empty(shape, dtype=dtype, device=device)  # (2, L, H, 0, D)
        self._storage_of: dict[int, EvictingStorage | RingStorage] = {}

    def reserve(self, request_id: int) -> None:
        """Take the request in. Raises: ValueError when it is there already or no slot is left."""
        if request_id in self._storage_of:
            raise ValueError(f"request {request_id} holds a slot already")
        if len(self._storage_of) >= self.num_slots:
            raise ValueError(f"all {self.num_slots} slots are taken")
        if self.kind == "evict":
            storage = EvictingStorage(self._empty, self.window, self.sinks, self._evict)
        else:
            storage = RingStorage(self._empty, self.window, self.sinks, self._indices_of)
        self._storage_of[request_id] = storage

    def put(self, request_id: int, kv: Tensor) -> None:
        """Shapes: kv (2, L, H, T, D)."""
        self._storage_of[request_id].put(kv)

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Hold the tokens of this step, and evict what they push out of the window."""
        self._storage_of[request_id].commit()

    def discard_written(self, request_id: int) -> None:
        """Nothing of a failed step is held, and the next step's K/V takes its place."""

    def free(self, request_id: int) -> None:
        """Give all of the request's memory back."""
        del self._storage_of[request_id]

    def held(self, request_id: int) -> Tensor:
        """Everything that the request holds, a copy, oldest first. Shapes: -> (2, L, H, S, D)."""
        return self._storage_of[request_id].held()

    def stored(self, request_id: int) -> Tensor:
        """The same as it lies, not to be written to. Shapes: -> (2, L, H, S, D)."""
        return self._storage_of[request_id].stored()

    def positions(self, request_id: int) -> list[int]:
        """The positions whose K/V is held, in the order of `held`."""
        storage = self._storage_of.get(request_id)
        return storage.positions if storage else []

    def num_computed(self, request_id: int) -> int:
        """How many tokens of the request are computed, evicted ones included."""
        return self._storage_of[request_id].computed

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory that the request's K/V keeps alive."""
        return self._storage_of[request_id].live_bytes()

    def holders(self) -> Sequence[int]:
        """Ids of the requests that are in, in the order they came."""
        return list(self._storage_of)

    def check(self) -> None:
        """Assert that every request holds exactly what the window allows, in live bytes too."""
        _, num_layers, num_heads, _, head_size = self._empty.shape
        per_token = 2 * num_layers * num_heads * head_size * self._empty.itemsize
        for storage in self._storage_of.values():
            limit = self.window + self.sinks
            assert len(storage.positions) == min(storage.computed, limit), storage.positions
            assert storage.live_bytes() == len(storage.positions) * per_token


def indices_of(rule: Callable[..., int]) -> IndicesOf:
    """The policy `rolling_buffer_index` for every position, its answers validated."""

    def index_of(position: int, window: int, sinks: int) -> int:
        answer = rule(position, window, sinks)
        slot = as_natural(answer)
        if slot is None or slot >= window + sinks:
            what = f"rolling_buffer_index({position}, {window}, {sinks})"
            raise refused(what, answer, f"one of the slots 0..{window + sinks - 1}")
        return slot

    return lambda positions, window, sinks: [index_of(p, window, sinks) for p in positions]
