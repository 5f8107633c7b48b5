"""The radix tree against an oracle that remembers every prefix with its own recency."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet.radix import RadixTree

Tokens = tuple[int, ...]


def tree_of(capacity: int, joins: bool = False) -> RadixTree[Tokens]:
    """A tree whose payload of a token is the token itself, so that a wrong cut shows.

    One that joins puts together again what no longer differs.
    """
    cut = lambda payload, start, end: payload[start:end]  # noqa: E731
    return RadixTree(capacity, cut, tuple.__add__) if joins else RadixTree(capacity, cut)


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
            if len(self.used_at) == self.capacity and not self.evict():
                return n - 1 - start
            self.used_at[tokens[:n]] = self.now
        return len(tokens) - start

    def evict(self) -> bool:
        parents = {prefix[:-1] for prefix in self.used_at}
        leaves = [prefix for prefix in self.used_at if prefix not in parents]
        old = [leaf for leaf in leaves if self.used_at[leaf] < self.now]
        if old:
            del self.used_at[min(old, key=lambda leaf: self.used_at[leaf])]
        return bool(old)

    def shrink(self, num_tokens: int) -> None:
        self.now += 1
        while len(self.used_at) > num_tokens:
            self.evict()


SEQUENCES = st.lists(st.integers(0, 2), max_size=9).map(tuple)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["insert", "match", "peek"]), SEQUENCES),
        st.tuples(st.just("shrink"), st.integers(0, 12)),
    ),
    max_size=25,
)


@given(capacity=st.integers(0, 30), operations=OPERATIONS, joins=st.booleans())
def test_it_stores_and_forgets_exactly_what_a_dict_of_all_prefixes_does(
    capacity, operations, joins
):
    tree, oracle = tree_of(capacity, joins), EveryPrefix(capacity)
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


def test_uses_of_many_lengths_leave_one_edge_once_all_of_it_is_used_again():
    tree, whole = tree_of(100, joins=True), tuple(range(40))
    tree.insert(whole, whole)
    for length in (30, 20, 10, 25):
        tree.match(whole[:length])
    assert [len(part) for part in tree.match(whole, touch=False)[1]] == [25, 5, 10]
    assert tree.match(whole) == (40, [whole])


def test_many_matches_do_not_make_the_books_grow_and_a_negative_capacity_is_refused():
    with pytest.raises(ValueError, match="capacity_tokens"):
        tree_of(-1)
    tree = tree_of(50)
    for token in range(10):
        tree.insert((token,) * 5, (token,) * 5)
    for n in range(2000):
        tree.match((n % 10,) * 5)
    assert len(tree._oldest) <= 10
