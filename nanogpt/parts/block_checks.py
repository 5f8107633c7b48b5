"""What a learner's parts of the block store may answer: blocks that are free, found and its own.

The store's books would be wrong for good after a wrong answer, so each is compared with them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanogpt.parts.blocks import Copy, num_lacking
from nanogpt.parts.cached_block import CachedBlock
from nanogpt.parts.feature_protocols import (
    Allocate,
    BlockHashes,
    EvictOrder,
    LongestMatch,
    Release,
    Writable,
)
from nanogpt.parts.plain_values import as_items, as_whole, as_wholes
from nanogpt.validate import PartError, show


def checked_allocate(blocks_of: Callable[..., Any]) -> Allocate:
    """A guarded `allocate` whose answer is as many free blocks as the table lacks, or None."""

    def allocate(
        num_blocks: int, num_tokens: int, size: int, free: Sequence[int], /
    ) -> list[int] | None:
        answer = blocks_of(num_blocks, num_tokens, size, list(free))
        n = num_lacking(num_blocks, num_tokens, size)
        if answer is None and n > len(free):
            return None
        blocks = as_wholes(answer)
        if blocks is None or len(blocks) != n or len({*blocks} & {*free}) != n:
            raise PartError(
                f"your allocate returned {show(answer)}; with {num_blocks} blocks of {size}, "
                f"{num_tokens} tokens need {n} different blocks more out of {show(list(free))}, or "
                "None when there are fewer"
            )
        return blocks

    return allocate


def checked_release(freed_of: Callable[..., Any]) -> Release:
    """A guarded `release` that frees what only this table names, and all of it."""

    def release(counts: Sequence[int], table: Sequence[int], /) -> list[int]:
        answer = freed_of(list(counts), list(table))
        freed = as_wholes(answer)
        if freed is None or len(freed) != len({*freed}) or not {*freed} <= {*table}:
            raise PartError(
                f"your release returned {show(answer)}; it must be different blocks out of "
                f"{show(list(table))}"
            )
        for block in table:
            if (counts[block] == 1) != (block in freed):
                did = "frees" if block in freed else "keeps"
                raise PartError(
                    f"your release {did} block {block}; with this one, {_naming(counts[block])} it"
                )
        return freed

    return release


def checked_hashes(hashes_of: Callable[..., Any]) -> BlockHashes:
    """A guarded `block_hashes` whose answer is a string for every full block."""

    def block_hashes(tokens: Sequence[int], size: int, salt: str, /) -> list[str]:
        answer = hashes_of(list(tokens), size, salt)
        hashes, wanted = as_items(answer), len(tokens) // size
        if hashes is None or len(hashes) != wanted or not all(isinstance(h, str) for h in hashes):
            raise PartError(
                f"your block_hashes returned {show(answer)}; {len(tokens)} tokens in blocks of "
                f"{size} need {wanted} strings"
            )
        return [str.__str__(each) for each in hashes]  # a subclass, as numpy's, may stand for it

    return block_hashes


def checked_match(match_of: Callable[..., Any]) -> LongestMatch:
    """A guarded `longest_match` whose blocks are the cached ones, with a token left to compute."""

    def longest_match(
        hashes: Sequence[str], cached: Mapping[str, int], num_tokens: int, size: int, /
    ) -> tuple[list[int], int]:
        answer = match_of(list(hashes), dict(cached), num_tokens, size)
        two = as_items(answer) or []
        blocks, found = (as_wholes(two[0]), as_whole(two[1])) if len(two) == 2 else (None, None)
        if blocks is None or found is None:
            raise PartError(
                f"your longest_match returned {show(answer)}; it must be (blocks, num_cached)"
            )
        if blocks != [cached.get(each) for each in hashes[: len(blocks)]]:
            raise PartError(
                f"your longest_match returned blocks {show(blocks)}; they must be those of the "
                "first hashes, one after another, without a gap"
            )
        if found != len(blocks) * size or found >= num_tokens:
            raise PartError(
                f"your longest_match found {found} tokens in {len(blocks)} blocks of {size}; of "
                f"{num_tokens} known tokens at least one has to be computed"
            )
        return blocks, found

    return longest_match


def checked_writable(table_of: Callable[..., Any]) -> Writable:
    """A guarded `writable` that copies a block exactly when another table names it too."""

    def writable(
        table: Sequence[int], counts: Sequence[int], index: int, free: Sequence[int], /
    ) -> tuple[list[int], Copy | None]:
        answer = table_of(list(table), list(counts), index, list(free))
        two, block = as_items(answer) or [], table[index]
        right = list(table), None
        if counts[block] > 1:
            right = [*table[:index], free[0], *table[index + 1 :]], (block, free[0])
        copy = None if len(two) != 2 or two[1] is None else tuple(as_wholes(two[1]) or ())
        if len(two) != 2 or (as_wholes(two[0]), copy) != right:
            raise PartError(
                f"your writable returned {show(answer)}; {_naming(counts[block])} block {block}, "
                f"so it must be {show(right)}"
            )
        return right

    return writable


def checked_order(order_of: Callable[..., Any]) -> EvictOrder:
    """A guarded `evict_order` whose answer is all the blocks that no table names, in any order."""

    def evict_order(blocks: Sequence[CachedBlock], /) -> list[int]:
        answer = order_of(list(blocks))
        order, free = as_wholes(answer), sorted(b.id for b in blocks if not b.count)
        if order is None or sorted(order) != free:
            raise PartError(
                f"your evict_order returned {show(answer)}; no table names {show(free)}, and it "
                "must be all of these, in the order they give way"
            )
        return order

    return evict_order


def _naming(count: int) -> str:
    return "1 table names" if count == 1 else f"{count} tables name"
