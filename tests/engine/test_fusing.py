"""Rows that share a forward: where the tokens of each lie, which sees which, whose K/V is whose."""

import pytest
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nanogpt.parts.fusing import full_mask, fused_rows, new_mask, pack, sample_rows, split_kv
from nanogpt.parts.masks import chunk_mask

MANY = examples(40)
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


# ---------------------------------------------------------------- rows and positions


def test_the_posts_batch_with_its_positions_put_right():
    """A, B and C know 22, 15 and 9 tokens, so their newest ones stand at 21, 14 and 8."""
    known = [[100 + i for i in range(n)] for n in (22, 15, 9)] + [list(range(40, 60))]
    tokens, positions = fused_rows(known, [21, 14, 8, 0], [1, 1, 1, 8])
    assert tokens[:3] == [[0] * 7 + [121], [0] * 7 + [114], [0] * 7 + [108]]
    assert positions[:3] == [[0] * 7 + [21], [0] * 7 + [14], [0] * 7 + [8]]
    assert tokens[3] == list(range(40, 48))
    assert positions[3] == list(range(8))


def test_a_later_chunk_goes_on_where_the_last_one_ended():
    assert fused_rows([list(range(10, 30))], [5], [3]) == ([[15, 16, 17]], [[5, 6, 7]])


def test_a_preempted_request_computes_generated_tokens_as_a_chunk_too():
    prompt, generated = [1, 2, 3], [7, 8]
    tokens, positions = fused_rows([prompt + generated, [9]], [2, 0], [3, 1])
    assert tokens == [[3, 7, 8], [0, 0, 9]]
    assert positions == [[2, 3, 4], [0, 0, 0]]


@MANY
@given(ROWS)
def test_real_tokens_end_in_the_last_column_whatever_the_mix(rows: list[tuple[int, int]]):
    known = [[100 * i + p for p in range(past + new + 2)] for i, (past, new) in enumerate(rows, 1)]
    tokens, positions = fused_rows(known, [past for past, _ in rows], [new for _, new in rows])
    longest = max(new for _, new in rows)
    for i, (past, new) in enumerate(rows):
        assert len(tokens[i]) == len(positions[i]) == longest
        assert positions[i][longest - new :] == list(range(past, past + new))
        assert tokens[i][longest - new :] == known[i][past : past + new]
        assert set(tokens[i][: longest - new]) <= {0}
        assert set(positions[i][: longest - new]) <= {0}


# ---------------------------------------------------------------- masks


def test_new_columns_are_causal_and_their_padding_is_seen_by_itself_alone():
    assert new_mask([3, 1]).int().tolist() == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    ]


def test_the_posts_mask_of_two_rows_of_four_past_and_three_new_columns():
    """Sequence A holds two real past tokens, B four; both bring three new ones."""
    a, b = full_mask([2, 4], [3, 3]).int().tolist()
    assert a == [[0, 0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1, 1]]
    assert b == [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]]


def test_a_decode_beside_a_chunk_sees_its_past_and_itself_and_no_padding():
    assert full_mask([3, 0], [1, 4])[0, -1].int().tolist() == [1, 1, 1, 0, 0, 0, 1]


@MANY
@given(ROWS)
def test_a_real_query_sees_exactly_the_real_keys_up_to_itself(rows: list[tuple[int, int]]):
    past_lens, num_new = [past for past, _ in rows], [new for _, new in rows]
    mask = full_mask(past_lens, num_new)
    longest_past, longest_new = max(past_lens), max(num_new)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(rows), longest_new, longest_past + longest_new)
    for row, (past, new) in zip(mask, rows, strict=True):
        keys = owners(past, new, longest_past, longest_new)
        for query, visible in zip(keys[longest_past:], row, strict=True):
            if query is not None:
                expected = [key is not None and key <= query for key in keys]
                assert visible.tolist() == expected


@MANY
@given(ROWS)
def test_a_padding_query_sees_something_so_that_no_row_is_nan(rows: list[tuple[int, int]]):
    mask = full_mask([past for past, _ in rows], [new for _, new in rows])
    assert mask.any(dim=2).all()
    scores = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    assert not scores.softmax(dim=-1).isnan().any()


@MANY
@given(ROWS)
def test_no_real_query_can_be_reached_by_padding_however_many_layers_there_are(
    rows: list[tuple[int, int]],
):
    """A padding query may see real keys, but no real one sees a padding key: nothing comes back."""
    mask = full_mask([past for past, _ in rows], [new for _, new in rows])
    for row, (past, new) in zip(mask, rows, strict=True):
        padding = row.shape[1] - row.shape[0] - past, row.shape[0] - new
        real = row[padding[1] :]
        assert not real[:, : padding[0]].any()
        assert not real[:, row.shape[1] - row.shape[0] :][:, : padding[1]].any()


