"""The block store's decisions: by hand, by their properties, and what a learner's may answer."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.parts import Parts
from nanogpt.parts.blocks import (
    CachedBlock,
    allocate,
    block_hashes,
    evict_order,
    longest_match,
    release,
    writable,
)
from nanogpt.parts.part_checks import guard_parts
from nanogpt.validate import PartError

TOKENS = st.lists(st.integers(0, 2), max_size=14)


def test_blocks_are_allocated_all_or_not_at_all():
    assert allocate(0, 32, 16, [4, 2, 9]) == [4, 2]
    assert allocate(0, 48, 16, [4, 2, 9]) == [4, 2, 9]
    assert allocate(0, 49, 16, [4, 2, 9]) is None


HELD_TOKENS_MORE = [
    (2, 32, 0), (2, 33, 1), (3, 33, 0), (1, 1, 0), (0, 1, 1), (0, 16, 1), (0, 17, 2), (3, 9, 0),
]  # fmt: skip


@pytest.mark.parametrize(("held", "tokens", "more"), HELD_TOKENS_MORE)
def test_a_table_gets_blocks_for_the_tokens_that_its_own_have_no_room_for(held, tokens, more):
    assert allocate(held, tokens, 16, [4, 2, 9]) == [4, 2, 9][:more]


def test_a_block_is_free_when_the_last_table_lets_go_of_it():
    assert release([1, 2, 1, 0], [0, 1, 2]) == [0, 2]
    assert release([3, 2], [0, 1]) == []


@examples(200)
@given(one=TOKENS, other=TOKENS, size=st.integers(1, 5))
def test_two_texts_share_the_hashes_of_the_blocks_that_they_begin_with_in_common(one, other, size):
    ours, theirs = block_hashes(one, size, ""), block_hashes(other, size, "")
    assert len(ours) == len(one) // size
    assert len(set(ours)) == len(ours), "a parent is in every hash, so no two blocks are alike"
    for depth in range(min(len(ours), len(theirs))):
        end = (depth + 1) * size
        assert (ours[depth] == theirs[depth]) == (one[:end] == other[:end])


def test_a_hash_tells_salts_apart_and_stays_the_same():
    assert block_hashes([1, 2, 3], 2, "") == block_hashes([1, 2, 9], 2, "")
    assert block_hashes([1, 2], 2, "") != block_hashes([1, 2], 2, "tenant")
    assert block_hashes([1, 2], 2, "")[0].startswith("131088e07b7d1034")


def test_what_is_there_is_found_up_to_the_first_gap():
    there = {"a": 7, "b": 3, "d": 5}
    assert longest_match(["a", "b", "c", "d"], there, 99, 16) == ([7, 3], 32)
    assert longest_match(["x", "a"], there, 99, 16) == ([], 0)


@pytest.mark.parametrize(("known", "found"), [(31, 16), (32, 16), (33, 32), (1, 0), (16, 0)])
def test_at_least_one_token_is_left_to_compute(known: int, found: int):
    hashes = ["a", "b", "c"][: known // 16]
    assert longest_match(hashes, {"a": 0, "b": 1, "c": 2}, known, 16)[1] == found


def test_only_a_block_that_others_name_is_copied_before_it_is_written():
    assert writable([5, 2], [0, 0, 1, 0, 0, 3], 1, [9]) == ([5, 2], None)
    assert writable([5, 2], [0, 0, 2, 0, 0, 3], 1, [9, 8]) == ([5, 9], (2, 9))
    assert writable([5, 2], [0, 0, 1, 0, 0, 3], 0, [9]) == ([9, 2], (5, 9))


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 4)), max_size=9
    )
)  # fmt: skip
def test_what_was_used_longest_ago_gives_way_first_and_children_before_parents(worth):
    blocks = [CachedBlock(i, *each) for i, each in enumerate(worth)]
    order = evict_order(blocks)
    assert sorted(order) == [block.id for block in blocks if block.count == 0]
    for first, then in pairwise(order):
        assert blocks[first].last_used <= blocks[then].last_used
        if blocks[first].last_used == blocks[then].last_used:
            assert blocks[first].depth >= blocks[then].depth


FREE, COUNTS = (1, 17, 8, [4, 2, 9]), [1, 2, 1, 0]
CACHED = [CachedBlock(0, 0, 1, 0), CachedBlock(1, 2, 0, 1), CachedBlock(2, 0, 3, 0)]
REFUSED: dict[str, tuple[str, tuple[Any, ...], Any, str]] = {
    "a block that is not free": ("allocate", FREE, [4, 3], "need 2 different blocks more out of"),
    "one block twice": ("allocate", FREE, [4, 4], "need 2 different blocks more out of"),
    "too few": ("allocate", FREE, [4], "need 2 different blocks more out of"),
    "nothing though there is": ("allocate", FREE, None, "need 2 different blocks more out of"),
    "freed under another": ("release", (COUNTS, [0, 1]), [0, 1], "frees block 1; with this one, 2"),
    "never freed": ("release", (COUNTS, [0, 1]), [], "this one, 1 table names"),
    "not of the table": ("release", (COUNTS, [0, 1]), [2], "different blocks out of"),
    "a hash of what is not full": ("block_hashes", ([1, 2, 3], 2, ""), ["a", "b"], "need 1 string"),
    "numbers": ("block_hashes", ([1, 2, 3], 2, ""), [8], "need 1 string"),
    "over a gap": ("longest_match", (["a", "b"], {"b": 1}, 9, 2), ([1], 2), "without a gap"),
    "no token left": ("longest_match", (["a"], {"a": 1}, 2, 2), ([1], 2), "at least one has to be"),
    "counted wrong": ("longest_match", (["a"], {"a": 1}, 9, 2), ([1], 1), "found 1 tokens in 1"),
    "no pair": ("longest_match", (["a"], {"a": 1}, 9, 2), [1], "it must be"),
    "written in place": ("writable", ([0, 1], COUNTS, 1, [3]), ([0, 1], None), "2 tables name"),
    "copied for nothing": ("writable", ([0], COUNTS, 0, [3]), ([3], (0, 3)), "1 table names"),
    "in a table": ("evict_order", (CACHED,), [0, 1, 2], "no table names"),
    "not all": ("evict_order", (CACHED,), [0], "no table names"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_answer_that_would_spoil_the_books_is_refused(name: str):
    part, args, answer, why = REFUSED[name]
    guarded = getattr(guard_parts(Parts(**{part: lambda *_: answer})), part)
    with pytest.raises(PartError, match=f"your {part} .*{why}"):
        guarded(*args)


def test_a_right_answer_passes_in_another_type():
    def as_floats(blocks: Any) -> Any:
        return tuple(map(float, blocks))

    parts = guard_parts(
        Parts(
            allocate=lambda *args: as_floats(allocate(*args)),
            release=lambda counts, table: as_floats(release(counts, table)),
            block_hashes=lambda *args: [*map(np.str_, block_hashes(*args))],
            evict_order=lambda blocks: as_floats(reversed(evict_order(blocks))),
            longest_match=lambda *args: list(longest_match(*args)),
            writable=lambda *args: list(writable(*args)),
        )
    )
    assert parts.allocate(*FREE) == [4, 2] and type(parts.allocate(*FREE)[0]) is int
    assert parts.release(COUNTS, [0, 1]) == [0]
    assert parts.block_hashes([1, 2], 2, "") == block_hashes([1, 2], 2, "")
    assert type(parts.block_hashes([1, 2], 2, "")[0]) is str
    assert parts.evict_order(CACHED) == [2, 0]
    assert parts.longest_match(["a"], {"a": 3}, 9, 2) == ([3], 2)
    assert parts.writable([0, 1], COUNTS, 1, [3]) == ([0, 3], (1, 3))
    assert math.isclose(parts.writable([0, 1], COUNTS, 1, [3])[0][1], 3)
