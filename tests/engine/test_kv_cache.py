"""The KV cache: slots, lengths, and what is held only once it is committed."""

import pytest
import torch
from fakes import TINY

from nanogpt.kv_cache import KVCache


@pytest.fixture
def cache() -> KVCache:
    return KVCache(TINY, 3, torch.float64, torch.device("cpu"))


def write_tokens(cache: KVCache, request_id: int, start: int, values: list[float]) -> None:
    """K = value and V = -value, everywhere, from position `start` on."""
    assert start == cache.length(request_id)
    place = cache.place([(request_id, len(values))])
    k = torch.tensor(values, dtype=torch.float64)[:, None, None].expand(-1, 2, 8)
    for layer in range(2):
        cache.write(layer, place, k + layer, -k)


def test_requests_get_the_lowest_free_slot(cache: KVCache):
    for request_id in (10, 11, 12):
        cache.reserve(request_id)
    cache.release(11)
    cache.release(10)
    cache.reserve(13)
    assert [cache.slot(i) for i in (13, 12)] == [0, 2]
    assert list(cache.holders()) == [12, 13]
    cache.check()


def test_a_slot_is_given_once_and_only_while_there_is_one(cache: KVCache):
    for request_id in (0, 1, 2):
        cache.reserve(request_id)
    with pytest.raises(ValueError, match="request 1 holds a slot already"):
        cache.reserve(1)
    with pytest.raises(ValueError, match="all 3 slots are taken"):
        cache.reserve(3)
    cache.check()


def test_what_is_written_is_held_only_after_the_commit(cache: KVCache):
    cache.reserve(7)
    write_tokens(cache, 7, 0, [1.0, 2.0])
    assert (cache.length(7), cache.held_tokens()) == (0, 0)
    assert cache.gather(7, 0)[0].shape == (2, 0, 8)
    cache.commit(7, 2)
    assert (cache.length(7), cache.held_tokens()) == (2, 2)


def test_gather_gives_what_was_written_in_order_by_layer(cache: KVCache):
    cache.reserve(6)
    cache.reserve(7)
    write_tokens(cache, 7, 0, [1.0, 2.0])
    cache.commit(7, 2)
    write_tokens(cache, 7, 2, [5.0])
    cache.commit(7, 1)
    k, v = cache.gather(7, 1)
    assert k.shape == v.shape == (2, 3, 8)
    assert k[1, :, 4].tolist() == [2.0, 3.0, 6.0]
    assert v[0, :, 0].tolist() == [-1.0, -2.0, -5.0]
    assert cache.gather(6, 1)[0].numel() == 0


def test_a_released_request_holds_nothing_and_its_slot_starts_empty(cache: KVCache):
    cache.reserve(7)
    cache.commit(7, 5)
    cache.release(7)
    assert (cache.length(7), cache.held_tokens(), list(cache.holders())) == (0, 0, [])
    cache.reserve(8)
    assert (cache.slot(8), cache.length(8)) == (0, 0)
    cache.check()


def test_check_notices_a_lost_slot(cache: KVCache):
    cache.reserve(7)
    cache._slot_of.clear()  # pyright: ignore
    with pytest.raises(AssertionError):
        cache.check()
