"""Exercise 9b.2: which blocks of a prompt go from the prefill worker to the decode worker."""

import random

from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception, Task


def blocks_to_send(num_tokens: int, size: int, decode_hit: int) -> list[int]:
    """Return the indices of the blocks that the decode worker lacks and can use."""
    # The last token is always computed where the text is generated, because its logits are needed.
    # So a prompt that fills its last block exactly has no use for that block's K/V.
    return list(range(decode_hit // size, (num_tokens - 1) // size))


def by_ends(num_tokens: int, size: int, decode_hit: int) -> list[int]:
    ends = range(size, num_tokens, size)
    return [index for index, end in enumerate(ends) if end > decode_hit]


MISCONCEPTIONS = (
    not_a_list(
        "The number of blocks is enough.",
        lambda n, size, hit: len(blocks_to_send(n, size, hit)),
    ),
    Misconception(
        "exact_multiple",
        "Every full block is sent.",
        "The decode worker computes at least the last token, for its logits. If the prompt ends "
        "with a full block, it computes that block itself, so do not send it.",
        lambda n, size, hit: list(range(hit // size, n // size)),
    ),
    Misconception(
        "partial_block",
        "Every block with K/V is sent.",
        "Only full blocks have a hash by which the decode worker can find them. It computes the "
        "tokens of a partial block itself.",
        lambda n, size, hit: list(range(hit // size, -(-n // size))),
        same_result=(lambda n, size, hit: list(range(hit // size, n // size + 1)),),
    ),
    Misconception(
        "sends_hits",
        "The whole prompt is sent.",
        "The decode worker has the first `decode_hit` tokens already: begin behind them.",
        lambda n, size, hit: list(range((n - 1) // size)),
    ),
    Misconception(
        "hit_in_blocks",
        "The hit is counted in blocks.",
        "`decode_hit` counts tokens: divide it by `size` to get blocks.",
        lambda n, size, hit: list(range(hit, (n - 1) // size)),
    ),
    Misconception(
        "never_the_last",
        "The last full block is always computed again.",
        "Behind a full block there may be a few more tokens, and the last of them is computed "
        "anyway. Then the last full block is sent too.",
        lambda n, size, hit: list(range(hit // size, n // size - 1)),
    ),
)


def any_prompts(rng: random.Random) -> list[Args]:
    """Prompts around the borders of blocks, with every possible hit."""
    cases: list[Args] = []
    for _ in range(60):
        size = rng.choice((1, 2, 3, 4, 16))
        num_tokens = max(1, rng.randint(0, 9) * size + rng.randint(-1, 1))
        cases.append((num_tokens, size, rng.randint(0, (num_tokens - 1) // size) * size))
    return sorted(cases)


JUDGE = Comparison(
    blocks_to_send,
    MISCONCEPTIONS,
    "A block is sent if it is full, starts at or behind `decode_hit`, and ends before the last "
    "token.",
    evidence=[(33, 8, 16), (32, 8, 8), (50, 16, 16), *any_prompts(random.Random(2))],
)
on = JUDGE.on

EXERCISE = Exercise(
    number=2,
    title="Which blocks to send",
    minutes=5,
    points=2,
    task=Task(
        rules=(
            "A prompt has `num_tokens` tokens, at least 1, in blocks of `size`. Block 0 holds the "
            "first `size` tokens. Only a full block can be sent.",
            "The decode worker has the first `decode_hit` tokens of this prompt in its blocks: a "
            "multiple of `size`, less than `num_tokens`.",
            "It always computes the last token of the prompt itself, with all the tokens of that "
            "token's block.",
            "Return the indices of the blocks to send, in order; `[]` if there is none.",
        ),
        args=(30, 8, 8),
        result=[1, 2],
        steps=(
            "Tokens 0 to 29 fill blocks 0, 1 and 2; tokens 24 to 29 are in block 3, which is not "
            "full.",
            "The decode worker has block 0, and it computes block 3, which holds the last token.",
        ),
    ),
    hints=(
        "Which block holds the last token of a prompt of 30 tokens? And of one of 32?",
        "The last token has index num_tokens - 1. All blocks before its block are full.",
        "Begin at block `decode_hit // size` and end before block `(num_tokens - 1) // size`.",
    ),
    right=(blocks_to_send, by_ends),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("no hit", on((30, 8, 0), (17, 16, 0), (3, 8, 0))),
        ("a hit", on((30, 8, 8), (50, 16, 32), (30, 8, 24))),
        ("an exact multiple", on((32, 8, 0), (8, 8, 0), (48, 16, 16))),
        ("a few tokens more", on((33, 8, 8), (25, 8, 16), (1, 1, 0))),
        ("any prompt", JUDGE.on_drawn(any_prompts)),
    ),
    equivalent_mutants={
        "num_tokens at least 1": "it is at least 1",
        "size at least 1": "it is at least 1",
        "result: sorted": "the blocks are in order",
        "result: without repeats": "no block repeats",
    },
)
