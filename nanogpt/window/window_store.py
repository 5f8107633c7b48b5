"""The base of the stores of K/V under a sliding window: the step's new K/V, and the attention.

The attention copies what is held, behind room for what is new: once per step for all layers. A
layer then writes T columns and attends. Where a single token sees all that is held, which is so in
every decode, the copies need neither order nor mask.

Shapes: N tokens in all, B rows of T tokens each, S entries held, L layers, H heads, D head size.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from nanogpt.executors.paged_attention import (
    GroupedAttention,
    attend_rows,
    lengths_bias,
    visible_bias,
)
from nanogpt.kv_store import KVStore
from nanogpt.model import Attend
from nanogpt.outputs import Row
from nanogpt.policies.sliding_window import kept_positions, visible, window_mask
from nanogpt.validate import refused

WindowMask = Callable[[Sequence[int], Sequence[int], int | None, int], Tensor]
"""(positions of queries, of keys, window, sinks) -> what each query sees, (T, S) bool."""


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


class WindowStore(KVStore):
    """A store in which a request holds its first `sinks` tokens and the last `window`."""

    group_size: int  # query heads for each head of K/V

    def __init__(self, window: int, sinks: int, num_layers: int, rule: Callable[..., bool]) -> None:
        """`rule` is the policy `visible`."""
        self.window, self.sinks, self.num_layers = window, sinks, num_layers
        self._mask_of = mask_of_pairs(rule)

    def put(self, request_id: int, kv: Tensor) -> None:
        """Keep a request's new K/V until it commits. Shapes: kv (2, L, H, T, D)."""
        raise NotImplementedError

    def num_computed(self, request_id: int) -> int:
        """How many tokens of the request are computed, evicted ones included."""
        raise NotImplementedError

    def stored(self, request_id: int) -> Tensor:
        """The K/V held, in any order. Shapes: -> (2, L, H, S, D), a view where that can be."""
        return self.held(request_id)

    def allocate(self, rows: Sequence[Row]) -> None:
        """Take nothing yet: `commit` takes the memory for what is still seen then."""

    def slot_mapping(self, rows: Sequence[Row]) -> StepKV:
        """Room beside the store for the rows' new tokens."""
        return StepKV(rows, self.num_layers)

    def write(self, layer: int, slot_mapping: StepKV, k: Tensor, v: Tensor) -> None:
        """Collect the layers; the last hands everything out. Shapes: k, v (N, H, D)."""
        for request_id, kv in slot_mapping.with_layer(k, v):
            self.put(request_id, kv)

    def attention(self, rows: Sequence[Row]) -> Attend:
        """A step's attention, group by group of rows that bring the same number of tokens."""
        by_length = groupby(rows, key=lambda row: len(row.input_ids))
        groups = [CopiedRows(self, list(own)) for _, own in by_length]
        return GroupedAttention(self.write, self.slot_mapping(rows), groups)

    def mask(self, request_id: int, num_new: int) -> Tensor:
        """Which keys a query may see, by position alone. Shapes: -> (T, S + T) bool."""
        computed = self.num_computed(request_id)
        new = range(computed, computed + num_new)
        return self._mask_of(new, [*self.positions(request_id), *new], self.window, self.sinks)

    def sees_all(self, request_id: int) -> bool:
        """Whether the next token sees all that is held."""
        kept = kept_positions(self.num_computed(request_id), self.window, self.sinks)
        return self._mask_of is window_mask and self.positions(request_id) == kept


class CopiedRows:
    """B rows of T tokens each: copies of what they hold, behind room for what is new."""

    def __init__(self, cache: WindowStore, rows: Sequence[Row]) -> None:
        self.num_rows, num_new = len(rows), len(rows[0].input_ids)
        self.num_tokens = self.num_rows * num_new
        ids = [row.request_id for row in rows]
        seen = [num_new == 1 and cache.sees_all(i) for i in ids]
        held = [cache.stored(i) if s else cache.held(i) for i, s in zip(ids, seen, strict=True)]
        lengths = [num_new + kv.shape[3] for kv in held]
        num_kv, num_layers, num_heads, _, head_size = held[0].shape
        shape = (num_kv, num_layers, len(rows), num_heads, max(lengths), head_size)
        # Zeros behind a short row: a hidden key has weight 0, but 0 * NaN would still be NaN.
        room = held[0].new_empty if min(lengths) == max(lengths) else held[0].new_zeros
        copies = room(shape)  # (2, L, B, H, T + S, D)
        for b, kv in enumerate(held):
            copies[:, :, b, :, num_new : lengths[b]] = kv
        if all(seen):
            self.bias = lengths_bias(lengths, copies)
        else:
            masks = [cache.mask(i, num_new).roll(num_new, dims=1) for i in ids]
            self.bias = visible_bias(masks, copies, cache.group_size)
        keys, values = copies.unbind()
        self.keys, self.values = keys.unbind(), values.unbind()  # L times (B, H, T + S, D)
        new_keys, new_values = copies[:, :, :, :, :num_new].unbind()
        self.new_keys, self.new_values = new_keys.unbind(), new_values.unbind()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (B * T, G * H, D), k, v (B * T, H, D) -> as q."""
        shape = (self.num_rows, -1, *k.shape[1:])  # (B, T, H, D)
        self.new_keys[layer].copy_(k.view(shape).transpose(1, 2))
        self.new_values[layer].copy_(v.view(shape).transpose(1, 2))
        return attend_rows(q, self.keys[layer], self.values[layer], self.bias)


def mask_of_pairs(rule: Callable[..., bool]) -> WindowMask:
    """The mask that asks `rule` about every pair; for the reference, the mask in one expression."""
    if rule is visible:
        return window_mask

    def mask(queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int) -> Tensor:
        def cell(query: int, key: int) -> bool:
            answer: object = rule(query, key, window, sinks)
            if type(answer) is not bool:
                what = f"visible({query}, {key}, {window}, {sinks})"
                raise refused(what, answer, "True or False")
            return answer

        return torch.tensor([[cell(query, key) for key in keys] for query in queries])  # (T, S)

    return mask
