"""Every K/V cache against one model of it: what is held, where, in how many bytes, until when."""

from typing import Any

import pytest
import torch
from fakes import TINY, tiny_model
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples
from torch import Tensor

from nanogpt import EngineConfig, Policies, features
from nanogpt.kv_cache import KVCache
from nanogpt.outputs import Row
from nanogpt.policies.sliding_window import kept_positions, rolling_buffer_index

BYTES_PER_TOKEN = 2 * TINY.num_layers * TINY.num_channels * 8
UNLIMITED = ("slots", "blocks")
KINDS = ["slots", "ring", "evicting", "blocks", "blocks under a window"]
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
RULES = st.tuples(st.integers(1, 9), st.integers(0, 4))
BLOCK_SIZE = 3


def make_cache(kind: str, window: int = 4, sinks: int = 1, slots: int = 3) -> Any:
    """A cache for `slots` requests; those without a window ignore it."""

    def any_index(position: int, window: int, sinks: int) -> int:
        """Another order than the reference's: any in which all are different will do."""
        return -rolling_buffer_index(position, window, sinks) % (window + sinks)

    blocks = BLOCK_SIZE if "blocks" in kind else None
    config = EngineConfig(
        max_batch_size=slots, block_size=blocks, num_sinks=0 if kind in UNLIMITED else sinks,
        sliding_window=None if kind in UNLIMITED else window,
        kv_storage="evict" if kind == "evicting" else "ring",
    )  # fmt: skip
    return features.make_cache(tiny_model(), config, Policies(rolling_buffer_index=any_index))


def kv_at(request_id: int, layer: int, positions: list[int]) -> tuple[Tensor, Tensor]:
    """K and V that name their request, layer, head and position: (H, T, D) each."""
    heads = 10**3 * torch.arange(TINY.num_heads).view(-1, 1, 1)
    own = torch.tensor(positions).view(1, -1, 1) + 10**6 * request_id + 10**4 * layer
    k = (own + heads).double().expand(-1, -1, TINY.head_size)
    return k, k + 0.5


def write(
    cache: Any, rows: list[tuple[int, int]], start_of: dict[int, int], what: str = "commit"
) -> None:
    """What an executor writes in one step: all rows together, flat, layer after layer.

    A step that fails writes NaN; one that breaks off does so before the last layer.
    """
    own = [Row(i, [0] * n, range(n), 0, False, []) for i, n in rows]
    cache.allocate(own)
    place = cache.slot_mapping(own)
    factor = 1 if what == "commit" else float("nan")
    for layer in range(TINY.num_layers - (what == "break off")):
        pairs = [kv_at(i, layer, list(range(start_of[i], start_of[i] + n))) for i, n in rows]
        k, v = (torch.cat(each, dim=1).transpose(0, 1) for each in zip(*pairs, strict=True))
        cache.write(layer, place, k * factor, v * factor)


def check_held(cache: Any, kind: str, computed: dict[int, int], rule: tuple[int, int]) -> None:
    """Each request holds what its rule keeps of what was committed, and nothing else."""
    total = 0
    for i, length in computed.items():
        kept = list(range(length))
        if kind not in ("slots", "blocks"):
            kept = kept_positions(length, *rule)
        assert list(cache.positions(i)) == kept
        assert cache.length(i) == len(kept)
        for layer in range(TINY.num_layers):
            got, right = cache.gather(i, layer), kv_at(i, layer, kept)
            assert all(map(torch.equal, got, right))
            assert torch.equal(cache.held(i)[:, layer], torch.stack(right))
        num_blocks = len({p // BLOCK_SIZE for p in kept})
        alive = {"slots": TINY.max_model_len if kept else 0, "blocks": num_blocks * BLOCK_SIZE}
        alive["blocks under a window"] = alive["blocks"]
        assert cache.live_bytes(i) == alive.get(kind, len(kept)) * BYTES_PER_TOKEN
        total += len(kept)
    assert list(cache.holders()) == list(computed)
    assert cache.held_tokens() == total
    assert cache.length(99) == 0
    if isinstance(cache, KVCache):
        assert cache.storage.isfinite().all()
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
                cache.free(i)
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
