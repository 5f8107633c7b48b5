"""Prefix caches of a simulated worker: bounded in KV tokens, least recently used evicted first.

A radix tree finds every shared prefix, token by token:

    insert (1 2 3 4), then (1 2 9):      [1 2]──┬──[3 4]
                                                └──[9]        5 tokens stored, [1 2] once

Source of the tree: Zheng et al., "SGLang: Efficient Execution of Structured Language Model
Programs", arXiv 2312.07104, section 3: RadixAttention.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from nanogpt.validate import check_int

SLOT_KEY_TOKENS = 64
"""Prompt tokens in the key of a slot: about the source's first 256 characters."""


class RadixTree:
    """Stored token sequences, at most `capacity_tokens` tokens in all. Mutable.

    An operation makes the tokens that it passes the most recently used ones, so an edge that is
    used in part is split. Eviction shortens the least recently used leaf from its end.
    """

    def __init__(self, capacity_tokens: int) -> None:
        check_int("capacity_tokens", capacity_tokens, 0)
        self.capacity_tokens = capacity_tokens
        self.num_tokens = 0
        self._root = _Edge((), None, 0)
        self._now = 0  # counts operations

    def match(self, tokens: tuple[int, ...], *, touch: bool) -> int:
        """Length of the longest stored prefix; `touch` makes it the most recently used."""
        edge, part, length = self._walk(tokens)
        if touch:
            self._touch(edge, part)
        return length

    def insert(self, tokens: tuple[int, ...]) -> None:
        """Store `tokens`, as many as fit."""
        edge, part, start = self._walk(tokens)
        edge = self._touch(edge, part)
        self._evict(self.capacity_tokens - (len(tokens) - start))
        end = min(len(tokens), start + self.capacity_tokens - self.num_tokens)
        if end > start:
            edge.below[tokens[start]] = _Edge(tokens[start:end], edge, self._now)
            self.num_tokens += end - start

    def shrink(self, num_tokens: int) -> None:
        """Evict until at most `num_tokens` tokens are stored."""
        self._now += 1  # nothing is in use
        self._evict(num_tokens)

    def _walk(self, tokens: tuple[int, ...]) -> tuple["_Edge", int, int]:
        """The last edge of the longest stored prefix, how much of it is covered, the length."""
        edge, at = self._root, 0
        while at < len(tokens) and (below := edge.below.get(tokens[at])) is not None:
            edge = below
            passed = tokens[at : at + len(edge.tokens)]
            if passed != edge.tokens:
                part = _common_length(edge.tokens, passed)
                return edge, part, at + part
            at += len(edge.tokens)
        return edge, len(edge.tokens), at

    def _touch(self, edge: "_Edge", part: int) -> "_Edge":
        """Split an edge that was walked in part; mark the whole path as used now."""
        self._now += 1
        if part < len(edge.tokens):
            edge = _split(edge, part)
        passed: _Edge | None = edge
        while passed is not None:
            passed.used_at = self._now
            passed = passed.above
        return edge

    def _evict(self, room: int) -> None:
        """Shorten leaves until at most `room` tokens are stored, or only edges in use are left."""
        room = max(room, 0)
        while self.num_tokens > room:
            leaf = min(self._leaves(), key=lambda edge: edge.used_at)
            if leaf.used_at == self._now or leaf.above is None:
                return
            kept = max(0, len(leaf.tokens) - (self.num_tokens - room))
            self.num_tokens -= len(leaf.tokens) - kept
            if not kept:
                del leaf.above.below[leaf.tokens[0]]
            leaf.tokens = leaf.tokens[:kept]

    def _leaves(self) -> Iterator["_Edge"]:
        todo = [self._root]
        while todo:
            edge = todo.pop()
            if edge.below:
                todo += edge.below.values()
            else:
                yield edge


@dataclass(eq=False, slots=True)
class _Edge:
    """A run of tokens, and the edges below it by their first token. Mutable."""

    tokens: tuple[int, ...]
    above: "_Edge | None"
    used_at: int
    below: "dict[int, _Edge]" = field(default_factory=dict)


def _split(edge: _Edge, at: int) -> _Edge:
    """Put the first `at` tokens on an edge of their own, above the rest, and return it."""
    first = _Edge(edge.tokens[:at], edge.above, edge.used_at)
    assert edge.above is not None
    edge.above.below[first.tokens[0]] = first
    edge.tokens, edge.above = edge.tokens[at:], first
    first.below[edge.tokens[0]] = edge
    return first


def _common_length(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many tokens two sequences begin with in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(b))


class SlotCache:
    """Whole entries under a prompt's first tokens: a hit is as long as that key, or 0.

    Prompts that part within the key share nothing, and tokens behind the key are never found.
    Mutable: the keys, least recently used first.
    """

    def __init__(self) -> None:
        self.num_tokens = 0
        self._slots: dict[tuple[int, ...], None] = {}

    def match(self, tokens: tuple[int, ...], *, touch: bool) -> int:
        """Length of the key if it is stored; `touch` makes it the most recently used."""
        key = tokens[:SLOT_KEY_TOKENS]
        if key not in self._slots:
            return 0
        if touch:
            self._slots[key] = self._slots.pop(key)
        return len(key)

    def insert(self, tokens: tuple[int, ...]) -> None:
        """Store the key."""
        if not self.match(tokens, touch=True):
            key = tokens[:SLOT_KEY_TOKENS]
            self._slots[key] = None
            self.num_tokens += len(key)

    def shrink(self, num_tokens: int) -> None:
        """Evict whole entries until at most `num_tokens` tokens are stored."""
        while self.num_tokens > num_tokens:
            key = next(iter(self._slots))
            del self._slots[key]
            self.num_tokens -= len(key)


PrefixCache = RadixTree | SlotCache


def make_cache(kind: str, kv_tokens: int) -> PrefixCache:
    """An empty cache: "radix", "slots" or "none"."""
    if kind == "slots":
        return SlotCache()
    return RadixTree(kv_tokens if kind == "radix" else 0)
