"""What stands between a learner's layouts and an executor or the K/V storage.

Shapes and types are refused in a sentence; contents are not, so that a wrong mask or a wrong
eviction shows what it does. Functions of single positions are asked for many in one guarded call.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from nanogpt import sliding_window
from nanogpt.guard import PartError, guarded
from nanogpt.parts import Evict, FullMask, FusedRows, Held, Pack, RingSlot, SplitKV, Visible
from nanogpt.window_storage import SlotsOf
from nanogpt.windowed_kv_cache import WindowMask


def checked_rows(rows_of: Callable[..., Any]) -> FusedRows:
    """A guarded `fused_rows` whose answer is two (B, T) lists of numbers."""

    def fused_rows(
        known: Sequence[Sequence[int]], cursors: Sequence[int], num_new: Sequence[int], /
    ) -> tuple[list[list[int]], list[list[int]]]:
        answer = rows_of([list(tokens) for tokens in known], list(cursors), list(num_new))
        shape = (len(num_new), max(num_new))
        match answer:
            case (tokens, positions) if _is_table(tokens, shape) and _is_table(positions, shape):
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
        parts = split(k, list(past_lens), list(num_new))
        if not isinstance(parts, list) or len(parts) != len(num_new):
            raise PartError(
                f"your split_kv returned {_short(parts)}; it must be a list of {len(num_new)}"
                " tensors, one per row"
            )
        for i, (past, new) in enumerate(zip(past_lens, num_new, strict=True)):
            shape = (past + new, k.shape[2])
            _checked_tensor(parts[i], f"split_kv for row {i}", k.dtype, shape)
        return parts

    return split_kv


def checked_pack(pack_of: Callable[..., Any]) -> Pack:
    """A guarded `pack` with the right lengths and a boolean (N, K) mask."""

    def pack(
        past_lens: Sequence[int], num_new: Sequence[int], /
    ) -> tuple[list[int], list[int], Tensor]:
        answer = pack_of(list(past_lens), list(num_new))
        match answer:
            case (list(cu_q), list(cu_k), mask):
                pass
            case _:
                raise PartError(
                    f"your pack returned {_short(answer)}; it must be (cu_q, cu_k, mask)"
                )
        sizes = [past + new for past, new in zip(past_lens, num_new, strict=True)]
        for name, got, parts in (("cu_q", cu_q, num_new), ("cu_k", cu_k, sizes)):
            if got != [0, *accumulate(parts)] or not all(map(_is_count, got)):
                raise PartError(
                    f"your pack returned {name} = {_short(got)}; with rows of {list(parts)} it "
                    f"must be {[0, *accumulate(parts)]}"
                )
        return cu_q, cu_k, _checked_tensor(mask, "pack's mask", torch.bool, (cu_q[-1], cu_k[-1]))

    return pack


def checked_evict(evict_of: Callable[..., Any]) -> Evict:
    """A guarded `evict` whose answer is K and V of equal length, the other dimensions as given."""

    def evict(k: Tensor, v: Tensor, window: int, sinks: int, /) -> tuple[Tensor, Tensor]:
        answer = evict_of(k, v, window, sinks)
        match answer:
            case (Tensor() as kept_k, Tensor() as kept_v):
                pass
            case _:
                raise PartError(f"your evict returned {_short(answer)}; it must be (k, v)")
        shape = (k.shape[0], kept_k.shape[1] if kept_k.dim() > 1 else 0, k.shape[2])
        _checked_tensor(kept_k, "evict's k", k.dtype, shape)
        _checked_tensor(kept_v, "evict's v", v.dtype, shape)
        return kept_k, kept_v

    return evict


def checked_held(held_of: Callable[..., Any]) -> Held:
    """A guarded `held` whose answer is two whole numbers."""

    def held(cursor: int, num_tokens: int, window: int | None, sinks: int, /) -> tuple[int, int]:
        answer = held_of(cursor, num_tokens, window, sinks)
        match answer:
            case (peak, end) if _is_count(peak) and _is_count(end):
                return peak, end
            case _:
                raise PartError(
                    f"your held({cursor}, {num_tokens}, {window}, {sinks}) returned "
                    f"{_short(answer)}; it must be (peak, end), whole numbers from 0"
                )

    return held


def mask_of_pairs(visible: Visible) -> WindowMask:
    """`visible` for every pair of queries and keys: one guarded call for all of them."""
    if visible is sliding_window.visible:
        return sliding_window.window_mask

    def all_pairs(
        queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int
    ) -> list[list[Any]]:
        return [[visible(query, key, window, sinks) for key in keys] for query in queries]

    timed = guarded("visible", all_pairs, about=visible)

    def window_mask(
        queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int
    ) -> Tensor:
        cells = timed(queries, keys, window, sinks)
        for query, row in zip(queries, cells, strict=True):
            for key, cell in zip(keys, row, strict=True):
                if type(cell) is not bool:
                    raise PartError(
                        f"your visible({query}, {key}, {window}, {sinks}) returned {_short(cell)}; "
                        "it must be True or False"
                    )
        return torch.tensor(cells, dtype=torch.bool)  # (T, S)

    return window_mask


def slots_of_all(ring_slot: RingSlot) -> SlotsOf:
    """`ring_slot` for many positions: one guarded call for all of them."""

    def all_slots(positions: Sequence[int], window: int, sinks: int) -> list[Any]:
        return [ring_slot(position, window, sinks) for position in positions]

    if ring_slot is sliding_window.ring_slot:
        return all_slots
    timed = guarded("ring_slot", all_slots, about=ring_slot)

    def slots_of(positions: Sequence[int], window: int, sinks: int) -> list[int]:
        slots = timed(positions, window, sinks)
        for position, slot in zip(positions, slots, strict=True):
            if not _is_count(slot) or slot >= window + sinks:
                raise PartError(
                    f"your ring_slot({position}, {window}, {sinks}) returned {_short(slot)}; there "
                    f"are slots 0..{window + sinks - 1}"
                )
        return slots

    return slots_of


def _checked_tensor(value: Any, what: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if isinstance(value, Tensor) and value.dtype == dtype and tuple(value.shape) == shape:
        return value
    raise PartError(f"your {what} returned {_short(value)}; it must be a {dtype} tensor of {shape}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_table(value: Any, shape: tuple[int, int]) -> bool:
    rows = isinstance(value, list) and len(value) == shape[0]
    return rows and all(
        isinstance(row, list) and len(row) == shape[1] and all(map(_is_count, row))
        for row in value  # pyright: ignore[reportUnknownVariableType]
    )


def _short(value: Any) -> str:
    """What came back, in a few words."""
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor of {tuple(value.shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
