"""The window's rule: what sees what, what is kept and counted, where it lies, what it costs."""

import math

import pytest
import torch
from fakes import TINY, oracle, prompt_of, tiny_model
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from lockstep import kv_from_scratch

from nanogpt.parts.sliding_window import (
    evict,
    held,
    judge,
    kept_positions,
    live_bytes,
    ring_slot,
    visible,
    window_mask,
)
from nanogpt.posts.oracle import generate

MANY = examples(40)
WINDOWS = st.tuples(st.integers(1, 9), st.integers(0, 4))
CHUNKS = st.lists(st.integers(1, 12), min_size=1, max_size=8)

# ---------------------------------------------------------------- what sees what


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        (0, [0]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (4, [0, 1, 2, 3, 4]),
        (5, [0, 2, 3, 4, 5]),
        (9, [0, 6, 7, 8, 9]),
    ],
)
def test_a_token_sees_itself_three_before_it_and_one_sink(query: int, seen: list[int]):
    assert [key for key in range(12) if visible(query, key, 3, 1)] == seen


def test_a_sink_is_not_visible_before_it_exists():
    assert not visible(1, 2, 5, 4)
    assert visible(2, 2, 5, 4)


def test_without_a_window_everything_up_to_oneself_is_visible():
    assert [visible(5, key, None, 0) for key in (0, 5, 6)] == [True, True, False]


@MANY
@given(st.lists(st.integers(0, 30), max_size=6), st.lists(st.integers(0, 30), max_size=9), WINDOWS)
def test_the_mask_is_the_rule_for_every_pair(
    queries: list[int], keys: list[int], rule: tuple[int, int]
):
    for window in (rule[0], None):
        mask = window_mask(queries, keys, window, rule[1])
        assert mask.shape == (len(queries), len(keys))
        assert mask.tolist() == [[visible(q, k, window, rule[1]) for k in keys] for q in queries]


# ---------------------------------------------------------------- what is kept


