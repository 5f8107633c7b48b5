"""Rows that share a forward: where the tokens of each lie, which sees which, whose K/V is whose."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.policies.fusing import full_mask, logits_indices, pack, prepare_inputs, split_kv
from nanogpt.policies.masks import chunk_mask

ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 7)), min_size=1, max_size=5)
"""(past, new) of each row."""


def owners(past: int, new: int, longest_past: int, longest_new: int) -> list[int | None]:
    """The position that each column of a padded row holds, None where it is padding."""
    return [
        *[None] * (longest_past - past),
        *range(past),
        *[None] * (longest_new - new),
        *range(past, past + new),
    ]


def lengths(rows: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [past for past, _ in rows], [new for _, new in rows]


def test_a_chunk_sees_its_past_and_itself_up_to_the_diagonal():
    assert chunk_mask(2, 3).int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert chunk_mask(5, 1).tolist() == [[True] * 6], "a single token sees everything"


# ---------------------------------------------------------------- left-padded rows


@given(ROWS, st.data())
def test_a_row_ends_with_its_next_tokens_and_samples_after_its_last_known(rows, data):
    left = [data.draw(st.integers(0, 2)) for _ in rows]
    known = [
        [100 * i + p for p in range(past + new + more)]
        for i, ((past, new), more) in enumerate(zip(rows, left, strict=True), 1)
    ]
    past_lens, num_new = lengths(rows)
    tokens, positions = prepare_inputs(known, past_lens, num_new)
    longest = max(num_new)
    for i, (past, new) in enumerate(rows):
        padding = [0] * (longest - new)
        assert positions[i] == [*padding, *range(past, past + new)]
        assert tokens[i] == [*padding, *known[i][past : past + new]]
    chosen = logits_indices(num_new, past_lens, list(map(len, known)))
    assert chosen == [i for i, more in enumerate(left) if more == 0]


@given(ROWS)
def test_a_real_query_sees_the_real_keys_up_to_itself_and_padding_sees_something(rows):
    """So no padding reaches a real token in any layer, and no row without a key turns into NaN."""
    past_lens, num_new = lengths(rows)
    mask = full_mask(past_lens, num_new)
    longest_past, longest_new = max(past_lens), max(num_new)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(rows), longest_new, longest_past + longest_new)
    assert mask.any(dim=2).all()
    for row, (past, new) in zip(mask, rows, strict=True):
        keys = owners(past, new, longest_past, longest_new)
        for query, visible in zip(keys[longest_past:], row, strict=True):
            if query is not None:
                assert visible.tolist() == [key is not None and key <= query for key in keys]


@given(ROWS, st.integers(1, 3))
def test_splitting_gives_each_row_its_own_entries_in_memory_of_their_own(rows, channels):
    past_lens, num_new = lengths(rows)
    longest = max(past_lens), max(num_new)
    padded = torch.full((len(rows), sum(longest), channels), -1.0)
    for i, (past, new) in enumerate(rows):
        for column, owner in enumerate(owners(past, new, *longest)):
            if owner is not None:
                padded[i, column] = 100.0 * i + owner
    split = split_kv(padded, past_lens, num_new)
    for i, (mine, (past, new)) in enumerate(zip(split, rows, strict=True)):
        assert mine.shape == (past + new, channels)
        assert mine[:, 0].tolist() == [100.0 * i + p for p in range(past + new)]
        assert mine.untyped_storage().nbytes() == mine.numel() * 4


# ---------------------------------------------------------------- the flat row


@given(ROWS)
def test_the_staircase_shows_each_row_its_own_past_and_nothing_of_others(rows):
    cu_q, cu_k, mask = pack(*lengths(rows))
    keys = [(i, p) for i, (past, new) in enumerate(rows) for p in range(past + new)]
    queries = [(i, past + t) for i, (past, new) in enumerate(rows) for t in range(new)]
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[k[0] == q[0] and k[1] <= q[1] for k in keys] for q in queries]
    assert len(cu_q) == len(cu_k) == len(rows) + 1
    for i, (past, new) in enumerate(rows):
        assert [owner for owner, _ in queries[cu_q[i] : cu_q[i + 1]]] == [i] * new
        assert [owner for owner, _ in keys[cu_k[i] : cu_k[i + 1]]] == [i] * (past + new)
