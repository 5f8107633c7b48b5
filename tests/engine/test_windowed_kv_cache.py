"""The K/V under a window: what is held, where, in how many bytes, and what a failed step leaves."""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from fakes import TINY
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nanogpt.parts.sliding_window import evict, kept_positions, ring_slot, visible
from nanogpt.window.window_storage import EvictingStorage, RingStorage, WindowStorage
from nanogpt.window.windowed_kv_cache import WindowedKVCache

MANY = examples(20)
SHAPE = (2, TINY.num_layers, TINY.num_heads, 0, TINY.head_size)
BYTES_PER_TOKEN = 2 * TINY.num_layers * TINY.num_channels * 8
KINDS = ["ring", "evict"]
BOTH = pytest.mark.parametrize("kind", KINDS)
RULES = st.tuples(st.integers(1, 9), st.integers(0, 4))
CHUNKS = st.lists(st.integers(1, 12), min_size=1, max_size=7)


def all_slots(slot: Callable[[int, int, int], int] = ring_slot):
    return lambda positions, window, sinks: [slot(p, window, sinks) for p in positions]


def storage_of(kind: str, empty: Tensor, window: int, sinks: int) -> WindowStorage:
    if kind == "ring":
        return RingStorage(empty, window, sinks, all_slots())
    return EvictingStorage(empty, window, sinks, evict)


def new_storage(kind: str, window: int, sinks: int) -> WindowStorage:
    return storage_of(kind, torch.empty(SHAPE, dtype=torch.float64), window, sinks)


def new_cache(kind: str, window: int = 4, sinks: int = 1, num_slots: int = 3) -> WindowedKVCache:
    return WindowedKVCache(
        TINY,
        num_slots,
        torch.float64,
        torch.device("cpu"),
        window,
        sinks,
        lambda empty, w, s: storage_of(kind, empty, w, s),
    )


def kv_at(layer: int, positions: list[int], request_id: int = 0) -> tuple[Tensor, Tensor]:
    """K and V that name their request, layer, head and position: (H, T, D) each."""
    k = torch.empty(TINY.num_heads, len(positions), TINY.head_size, dtype=torch.float64)
    for head in range(TINY.num_heads):
        for t, position in enumerate(positions):
            k[head, t] = 10**6 * request_id + 10**4 * layer + 10**3 * head + position
    return k, k + 0.5


def all_layers(positions: list[int]) -> Tensor:
    """(2, L, H, T, D)"""
    layers = [torch.stack(kv_at(layer, positions)) for layer in range(TINY.num_layers)]
    return torch.stack(layers, dim=1)


def feed(storage: WindowStorage, num_new: int) -> None:
    """One step of one request, committed."""
    where = list(range(storage.computed, storage.computed + num_new))
    storage.plan(num_new)
    storage.put(all_layers(where))
    storage.commit()


def assert_holds(storage: WindowStorage, computed: int, window: int, sinks: int) -> None:
    kept = kept_positions(computed, window, sinks)
    assert storage.computed == computed
    assert list(storage.positions) == kept
    assert torch.equal(storage.held(), all_layers(kept))
    assert storage.live_bytes() == len(kept) * BYTES_PER_TOKEN


@BOTH
@MANY
@given(RULES, CHUNKS)
def test_what_is_held_is_right_to_the_byte_after_every_chunk(
    kind: str, rule: tuple[int, int], chunks: list[int]
):
    storage, computed = new_storage(kind, *rule), 0
    for chunk in chunks:
        feed(storage, chunk)
        computed += chunk
        assert_holds(storage, computed, *rule)


@BOTH
@MANY
@given(RULES, CHUNKS, st.integers(1, 12), st.booleans())
def test_a_step_that_is_never_committed_leaves_nothing(
    kind: str, rule: tuple[int, int], chunks: list[int], lost: int, whole: bool
):
    """Also when it broke off before anything was put, and whatever size the next one has."""
    storage, computed = new_storage(kind, *rule), 0
    for chunk in chunks:
        storage.plan(lost)
        if whole:
            storage.put(all_layers(list(range(lost))) * torch.nan)
        assert_holds(storage, computed, *rule)
        feed(storage, chunk)
        computed += chunk
        assert_holds(storage, computed, *rule)


