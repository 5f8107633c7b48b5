"""The KV cache under a sliding window: each request holds what may still be seen, and no more.

Memory is taken as tokens are held and given back as they are evicted: what is charged is what is
alive.

Shapes: L layers, H heads, S entries held, T new tokens, D head size, N new tokens of all rows.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.kv_store import KVStore
from nanogpt.model import Attend
from nanogpt.outputs import Row
from nanogpt.policies import Policies
from nanogpt.policies.sliding_window import kept_positions, window_mask
from nanogpt.window.window_attention import window_attention
from nanogpt.window.window_policies import indices_of, mask_of_pairs
from nanogpt.window.window_storage import EvictingStorage, RingStorage, WindowStorage


class StepKV:
    """A step's new K/V, which comes layer by layer and is stored request by request."""

    def __init__(self, rows: Sequence[Row], num_layers: int) -> None:
        """`rows` are in the order of the flat row."""
        self.request_ids = [row.request_id for row in rows]
        self.lengths = [len(row.input_ids) for row in rows]
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


class WindowedKVCache(KVStore):
    """K and V of a batch of requests, each with a `WindowStorage` of its own.

    Mutable: which requests there are and what they hold.
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
        self.window, self.sinks = config.sliding_window, config.num_sinks
        self.kind, self.num_slots = config.kv_storage, config.max_batch_size
        self.policies = policies
        shape = (2, model.num_layers, model.num_heads, 0, model.head_size)
        self._empty = torch.empty(shape, dtype=dtype, device=device)  # (2, L, H, 0, D)
        self._mask_of = mask_of_pairs(policies.visible)
        self._indices_of = indices_of(policies.rolling_buffer_index)
        self._storage_of: dict[int, WindowStorage] = {}

    def reserve(self, request_id: int) -> None:
        """Take the request in. Raises: ValueError when it is there already or no slot is left."""
        if request_id in self._storage_of:
            raise ValueError(f"request {request_id} holds a slot already")
        if len(self._storage_of) >= self.num_slots:
            raise ValueError(f"all {self.num_slots} slots are taken")
        if self.kind == "evict":
            storage = EvictingStorage(self._empty, self.window, self.sinks, self.policies.evict)
        else:
            storage = RingStorage(self._empty, self.window, self.sinks, self._indices_of)
        self._storage_of[request_id] = storage

    def allocate(self, rows: Sequence[Row]) -> None:
        """Tell each row's storage how many tokens are coming."""
        for row in rows:
            self._storage_of[row.request_id].plan(len(row.input_ids))

    def slot_mapping(self, rows: Sequence[Row]) -> StepKV:
        """Room beside the storages for the rows' new tokens."""
        return StepKV(rows, self._empty.shape[1])

    def write(self, layer: int, slot_mapping: StepKV, k: Tensor, v: Tensor) -> None:
        """Collect the layers; the last hands everything out. Shapes: k, v (N, H, D)."""
        for request_id, kv in slot_mapping.with_layer(k, v):
            self._storage_of[request_id].put(kv)

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Hold the tokens of this step, and evict what they push out of the window."""
        self._storage_of[request_id].commit()

    def discard_written(self, request_id: int) -> None:
        """Let go of what a failed step wrote."""
        self._storage_of[request_id].forget()

    def free(self, request_id: int) -> None:
        """Give all of the request's memory back."""
        del self._storage_of[request_id]

    def held(self, request_id: int) -> Tensor:
        """Everything that the request holds, a copy, oldest first. Shapes: -> (2, L, H, S, D)."""
        return self._storage_of[request_id].held()

    def positions(self, request_id: int) -> list[int]:
        """The positions whose K/V is held, in the order of `held`."""
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

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory that the request's K/V keeps alive."""
        return self._storage_of[request_id].live_bytes()

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
