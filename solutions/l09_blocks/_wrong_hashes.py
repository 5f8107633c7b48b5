"""Wrong hashes: of blocks that are not full, of too few bits, another one each time."""

import hashlib
import uuid
import zlib
from collections.abc import Callable
from typing import Any

from solutions.l09_blocks._hashing import ends, right_labels


def with_hash(tokens: list[int], size: int, salt: str) -> Any:
    hashes, parent = [], 0
    for end in ends(tokens, size):
        parent = hash((parent, salt, tuple(tokens[end - size : end])))
        hashes.append(str(parent))
    return hashes


def with_hash_of_none(tokens: list[int], size: int, salt: str) -> Any:
    hashes: list[str] = []
    for end in ends(tokens, size):
        hashes.append(hex(hash((hashes[-1] if hashes else None, salt, *tokens[end - size : end]))))
    return hashes


def dressed(up: Callable[[int], str]) -> Callable[[list[int], int, str], list[str]]:
    """Python's own hash, made to look like something else."""
    return lambda *args: [up(hash(each)) for each in right_labels(*args)]


hash_filled_up = dressed(lambda number: f"{number % 2**64:064x}")
hash_in_letters = dressed(
    lambda number: "".join(chr(97 + int(d)) for d in str(abs(number))) + "xyz"
)
hash_four_times = dressed(lambda number: 4 * f"{number % 2**64:016x}")


def with_crc32(tokens: list[int], size: int, salt: str) -> Any:
    return [f"{zlib.crc32(repr(each).encode()):08x}" for each in right_labels(tokens, size, salt)]


def with_the_rest(tokens: list[int], size: int, salt: str) -> list[str]:
    starts = range(0, len(tokens), size)
    return [hashlib.sha256(repr((salt, tokens[: s + size])).encode()).hexdigest() for s in starts]


def rest_alone(tokens: list[int], size: int, salt: str) -> list[str]:
    starts = range(0, len(tokens), size)
    blocks = [(salt, tokens[s : s + size]) for s in starts]
    return [hashlib.sha256(repr(block).encode()).hexdigest() for block in blocks]


def with_a_number_of_its_own(tokens: list[int], size: int, salt: str) -> Any:
    return [f"{uuid.uuid4().hex}" for _ in ends(tokens, size)]