@MANY
@given(RULES, CHUNKS, st.randoms(use_true_random=False))
def test_any_mapping_with_a_slot_of_its_own_for_everyone_will_do(
    rule: tuple[int, int], chunks: list[int], rng
):
    shuffled = rng.sample(range(sum(rule)), sum(rule))
    storage = RingStorage(
        torch.empty(SHAPE, dtype=torch.float64),
        *rule,
        all_slots(lambda *args: shuffled[ring_slot(*args)]),
    )
    computed = 0
    for chunk in chunks:
        feed(storage, chunk)
        computed += chunk
        assert_holds(storage, computed, *rule)


def test_a_colliding_mapping_really_loses_entries():
    """Position 4 takes slot 0 of the sink: what is read there is no longer what was written."""
    storage = RingStorage(
        torch.empty(SHAPE, dtype=torch.float64), 3, 1, all_slots(lambda p, w, s: p % w)
    )
    for _ in range(7):
        feed(storage, 1)
    assert storage.positions == [0, 4, 5, 6]
    assert storage.held()[0, 0, 0, :, 0].tolist() == [6, 4, 5, 6]
    assert storage.live_bytes() == 3 * BYTES_PER_TOKEN


def test_the_posts_view_keeps_everything_alive_and_the_bytes_say_so():
    storage = EvictingStorage(
        torch.empty(SHAPE, dtype=torch.float64), 3, 0, lambda k, v, w, s: (k[:, -w:], v[:, -w:])
    )
    feed(storage, 20)
    assert len(storage.positions) == 3
    assert storage.live_bytes() == 20 * BYTES_PER_TOKEN


@pytest.mark.parametrize("chunks", [[20], [5, 1, 9, 1]])
@BOTH
def test_the_memory_of_what_was_evicted_is_free(kind: str, chunks: list[int]):
    """Whatever tensors of numbers are new to the process are what is counted: nothing lingers."""

    def storages() -> dict[int, int]:
        tensors = [t for t in gc.get_objects() if type(t) is Tensor and t.is_floating_point()]
        return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}

    storage = new_storage(kind, 4, 1)
    before = storages()
    for chunk in chunks:
        feed(storage, chunk)
    new = {where: size for where, size in storages().items() if where not in before}
    assert sum(new.values()) == storage.live_bytes() == 5 * BYTES_PER_TOKEN


@BOTH
def test_a_chunk_that_was_put_down_is_let_go_at_the_commit(kind: str):
    storage = new_storage(kind, 2, 0)
    storage.plan(8)
    chunk = all_layers(list(range(8)))
    gone = weakref.ref(chunk)
    storage.put(chunk)
    del chunk
    storage.commit()
    assert gone() is None


# ---------------------------------------------------------------- the cache of many


def step(cache: WindowedKVCache, rows: list[tuple[int, int]], commit: bool = True) -> None:
    """One step of several requests: written together, flat, and committed one by one."""
    starts = {i: cache._storage_of[i].computed for i, _ in rows}
    place = cache.place(rows)
    for layer in range(TINY.num_layers):
        pairs = [kv_at(layer, list(range(starts[i], starts[i] + n)), i) for i, n in rows]
        k = torch.cat([k for k, _ in pairs], dim=1).transpose(0, 1)  # (N, H, D)
        v = torch.cat([v for _, v in pairs], dim=1).transpose(0, 1)
        cache.write(layer, place, k, v)
    for request_id, n in rows if commit else []:
        cache.commit(request_id, n)


@BOTH
def test_requests_of_one_step_do_not_mix(kind: str):
    cache = new_cache(kind)
    for request_id in (7, 3, 5):
        cache.reserve(request_id)
    step(cache, [(7, 3), (3, 9)])
    step(cache, [(5, 1), (7, 4), (3, 1)])
    kept = {7: [0, 3, 4, 5, 6], 3: [0, 6, 7, 8, 9], 5: [0]}
    for request_id, positions in kept.items():
        assert cache.positions(request_id) == positions
        for layer in range(TINY.num_layers):
            for got, right in zip(
                cache.gather(request_id, layer), kv_at(layer, positions, request_id), strict=True
            ):
                assert torch.equal(got, right)
    assert list(cache.holders()) == [7, 3, 5]
    assert cache.held_tokens() == 11
    assert [cache.live_bytes(i) for i in (7, 3, 5)] == [
        n * BYTES_PER_TOKEN for n in (5, 5, 1)
    ]  # fmt: skip
    cache.check()


