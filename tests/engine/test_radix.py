"""The radix tree against an oracle that remembers every prefix with its own recency."""

import pytest
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet.radix import RadixTree

Tokens = tuple[int, ...]


def tree_of(capacity: int) -> RadixTree[Tokens]:
    """A tree whose payload of a token is the token itself, so that a wrong cut shows."""
    return RadixTree(capacity, lambda payload, start, end: payload[start:end])


def joining_tree_of(capacity: int) -> RadixTree[Tokens]:
    """The same, which puts together again what no longer differs."""
    join = tuple.__add__
    return RadixTree(capacity, lambda payload, start, end: payload[start:end], join)


class EveryPrefix:
    """The oracle: each stored prefix, and the operation that last passed over it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used_at: dict[Tokens, int] = {}
        self.now = 0

    def match(self, tokens: Tokens) -> int:
        return max(n for n in range(len(tokens) + 1) if n == 0 or tokens[:n] in self.used_at)

    def touch(self, tokens: Tokens) -> None:
        self.now += 1
        for n in range(1, self.match(tokens) + 1):
            self.used_at[tokens[:n]] = self.now

    def insert(self, tokens: Tokens) -> int:
        self.touch(tokens)
        start = self.match(tokens)
        for n in range(start + 1, len(tokens) + 1):
            if len(self.used_at) == self.capacity and not self.evict(len(tokens)):
                return n - 1 - start
            self.used_at[tokens[:n]] = self.now
        return len(tokens) - start

    def leaves(self) -> list[Tokens]:
        parents = {prefix[:-1] for prefix in self.used_at}
        return [prefix for prefix in self.used_at if prefix not in parents]

    def evict(self, new: int) -> bool:
        old = [leaf for leaf in self.leaves() if self.used_at[leaf] < self.now]
        if old:
            del self.used_at[min(old, key=lambda leaf: self.used_at[leaf])]
        return bool(old)

    def shrink(self, num_tokens: int) -> None:
        self.now += 1
        while len(self.used_at) > num_tokens:
            self.evict(0)


SEQUENCES = st.lists(st.integers(0, 2), max_size=9).map(tuple)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["insert", "match", "peek"]), SEQUENCES),
        st.tuples(st.just("shrink"), st.integers(0, 12)),
    ),
    max_size=25,
)


@examples(300)
@given(
    capacity=st.integers(0, 30),
    operations=OPERATIONS,
    make=st.sampled_from([tree_of, joining_tree_of]),
)
def test_it_stores_and_forgets_exactly_what_a_dict_of_all_prefixes_does(capacity, operations, make):
    tree, oracle = make(capacity), EveryPrefix(capacity)
    for name, argument in operations:
        if name == "insert":
            assert tree.insert(argument, argument) == oracle.insert(argument)
        elif name == "shrink":
            tree.shrink(argument)
            oracle.shrink(argument)
        else:
            length, payloads = tree.match(argument, touch=name == "match")
            assert length == oracle.match(argument)
            assert sum(payloads, ()) == argument[:length]
            if name == "match":
                oracle.touch(argument)
        tree.check()
        assert tree.num_tokens == len(oracle.used_at)
        for prefix in oracle.used_at:
            assert tree.match(prefix, touch=False)[0] == len(prefix)


def test_a_shared_prefix_is_stored_once_and_matched_by_both():
    tree = tree_of(100)
    assert tree.insert((1, 2, 3, 4), (1, 2, 3, 4)) == 4
    assert tree.insert((1, 2, 9), (1, 2, 9)) == 1
    assert tree.num_tokens == 5
    assert tree.match((1, 2, 3, 7)) == (3, [(1, 2), (3,)])
    assert tree.match((1, 2, 9, 9)) == (3, [(1, 2), (9,)])
    assert tree.match((2,)) == (0, [])


def test_uses_of_many_lengths_leave_one_edge_once_all_of_it_is_used_again():
    tree, whole = joining_tree_of(100), tuple(range(40))
    tree.insert(whole, whole)
    for length in (30, 20, 10, 25):
        tree.match(whole[:length])
    assert [len(part) for part in tree.match(whole, touch=False)[1]] == [25, 5, 10]
    assert tree.match(whole) == (40, [whole])
    tree.check()


def test_the_least_recently_used_end_gives_way_and_a_touched_prefix_stays():
    tree = tree_of(6)
    tree.insert((1, 1, 1), (1, 1, 1))
    tree.insert((2, 2, 2), (2, 2, 2))
    tree.match((1, 1))
    tree.insert((3, 3), (3, 3))
    assert tree.match((1, 1, 1), touch=False)[0] == 2, "its last token was used longest ago"
    assert tree.match((2, 2, 2), touch=False)[0] == 2
    assert tree.match((3, 3), touch=False)[0] == 2


def test_looking_without_touching_changes_nothing():
    tree = tree_of(4)
    tree.insert((1, 1), (1, 1))
    tree.insert((2, 2), (2, 2))
    tree.match((1, 1), touch=False)
    tree.insert((3, 3), (3, 3))
    assert tree.match((1, 1), touch=False)[0] == 0


def test_what_does_not_fit_is_left_out_from_the_end():
    tree = tree_of(3)
    assert tree.insert((1, 2, 3, 4, 5), (1, 2, 3, 4, 5)) == 3
    assert tree.match((1, 2, 3, 4, 5)) == (3, [(1, 2, 3)])
    assert tree.insert((1, 2, 3, 4, 5), (1, 2, 3, 4, 5)) == 0


def test_a_tree_without_room_stores_nothing():
    tree = tree_of(0)
    assert tree.insert((1,), (1,)) == 0
    assert tree.match((1,)) == (0, [])
    with pytest.raises(ValueError, match="capacity_tokens"):
        tree_of(-1)


def test_many_matches_do_not_make_the_books_grow():
    tree = tree_of(50)
    for token in range(10):
        tree.insert((token,) * 5, (token,) * 5)
    for n in range(2000):
        tree.match((n % 10,) * 5)
    tree.check()
    assert len(tree._oldest) <= 10
