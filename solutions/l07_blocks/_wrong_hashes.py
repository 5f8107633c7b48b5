"""Wrong hashes: of blocks that are not full, of too few bits, another one each time."""

import hashlib
import uuid
from typing import Any

from solutions.l07_blocks._hashing import ends


def with_hash(tokens: list[int], size: int, salt: str) -> Any:
    hashes, parent = [], 0
    for end in ends(tokens, size):
        parent = hash((parent, salt, tuple(tokens[end - size : end])))
        hashes.append(str(parent))
    return hashes


def with_the_rest(tokens: list[int], size: int, salt: str) -> list[str]:
    starts = range(0, len(tokens), size)
    return [hashlib.sha256(repr((salt, tokens[: s + size])).encode()).hexdigest() for s in starts]


def with_a_number_of_its_own(tokens: list[int], size: int, salt: str) -> Any:
    return [f"{uuid.uuid4().hex}" for _ in ends(tokens, size)]
