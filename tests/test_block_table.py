"""The pool of blocks: who owns what, what comes back, and that the record is plain data."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.stories.l04_blocks import BlockPool
from nanogpt.parts.sliding_window import kept_positions


def owners(pool):
    return [block["owner"] for block in pool.record[-1]["blocks"]]


def test_a_request_gets_as_many_blocks_as_its_entries_fill_wherever_they_lie():
    pool = BlockPool(num_blocks=4, block_size=4)
    pool.allocate(7, 3)
    pool.allocate(8, 5)
    assert pool.tables == {7: [0], 8: [1, 2]}
    assert pool.record[-1] == {
        "words": "Request 8 brings 5 entries and gets blocks 1, 2.",
        "blocks": [
            {"owner": 7, "filled": 3, "outside": []},
            {"owner": 8, "filled": 4, "outside": []},
            {"owner": 8, "filled": 1, "outside": []},
            {"owner": None, "filled": 0, "outside": []},
        ],
        "tables": {"7": [0], "8": [1, 2]},
        "block_size": 4,
    }


def test_a_new_entry_goes_into_the_last_block_until_it_is_full():
    pool = BlockPool(3, 2)
    pool.allocate(0, 1)
    pool.append(0)
    assert pool.tables == {0: [0]}
    pool.append(0)
    assert pool.tables == {0: [0, 1]}
    assert pool.record[-1]["words"] == (
        "Request 0 stores position 2: its last block was full, so it gets block 1."
    )


def test_a_block_comes_back_only_when_its_last_entry_is_behind_the_window():
    pool = BlockPool(3, 4)
    pool.allocate(0, 9)
    assert pool.evict(0, window=6) == []
    assert pool.record[-1]["blocks"][0] == {"owner": 0, "filled": 4, "outside": [0, 1, 2]}
    assert pool.record[-1]["words"] == "Request 0 keeps its last 6 positions. Given back: no block."
    pool.append(0)
    assert pool.evict(0, window=6) == [0]
    assert pool.tables == {0: [None, 1, 2]}
    assert pool.free_blocks == [0]


def test_a_block_given_back_is_another_request_s_next():
    pool = BlockPool(2, 2)
    pool.allocate(0, 4)
    with pytest.raises(ValueError, match="request 1 needs 1 blocks; 0 are free"):
        pool.allocate(1, 2)
    pool.evict(0, window=2)
    pool.allocate(1, 2)
    assert pool.tables == {0: [None, 1], 1: [0]}
    assert owners(pool) == [1, 0]


def test_sinks_keep_their_block_and_what_lies_behind_them_does_not():
    pool = BlockPool(5, 2)
    pool.allocate(0, 10)
    assert pool.evict(0, window=3, sinks=1) == [1, 2]
    assert pool.tables == {0: [0, None, None, 3, 4]}
    assert pool.record[-1]["blocks"][0]["outside"] == [1]


def test_what_was_evicted_stays_evicted_under_a_larger_window():
    pool = BlockPool(3, 2)
    pool.allocate(0, 6)
    pool.evict(0, window=2)
    assert pool.evict(0, window=6) == []
    assert pool.tables == {0: [None, None, 2]}
    pool.check()


def test_a_request_that_leaves_gives_back_all_its_blocks():
    pool = BlockPool(3, 2)
    pool.allocate(0, 4)
    assert pool.free(0) == [0, 1]
    assert (pool.tables, pool.free_blocks) == ({}, [0, 1, 2])
    assert owners(pool) == [None] * 3


def test_what_a_pool_cannot_do_is_refused_and_changes_nothing():
    pool = BlockPool(2, 2)
    pool.allocate(0, 4)
    before = json.dumps([pool.tables, pool.free_blocks, pool.num_tokens, pool.record])
    for call, sentence in (
        (lambda: pool.allocate(0, 1), "request 0 has a table already"),
        (lambda: pool.allocate(1, 0), "num_tokens is 0; it must be at least 1"),
        (lambda: pool.append(0), "request 0 needs 1 blocks; 0 are free"),
        (lambda: pool.append(9), "request 9 has no table"),
        (lambda: pool.evict(9, 2), "request 9 has no table"),
        (lambda: pool.evict(0, 0), "window is 0; it must be at least 1"),
        (lambda: pool.free(9), "request 9 has no table"),
        (lambda: BlockPool(0, 2), "num_blocks is 0; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    assert json.dumps([pool.tables, pool.free_blocks, pool.num_tokens, pool.record]) == before


@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["allocate", "append", "evict", "free"]),
                       st.integers(0, 2), st.integers(1, 9), st.integers(0, 3))),
)  # fmt: skip
def test_whatever_happens_every_block_has_one_place_and_every_visible_entry_a_block(
    num_blocks, block_size, calls
):
    pool = BlockPool(num_blocks, block_size)
    gone: dict[int, set[int]] = {}
    for op, request_id, number, sinks in calls:
        arguments = {"allocate": (number,), "evict": (number, sinks)}.get(op, ())
        try:
            getattr(pool, op)(request_id, *arguments)
        except ValueError:
            continue
        if op in ("allocate", "free"):
            gone[request_id] = set()
        if op == "evict":
            computed = pool.num_tokens[request_id]
            gone[request_id] |= {*range(computed)} - {*kept_positions(computed, number, sinks)}
        pool.check()
        step = pool.record[-1]
        lent = [block for table in step["tables"].values() for block in table if block is not None]
        assert len(lent) == len(set(lent))
        assert sorted(lent + pool.free_blocks) == list(range(num_blocks))
        for name, table in step["tables"].items():
            held = {
                logical * block_size + entry
                for logical, block in enumerate(table)
                if block is not None
                for entry in range(step["blocks"][block]["filled"])
            }
            assert {*range(pool.num_tokens[int(name)])} - gone[int(name)] <= held
    json.dumps(pool.record)


def test_a_later_call_leaves_earlier_steps_as_they_were():
    pool = BlockPool(4, 2)
    pool.allocate(0, 3)
    before = json.dumps(pool.record)
    pool.append(0)
    pool.append(0)
    pool.evict(0, 1)
    assert json.dumps(pool.record[:2]) == before