def entries(length: int, heads: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys that name head and position, and values that are their negatives."""
    k = torch.arange(length).repeat(heads, 1) + 1000.0 * torch.arange(heads).unsqueeze(1)
    k = k.unsqueeze(2).repeat(1, 1, 3)  # (H, S, D)
    return k, -k


@MANY
@given(st.integers(0, 25), WINDOWS)
def test_eviction_keeps_sinks_and_the_last_and_each_once(length: int, rule: tuple[int, int]):
    window, sinks = rule
    k, v = entries(length)
    before = k.clone(), v.clone()
    kept_k, kept_v = evict(k, v, window, sinks)
    assert torch.equal(k, before[0]) and torch.equal(v, before[1])
    assert kept_k[0, :, 0].tolist() == kept_positions(length, window, sinks)
    assert torch.equal(kept_k[1], kept_k[0] + 1000)
    assert torch.equal(kept_v, -kept_k)
    assert kept_k.shape[1] == min(length, window + sinks)


def test_the_posts_window_keeps_the_last_entries_and_not_the_first():
    k, v = evict(*entries(5), 2, 0)
    assert k[0, :, 0].tolist() == [3, 4]
    assert v[0, :, 0].tolist() == [-3, -4]


def test_what_is_evicted_is_free_and_not_only_out_of_sight():
    k, v = entries(100)
    kept = evict(k, v, 5, 1)
    assert live_bytes(kept) == 2 * 2 * 6 * 3 * 4
    assert live_bytes([k[:, -5:], v[:, -5:]]) == live_bytes([k, v])  # what the post's slice keeps


@MANY
@given(CHUNKS, WINDOWS)
def test_what_is_kept_is_what_the_next_token_sees_whatever_the_chunks(
    chunks: list[int], rule: tuple[int, int]
):
    """None misses an evicted entry, and nothing that stays is useless: cut to cut, per chunk."""
    window, sinks = rule
    kept: list[int] = []
    end = 0
    for chunk in chunks:
        there = [*kept, *range(end, end + chunk)]
        for query in range(end, end + chunk):
            wanted = [p for p in range(query + 1) if visible(query, p, window, sinks)]
            assert set(wanted) <= set(there)
        end += chunk
        where = torch.tensor(there).view(1, -1, 1)
        kept = evict(where, where, window, sinks)[0].flatten().tolist()
        assert kept == kept_positions(end, window, sinks)
        assert kept == [p for p in range(end) if visible(end, p, window, sinks)]


# ---------------------------------------------------------------- what is counted


@MANY
@given(CHUNKS, WINDOWS)
def test_what_is_counted_is_what_is_held_at_the_height_of_a_step_and_after_it(
    chunks: list[int], rule: tuple[int, int]
):
    cursor = holds = 0
    for chunk in chunks:
        peak, end = held(cursor, chunk, *rule)
        assert peak == holds + chunk
        assert peak <= sum(rule) + chunk
        cursor += chunk
        holds = len(kept_positions(cursor, *rule))
        assert end == holds
        assert held(cursor, 0, *rule) == (holds, holds)
        assert held(cursor, chunk, None, rule[1]) == (cursor + chunk, cursor + chunk)


def test_a_prompt_of_40_under_a_window_of_20_is_40_at_its_height_and_20_after_it():
    assert held(0, 40, 20, 0) == (40, 20)
    assert [held(c, 8, 20, 0) for c in (0, 8, 16, 24, 32)] == [
        (8, 8), (16, 16), (24, 20), (28, 20), (28, 20),
    ]  # fmt: skip


# ---------------------------------------------------------------- where it lies


@MANY
@given(WINDOWS)
def test_kept_positions_lie_in_slots_of_their_own_for_life(rule: tuple[int, int]):
    window, sinks = rule
    for computed in range(40):
        kept = kept_positions(computed, window, sinks)
        slots = [ring_slot(position, window, sinks) for position in kept]
        assert len(set(slots)) == len(slots)
        assert all(0 <= slot < window + sinks for slot in slots)
        assert slots[:sinks] == list(range(min(sinks, computed)))


@MANY
@given(WINDOWS, st.integers(0, 60))
def test_a_new_entry_takes_the_place_of_the_one_that_leaves(rule: tuple[int, int], more: int):
    window, sinks = rule
    leaves = sinks + more
    assert ring_slot(leaves + window, window, sinks) == ring_slot(leaves, window, sinks)


# ---------------------------------------------------------------- what it costs in bytes


def test_a_storage_counts_once_and_whole():
    whole = torch.zeros(100, 4)
    other = torch.zeros(3, dtype=torch.float64)
    assert live_bytes([]) == 0
    assert live_bytes([whole[-1:], whole[:2], whole]) == 1600
    assert live_bytes([whole[0], other]) == 1624
    assert live_bytes([torch.zeros(1).expand(1000)]) == 4
    assert live_bytes([torch.empty(0), torch.empty(5, 0)]) == 0
    assert live_bytes(iter([other.view(3, 1)])) == 24


# ---------------------------------------------------------------- what it costs in quality


def test_agreement_is_of_first_choices_and_loss_is_of_the_text():
    full = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    windowed = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0], [0.0, 2.0]])
    targets = torch.tensor([0, 0, 0, 1])

    def loss(gap: float) -> float:
        return math.log(1 + math.exp(-gap))

    agreement, added = judge(full, windowed, targets)
    assert agreement == 0.75
    assert added == pytest.approx((loss(1) - loss(2) + loss(-2) - loss(2)) / 4, abs=1e-6)
    assert judge(full, full, targets) == (1.0, 0.0)


# ---------------------------------------------------------------- the oracle under a window


def naive(prompt: list[int], max_new: int, window: int, sinks: int) -> list[int]:
    """The oracle once more: all layers spelled out, K/V from scratch, each pair judged alone."""
    model, tokens = tiny_model(), list(prompt)
    for _ in range(max_new):
        keys, values = kv_from_scratch(tuple(tokens), window, sinks)  # (L, H, S, D) each
        last = len(tokens) - 1
        seen = [p for p in range(len(tokens)) if visible(last, p, window, sinks)]

        def attend(layer: int, q, k, v, keys=keys, values=values, seen=seen):
            scores = keys[layer][:, seen] @ q[0].unsqueeze(2) / TINY.head_size**0.5  # (H, S, 1)
            return (scores.softmax(1) * values[layer][:, seen]).sum(1).unsqueeze(0)  # (1, H, D)

        with torch.inference_mode():
            hidden = model.hidden(torch.tensor([tokens[-1]]), torch.tensor([last]), attend)
            tokens.append(int(model.logits(hidden)[0].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize(("window", "sinks"), [(1, 0), (3, 0), (3, 2), (8, 1), (30, 4)])
def test_the_oracle_under_a_window_is_the_rule_and_nothing_else(window: int, sinks: int):
    prompt = prompt_of(2, 14)
    got = generate(tiny_model(), prompt, 8, sliding_window=window, num_sinks=sinks)
    assert got == naive(prompt, 8, window, sinks)


def test_a_window_changes_the_text_and_a_sink_changes_it_again():
    prompt = prompt_of(2, 14)
    texts = {
        (window, sinks): tuple(
            generate(tiny_model(), prompt, 12, sliding_window=window, num_sinks=sinks)
        )
        for window, sinks in [(None, 0), (3, 0), (3, 1), (4, 0)]
    }
    assert len(set(texts.values())) == 4


@pytest.mark.parametrize("window", [25, 26, 1000])
def test_a_window_no_smaller_than_the_past_is_no_window(window: int):
    """Prompt and text together are 27 tokens; the last one computed looks back at 25 others."""
    prompt = prompt_of(1, 15)
    assert tuple(generate(tiny_model(), prompt, 12, sliding_window=window)) == oracle(
        tuple(prompt), 12
    )


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"sliding_window": 0}, "sliding_window is 0; it must be at least 1"),
        ({"sliding_window": True}, "sliding_window is True; it must be a whole number"),
        ({"sliding_window": 2.0}, "sliding_window is 2.0; it must be a whole number"),
        ({"sliding_window": 4, "num_sinks": -1}, "num_sinks is -1; it must be at least 0"),
        ({"num_sinks": 2}, "num_sinks is 2; without a sliding window"),
    ],
)
def test_the_oracle_refuses_what_is_no_window(settings_: dict[str, object], words: str):
    with pytest.raises(ValueError, match=words):
        generate(tiny_model(), [1, 2], 3, **settings_)
