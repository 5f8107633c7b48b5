"""Exercise 11.3: K/V in 8 bits, with a scale for each head of a block."""

import math
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items, as_number, as_whole
from course.checks.comparing import Args, Comparison, Near
from course.exercise import Exercise, Misconception, Task

Block = list[list[float]]

# --- right answers ------------------------------------------------------------------------------


def quantize_kv(block: list[list[float]]) -> tuple[list[list[int]], list[float]]:
    """Return `(quantized, scales)`: int8 numbers, and the scale of each head."""
    # The largest number of a head becomes 127 or -127, so zero stays zero and -128 is unused.
    quantized, scales = list[list[int]](), list[float]()
    for head in block:
        scale = max(map(abs, head)) / 127 or 1.0
        quantized.append([round(x / scale) for x in head])
        scales.append(scale)
    return quantized, scales


def by_floor(block: Block) -> Any:
    quantized, scales = list[list[int]](), list[float]()
    for head in block:
        most = max(max(head), -min(head))
        scales.append(most / 127 if most else 1.0)
        quantized.append([math.floor(x / scales[-1] + 0.5) for x in head])
    return quantized, scales


def by_factor(block: Block) -> Any:
    pairs = [(head, max(abs(x) for x in head)) for head in block]
    return (
        [[round(127 * x / most) if most else 0 for x in head] for head, most in pairs],
        [most / 127 if most else 1.0 for _, most in pairs],
    )


# --- wrong ideas --------------------------------------------------------------------------------


def scaled(
    scale: Callable[[list[float]], float] = lambda head: max(map(abs, head)) / 127,
    to_int: Callable[[float], int] = round,
    scale_of_zeros: float = 1.0,
) -> Callable[[Block], Any]:
    """Right except for the scale, the rounding, or the scale of a head of zeros."""

    def answer(block: Block) -> Any:
        scales = [scale(head) if any(head) else scale_of_zeros for head in block]
        numbers = [
            [to_int(x / (each or 1.0)) for x in head]
            for head, each in zip(block, scales, strict=True)
        ]
        return numbers, [Near(each) for each in scales]

    return answer


def per_block(block: Block) -> Any:
    most = max(abs(x) for head in block for x in head) or 127.0
    rows = scaled(lambda head: most / 127)(block)[0]
    return rows, [Near(most / 127)] * len(block)


def is_formed(value: Any) -> bool:
    pair = as_items(value)
    if pair is None or len(pair) != 2:
        return False
    rows, scales = as_items(pair[0]), as_items(pair[1])
    if rows is None or scales is None or any(as_number(each) is None for each in scales):
        return False
    lists = [as_items(row) for row in rows]
    return all(row is not None and all(as_whole(x) is not None for x in row) for row in lists)


