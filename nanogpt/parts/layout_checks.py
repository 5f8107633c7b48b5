"""What stands between a learner's layouts and an executor or the K/V storage.

Wrong shapes and types are refused in a sentence, what another type may stand for is converted, and
contents are left alone, so that a wrong mask or a wrong eviction shows what it does. Functions of
single positions are asked for many in one guarded call.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from nanogpt.parts import sliding_window
from nanogpt.parts.feature_protocols import (
    Evict,
    FullMask,
    FusedRows,
    Held,
    Pack,
    RingSlot,
    SplitKV,
    Visible,
)
from nanogpt.parts.guard import guarded
from nanogpt.parts.plain_values import as_items, as_tensor, as_truth, as_whole, as_wholes, kind_of
from nanogpt.parts.protocols import Parts
from nanogpt.parts.sliding_window import SlotsOf, WindowMask
from nanogpt.validate import PartError

_REFERENCE = Parts()


def checked_rows(rows_of: Callable[..., Any]) -> FusedRows:
    """A guarded `fused_rows` whose answer is two (B, T) lists of numbers."""

    def fused_rows(
        known: Sequence[Sequence[int]], cursors: Sequence[int], num_new: Sequence[int], /
    ) -> tuple[list[list[int]], list[list[int]]]:
        answer = rows_of([list(tokens) for tokens in known], list(cursors), list(num_new))
        shape = (len(num_new), max(num_new))
        two = [_as_table(part, shape) for part in as_items(answer) or ()]
        match two:
            case [list(tokens), list(positions)]:
                return tokens, positions
            case _:
                raise PartError(
                    f"your fused_rows returned {_short(answer)}; it must be (tokens, positions), "
                    f"each {shape[0]} rows of {shape[1]} whole numbers from 0"
                )

    return fused_rows


def checked_full_mask(mask_of: Callable[..., Any]) -> FullMask:
    """A guarded `full_mask` whose answer is a boolean (B, T, S + T) tensor."""

    def full_mask(past_lens: Sequence[int], num_new: Sequence[int], /) -> Tensor:
        mask = mask_of(list(past_lens), list(num_new))
        shape = (len(num_new), max(num_new), max(past_lens) + max(num_new))
        what = f"full_mask({list(past_lens)}, {list(num_new)})"
        return _checked_tensor(mask, what, torch.bool, shape)

    return full_mask


def checked_split(split: Callable[..., Any]) -> SplitKV:
    """A guarded `split_kv` whose answer is one (past + new, D) tensor per row."""

    def split_kv(k: Tensor, past_lens: Sequence[int], num_new: Sequence[int], /) -> list[Tensor]:
        answer = split(k, list(past_lens), list(num_new))
        parts = as_items(answer)
        if parts is None or len(parts) != len(num_new):
            raise PartError(
                f"your split_kv returned {_short(answer)}; it must be a list of {len(num_new)}"
                " tensors, one per row"
            )
        return [
            _checked_tensor(part, f"split_kv for row {i}", k.dtype, (past + new, k.shape[2]))
            for i, (part, past, new) in enumerate(zip(parts, past_lens, num_new, strict=True))
        ]

    return split_kv


def checked_pack(pack_of: Callable[..., Any]) -> Pack:
    """A guarded `pack` with the right lengths and a boolean (N, K) mask."""

    def pack(
        past_lens: Sequence[int], num_new: Sequence[int], /
    ) -> tuple[list[int], list[int], Tensor]:
        answer = pack_of(list(past_lens), list(num_new))
        three = as_items(answer) or []
        ends = [as_items(part) for part in three[:2]]
        if len(three) != 3 or None in ends:
            raise PartError(f"your pack returned {_short(answer)}; it must be (cu_q, cu_k, mask)")
        sizes = [past + new for past, new in zip(past_lens, num_new, strict=True)]
        cu_q, cu_k = [0, *accumulate(num_new)], [0, *accumulate(sizes)]
        for name, got, wanted in (("cu_q", ends[0], cu_q), ("cu_k", ends[1], cu_k)):
            if as_wholes(got) != wanted:
                rows = list(num_new) if name == "cu_q" else sizes
                raise PartError(
                    f"your pack returned {name} = {_short(got)}; with rows of {rows} it "
                    f"must be {wanted}"
                )
        shape = (cu_q[-1], cu_k[-1])
        return cu_q, cu_k, _checked_tensor(three[2], "pack's mask", torch.bool, shape)

    return pack


def checked_evict(evict_of: Callable[..., Any]) -> Evict:
    """A guarded `evict` whose answer is K and V of equal length, the other dimensions as given."""

    def evict(k: Tensor, v: Tensor, window: int, sinks: int, /) -> tuple[Tensor, Tensor]:
        answer = evict_of(k, v, window, sinks)
        match [as_tensor(part) for part in as_items(answer) or ()]:
            case [Tensor() as kept_k, Tensor() as kept_v]:
                pass
            case _:
                raise PartError(f"your evict returned {_short(answer)}; it must be (k, v)")
        shape = (k.shape[0], kept_k.shape[1] if kept_k.dim() > 1 else 0, k.shape[2])
        kept_k = _checked_tensor(kept_k, "evict's k", k.dtype, shape)
        return kept_k, _checked_tensor(kept_v, "evict's v", v.dtype, shape)

    return evict


def checked_held(held_of: Callable[..., Any]) -> Held:
    """A guarded `held` whose answer is two whole numbers."""

    def held(cursor: int, num_tokens: int, window: int | None, sinks: int, /) -> tuple[int, int]:
        answer = held_of(cursor, num_tokens, window, sinks)
        match [_as_count(part) for part in as_items(answer) or ()]:
            case [int(peak), int(end)]:
                return peak, end
            case _:
                raise PartError(
                    f"your held({cursor}, {num_tokens}, {window}, {sinks}) returned "
                    f"{_short(answer)}; it must be (peak, end), whole numbers from 0"
                )

    return held


def mask_of_pairs(visible: Visible) -> WindowMask:
    """`visible` for every pair of queries and keys: one guarded call for all of them."""
    if visible is _REFERENCE.visible:
        return sliding_window.window_mask

    def all_pairs(
        queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int
    ) -> list[list[Any]]:
        return [[visible(query, key, window, sinks) for key in keys] for query in queries]

    timed = guarded("visible", all_pairs, about=visible)

    def window_mask(
        queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int
    ) -> Tensor:
        answers = timed(queries, keys, window, sinks)
        cells = [[as_truth(answer) for answer in row] for row in answers]
        for i, row in enumerate(cells):
            if None in row:
                j = row.index(None)
                raise PartError(
                    f"your visible({queries[i]}, {keys[j]}, {window}, {sinks}) returned "
                    f"{_short(answers[i][j])}; it must be True or False"
                )
        return torch.tensor(cells, dtype=torch.bool)  # (T, S)

    return window_mask


def slots_of_all(ring_slot: RingSlot) -> SlotsOf:
    """`ring_slot` for many positions: one guarded call for all of them."""

    def all_slots(positions: Sequence[int], window: int, sinks: int) -> list[Any]:
        return [ring_slot(position, window, sinks) for position in positions]

    if ring_slot is _REFERENCE.ring_slot:
        return all_slots
    timed = guarded("ring_slot", all_slots, about=ring_slot)

    def slots_of(positions: Sequence[int], window: int, sinks: int) -> list[int]:
        slots: list[int] = []
        for position, answer in zip(positions, timed(positions, window, sinks), strict=True):
            slot = _as_count(answer)
            if slot is None or slot >= window + sinks:
                raise PartError(
                    f"your ring_slot({position}, {window}, {sinks}) returned {_short(answer)}; "
                    f"there are slots 0..{window + sinks - 1}"
                )
            slots.append(slot)
        return slots

    return slots_of


def _checked_tensor(value: Any, what: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    tensor = as_tensor(value)
    if tensor is not None and tensor.dtype == dtype and tuple(tensor.shape) == shape:
        return tensor
    raise PartError(f"your {what} returned {_short(value)}; it must be a {dtype} tensor of {shape}")


def _as_count(value: Any) -> int | None:
    whole = as_whole(value)
    return None if whole is None or whole < 0 else whole


def _as_table(value: Any, shape: tuple[int, int]) -> list[list[int]] | None:
    """The rows of whole numbers from 0 that `value` is, if it has this shape."""
    rows = [as_wholes(row) or [] for row in as_items(value) or ()]
    fits = len(rows) == shape[0] and all(len(row) == shape[1] and min(row) >= 0 for row in rows)
    return rows if fits else None


def _short(value: Any) -> str:
    """What came back, in a few words."""
    tensor = as_tensor(value)
    if tensor is not None:
        return f"a {tensor.dtype} tensor of {tuple(tensor.shape)}"
    if isinstance(value, Tensor):
        return f"a {kind_of(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
