"""A radix tree of token sequences: the longest stored prefix, in bounded room, oldest out first.

    insert (1 2 3 4), then (1 2 9):      [1 2]──┬──[3 4]
                                                └──[9]        5 tokens stored, [1 2] once

Knows neither tensors nor requests: a payload goes with every edge, and `cut` takes a piece of it.
What an operation passes over becomes recent, token by token, so an edge that is used in part is
split. Room is made from the end of the leaf that was used longest ago. No clock: a counter.
Source: Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs",
arXiv 2312.07104, section 3: RadixAttention.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Generic, TypeVar

from nanogpt.validate import check_int

P = TypeVar("P")


class RadixTree(Generic[P]):
    """Stored token sequences and their payloads, at most `capacity_tokens` tokens in all.

    `cut(payload, start, end)` returns the payload of the tokens [start, end) of an edge; to free
    memory when tokens give way it has to copy. `join(payload, payload)`, if given, puts two edges
    together that no longer differ, so that walks are short where prefixes of many lengths are used.
    `on_trim(payload, keep, length)` is told before all but the first `keep` tokens of a leaf give
    way. Mutable: the tree and its counter.
    """

    def __init__(
        self,
        capacity_tokens: int,
        cut: Callable[[P, int, int], P],
        join: Callable[[P, P], P] | None = None,
        on_trim: Callable[[P, int, int], None] | None = None,
    ) -> None:
        check_int("capacity_tokens", capacity_tokens, 0)
        self.capacity_tokens = capacity_tokens
        self.num_tokens = 0
        self._cut = cut
        self._join = join
        self._on_trim = on_trim
        self._roots: dict[int, _Edge[P]] = {}
        self._now = 0
        # (used_at, number, edge) with at most one entry per edge; an entry may be out of date.
        self._oldest: list[tuple[int, int, _Edge[P]]] = []
        self._num_edges = 0

    def match(self, tokens: tuple[int, ...], *, touch: bool = True) -> tuple[int, list[P]]:
        """The length of the longest stored prefix of `tokens`, and the payloads along it.

        The last payload is cut to the match. `touch` makes the prefix the most recently used.
        """
        path, part, length = self._walk(tokens)
        if touch:
            self._touch(path, part)
            part = len(path[-1].tokens) if path else 0
        payloads = [edge.payload for edge in path]
        if path and part < len(path[-1].tokens):
            payloads[-1] = self._cut(path[-1].payload, 0, part)
        return length, payloads

    def insert(self, tokens: tuple[int, ...], payload: P) -> int:
        """Store `tokens`, whose payload is `payload`; return how many of them are new.

        What was used longest ago gives way; what still does not fit is left out from the end.
        """
        path, part, start = self._walk(tokens)
        self._touch(path, part)
        self._make_room(len(tokens) - start)
        end = min(len(tokens), start + self.capacity_tokens - self.num_tokens)
        if end > start:
            parent = path[-1] if path else None
            piece = self._cut(payload, start, end)
            edge = self._new_edge(tokens[start:end], piece, parent, self._now)
            self._below(parent)[edge.tokens[0]] = edge
            self.num_tokens += end - start
            self._note_leaf(edge)
        return end - start

    def shrink(self, num_tokens: int) -> None:
        """Let the least recently used give way until at most `num_tokens` tokens are stored."""
        self._now += 1  # nothing is in use, so anything may go
        while self.num_tokens > max(num_tokens, 0):
            self._trim(self._pop_oldest(), self.num_tokens - max(num_tokens, 0))

    def check(self) -> None:
        """Assert that the books agree with the tree, and that every leaf can be found again."""
        edges = list(self._edges())
        assert sum(len(edge.tokens) for edge in edges) == self.num_tokens <= self.capacity_tokens
        there = set(map(id, edges))
        noted = [edge for _, _, edge in self._oldest if id(edge) in there]
        assert len(noted) == len(set(map(id, noted))) == sum(edge.is_noted for edge in noted)
        for edge in edges:
            assert edge.tokens
            assert self._below(edge.parent)[edge.tokens[0]] is edge
            assert edge.parent is None or edge.used_at <= edge.parent.used_at <= self._now
            assert edge.below or edge.is_noted

    def _walk(self, tokens: tuple[int, ...]) -> tuple[list["_Edge[P]"], int, int]:
        """The edges along the longest stored prefix, how much of the last it covers, its length."""
        path: list[_Edge[P]] = []
        below, at, part = self._roots, 0, 0
        while at < len(tokens):
            edge = below.get(tokens[at])
            if edge is None:
                break
            path.append(edge)
            part = len(edge.tokens)
            passed = tokens[at : at + part]
            if passed != edge.tokens:
                part = common_length(edge.tokens, passed)
                return path, part, at + part
            below, at = edge.below, at + part
        return path, part, at

    def _touch(self, path: list["_Edge[P]"], part: int) -> None:
        """Make a walked path the most recent; its last edge is split where the walk ended."""
        self._now += 1
        if path and part < len(path[-1].tokens):
            path[-1] = self._split(path[-1], part)
        for edge in path:
            edge.used_at = self._now
        if self._join is not None and len(path) > 1:
            path[:] = self._joined(path, self._join)

    def _joined(self, path: list["_Edge[P]"], join: Callable[[P, P], P]) -> list["_Edge[P]"]:
        """The path, with every edge that has one successor and its age put in front of that one.

        What is left of it in the list of the oldest has something below it: it is passed over.
        """
        kept: list[_Edge[P]] = []
        for above, edge in pairwise(path):
            if len(above.below) > 1:
                kept.append(above)
                continue
            edge.tokens = above.tokens + edge.tokens
            edge.payload = join(above.payload, edge.payload)
            edge.parent = above.parent
            self._below(edge.parent)[edge.tokens[0]] = edge
        return [*kept, path[-1]]

    def _split(self, edge: "_Edge[P]", at: int) -> "_Edge[P]":
        """Put the first `at` tokens of an edge on an edge of their own, and return that."""
        first, payload = edge.tokens[:at], edge.payload
        above = self._new_edge(first, self._cut(payload, 0, at), edge.parent, edge.used_at)
        self._below(edge.parent)[first[0]] = above
        edge.payload = self._cut(payload, at, len(edge.tokens))
        edge.tokens = edge.tokens[at:]
        edge.parent = above
        above.below[edge.tokens[0]] = edge
        return above

    def _make_room(self, wanted: int) -> None:
        """Let others give way to `wanted` new tokens; what is being used stays."""
        while self.num_tokens and self.num_tokens + wanted > self.capacity_tokens:
            edge = self._pop_oldest()
            if edge.used_at == self._now:
                self._note_leaf(edge)
                return
            self._trim(edge, self.num_tokens + wanted - self.capacity_tokens)

    def _trim(self, leaf: "_Edge[P]", num_tokens: int) -> None:
        """Take up to `num_tokens` tokens off the end of a leaf, and the leaf out when none stay."""
        keep = max(0, len(leaf.tokens) - num_tokens)
        if self._on_trim is not None:
            self._on_trim(leaf.payload, keep, len(leaf.tokens))
        self.num_tokens -= len(leaf.tokens) - keep
        if keep:
            leaf.payload = self._cut(leaf.payload, 0, keep)
            leaf.tokens = leaf.tokens[:keep]
            self._note_leaf(leaf)
            return
        del self._below(leaf.parent)[leaf.tokens[0]]
        if leaf.parent is not None and not leaf.parent.below:
            self._note_leaf(leaf.parent)

    def _note_leaf(self, edge: "_Edge[P]") -> None:
        if not edge.is_noted:
            edge.is_noted = True
            heapq.heappush(self._oldest, (edge.used_at, edge.number, edge))

    def _pop_oldest(self) -> "_Edge[P]":
        """The leaf that was used longest ago. Entries that are out of date go back, or go."""
        while True:
            used_at, _, edge = heapq.heappop(self._oldest)
            edge.is_noted = False
            if edge.below:
                continue
            if used_at == edge.used_at:
                return edge
            self._note_leaf(edge)

    def _new_edge(
        self, tokens: tuple[int, ...], payload: P, parent: "_Edge[P] | None", used_at: int
    ) -> "_Edge[P]":
        self._num_edges += 1
        return _Edge(tokens, payload, parent, used_at, self._num_edges)

    def _below(self, edge: "_Edge[P] | None") -> "dict[int, _Edge[P]]":
        return self._roots if edge is None else edge.below

    def _edges(self) -> Iterator["_Edge[P]"]:
        todo = list(self._roots.values())
        while todo:
            edge = todo.pop()
            yield edge
            todo += edge.below.values()


class _Edge(Generic[P]):
    """Some tokens in a row and what follows them. Mutable: all but its number."""

    __slots__ = ("below", "is_noted", "number", "parent", "payload", "tokens", "used_at")

    def __init__(
        self,
        tokens: tuple[int, ...],
        payload: P,
        parent: "_Edge[P] | None",
        used_at: int,
        number: int,
    ) -> None:
        self.tokens = tokens
        self.payload = payload
        self.parent = parent
        self.used_at = used_at
        self.number = number
        self.below: dict[int, _Edge[P]] = {}
        self.is_noted = False


def common_length(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many tokens two sequences begin with in common, found by halving, not one by one."""
    same, most = 0, min(len(a), len(b))
    if a[:most] == b[:most]:
        return most
    while same < most:
        middle = (same + most + 1) // 2
        if a[same:middle] == b[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same
