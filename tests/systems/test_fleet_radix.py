"""The radix tree against an oracle that remembers every prefix with its own recency."""

from hypothesis import given
from hypothesis import strategies as st

from nanogpt.fleet.prefix_caches import RadixTree

Tokens = tuple[int, ...]


def check(tree: RadixTree) -> None:
    """Assert that the count agrees with the tree, and that no edge is older than one below it."""
    edges, todo = [], [tree._root]
    while todo:
        edge = todo.pop()
        for first, below in edge.below.items():
            assert below.above is edge and below.tokens[0] == first
            assert below.used_at <= edge.used_at or edge is tree._root
        edges += edge.below.values()
        todo += edge.below.values()
    assert sum(len(edge.tokens) for edge in edges) == tree.num_tokens <= tree.capacity_tokens


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

    def insert(self, tokens: Tokens) -> None:
        self.touch(tokens)
        start = self.match(tokens)
        for n in range(start + 1, len(tokens) + 1):
            if len(self.used_at) == self.capacity and not self.evict():
                return
            self.used_at[tokens[:n]] = self.now

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


@given(capacity=st.integers(0, 30), operations=OPERATIONS)
def test_it_stores_and_forgets_exactly_what_a_dict_of_all_prefixes_does(capacity, operations):
    tree, oracle = RadixTree(capacity), EveryPrefix(capacity)
    for name, argument in operations:
        if name == "insert":
            tree.insert(argument)
            oracle.insert(argument)
        elif name == "shrink":
            tree.shrink(argument)
            oracle.shrink(argument)
        else:
            assert tree.match(argument, touch=name == "match") == oracle.match(argument)
            if name == "match":
                oracle.touch(argument)
        check(tree)
        assert tree.num_tokens == len(oracle.used_at)
        for prefix in oracle.used_at:
            assert tree.match(prefix, touch=False) == len(prefix)
