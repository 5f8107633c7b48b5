"""The window's rule: what sees what, what is kept and counted, where it lies, what it costs."""

import pytest
import torch
from fakes import oracle, prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from lockstep import text_after

from nanogpt.policies.sliding_window import (
    evict,
    kept_positions,
    kv_usage,
    live_bytes,
    visible,
    window_mask,
)
from nanogpt.posts.oracle import generate

RULES = st.tuples(st.integers(1, 9), st.integers(0, 4))
"""(window, sinks)."""
CHUNKS = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@given(st.lists(st.integers(0, 30), max_size=6), st.lists(st.integers(0, 30), max_size=9), RULES)
def test_the_mask_is_the_rule_for_every_pair(queries, keys, rule):
    for window in (rule[0], None):
        mask = window_mask(queries, keys, window, rule[1])
        assert mask.shape == (len(queries), len(keys))
        assert mask.tolist() == [[visible(q, k, window, rule[1]) for k in keys] for q in queries]


@given(CHUNKS, RULES)
def test_what_is_kept_and_counted_is_what_the_next_token_sees_however_it_is_chunked(chunks, rule):
    """No query misses an evicted entry, and nothing useless stays: evicted after each chunk."""
    window, sinks = rule
    kept: list[int] = []
    end = 0
    for chunk in chunks:
        assert kv_usage(end, chunk, window, sinks)[0] == len(kept) + chunk, "at the step's height"
        present = [*kept, *range(end, end + chunk)]
        for query in range(end, end + chunk):
            assert {p for p in range(query + 1) if visible(query, p, *rule)} <= set(present)
        k = torch.tensor(present).view(1, -1, 1) + torch.tensor([0, 1000]).view(-1, 1, 1)
        kept_k, kept_v = evict(k, -k, window, sinks)  # (H, S, 1) each
        kept = kept_k[0].flatten().tolist()
        assert torch.equal(kept_k[1], kept_k[0] + 1000) and torch.equal(kept_v, -kept_k)
        assert k[0].flatten().tolist() == present, "what it was given is as it was"
        assert kv_usage(end, chunk, window, sinks)[1] == len(kept)
        end += chunk
        assert kept == kept_positions(end, window, sinks)
        assert kept == [p for p in range(end) if visible(end, p, window, sinks)]
        assert kv_usage(end, chunk, None, sinks) == (end + chunk, end + chunk)


def test_the_bytes_of_a_storage_count_once_and_whole():
    whole, other = torch.zeros(100, 4), torch.zeros(3, dtype=torch.float64)
    assert live_bytes([]) == 0
    assert live_bytes([whole[-1:], whole[:2], whole]) == 1600
    assert live_bytes([whole[0], other]) == 1624
    assert live_bytes([torch.zeros(1).expand(1000)]) == 4
    kept = evict(whole.unsqueeze(0), whole.unsqueeze(0), 5, 1)
    assert live_bytes(kept) == 2 * 6 * 4 * 4, "what is evicted is free, not only out of sight"


# ---------------------------------------------------------------- the oracle under a window


def test_a_window_and_its_sinks_change_the_oracles_text():
    """Engines are held to this text and to K/V by the rule (`lockstep.watched`)."""
    prompt, rules = prompt_of(2, 14), [(1, 0), (3, 0), (3, 2), (30, 4)]
    texts = {text_after(tuple(prompt), 8, window=w, sinks=s) for w, s in rules}
    assert len(texts) == 4
    # Prompt and text are 22 tokens; the last one computed looks back at 20 others.
    for window, is_none in [(20, True), (1000, True), (3, False)]:
        text = tuple(generate(tiny_model(), prompt, 8, sliding_window=window))
        assert (text == oracle(tuple(prompt), 8)) == is_none
    with pytest.raises(ValueError, match="num_sinks is 2; without a window"):
        generate(tiny_model(), prompt, 8, num_sinks=2)
