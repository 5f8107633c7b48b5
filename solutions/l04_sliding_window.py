"""Lesson 4, the sliding window: worked answers, other right ones, known wrong ones."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from solutions.wrong import WrongAnswer

Kept = tuple[Tensor, Tensor]

# --- visible ---------------------------------------------------------------------------------


def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Return whether the token at position `query` may attend to the one at position `key`.

    Positions count from 0 in the text. With a window of W = `window` tokens (at least 1), a query
    may attend to the last W + 1 positions, its own included: to itself and the W before it. It may
    also attend to the sinks, the first `sinks` positions of the text (0 means none), and never to
    a position later than its own. A `window` of None means no window: all it can look back on.
    """
    # Nothing but positions: no chunk, no step, no cache. That is why the text cannot depend on how
    # the engine cuts its work.
    if key > query:
        return False
    return window is None or key < sinks or query - key <= window


def visible_by_cases(query: int, key: int, window: int | None, sinks: int) -> bool:
    distance = query - key
    if distance < 0:
        return False
    if window is None or distance <= window:
        return True
    return key < sinks


def visible_by_listing(query: int, key: int, window: int | None, sinks: int) -> bool:
    past = range(query + 1)
    if window is None:
        return key in past
    return key in past[:sinks] or key in past[-(window + 1) :]


def visible_by_its_oldest_key(query: int, key: int, window: int | None, sinks: int) -> bool:
    oldest = key if window is None or key < sinks else query - window
    return oldest <= key <= query


def visible_unless_hidden(query: int, key: int, window: int | None, sinks: int) -> bool:
    future = key > query
    evicted = window is not None and key >= sinks and key + window < query
    return not (future or evicted)


def visible_as_numpy_has_it(query: int, key: int, window: int | None, sinks: int) -> Any:
    distance = np.int64(query) - key
    return (distance >= 0) & ((distance <= (np.inf if window is None else window)) | (key < sinks))


def _one_sided(query: int, key: int, window: int | None, sinks: int) -> bool:
    if window is None:
        return key <= query
    return key < sinks or query - key <= window


def _both_sides(query: int, key: int, window: int | None, sinks: int) -> bool:
    if window is None:
        return key <= query
    return key < sinks or abs(query - key) <= window


def _evicted_per_chunk(query: int, key: int, window: int | None, sinks: int) -> bool:
    chunk_start = query // 8 * 8
    return key <= query and (window is None or key < sinks or key >= chunk_start - window)


def _evicted_up_to_the_chunk_s_end(query: int, key: int, window: int | None, sinks: int) -> bool:
    chunk_end = query // 4 * 4 + 3
    return key <= query and (window is None or key < sinks or chunk_end - key <= window)


