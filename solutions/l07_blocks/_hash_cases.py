"""The texts that the check of `block_hashes` asks about."""

import random

from solutions.l07_blocks._hashing import Group


def unsalted(size: int, *texts: list[int]) -> Group:
    return [(tokens, size, "") for tokens in texts]


def any_texts(rng: random.Random) -> list[Group]:
    """Texts that branch off from one another, with a few salts and sizes of vocabulary."""
    groups: list[Group] = []
    for _ in range(12):
        size, most = rng.choice((1, 2, 3, 4)), rng.choice((3, 65, 50_257))
        text = [rng.randrange(most) for _ in range(rng.randint(size, 4 * size + 2))]
        group = [(text, size, "")]
        for _ in range(4):
            tokens, _, salt = rng.choice(group)
            at = rng.randrange(len(tokens))
            tail = [rng.randrange(most) for _ in range(rng.randint(0, 2 * size))]
            changed = [*tokens[:at], (tokens[at] + rng.choice((0, 1, 256))) % most]
            changed += tokens[at + 1 :] if rng.random() < 0.5 else tail
            group.append((changed, size, rng.choice((salt, salt, "", "adapter", "0"))))
        groups.append(group)
    return groups


def many_texts(rng: random.Random) -> list[tuple[list[int], int, str]]:
    """Many texts of one long block, to estimate how many bits their hashes have."""
    return [([rng.randrange(50_257) for _ in range(24)], 24, "") for _ in range(80)]


EVIDENCE = [
    unsalted(2, [5, 6, 7, 8, 5, 6], [7, 8, 5, 6, 7, 8], [5, 6, 5, 6, 5, 6]),
    [([1, 2, 3, 4, 9], 2, ""), ([1, 2, 3, 4], 2, "x"), ([2, 1, 3, 4, 5, 6], 2, "")],
    unsalted(2, [1, 2, 3, 4, 5, 6, 7], [1, 2, 9, 4, 5, 6, 7, 8], [9, 2, 3, 4, 5, 6, 7, 8]),
    unsalted(2, [12, 3], [1, 23], [3, 12]),
    [([1, 23], 2, "7"), ([71, 23], 2, ""), ([1, 23, 1, 23], 2, "7")],
]
LIKE_TOKENS = [
    (tokens, 2, salt)
    for between in (",", " ", "|", ":", "-")
    for tokens, salt in (([3, 4], between.join("x12")), ([1, 2], between.join("34x")))
]
LONG = [*range(1040)]
GROUPS: dict[str, list[Group]] = {
    "only full blocks": [
        unsalted(2, [5, 6, 7, 8], [5, 6, 7, 8, 9], [5, 6]),
        unsalted(4, [5, 6, 7], [], [5, 6, 7, 8]),
    ],
    "the same block after another prefix": [
        unsalted(2, [1, 2, 7, 8], [3, 4, 7, 8], [1, 2, 7, 8, 1, 2]),
        unsalted(2, [1, 2, 3, 4, 5, 6], [9, 2, 3, 4, 5, 6]),
        unsalted(1, [7, 7, 7, 7]),
    ],
    "the same text with another salt": [
        [([1, 2, 3, 4], 2, ""), ([1, 2, 3, 4], 2, "adapter"), ([1, 2], 2, "")],
        *([([1, 2], 2, a), ([1, 2], 2, b)] for a, b in ("Aa", ("x", "x "), "éè")),
    ],
    "large blocks": [
        unsalted(16, [*range(32)], [*range(15), 99, *range(16, 32)], [*range(31)]),
        unsalted(16, [0, *range(1, 128)], [128, *range(1, 128)]),
    ],
    "tokens that look alike": [
        unsalted(2, [1, 2], [2, 1], [3, 4, 1, 2], [4, 3, 1, 2]),
        unsalted(2, [0, 3], [1, 2], [2, 2], [1, 1]),
        unsalted(2, [12, 3], [1, 23]),
        unsalted(2, [123_456, 7], [12_345, 600_007], [12_345, 67]),
        [([12, 3], 2, ""), ([2, 3], 2, "1")],
        [([1, 2], 2, "3"), ([1, 23], 2, "")],
        unsalted(2, [5, 300], [5, 44], [5, 50_256], [5, 55_296], [5, 65_580]),
        [([1, 2, 3, 4], 2, "x"), *LIKE_TOKENS],
    ],
    "a very long text": [unsalted(520, LONG, [*LONG[:600], 7, *LONG[601:]])],
}
