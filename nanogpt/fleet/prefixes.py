"""A worker's prefix cache: what it remembers of prompts that it has computed, oldest out first.

Entries are copies in the KV tokens that are not set aside; they give way whenever those are
needed. Only prompts are remembered: what was generated has no tokens in this model.
"""

from typing import Protocol

from nanogpt.fleet.prefix_index import PrefixIndex
from nanogpt.fleet.radix import RadixTree

SLOT_KEY_TOKENS = 64
"""How much of a prompt the slots know it by: about the source's first 256 characters."""


class PrefixCache(Protocol):
    """How many tokens of a prompt need no computing."""

    @property
    def num_tokens(self) -> int:
        """KV tokens that it holds."""
        ...

    def match(self, prompt: tuple[int, ...], *, touch: bool) -> int:
        """The length of the prefix that it has; `touch` makes that the most recently used."""
        ...

    def publish(self, prompt: tuple[int, ...], room: int) -> None:
        """Remembers a prompt, within so many KV tokens altogether."""
        ...

    def fit(self, room: int) -> None:
        """Forgets what was used longest ago until it holds at most so many KV tokens."""
        ...

    def is_indexed_by(self, index: PrefixIndex | None, worker: int) -> None:
        """Tells the index, if it can, from now on what the worker holds; it is empty so far."""
        ...


class NoCache:
    """Nothing is remembered."""

    num_tokens = 0

    def match(self, prompt: tuple[int, ...], *, touch: bool) -> int:
        """Always 0."""
        return 0

    def publish(self, prompt: tuple[int, ...], room: int) -> None:
        """Does nothing."""

    def fit(self, room: int) -> None:
        """Does nothing."""

    def is_indexed_by(self, index: PrefixIndex | None, worker: int) -> None:
        """There is nothing to tell."""


class SlotCache:
    """Whole entries, known by a prompt's first tokens: a hit is as long as that key, or nothing.

    Two prompts that open alike and part within the key share nothing, and what lies behind the
    key is never found. Mutable: the entries, the longest unused first.
    """

    def __init__(self) -> None:
        self.num_tokens = 0
        self._slots: dict[tuple[int, ...], None] = {}

    def match(self, prompt: tuple[int, ...], *, touch: bool) -> int:
        """The length of the key, if there is an entry."""
        key = prompt[:SLOT_KEY_TOKENS]
        if key not in self._slots:
            return 0
        if touch:
            self._slots[key] = self._slots.pop(key)
        return len(key)

    def publish(self, prompt: tuple[int, ...], room: int) -> None:
        """Remembers the key."""
        if not self.match(prompt, touch=True):
            key = prompt[:SLOT_KEY_TOKENS]
            self._slots[key] = None
            self.num_tokens += len(key)
        self.fit(room)

    def fit(self, room: int) -> None:
        """Forgets whole entries, the longest unused first."""
        while self.num_tokens > room:
            key = next(iter(self._slots))
            del self._slots[key]
            self.num_tokens -= len(key)

    def is_indexed_by(self, index: PrefixIndex | None, worker: int) -> None:
        """Entries that are found whole or not at all are in no index of prefixes."""


class RadixCache:
    """Prompts token by token in a tree: every shared prefix is found, whatever computed it."""

    def __init__(self, kv_tokens: int) -> None:
        self._tree: RadixTree[_Part] = RadixTree(kv_tokens, _cut, _join, self._forget)
        self._touched = _NOTHING  # the prompt that was used last, and its match
        self._index: PrefixIndex | None = None
        self._worker = 0

    @property
    def num_tokens(self) -> int:
        """KV tokens in the tree."""
        return self._tree.num_tokens

    def match(self, prompt: tuple[int, ...], *, touch: bool) -> int:
        """The length of the longest stored prefix; asked again at once, it need not look."""
        if prompt is self._touched[0]:
            return self._touched[1]
        length = self._tree.match(prompt, touch=touch)[0]
        if touch:
            self._touched = prompt, length
        return length

    def publish(self, prompt: tuple[int, ...], room: int) -> None:
        """Remembers the prompt; what does not fit is left out from its end."""
        self._touched = _NOTHING
        if self._tree.insert(prompt, (prompt, 0)) and self._index is not None:
            self._index.add(self._worker, prompt[: self._tree.capacity_tokens])
        self.fit(room)

    def fit(self, room: int) -> None:
        """Trims the leaf used longest ago, again and again."""
        if self._tree.num_tokens > room:
            self._touched = _NOTHING
            self._tree.shrink(room)

    def is_indexed_by(self, index: PrefixIndex | None, worker: int) -> None:
        """What comes and goes is told to the index."""
        assert not self.num_tokens
        self._index, self._worker = index, worker

    def _forget(self, part: "_Part", keep: int, num_tokens: int) -> None:
        if self._index is not None:
            prompt, start = part
            self._index.cut(self._worker, prompt[: start + num_tokens], start + keep)


_NOTHING: tuple[tuple[int, ...] | None, int] = None, 0
_Part = tuple[tuple[int, ...], int]
"""(prompt, start): the tokens of an edge are those of this prompt from `start` on."""


def _cut(part: _Part, start: int, end: int) -> _Part:
    return part[0], part[1] + start


def _join(above: _Part, below: _Part) -> _Part:
    return below[0], above[1]


def make_cache(kind: str, kv_tokens: int) -> PrefixCache:
    """An empty cache of the kind that the configuration names."""
    if kind == "radix":
        return RadixCache(kv_tokens)
    return SlotCache() if kind == "slots" else NoCache()