def test_a_row_without_any_new_token_harms_nobody():
    mask = full_mask([2, 1], [0, 2])
    assert mask.any(dim=2).all()
    assert mask[1].int().tolist() == [[0, 1, 1, 0], [0, 1, 1, 1]]


# ---------------------------------------------------------------- whose K/V is whose


@MANY
@given(ROWS, st.integers(1, 3))
def test_splitting_gives_everybody_their_own_entries_in_order(
    rows: list[tuple[int, int]], channels: int
):
    past_lens, num_new = [past for past, _ in rows], [new for _, new in rows]
    padded = torch.full((len(rows), max(past_lens) + max(num_new), channels), -1.0)
    for i, (past, new) in enumerate(rows):
        for column, owner in enumerate(owners(past, new, max(past_lens), max(num_new))):
            if owner is not None:
                padded[i, column] = 100.0 * i + owner
    for i, (mine, (past, new)) in enumerate(
        zip(split_kv(padded, past_lens, num_new), rows, strict=True)
    ):
        assert mine.shape == (past + new, channels)
        assert mine[:, 0].tolist() == [100.0 * i + p for p in range(past + new)]


def test_what_is_split_off_keeps_nobody_elses_storage_alive():
    padded = torch.zeros(4, 20, 2)
    for mine in split_kv(padded, [12, 3, 0, 5], [1, 1, 8, 1]):
        assert mine.untyped_storage().nbytes() == mine.numel() * 4


# ---------------------------------------------------------------- who may sample


@MANY
@given(ROWS, st.data())
def test_only_a_row_that_ends_at_its_last_known_token_samples(
    rows: list[tuple[int, int]], data: st.DataObject
):
    left = [data.draw(st.integers(0, 2)) for _ in rows]
    known = [past + new + more for (past, new), more in zip(rows, left, strict=True)]
    chosen = sample_rows([new for _, new in rows], [past for past, _ in rows], known)
    assert chosen == [i for i, more in enumerate(left) if more == 0]


# ---------------------------------------------------------------- the flat row


def test_a_flat_row_of_a_decode_and_a_chunk_worked_out_by_hand():
    cu_q, cu_k, mask = pack([2, 1], [1, 2])
    assert (cu_q, cu_k) == ([0, 1, 3], [0, 3, 6])
    assert mask.int().tolist() == [
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1, 1],
    ]


@MANY
@given(ROWS)
def test_the_staircase_shows_everybody_their_own_past_and_nothing_of_others(
    rows: list[tuple[int, int]],
):
    cu_q, cu_k, mask = pack([past for past, _ in rows], [new for _, new in rows])
    keys = [(i, p) for i, (past, new) in enumerate(rows) for p in range(past + new)]
    queries = [(i, past + t) for i, (past, new) in enumerate(rows) for t in range(new)]
    expected = [[k[0] == q[0] and k[1] <= q[1] for k in keys] for q in queries]
    assert mask.dtype == torch.bool
    assert mask.tolist() == expected
    assert len(cu_q) == len(cu_k) == len(rows) + 1
    for i, (past, new) in enumerate(rows):
        assert [owner for owner, _ in queries[cu_q[i] : cu_q[i + 1]]] == [i] * new
        assert [owner for owner, _ in keys[cu_k[i] : cu_k[i + 1]]] == [i] * (past + new)


@MANY
@given(ROWS)
def test_padded_and_packed_masks_say_the_same(rows: list[tuple[int, int]]):
    past_lens, num_new = [past for past, _ in rows], [new for _, new in rows]
    padded, (cu_q, cu_k, packed) = full_mask(past_lens, num_new), pack(past_lens, num_new)
    for i, (past, new) in enumerate(rows):
        block = packed[cu_q[i] : cu_q[i + 1], cu_k[i] : cu_k[i + 1]]
        real: Tensor = torch.tensor(
            [p is not None for p in owners(past, new, max(past_lens), max(num_new))]
        )
        assert torch.equal(padded[i, max(num_new) - new :, real], block)
        assert torch.equal(block, chunk_mask(past, new))


@pytest.mark.parametrize("num_new", [[1], [1, 1, 1], [5]])
def test_one_row_and_rows_of_one_length_have_no_padding(num_new: list[int]):
    past_lens = [3] * len(num_new)
    tokens, positions = fused_rows([list(range(20))] * len(num_new), past_lens, num_new)
    assert positions == [list(range(3, 3 + n)) for n in num_new]
    assert tokens == positions
    assert torch.equal(full_mask(past_lens, num_new)[0], chunk_mask(3, num_new[0]))