@BOTH
def test_releasing_gives_everything_back_and_the_place_too(kind: str):
    cache = new_cache(kind, num_slots=1)
    cache.reserve(0)
    step(cache, [(0, 9)])
    with pytest.raises(ValueError, match="all 1 slots are taken"):
        cache.reserve(1)
    with pytest.raises(ValueError, match="request 0 holds a slot already"):
        cache.reserve(0)
    gone = weakref.ref(cache._storage_of[0])
    cache.release(0)
    assert gone() is None
    assert (cache.held_tokens(), list(cache.holders()), cache.length(0)) == (0, [], 0)
    cache.reserve(0)
    step(cache, [(0, 2)])
    assert cache.positions(0) == [0, 1]


@BOTH
def test_a_discarded_step_lets_its_tensors_go(kind: str):
    cache = new_cache(kind)
    cache.reserve(0)
    step(cache, [(0, 6)])
    chunk = torch.zeros(3, TINY.num_heads, TINY.head_size).double()
    kept_alive = chunk.untyped_storage().data_ptr()
    cache.write(0, cache.place([(0, 3)]), chunk, chunk)
    cache.discard_written(0)
    del chunk
    alive = [t for t in gc.get_objects() if type(t) is Tensor]
    assert kept_alive not in [t.untyped_storage().data_ptr() for t in alive]
    assert cache.live_bytes(0) == 5 * BYTES_PER_TOKEN


@BOTH
def test_a_step_that_breaks_off_between_two_layers_leaves_nothing(kind: str):
    cache = new_cache(kind)
    cache.reserve(0)
    step(cache, [(0, 3)])
    nan = torch.full((2, TINY.num_heads, TINY.head_size), torch.nan).double()
    cache.write(0, cache.place([(0, 2)]), nan, nan)
    cache.discard_written(0)
    cache.write(0, cache.place([(0, 2)]), nan, nan)
    step(cache, [(0, 1)])
    held = torch.stack(cache.gather(0, 1))
    assert torch.equal(held, torch.stack(kv_at(1, [0, 1, 2, 3])))


@BOTH
@MANY
@given(RULES, CHUNKS, st.integers(1, 6))
def test_the_mask_is_the_rule_over_what_is_held_and_what_is_new(
    kind: str, rule: tuple[int, int], chunks: list[int], num_new: int
):
    cache = new_cache(kind, *rule)
    cache.reserve(0)
    for chunk in chunks:
        step(cache, [(0, chunk)])
    computed = sum(chunks)
    new = range(computed, computed + num_new)
    keys = [*kept_positions(computed, *rule), *new]
    mask = cache.mask(0, num_new)
    assert mask.tolist() == [[visible(q, k, *rule) for k in keys] for q in new]
    # What a query sees is the same set of positions as if nothing had ever been evicted.
    for query, row in zip(new, mask, strict=True):
        seen = {key for key, sees in zip(keys, row.tolist(), strict=True) if sees}
        assert seen == {p for p in range(query + 1) if visible(query, p, *rule)}


@BOTH
def test_the_view_by_head_is_what_is_held(kind: str):
    cache = new_cache(kind)
    assert dict(cache.view(0)) == {}
    cache.reserve(0)
    step(cache, [(0, 8)])
    view = cache.view(0)
    assert sorted(view) == [(layer, head) for layer in range(2) for head in range(2)]
    for (layer, head), pair in view.items():
        for got, right in zip(pair, kv_at(layer, [0, 4, 5, 6, 7]), strict=True):
            assert torch.equal(got[0], right[head])


@BOTH
def test_the_check_notices_a_request_that_holds_too_much(kind: str):
    cache = new_cache(kind)
    cache.reserve(0)
    step(cache, [(0, 8)])
    cache.check()
    cache._storage_of[0].positions = [0, 1, 2, 3, 4, 5]
    with pytest.raises(AssertionError):
        cache.check()
