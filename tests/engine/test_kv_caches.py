"""Every K/V cache against one model of it: what is held, where, in how many bytes, until when."""

import pytest
import torch
from fakes import TINY
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples
from torch import Tensor

from nanogpt.blocks.block_kv_cache import BlockKVCache
from nanogpt.blocks.window_blocks import WindowBlockKVCache
from nanogpt.kv_cache import KVCache
from nanogpt.parts import Parts
from nanogpt.parts.sliding_window import evict, kept_positions, ring_slot
from nanogpt.window.window_storage import EvictingStorage, RingStorage
from nanogpt.window.windowed_kv_cache import WindowedKVCache

BYTES_PER_TOKEN = 2 * TINY.num_layers * TINY.num_channels * 8
KINDS = ["slots", "ring", "evicting", "blocks", "blocks under a window"]
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
RULES = st.tuples(st.integers(1, 9), st.integers(0, 4))
BLOCK_SIZE = 3


def make_cache(kind: str, window: int = 4, sinks: int = 1, slots: int = 3) -> KVCache:
    """A cache for `slots` requests; those without a window ignore it."""
    where = torch.float64, torch.device("cpu")
    if kind == "slots":
        return KVCache(TINY, slots, *where)
    if kind == "blocks":
        return BlockKVCache(TINY, 25 * slots, slots, BLOCK_SIZE, *where, Parts(), share=False)
    if kind == "blocks under a window":
        return WindowBlockKVCache(
            window, sinks, TINY, 25 * slots, slots, BLOCK_SIZE, *where, Parts(), share=False
        )
    if kind == "evicting":
        return WindowedKVCache(
            TINY, slots, *where, window, sinks, lambda *rule: EvictingStorage(*rule, evict)
        )

    def any_slots(positions: list[int], window: int, sinks: int) -> list[int]:
        """Slots in another order than the ring's own: any that are different will do."""
        return [-ring_slot(p, window, sinks) % (window + sinks) for p in positions]

    new_storage = lambda *rule: RingStorage(*rule, any_slots)  # noqa: E731
    return WindowedKVCache(TINY, slots, *where, window, sinks, new_storage)


def kv_at(request_id: int, layer: int, positions: list[int]) -> tuple[Tensor, Tensor]:
    """K and V that name their request, layer, head and position: (H, T, D) each."""
    heads = 10**3 * torch.arange(TINY.num_heads).view(-1, 1, 1)
    own = torch.tensor(positions).view(1, -1, 1) + 10**6 * request_id + 10**4 * layer
    k = (own + heads).double().expand(-1, -1, TINY.head_size)
    return k, k + 0.5


def write(
    cache: KVCache, rows: list[tuple[int, int]], start_of: dict[int, int], what: str = "commit"
) -> None:
    """What an executor writes in one step: all rows together, flat, layer after layer.

    A step that fails writes NaN; one that breaks off does so before the last layer.
    """
    place = cache.place(rows)
    factor = 1 if what == "commit" else float("nan")
    for layer in range(TINY.num_layers - (what == "break off")):
        pairs = [kv_at(i, layer, list(range(start_of[i], start_of[i] + n))) for i, n in rows]
        k, v = (torch.cat(each, dim=1).transpose(0, 1) for each in zip(*pairs, strict=True))
        cache.write(layer, place, k * factor, v * factor)


def check_held(cache: KVCache, kind: str, computed: dict[int, int], rule: tuple[int, int]) -> None:
    """Each request holds what its rule keeps of what was committed, and nothing else."""
    total = 0
    for i, length in computed.items():
        kept = list(range(length))
        if kind not in ("slots", "blocks"):
            kept = kept_positions(length, *rule)
        assert list(cache.positions(i)) == kept
        assert cache.length(i) == len(kept)
        view = cache.view(i)
        for layer in range(TINY.num_layers):
            got, right = cache.gather(i, layer), kv_at(i, layer, kept)
            assert all(map(torch.equal, got, right))
            assert torch.equal(cache.held(i)[:, layer], torch.stack(right))
            for head in range(TINY.num_heads):
                assert torch.equal(view[layer, head][0][0], right[0][head])
        num_blocks = len({p // BLOCK_SIZE for p in kept})
        alive = {"slots": TINY.context_len, "blocks": num_blocks * BLOCK_SIZE}
        alive["blocks under a window"] = alive["blocks"]
        assert cache.live_bytes(i) == alive.get(kind, len(kept)) * BYTES_PER_TOKEN
        total += len(kept)
    assert list(cache.holders()) == list(computed)
    assert cache.held_tokens() == total
    assert (cache.length(99), dict(cache.view(99))) == (0, {})
    assert not isinstance(cache, KVCache | BlockKVCache) or cache.storage.isfinite().all()
    cache.check()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "fail", "break off", "release"]),
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=3,
                 unique_by=lambda row: row[0]),
    ),
    max_size=7,
)  # fmt: skip


@ALL_KINDS
@examples(0.5)
@example(rule=(1, 0), steps=[("commit", [(0, 5)])])
@given(rule=RULES, steps=STEPS)
def test_a_cache_holds_what_was_committed_and_a_failed_step_leaves_nothing(kind, rule, steps):
    cache, computed = make_cache(kind, *rule), dict[int, int]()
    for what, rows in steps:
        for i, _ in rows:
            if what == "release" and computed.pop(i, None) is not None:
                cache.release(i)
            elif what != "release" and i not in computed:
                cache.reserve(i)
                computed[i] = 0
        if what != "release":
            write(cache, rows, computed, what)
            for i, n in rows:
                assert cache.length(i) == len(cache.positions(i)) <= computed[i]
                if what == "commit":
                    cache.commit(i, n)
                    computed[i] += n
                else:
                    cache.discard_written(i)
        check_held(cache, kind, computed, rule)


@ALL_KINDS
def test_what_a_finished_request_held_stays_its_own(kind: str):
    cache = make_cache(kind, slots=1)
    cache.reserve(0)
    write(cache, [(0, 8)], {0: 0})
    cache.commit(0, 8)
    kept = list(cache.positions(0))
    left = cache.leave(0)
    assert (list(cache.holders()), cache.held_tokens()) == ([], 0)
    cache.reserve(1)
    write(cache, [(1, 9)], {1: 0})
    cache.commit(1, 9)
    for (layer, head), pair in left().items():
        for got, right in zip(pair, kv_at(0, layer, kept), strict=True):
            assert torch.equal(got[0], right[head])


@pytest.mark.parametrize("kind", ["slots", "ring"])
def test_a_slot_is_given_once_and_only_while_there_is_one(kind: str):
    cache = make_cache(kind)
    for request_id in (10, 11, 12):
        cache.reserve(request_id)
    with pytest.raises(ValueError, match="request 11 holds a slot already"):
        cache.reserve(11)
    with pytest.raises(ValueError, match="all 3 slots are taken"):
        cache.reserve(13)
    cache.release(11)
    cache.release(10)
    cache.reserve(13)
    assert list(cache.holders()) == [12, 13]
    assert kind == "ring" or [cache.slot(i) for i in (13, 12)] == [0, 2], "the lowest that is free"
