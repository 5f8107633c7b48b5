"""The executors: same rows, same logits, same stored K/V, and no row that sees another's."""

from collections.abc import Callable

import pytest
import torch
from fakes import TINY, prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from lockstep import kv_from_scratch
from tiers import examples
from torch import Tensor

from nanogpt import GPT, EngineConfig, Policies
from nanogpt.config import EXECUTORS as NAMES
from nanogpt.executors.base import Executor
from nanogpt.features import executor_type
from nanogpt.kv_cache import KVCache
from nanogpt.kv_store import KVStore
from nanogpt.outputs import Row

Make = Callable[[GPT, KVStore, Policies], Executor]
MAKERS = {name: executor_type(EngineConfig(executor=name)) for name in NAMES}
EXECUTORS = pytest.mark.parametrize("make", list(MAKERS.values()), ids=list(MAKERS))
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def new_cache(*holders: int) -> KVCache:
    size = TINY.max_model_len
    where = torch.float64, torch.device("cpu")
    cache = KVCache(TINY, 6, size, *where, Policies(), num_lanes=6)
    for request_id in holders:
        cache.reserve(request_id)
    return cache


def chunk(request_id: int, start: int, length: int, is_decode: bool = False) -> Row:
    known = prompt_of(request_id, start + length)
    positions = range(start, start + length)
    return Row(request_id, known[start:], positions, start, is_decode, known)


def logits_alone(row: Row) -> Tensor:
    """What the whole model says after the row's last token, without a cache."""
    tokens = prompt_of(row.request_id, row.seq_len)
    return tiny_model()(torch.tensor([tokens]))[0][0, -1]


@EXECUTORS
@examples(0.5)
@given(
    steps=st.lists(
        st.lists(
            st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 1, 2, 3, 12])),
            min_size=1, max_size=5, unique_by=lambda row: row[0],
        ),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_each_rows_logits_and_kv_are_those_of_its_request_alone(make: Make, steps):
    """In random batches, orders and chunkings, by the model without a cache.

    Where a row has 0 tokens, its request leaves first, and another one takes its slot.
    """
    cache, computed = new_cache(*range(5)), dict.fromkeys(range(5), 0)
    executor = make(tiny_model(), cache, Policies())
    for step in steps:
        for i in (i for i, n in step if n == 0):
            cache.free(i)
            cache.reserve(i)
            computed[i] = 0
        step = [(i, n or 2) for i, n in step]
        rows = [chunk(i, computed[i], n, is_decode=n == 1 and computed[i] > 0) for i, n in step]
        cache.allocate(rows)
        logits = executor.execute(rows).logits
        expected = torch.stack([logits_alone(row) for row in rows])
        torch.testing.assert_close(logits, expected, **CLOSE)
        for i, n in step:
            assert cache.length(i) == computed[i], "nothing counts until it is committed"
            cache.commit(i, n)
            computed[i] += n
    for i, length in computed.items():
        if length:
            right = kv_from_scratch(tuple(prompt_of(i, length)))
            torch.testing.assert_close(cache.held(i), right, **CLOSE)
