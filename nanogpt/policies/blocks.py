"""The block store's decisions: which blocks to take, what may be shared, what gives way.

A block holds the K/V of `size` tokens in a row. The tables of several requests may name the same
block; `ref_counts[block]` says how many do. Nothing here changes what it is given: the store does.
Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", arXiv 2309.06180, section 4; vLLM's design document "Automatic Prefix Caching".
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from nanogpt.views.request_view import CachedBlock
from nanogpt.views.step_cost import Link, StepCost


def num_lacking(num_blocks: int, num_tokens: int, size: int) -> int:
    """How many blocks of `size` tokens a table of `num_blocks` lacks to hold `num_tokens`."""
    return max(0, -(-num_tokens // size) - num_blocks)


def allocate(
    num_blocks: int, num_tokens: int, size: int, free_blocks: Sequence[int]
) -> list[int] | None:
    """The blocks that a table of `num_blocks` needs besides, to hold `num_tokens` tokens.

    They are the first of `free_blocks`, which stand best first; None when those are too few. All or
    nothing: a request with some of its blocks could not go on, and would keep the others.
    """
    more = num_lacking(num_blocks, num_tokens, size)
    return list(free_blocks[:more]) if more <= len(free_blocks) else None


def free_table(ref_counts: Sequence[int], table: Sequence[int]) -> list[int]:
    """Which blocks of a table are free once it is gone: those that no other table names."""
    return [block for block in table if ref_counts[block] == 1]


def block_hashes(tokens: Sequence[int], size: int, salt: str) -> list[str]:
    """One hash for every full block of `tokens`: of the block before it, its tokens and `salt`.

    K/V depends on a token and all tokens before it, so a block's hash has to name them all: it
    does by the hash of its parent. `salt` is what else makes K/V differ. A last block that is not
    full has none, since what it holds will still change.
    """
    return extend_hashes([], tokens, size, salt)


def extend_hashes(known: Sequence[str], tokens: Sequence[int], size: int, salt: str) -> list[str]:
    """`block_hashes`, of which the first ones are known."""
    hashes = list(known)
    parent = hashes[-1] if hashes else ""
    for end in range((len(hashes) + 1) * size, len(tokens) + 1, size):
        said = repr((parent, salt, list(tokens[end - size : end])))
        parent = hashlib.sha256(said.encode()).hexdigest()
        hashes.append(parent)
    return hashes


def longest_match(
    hashes: Sequence[str], cached: Mapping[str, int], num_tokens: int, size: int
) -> tuple[list[int], int]:
    """The blocks that a request of `num_tokens` known tokens need not compute, and their tokens.

    From the first block up to the first that is not there. At least one token is left to compute,
    since the last one's logits are needed: a text that is there whole gives its last block up.
    """
    blocks, found = match_tiers(hashes, cached, (), num_tokens, size)
    return [block for block in blocks if block is not None], found


def evict_order(blocks: Sequence[CachedBlock]) -> list[int]:
    """The blocks that may give way, first the one to go first: never one that a table names.

    Least recently used first. Of those that left a table together the last goes first: without its
    parent a block is never found.
    """
    free_blocks = [block for block in blocks if not block.count]
    return [block.id for block in sorted(free_blocks, key=lambda b: (b.last_used, -b.depth, b.id))]


def match_tiers(
    hashes: Sequence[str],
    device: Mapping[str, int],
    host: Collection[str],
    num_tokens: int,
    size: int,
) -> tuple[list[int | None], int]:
    """`longest_match` over two tiers: the blocks, None for one that only the host has; tokens."""
    blocks: list[int | None] = []
    for block_hash in hashes[: (num_tokens - 1) // size]:
        if block_hash not in device and block_hash not in host:
            break
        blocks.append(device.get(block_hash))
    return blocks, len(blocks) * size


def load_or_compute(num_tokens: int, kv_bytes: int, link: Link, step_cost: StepCost) -> str:
    """Whether to "load" tokens of `kv_bytes` bytes each over the link, or to "compute" them.

    The step runs in any case, for at least one token, so only what it takes longer counts.
    """
    load_us = link.latency_us + num_tokens * kv_bytes / link.bytes_per_us
    return "load" if load_us < step_cost(num_tokens + 1) - step_cost(1) else "compute"


def spill(published: Sequence[str], host: Sequence[str], capacity: int) -> list[str]:
    """The hashes that the host tier holds from now on, the first to be dropped first.

    `published` are those of a text, in its order, of which the last have just become full, and
    `host` those held so far. All are written through; a text's end goes before its beginning.
    """
    new = set(published)
    kept = [each for each in host if each not in new] + [*reversed(published)]
    return kept[max(0, len(kept) - capacity) :]