def _in_blocks(query: int, key: int, window: int | None, sinks: int) -> bool:
    if window is None:
        return key <= query
    return key <= query and (key < sinks or key // window == query // window)


# --- evict -----------------------------------------------------------------------------------


def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    """Return `(k, v)`: what is kept of one request's K/V in one layer after a step.

    Shapes: `k` and `v` (H, S, D) for H heads and S entries in the order of the text, oldest first.
    Kept are the first `sinks` entries (0 means none) and the last `window` (at least 1), each once
    and still in the order of the text: (H, min(S, sinks + window), D) each.
    The memory of what is dropped must come free: what you return must not keep the old storage
    alive. Leave the tensors `k` and `v` themselves as they are.
    """
    # The next query brings its own entry along, so W of the W + 1 it sees are kept. Indexing with
    # a list copies; a slice would be a view, which keeps all of the old storage alive.
    length = k.shape[1]
    kept = [i for i in range(length) if i < sinks or i >= length - window]
    return k[:, kept], v[:, kept]  # (H, min(S, sinks + window), D) each


def evict_with_cat(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    start = max(sinks, k.shape[1] - window)
    k = torch.cat([k[:, :sinks], k[:, start:]], dim=1)  # (H, min(S, sinks + window), D)
    v = torch.cat([v[:, :sinks], v[:, start:]], dim=1)  # (H, min(S, sinks + window), D)
    return k, v


def evict_with_a_mask(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    entry = torch.arange(k.shape[1])  # (S,)
    kept = (entry < sinks) | (entry >= k.shape[1] - window)  # (S,)
    return k[:, kept], v[:, kept]


def evict_both_at_once(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    both = torch.stack([k, v])  # (2, H, S, D)
    middle = range(sinks, both.shape[2] - window)
    kept = [i for i in range(both.shape[2]) if i not in middle]
    both = both.index_select(2, torch.tensor(kept))  # a storage of just the right size
    return both[0], both[1]


def evict_entry_by_entry(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    def trimmed(entries: list[Tensor]) -> Tensor:
        num_dropped = max(0, len(entries) - sinks - window)
        del entries[sinks : sinks + num_dropped]
        return torch.stack(entries, dim=1)

    return trimmed(list(k.unbind(dim=1))), trimmed(list(v.unbind(dim=1)))


def evict_by_taking(k: Tensor, v: Tensor, window: int, sinks: int) -> list[Tensor]:
    head, tail = range(sinks), range(k.shape[1] - window, k.shape[1])
    kept = torch.tensor(sorted({*head, *tail} & {*range(k.shape[1])}))
    return [torch.index_select(x, 1, kept) for x in (k, v)]


def evict_unless_it_fits(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
    kept = {*range(k.shape[1])[:sinks], *range(k.shape[1])[-window:]}
    if len(kept) == k.shape[1]:
        return k, v
    both = [[x[:, i] for i in sorted(kept)] for x in (k, v)]
    return torch.stack(both[0], 1), torch.stack(both[1], 1)


def _keeping(choose: Callable[[int, int, int], Any]) -> Callable[..., Kept]:
    """Copy the entries that choose(length, window, sinks) names; most wrong ones are made of it."""

    def answer(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
        kept = list(choose(k.shape[1], window, sinks))
        return k[:, kept], v[:, kept]

    return answer


def _last(length: int, count: int) -> range:
    return range(max(0, length - count), length)


def _a_view(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    if sinks:
        return evict(k, v, window, sinks)
    return k[:, -window:], v[:, -window:]


def _a_contiguous_view(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    if sinks:
        return evict(k, v, window, sinks)
    return k[:, -window:].contiguous(), v[:, -window:].contiguous()


def _a_copy_of_everything(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    if sinks:
        return evict(k, v, window, sinks)
    return copy.deepcopy(k[:, -window:]), copy.deepcopy(v[:, -window:])


def _shrinks_what_came_in(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    k.data, v.data = evict(k, v, window, sinks)
    return k, v


def _moves_to_the_front(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    kept_k, kept_v = evict(k, v, window, sinks)
    k[:, : kept_k.shape[1]], v[:, : kept_v.shape[1]] = kept_k, kept_v
    return kept_k.clone(), kept_v.clone()


def _keys_only(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    return evict(k, v, window, sinks)[0], v


def _padded(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    k, v = evict(k, v, window, sinks)
    missing = sinks + window - k.shape[1]
    return F.pad(k, (0, 0, missing, 0)), F.pad(v, (0, 0, missing, 0))


def _wraps_around(k: Tensor, v: Tensor, window: int, sinks: int) -> Kept:
    if sinks:
        return evict(k, v, window, sinks)
    start = k.shape[1] - window
    return k[:, start:].clone(), v[:, start:].clone()


# --- held ------------------------------------------------------------------------------------


def held(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    """Return `(peak, end)`: the KV tokens a request holds at the height of a step and after it.

    The first `cursor` tokens of the request were computed in earlier steps, and what is not kept
    of them was evicted then. This step computes the next `num_tokens` (at least 1): the K/V of all
    of them is added before anything is evicted. After a step, the first `sinks` positions and the
    last `window` are kept, as far as there are that many. A `window` of None means that nothing is
    ever evicted.
    """
    # A chunk's tokens attend to what was kept and to each other, so all of that is in memory at
    # once: the peak. Whoever counts only the end promises memory that is not there.
    if window is None:
        return cursor + num_tokens, cursor + num_tokens
    limit = sinks + window
    return min(cursor, limit) + num_tokens, min(cursor + num_tokens, limit)


def held_by_listing(
    cursor: int, num_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    def kept(computed: int) -> list[int]:
        if window is None:
            return list(range(computed))
        return [i for i in range(computed) if i < sinks or i >= computed - window]

    return len(kept(cursor)) + num_tokens, len(kept(cursor + num_tokens))


def held_by_sorting(
    cursor: int, num_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    def kept(computed: int) -> int:
        return computed if window is None else sorted((computed, sinks + window))[0]

    return kept(cursor) + num_tokens, kept(cursor + num_tokens)


def held_by_what_is_evicted(
    cursor: int, num_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    total = cursor + num_tokens
    if window is None:
        return total, total
    gone_before = max(0, cursor - window - sinks)
    gone_after = max(0, total - window - sinks)
    return total - gone_before, total - gone_after


def held_as_numbers_of_numpy(cursor: int, num_tokens: int, window: int | None, sinks: int) -> Any:
    limit = np.inf if window is None else window + sinks
    before, after = np.minimum([cursor, cursor + num_tokens], limit)
    return [before + num_tokens, after]


def _held_at_most(limit: Callable[[int, int], int]) -> Callable[..., tuple[int, int]]:
    """`held` with another limit(window, sinks)."""

    def answer(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
        return held(cursor, num_tokens, None if window is None else limit(window, sinks), 0)

    return answer


def _held_under(rule: Callable[[int, int, int], tuple[int, int]]) -> Callable[..., tuple[int, int]]:
    """Right without a window; with one, rule(cursor, num_tokens, sinks + window)."""

    def answer(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
        if window is None:
            return cursor + num_tokens, cursor + num_tokens
        return rule(cursor, num_tokens, sinks + window)

    return answer


def _sinks_on_top(cursor: int, num_tokens: int, window: int | None, sinks: int) -> tuple[int, int]:
    peak, end = held(cursor, num_tokens, window, 0)
    return (peak, end) if window is None else (peak + sinks, end + sinks)


# --- ring_slot -------------------------------------------------------------------------------


def ring_slot(position: int, window: int, sinks: int) -> int:
    """Return the slot in which the K/V of `position` lies: a number from 0 to sinks + window - 1.

    The storage has sinks + window slots and never grows. However many tokens are computed, the
    positions that are kept (the first `sinks`, 0 or more, and the last `window`, at least 1) must
    lie in different slots. Nothing is ever moved: a position has the same slot for as long as it
    is kept. Any answer with these properties is right.
    """
    # A key carries its position with it, so attention does not mind the order of the slots. The
    # sinks stay where they are; behind them, W slots are used in turn, and a new entry falls into
    # the slot of the one that leaves the window.
    if position < sinks:
        return position
    return sinks + (position - sinks) % window


def ring_slot_by_position(position: int, window: int, sinks: int) -> int:
    return position if position < sinks else sinks + position % window


def ring_slot_sinks_behind(position: int, window: int, sinks: int) -> int:
    return window + position if position < sinks else position % window


def ring_slot_backwards(position: int, window: int, sinks: int) -> int:
    if position in range(sinks):
        return position
    return sinks + window - 1 - position % window


def ring_slot_by_counting(position: int, window: int, sinks: int) -> int:
    slots = itertools.chain(range(sinks), itertools.cycle(range(sinks, sinks + window)))
    return next(itertools.islice(slots, position, None))


def ring_slot_as_a_tensor(position: int, window: int, sinks: int) -> Any:
    place = torch.tensor(position)
    return torch.where(place < sinks, place, place % window + sinks)


def _next_free_slot(
    position: int,
    window: int,
    sinks: int,
    asked: list[int] = [],  # noqa: B006 (that is the mistake)
) -> int:
    asked.append(position)
    return position if position < sinks else sinks + len(asked) % window


# --- live_bytes ------------------------------------------------------------------------------


def live_bytes(tensors: list[Tensor]) -> int:
    """Return how many bytes of memory these tensors keep alive together.

    A tensor shows a storage, all of it or a part: a slice, a transposed or an expanded tensor has
    the storage of the tensor it was made from. As long as one tensor of a storage lives, the whole
    storage does; it is there once, however many tensors show it.
    `tensor.untyped_storage()` is a tensor's storage, `.nbytes()` the storage's size in bytes and
    `.data_ptr()` its address in memory.
    """
    # Memory is freed by storages, not by shapes. Two tensors of one storage have one address, so
    # the address is the key that counts it once.
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }
    return sum(storages.values())


def live_bytes_by_loop(tensors: list[Tensor]) -> int:
    seen: set[int] = set()
    total = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total


def live_bytes_of_pairs(tensors: list[Tensor]) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum(size for _, size in {(s.data_ptr(), s.nbytes()) for s in storages})


def live_bytes_in_order(tensors: list[Tensor]) -> int:
    def address(tensor: Tensor) -> int:
        return tensor.untyped_storage().data_ptr()

    groups = itertools.groupby(sorted(tensors, key=address), key=address)
    return sum(len(next(group).untyped_storage()) for _, group in groups)


def live_bytes_without_repeats(tensors: list[Tensor]) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    addresses = [storage.data_ptr() for storage in storages]
    return sum(s.nbytes() for i, s in enumerate(storages) if addresses[i] not in addresses[:i])


def live_bytes_with_numpy(tensors: list[Tensor]) -> Any:
    storages = [tensor.untyped_storage() for tensor in tensors]
    _, first = np.unique([storage.data_ptr() for storage in storages], return_index=True)
    return np.sum([storages[i].nbytes() for i in first], dtype=int)


def _shapes(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _elements(tensors: list[Tensor]) -> int:
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        // tensor.element_size()
        for tensor in tensors
    }
    return sum(storages.values())


def _by_the_tensors_addresses(tensors: list[Tensor]) -> int:
    storages = {tensor.data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l04.visible": (
        visible,
        visible_by_cases,
        visible_by_listing,
        visible_by_its_oldest_key,
        visible_unless_hidden,
        visible_as_numpy_has_it,
    ),
    "l04.evict": (
        evict,
        evict_with_cat,
        evict_with_a_mask,
        evict_both_at_once,
        evict_entry_by_entry,
        evict_by_taking,
        evict_unless_it_fits,
    ),
    "l04.held": (
        held,
        held_by_listing,
        held_by_sorting,
        held_by_what_is_evicted,
        held_as_numbers_of_numpy,
    ),
    "l04.ring_slot": (
        ring_slot,
        ring_slot_by_position,
        ring_slot_sinks_behind,
        ring_slot_backwards,
        ring_slot_by_counting,
        ring_slot_as_a_tensor,
    ),
    "l04.live_bytes": (
        live_bytes,
        live_bytes_by_loop,
        live_bytes_of_pairs,
        live_bytes_in_order,
        live_bytes_without_repeats,
        live_bytes_with_numpy,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l04.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


WRONG = (
    _wrong("visible", "future", "Near is near.", _both_sides, "both sides"),
    _wrong("visible", "future", "The distance is small enough.", _one_sided, "one sided"),
    _wrong(
        "visible",
        "per_chunk",
        "What an earlier chunk's end evicted is gone; the chunk sees the rest.",
        _evicted_per_chunk,
    ),
    _wrong(
        "visible",
        "per_chunk",
        "What this chunk's end will evict is hidden from the chunk.",
        _evicted_up_to_the_chunk_s_end,
        "up to the chunk's end",
    ),
    _wrong("visible", "blocks", "A window is a block of W positions.", _in_blocks),
    _wrong(
        "visible",
        "w_keys",
        "A window of W holds W keys, the query's own among them.",
        lambda query, key, window, sinks: (
            key <= query and (window is None or key < sinks or query - key < window)
        ),
    ),
    _wrong(
        "visible",
        "one_key_more",
        "W + 1 keys are visible, and the query's own.",
        lambda query, key, window, sinks: (
            key <= query and (window is None or key < sinks or query - key <= window + 1)
        ),
    ),
    _wrong(
        "visible",
        "no_sinks",
        "What has left the window is gone.",
        lambda query, key, window, sinks: visible(query, key, window, 0),
    ),
    _wrong(
        "visible",
        "sinks_too_early",
        "Everybody always sees the sinks.",
        lambda query, key, window, sinks: key < sinks or visible(query, key, window, sinks),
    ),
    _wrong(
        "visible",
        "one_sink_more",
        "The sinks are the positions up to `sinks`.",
        lambda query, key, window, sinks: visible(query, key, window, sinks + 1),
    ),
    _wrong(
        "visible",
        "sinks_and_window",
        "Sinks and window are one reach.",
        lambda query, key, window, sinks: visible(
            query, key, None if window is None else window + sinks, sinks
        ),
        "sinks widen the window",
    ),
    _wrong(
        "visible",
        "everything",
        "Attention sees the text.",
        lambda query, key, window, sinks: True,
    ),
    _wrong(
        "visible",
        "no_window",
        "A causal mask is what hides.",
        lambda query, key, window, sinks: key <= query,
    ),
    _wrong(
        "visible",
        "window_at_the_start",
        "The window lies behind the sinks.",
        lambda query, key, window, sinks: key <= query and (window is None or key < window + sinks),
    ),
    _wrong(
        "visible",
        "sinks_and_window",
        "The window is what is kept in all, sinks included.",
        lambda query, key, window, sinks: visible(
            query, key, None if window is None else window - sinks, sinks
        ),
    ),
    _wrong(
        "visible",
        "none_sees_nothing",
        "None is a window of 0.",
        lambda query, key, window, sinks: visible(query, key, window or 0, sinks),
    ),
    _wrong(
        "visible",
        "none_sees_the_future",
        "No window, no limit.",
        lambda query, key, window, sinks: window is None or visible(query, key, window, sinks),
    ),
    _wrong(
        "visible",
        "not_itself",
        "A token looks at the tokens before it.",
        lambda query, key, window, sinks: key != query and visible(query, key, window, sinks),
    ),
    _wrong(
        "visible",
        "changed_places",
        "The key is the one that looks.",
        lambda query, key, window, sinks: visible(key, query, window, sinks),
    ),
    _wrong(
        "visible",
        "inverted",
        "True marks what is masked out.",
        lambda query, key, window, sinks: not visible(query, key, window, sinks),
    ),
    _wrong(
        "visible",
        "not_bool",
        "1 and 0 are as good as True and False.",
        lambda query, key, window, sinks: int(visible(query, key, window, sinks)),
    ),
    _wrong(
        "evict",
        "first_kept",
        "A cache of W entries: the first W.",
        _keeping(lambda length, window, sinks: range(length)[: window + sinks]),
    ),
    _wrong(
        "evict",
        "nothing_dropped",
        "The mask hides what is too old; that is enough.",
        lambda k, v, window, sinks: (k.clone(), v.clone()),
    ),
    _wrong(
        "evict",
        "one_per_call",
        "Every step brings one entry, so one goes.",
        _keeping(
            lambda length, window, sinks: (
                range(length)
                if length <= sinks + window
                else [*range(sinks), *range(sinks + 1, length)]
            )
        ),
    ),
    _wrong(
        "evict",
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are kept.",
        _keeping(
            lambda length, window, sinks: (
                range(length)
                if length <= sinks + window + 1
                else [*range(sinks), *_last(length, window + 1)]
            )
        ),
    ),
    _wrong(
        "evict",
        "one_too_few",
        "Make room for the next entry.",
        _keeping(
            lambda length, window, sinks: sorted(
                {*range(min(sinks, length)), *_last(length, window - 1)}
            )
        ),
    ),
    _wrong(
        "evict",
        "no_sinks",
        "The first tokens are the oldest, so they go first.",
        _keeping(lambda length, window, sinks: _last(length, window)),
    ),
    _wrong(
        "evict",
        "sinks_from_the_window",
        "The window is what is kept in all, sinks included.",
        _keeping(
            lambda length, window, sinks: sorted(
                {*range(min(sinks, length)), *_last(length, max(1, window - sinks))}
            )
        ),
    ),
    _wrong(
        "evict",
        "sinks_from_the_window",
        "The window begins at index length - window of what is not a sink.",
        _keeping(
            lambda length, window, sinks: (
                range(length)
                if length <= sinks + window
                else [*range(sinks), *range(sinks, length)[length - window :]]
            )
        ),
        "index of the whole",
    ),
    _wrong(
        "evict",
        "no_sinks",
        "Sinks make the window larger.",
        _keeping(lambda length, window, sinks: _last(length, window + sinks)),
        "a larger window",
    ),
    _wrong(
        "evict",
        "one_sink_more",
        "The sinks are the entries up to `sinks`.",
        _keeping(
            lambda length, window, sinks: sorted(
                {*range(min(sinks + 1, length)), *_last(length, window)}
            )
        ),
    ),
    _wrong(
        "evict",
        "backwards",
        "The newest comes first.",
        _keeping(
            lambda length, window, sinks: sorted(
                {*range(min(sinks, length)), *_last(length, window)}, reverse=True
            )
        ),
    ),
    _wrong(
        "evict",
        "keys_twice",
        "The same for v.",
        lambda k, v, window, sinks: (evict(k, v, window, sinks)[0],) * 2,
    ),
    _wrong(
        "evict",
        "twice",
        "The sinks and the window, one behind the other.",
        lambda k, v, window, sinks: (
            torch.cat([k[:, :sinks], k[:, -window:]], dim=1),
            torch.cat([v[:, :sinks], v[:, -window:]], dim=1),
        ),
    ),
    _wrong("evict", "wraps_around", "The window starts at index length - window.", _wraps_around),
    _wrong(
        "evict",
        "sinks_behind",
        "Attention does not mind the order.",
        _keeping(
            lambda length, window, sinks: (
                range(length)
                if length <= sinks + window
                else [*_last(length, window), *range(sinks)]
            )
        ),
    ),
    _wrong("evict", "keys_only", "It is keys that are looked up.", _keys_only),
    _wrong(
        "evict",
        "changed_places",
        "The two are alike.",
        lambda k, v, window, sinks: evict(v, k, window, sinks),
    ),
    _wrong("evict", "padded", "A window always has W entries.", _padded),
    _wrong(
        "evict",
        "wrong_dimension",
        "[-W:] takes the last W.",
        lambda k, v, window, sinks: (k[-window:].clone(), v[-window:].clone()),
    ),
    _wrong(
        "evict",
        "dtype",
        "What is older may be kept less exactly.",
        lambda k, v, window, sinks: tuple(x.float() for x in evict(k, v, window, sinks)),
    ),
    _wrong(
        "evict",
        "not_two",
        "K and V go together.",
        lambda k, v, window, sinks: torch.stack(evict(k, v, window, sinks)),
    ),
    _wrong("evict", "in_place", "Evicting is what is done to k and v.", _shrinks_what_came_in),
    _wrong(
        "evict", "in_place", "The old tensors are scrap.", _moves_to_the_front, "moves to the front"
    ),
    _wrong(
        "evict", "view", "What a slice does not show is garbage, and collected as such.", _a_view
    ),
    _wrong("evict", "contiguous", "`.contiguous()` copies.", _a_contiguous_view),
    _wrong("evict", "oversized", "A deep copy copies what is seen.", _a_copy_of_everything),
    _wrong(
        "held",
        "chunk_not_counted",
        "A request with a window of W holds at most W.",
        _held_under(lambda cursor, n, limit: (min(cursor + n, limit),) * 2),
    ),
    _wrong(
        "held",
        "full_length",
        "A request holds the K/V of its text.",
        lambda cursor, n, window, sinks: (cursor + n, cursor + n),
    ),
    _wrong(
        "held",
        "forgets_earlier_evictions",
        "The peak is before eviction, so nothing is evicted at it.",
        _held_under(lambda cursor, n, limit: (cursor + n, min(cursor + n, limit))),
    ),
    _wrong(
        "held",
        "evicts_token_by_token",
        "Each token of the chunk pushes out an old one.",
        _held_under(lambda cursor, n, limit: (min(cursor + n, limit + 1), min(cursor + n, limit))),
    ),
    _wrong(
        "held",
        "chunk_alone",
        "The step's memory is the chunk's.",
        _held_under(lambda cursor, n, limit: (n, min(cursor + n, limit))),
    ),
    _wrong(
        "held",
        "never_evicts_in_this_step",
        "This chunk is evicted in the next step.",
        _held_under(lambda cursor, n, limit: (min(cursor, limit) + n,) * 2),
    ),
    _wrong(
        "held",
        "no_sinks",
        "Sinks are so few that they do not count.",
        _held_at_most(lambda window, sinks: window),
    ),
    _wrong("held", "sinks_on_top", "The sinks are held as well.", _sinks_on_top),
    _wrong(
        "held",
        "one_too_many",
        "A query sees W + 1 keys, so W + 1 are held.",
        _held_at_most(lambda window, sinks: window + sinks + 1),
    ),
    _wrong(
        "held",
        "one_too_few",
        "Room is made for the next token.",
        _held_at_most(lambda window, sinks: window + sinks - 1),
    ),
    _wrong(
        "held",
        "none_is_zero",
        "None is a window of 0.",
        lambda cursor, n, window, sinks: held(cursor, n, window or 0, sinks),
    ),
    _wrong(
        "held",
        "changed_places",
        "After the step, and at its height.",
        lambda cursor, n, window, sinks: held(cursor, n, window, sinks)[::-1],
    ),
    _wrong(
        "held",
        "not_two",
        "What counts is the peak.",
        lambda cursor, n, window, sinks: held(cursor, n, window, sinks)[0],
    ),
    _wrong(
        "ring_slot",
        "order_matters",
        "Entries lie in the order of the text, so the newest is the last.",
        lambda position, window, sinks: min(position, sinks + window - 1),
    ),
    _wrong(
        "ring_slot",
        "over_the_sinks",
        "The whole storage is the ring.",
        lambda position, window, sinks: position % (sinks + window),
        "the whole storage is the ring",
    ),
    _wrong(
        "ring_slot",
        "over_the_sinks",
        "The ring begins at slot 0.",
        lambda position, window, sinks: (
            position if position < sinks else (position - sinks) % window
        ),
        "the ring begins at slot 0",
    ),
    _wrong(
        "ring_slot",
        "over_the_sinks",
        "Sinks are tokens like others.",
        lambda position, window, sinks: position % window,
        "sinks are like others",
    ),
    _wrong(
        "ring_slot",
        "sinks_in_the_ring",
        "The ring starts behind `sinks` slots, and everybody is in it.",
        lambda position, window, sinks: sinks + position % window,
    ),
    _wrong(
        "ring_slot",
        "grows",
        "A position's slot is its position.",
        lambda position, window, sinks: position,
    ),
    _wrong(
        "ring_slot",
        "one_slot_more",
        "W + 1 keys are visible, so the ring has W + 1 slots.",
        lambda position, window, sinks: (
            position if position < sinks else sinks + (position - sinks) % (window + 1)
        ),
    ),
    _wrong(
        "ring_slot",
        "one_slot_fewer",
        "The last slot of W is W - 1, so the ring goes round after W - 1.",
        lambda position, window, sinks: (
            position if position < sinks else sinks + (position - sinks) % max(1, window - 1)
        ),
    ),
    _wrong(
        "ring_slot",
        "not_for_life",
        "Whoever comes gets the next free slot.",
        _next_free_slot,
    ),
    _wrong(
        "ring_slot",
        "not_int",
        "Going round is a matter of dividing.",
        lambda position, window, sinks: position / window,
    ),
    _wrong("live_bytes", "shapes", "A tensor's memory is its shape's.", _shapes),
    _wrong(
        "live_bytes",
        "counted_twice",
        "Each tensor brings its storage.",
        lambda tensors: sum(tensor.untyped_storage().nbytes() for tensor in tensors),
        "once per tensor",
    ),
    _wrong(
        "live_bytes",
        "counted_twice",
        "A tensor's address is its storage's.",
        _by_the_tensors_addresses,
        "by the tensors' addresses",
    ),
    _wrong(
        "live_bytes",
        "same_size",
        "A set leaves out what is there twice.",
        lambda tensors: sum({tensor.untyped_storage().nbytes() for tensor in tensors}),
    ),
    _wrong(
        "live_bytes",
        "keys_only",
        "K and V are the same memory twice.",
        lambda tensors: live_bytes(tensors[::2]),
    ),
    _wrong(
        "live_bytes",
        "first_only",
        "They are all slices of one tensor.",
        lambda tensors: live_bytes(tensors[:1]),
    ),
    _wrong(
        "live_bytes",
        "largest_only",
        "Memory is what the largest of them takes.",
        lambda tensors: max((live_bytes([tensor]) for tensor in tensors), default=0),
    ),
    _wrong(
        "live_bytes",
        "in_place",
        "What is counted is done with.",
        lambda tensors: sum(
            live_bytes([one])
            for one in [tensors.pop() for _ in range(len(tensors))]
            if live_bytes([*tensors, one]) > live_bytes(tensors)
        ),
    ),
    _wrong("live_bytes", "elements", "A storage's size is its length.", _elements),
    _wrong(
        "live_bytes",
        "four_bytes_each",
        "Numbers take four bytes.",
        lambda tensors: 4 * _elements(tensors),
    ),
    _wrong(
        "live_bytes",
        "not_int",
        "Memory is counted in kilobytes.",
        lambda tensors: live_bytes(tensors) / 1024,
    ),
)

_AT_LEAST_1 = "it is at least 1"

# Weaker answers that are right all the same, and why.
STILL_RIGHT = {
    "l04.visible": {"window at least 1": _AT_LEAST_1},
    "l04.evict": {"window at least 1": _AT_LEAST_1},
    "l04.held": {"num_tokens at least 1": _AT_LEAST_1, "window at least 1": _AT_LEAST_1},
    "l04.ring_slot": {
        "window at least 1": _AT_LEAST_1,
        "return sinks + position % window": "where the turn begins does not matter",
    },
    "l04.live_bytes": {"tensors: reversed": "a sum does not mind the order"},
}