MISCONCEPTIONS = (
    Misconception(
        "not_a_pair",
        "The 8-bit numbers are the result.",
        "Return the whole numbers of each head and one scale for each head: "
        "`return quantized, scales`.",
        matches=lambda value: not is_formed(value),
        examples=(
            lambda block: quantize_kv(block)[0],
            lambda block: quantize_kv(block)[::-1],
            lambda block: (
                [[x / s for x in h] for h, s in zip(block, quantize_kv(block)[1], strict=True)],
                quantize_kv(block)[1],
            ),
        ),
    ),
    Misconception(
        "per_block",
        "One scale is enough for a block.",
        "Each head has its own scale: with a common one, a head of small numbers keeps only a few "
        "of the 255 steps.",
        per_block,
    ),
    Misconception(
        "truncates",
        "`int(...)` makes a whole number.",
        "`int` cuts the fraction off, so every number moves towards zero: use the nearest whole "
        "number.",
        scaled(to_int=int),
        same_result=(scaled(to_int=lambda x: int(x // 1)),),
    ),
    Misconception(
        "over_128",
        "Eight bits have 256 values, so the largest becomes 128.",
        "The largest number of an int8 is 127: divide the largest absolute value by 127.",
        scaled(lambda head: max(map(abs, head)) / 128),
        same_result=(
            scaled(lambda head: max(map(abs, head)) / 128, lambda x: min(127, round(x))),
            scaled(lambda head: max(map(abs, head)) / 255),
            scaled(lambda head: max(map(abs, head)) / 256),
        ),
    ),
    Misconception(
        "no_abs",
        "The largest number sets the scale.",
        "A negative number may be the largest in absolute value: use `abs`, or it does not fit.",
        scaled(lambda head: max(head) / 127),
        same_result=(scaled(lambda head: max(0.0, *head) / 127),),
    ),
    Misconception(
        "scale_0",
        "A head of zeros has the scale 0.",
        "Return the scale 1.0 for a head of zeros, since nothing can be divided by 0.",
        scaled(scale_of_zeros=0.0),
        same_result=(scaled(scale_of_zeros=1 / 127), scaled(scale_of_zeros=1e-8)),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def head_of(steps: list[float], scale: float) -> list[float]:
    return [each * scale for each in steps]


def any_blocks(rng: random.Random) -> list[Args]:
    """Blocks in which no quotient lies near the middle between two whole numbers."""
    cases: list[Args] = []
    for _ in range(30):
        block: Block = []
        for _ in range(rng.randint(1, 4)):
            steps = [
                rng.randint(-126, 126) + rng.uniform(-0.4, 0.4) for _ in range(rng.randint(1, 6))
            ]
            steps.insert(rng.randrange(len(steps) + 1), rng.choice((-127.0, 127.0)))
            block.append(head_of(steps, rng.choice((0.0, 1.0, 1.0, 0.01, 0.003, 4.0))))
        cases.append((block,))
    return sorted(cases, key=lambda case: sum(map(len, case[0])))


def near(block: Block) -> Any:
    quantized, scales = quantize_kv(block)
    return quantized, [Near(scale) for scale in scales]


JUDGE = Comparison(
    near,
    MISCONCEPTIONS,
    "For each head: which is its largest absolute value, and what does one of 127 steps measure?",
    evidence=[
        ([head_of([127, -30.3, 5.7], 0.5), head_of([-127, 64.3, 0.8], 0.01)],),
        ([[0.0, 0.0]],),
        ([head_of([-127, 20.8, 40.3], 2.0)],),
    ],
)

EXERCISE = Exercise(
    number=3,
    title="K/V in 8 bits",
    minutes=10,
    points=3,
    task=Task(
        rules=(
            "`block[h]` has all numbers of head h in one block of K or of V, at least one.",
            "A head's **scale** is its largest absolute value divided by 127. If all its numbers "
            "are 0, the scale is 1.0.",
            "Each number becomes the whole number nearest to number / scale, from -127 to 127. "
            "-128 is not used: zero stays zero, and both signs have equal steps.",
            "Return `(quantized, scales)`: the whole numbers in the shape of `block`, and one "
            "scale for each head. Do not change `block`.",
        ),
        args=([[31.75, -6.3, 0.0], [0.02, -0.254, 0.1]],),
        result=([[127, -25, 0], [10, -127, 50]], [0.25, 0.002]),
        steps=(
            "Head 0: the largest absolute value is 31.75, so the scale is 31.75 / 127 = 0.25.",
            "-6.3 / 0.25 = -25.2, and the nearest whole number is -25.",
            "Head 1 has smaller numbers: the scale is 0.254 / 127 = 0.002.",
        ),
    ),
    hints=(
        "Take one head. Which whole number does its largest absolute value become, and how much is "
        "one step?",
        "Compute the scale first, then divide each number by it and round. What happens to a head "
        "of zeros?",
        "`max(abs(x) for x in head) / 127` is the scale unless it is 0, and `round(x / scale)` the "
        "whole number.",
    ),
    right=(quantize_kv, by_floor, by_factor),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one head", JUDGE.on(([[12.7, -2.53, 0.0]],), ([head_of([127, 50.3, -90.2], 0.25)],))),
        (
            "a negative number is largest",
            JUDGE.on(([head_of([-127, 20.8, 40.3], 2.0)],), ([[-5.0]],)),
        ),
        ("two heads", JUDGE.on(([[12.7, -2.53, 0.0], [0.02, -0.254, 0.1]],))),
        ("a head of zeros", JUDGE.on(([[0.0, 0.0]],), ([[0.0], [6.35]],))),
        ("any block", JUDGE.on_drawn(any_blocks)),
    ),
)
