"""Exercise 3.1: the tokens and the positions of a padded step."""

import random

from course.checks.comparing import Args
from course.checks.fusing import Fusing, Look, any_lengths
from course.exercise import Exercise, Task
from course.harness import Rows
from solutions.l03_interleaving._rows import BOTH, MISCONCEPTIONS, POSITIONS, TOKENS, Lists

# --- right answers ------------------------------------------------------------------------------


def prepare_inputs(
    token_ids: list[list[int]], num_computed_tokens: list[int], num_scheduled_tokens: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return `(tokens, positions)`: what the model is fed in one fused step, a row per request."""
    # A decode is a chunk of one token, so one rule serves all rows: the tokens after the computed
    # ones, and their positions. The padding is in front, so every row's last token is in the last
    # column, and the logits of that column are the ones to sample from.
    longest = max(num_scheduled_tokens)
    tokens: list[list[int]] = []
    positions: list[list[int]] = []
    for mine, start, n in zip(token_ids, num_computed_tokens, num_scheduled_tokens, strict=True):
        padding = [0] * (longest - n)
        tokens.append(padding + mine[start : start + n])
        positions.append(padding + list(range(start, start + n)))
    return tokens, positions


def with_torch(token_ids: Lists, computed: list[int], scheduled: list[int]) -> tuple[Lists, Lists]:
    import torch

    tokens = torch.zeros(len(token_ids), max(scheduled), dtype=torch.long)  # (B, T)
    positions = torch.zeros_like(tokens)  # (B, T)
    for i, n in enumerate(scheduled):
        place = torch.arange(n) + computed[i]  # (n,)
        positions[i, -n:] = place
        tokens[i, -n:] = torch.tensor(token_ids[i])[place]
    return tokens.tolist(), positions.tolist()


# --- cases --------------------------------------------------------------------------------------


def any_mix(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for computed, scheduled in any_lengths(rng, 20):
        lengths = [
            start + n + rng.choice((0, 0, 2)) for start, n in zip(computed, scheduled, strict=True)
        ]
        token_ids = [[rng.randint(0, 6) for _ in range(length)] for length in lengths]
        cases.append((token_ids, computed, scheduled))
    return cases


def side_by_side(args: Args, wanted: tuple[Lists, Lists], got: tuple[Lists, Lists]) -> Rows:
    return (("expected", in_columns(*wanted)), ("got", in_columns(*got)))


def in_columns(tokens: Lists, positions: Lists) -> str:
    left = [" ".join(f"{entry:>2}" for entry in row) for row in tokens]
    width = max([len("tokens"), *map(len, left)])
    lines = [f"{'tokens':<{width}}   positions"]
    for start, row in zip(left, positions, strict=True):
        lines.append(f"{start:<{width}}   {' '.join(f'{entry:>2}' for entry in row)}")
    return "\n".join(lines)


JUDGE = Fusing(
    prepare_inputs,
    MISCONCEPTIONS,
    looks=(
        Look(
            matters=lambda value, args: value[0],
            mistakes=(*BOTH, *TOKENS),
            idea="Row i feeds those tokens of request i that this step computes, in the order of "
            "the text, with zeros in front of a short row.",
            rows=side_by_side,
        ),
        Look(
            matters=lambda value, args: value[1],
            mistakes=(*BOTH, *POSITIONS),
            idea="A token's position is its index in the whole text of its own request, counted "
            "from 0; padding has position 0.",
            rows=side_by_side,
        ),
    ),
    evidence=[
        ([[5, 3, 8, 2, 6], [4, 1, 6, 2, 9]], [4, 2], [1, 2]),
        ([[5, 3, 8], [4, 1, 6, 2, 9]], [0, 2], [2, 1]),
    ],
)
THREE_AND_FIVE = [[5, 3, 8], [4, 1, 6, 2, 9]]

EXERCISE = Exercise(
    number=1,
    title="Rows of unequal length",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "`token_ids[i]` are all known tokens of request i: its prompt, then its generated "
            "tokens.",
            "The first `num_computed_tokens[i]` of them are computed already. This step computes "
            "the next `num_scheduled_tokens[i]` (at least 1): one for a decode, a chunk for a "
            "prefill.",
            "Return `(tokens, positions)`, the model's input: two lists with one row per request, "
            "in the order of the requests.",
            "Each row has T = max(num_scheduled_tokens) entries. A shorter row is padded on the "
            "left with 0, in `tokens` and in `positions`.",
            "A position is a token's index in the text of its own request, counted from 0.",
            "Do not change the lists.",
        ),
        args=([[7, 2], [4, 1, 6]], [1, 1], [1, 2]),
        steps=(
            "T = 2, the larger of 1 and 2.",
            "Request 0 has computed 1 token, so this step computes token 2 at position 1. One 0 "
            "of padding goes in front of it.",
            "Request 1 has computed 1 token, so this step computes tokens 1 and 6 at positions 1 "
            "and 2. It needs no padding.",
        ),
        result=([[0, 2], [1, 6]], [[0, 1], [1, 2]]),
    ),
    hints=(
        "A decode is a chunk of one token. How many tokens are computed before it, and what is "
        "the index of its token?",
        "For each request, cut out the part of `token_ids[i]` that this step computes, and write "
        "down the index of each token in the text. How many entries are missing in front?",
        "The part begins at index num_computed_tokens[i], and so do its positions. Both have "
        "num_scheduled_tokens[i] entries. In both lists, put zeros in front of a row until it is "
        "as long as the longest row.",
    ),
    right=(prepare_inputs, with_torch),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a decode beside a first chunk", JUDGE.on(([[5, 3, 8], [4, 1, 6, 2]], [2, 0], [1, 3]))),
        ("only decodes", JUDGE.on(([[5, 3, 8], [4, 1]], [2, 1], [1, 1]), ([[7]], [0], [1]))),
        (
            "a chunk in the middle of a prompt",
            JUDGE.on(
                (THREE_AND_FIVE, [2, 2], [1, 2]),
                (THREE_AND_FIVE, [0, 2], [2, 1]),
                ([[1, 1, 2, 1], [3, 3, 3]], [1, 0], [3, 2]),
            ),
        ),
        ("any mix", JUDGE.on_drawn(any_mix)),
    ),
    equivalent_mutants={
        "prepare_inputs(): for mine, start, n in zip(token_ids, num_computed_tokens, "
        "num_scheduled_tokens, strict={True => False}):": "all are equally long"
    },
)
