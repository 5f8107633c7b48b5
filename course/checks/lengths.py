"""How long the pasts and the new tokens of a fused step are, for cases drawn at random."""

import random

from course.checks.comparing import Args


def some_lengths(rng: random.Random, rows: int) -> tuple[list[int], list[int]]:
    """Lengths of the past and of the new tokens, decodes and first chunks among them."""
    past = [rng.choice((0, rng.randint(1, 6))) for _ in range(rows)]
    return past, [rng.choice((1, rng.randint(1, 4))) for _ in range(rows)]


def any_lengths(rng: random.Random, count: int, *, most_rows: int = 4) -> list[Args]:
    """Small steps first; at the end a large one, a long text beside a short first chunk."""
    cases = [some_lengths(rng, 1 + i % most_rows) for i in range(count - 1)]
    cases.sort(key=lambda case: sum(case[0]) + 2 * sum(case[1]))
    return [*cases, ([rng.randint(10, 14), 0], [rng.randint(4, 5), rng.randint(1, 5)])]
