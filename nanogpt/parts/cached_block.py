"""What the order in which blocks give way sees of a block. It decides nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CachedBlock:
    """A block that can be found by its hash: how many tables name it, and what it is worth.

    `last_used` counts up: when it last left a table. `depth` is its place in its text, from 0.
    """

    id: int
    count: int
    last_used: int
    depth: int
