"""Whole numbers from a key: the same on every machine, with any Python. Knows no requests."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draws:
    """An endless row of whole numbers that its key fixes: SHA-256 of the key and a count.

    Python's `random` promises the same numbers for `random()` alone, and a logarithm's last bit is
    its library's. Mutable: how many numbers were drawn.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._count = 0

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; for limits below 2**32 evenly, to one part in 2**32."""
        digest = hashlib.sha256(self._key + b"\0" + str(self._count).encode()).digest()
        self._count += 1
        return int.from_bytes(digest[:8], "big") % limit

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both among them."""
        return low + self.below(high - low + 1)

    def tokens(self, count: int, vocab_size: int) -> tuple[int, ...]:
        """So many token ids."""
        return tuple(self.below(vocab_size) for _ in range(count))

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]
