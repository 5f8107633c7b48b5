"""Exercise 11.1: how long a step takes at least, and what limits it."""

import inspect
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_number
from course.checks.comparing import Args, Comparison, Near
from course.exercise import Exercise, Misconception, Task
from course.format_values import named, show

# --- right answers ------------------------------------------------------------------------------


def roofline(
    num_weights: int,
    weight_bits: int,
    num_tokens: int,
    kv_bytes: int,
    flops_per_us: float,
    bytes_per_us: float,
) -> tuple[float, str]:
    """Return `(time_us, bound)` of one step, where bound is "memory" or "compute"."""
    # Reading and arithmetic overlap, so the slower of the two sets the time. Weights are read once
    # for all tokens; each token multiplies and adds every weight, which is two operations.
    read_us = (num_weights * weight_bits / 8 + kv_bytes) / bytes_per_us
    compute_us = 2 * num_weights * num_tokens / flops_per_us
    return max(read_us, compute_us), "memory" if read_us > compute_us else "compute"


def by_intensity(
    num_weights: int, weight_bits: int, num_tokens: int, kv_bytes: int, *speeds: float
) -> tuple[float, str]:
    flops_per_us, bytes_per_us = speeds
    flops = 2 * num_weights * num_tokens
    num_bytes = num_weights * weight_bits / 8 + kv_bytes
    if flops * bytes_per_us < num_bytes * flops_per_us:
        return num_bytes / bytes_per_us, "memory"
    return flops / flops_per_us, "compute"


def by_key(
    num_weights: int, weight_bits: int, num_tokens: int, kv_bytes: int, *speeds: float
) -> tuple[float, str]:
    flops_per_us, bytes_per_us = speeds
    compute = 2 * num_weights * num_tokens / flops_per_us, "compute"
    read = (num_weights * weight_bits + 8 * kv_bytes) / (8 * bytes_per_us), "memory"
    return max(compute, read, key=lambda each: each[0])


# --- wrong ideas --------------------------------------------------------------------------------


def times(w: int, bits: int, n: int, kv: int, flops: float, speed: float) -> tuple[float, float]:
    """The microseconds of reading and of arithmetic."""
    return (w * bits / 8 + kv) / speed, 2 * w * n / flops


def longer(read: float, compute: float) -> tuple[Near, str]:
    return Near(max(read, compute)), "memory" if read > compute else "compute"


def mistaken(key: str, belief: str, idea: str, *rules: Callable[..., Any]) -> Misconception:
    """A wrong idea of the two times."""
    ways = [lambda *args, rule=rule: longer(*rule(*args)) for rule in rules]
    return Misconception(key, belief, idea, ways[0], same_result=ways[1:])


def is_formed(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2
    return pair and as_number(value[0]) is not None and value[1] in ("memory", "compute")


MISCONCEPTIONS = (
    Misconception(
        "not_a_pair",
        "The time says it all.",
        'Return a number and "memory" or "compute": `return time_us, bound`.',
        matches=lambda value: not is_formed(value),
        examples=(lambda *args: max(times(*args)), lambda *args: (max(times(*args)), "bandwidth")),
    ),
    mistaken(
        "no_kv",
        "A step reads the weights.",
        "A step reads the K/V of its requests too: add `kv_bytes` to the bytes of the weights.",
        lambda w, bits, n, kv, *rest: times(w, bits, n, 0, *rest),
    ),
    Misconception(
        "sum",
        "A step reads and computes, so its times add up.",
        "Reading and arithmetic overlap: a step takes the longer of the two times, not their sum.",
        lambda *args: (Near(sum(times(*args))), longer(*times(*args))[1]),
    ),
    mistaken(
        "bits_as_bytes",
        "A weight of 16 bits takes 16 bytes.",
        "`weight_bits` are bits, and 8 bits are one byte.",
        lambda w, bits, *rest: times(w, 8 * bits, *rest),
    ),
    mistaken(
        "whole_bytes",
        "`//` gives the bytes.",
        "Weights need not be whole bytes: `//` rounds down, so divide by 8 with `/`.",
        lambda w, bits, n, kv, flops, speed: ((w * bits // 8 + kv) / speed, 2 * w * n / flops),
        lambda w, bits, n, kv, flops, speed: ((w * (bits // 8) + kv) / speed, 2 * w * n / flops),
    ),
    mistaken(
        "one_operation",
        "A token takes one operation per weight.",
        "Each token multiplies every weight and adds the product to a sum: two operations.",
        lambda w, bits, n, *rest: times(w, bits, n / 2, *rest),
    ),
    mistaken(
        "weights_per_token",
        "Every token reads the weights.",
        "All tokens of a step share one read of the weights. That is why batching pays.",
        lambda w, bits, n, *rest: times(w, bits * n, n, *rest),
    ),
    Misconception(
        "other_bound",
        "Memory-bound: there is bandwidth to spare.",
        'The bound is the slower part: "memory" where reading takes longer than the arithmetic, '
        'and otherwise "compute".',
        lambda *args: (longer(*times(*args))[0], longer(*times(*args)[::-1])[1]),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_step(rng: random.Random) -> list[Args]:
    return [
        (rng.randint(1, 400), rng.choice((4, 8, 16, 32)), rng.randint(1, 40), rng.randint(0, 900),
         rng.choice((50, 100, 400)), rng.choice((5, 10, 20)))
        for _ in range(40)
    ]  # fmt: skip


def near_roofline(*args: Any) -> tuple[Near, str]:
    time, bound = roofline(*args)
    return Near(time), bound


LLAMA, H100 = (8_000_000_000, 16), (989e6, 3.35e6)
LONG_DECODE, LONG_CHUNK = (*LLAMA, 1, 131_072_000, *H100), (*LLAMA, 2048, 0, *H100)
JUDGE = Comparison(
    near_roofline,
    MISCONCEPTIONS,
    "Find the bytes that the step reads and the operations that it computes, and how long each "
    'takes. The longer time counts; if both are equal, the bound is "compute".',
    draw=lambda v: f'({v[0]:.6g}, "{v[1]}")' if is_formed(v) else show(v),
    evidence=[(300, 16, 2, 90, 100, 10), (100, 8, 9, 500, 50, 20), (50, 32, 30, 7, 60, 5)],
)
PARAMETERS = tuple(inspect.signature(roofline).parameters)

EXERCISE = Exercise(
    number=1,
    title="The roofline of a step",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "A step computes `num_tokens` tokens with a model of `num_weights` weights, each "
            "stored in `weight_bits` bits. All arguments but `kv_bytes` are at least 1.",
            "The step reads all weights once, and `kv_bytes` bytes of K/V. The machine reads "
            "`bytes_per_us` bytes per µs.",
            "Each token multiplies every weight once and adds the product to a sum. The machine "
            "computes `flops_per_us` operations per µs. A multiplication is one operation, and so "
            "is an addition. The arithmetic of attention is left out.",
            "Reading and arithmetic go on at the same time.",
            'Returns `(time_us, bound)`. The bound is `"memory"` if reading takes longer than the '
            'arithmetic, and otherwise `"compute"`.',
        ),
        args=(100, 16, 3, 40, 50, 10),
        result=(24.0, "memory"),
        call="roofline(num_weights=100, weight_bits=16, num_tokens=3,\n"
        "         kv_bytes=40, flops_per_us=50, bytes_per_us=10)",
        steps=(
            "100 weights of 16 bits are 200 bytes. With the K/V the step reads 240 bytes: 24 µs.",
            "3 tokens and 100 weights are 300 multiplications and 300 additions: 12 µs.",
        ),
    ),
    hints=(
        "Work out two times: one from bytes, one from operations. Which arguments belong to which?",
        "The bytes are those of the weights (8 bits to a byte) and of the K/V. The operations are "
        "two for each weight and token.",
        "Divide the bytes by `bytes_per_us` and the operations by `flops_per_us`. Return the "
        "larger time, and the name of the part that takes it.",
    ),
    right=(roofline, by_intensity, by_key),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a decode", JUDGE.on((100, 16, 1, 0, 50, 10), (100, 16, 3, 40, 50, 10))),
        ("a chunk of a prompt", JUDGE.on((100, 16, 40, 40, 50, 10), (300, 16, 99, 9, 100, 10))),
        ("8-bit weights", JUDGE.on((100, 8, 3, 40, 50, 10), (90, 4, 5, 3, 60, 10))),
        ("both take as long", JUDGE.on((100, 16, 5, 0, 50, 10), (100, 8, 8, 60, 100, 10))),
        ("8 billion parameters", JUDGE.on(LONG_DECODE, LONG_CHUNK)),
        ("any step", JUDGE.on_drawn(any_step)),
    ),
    draw_call=named(*PARAMETERS),
    equivalent_mutants={
        f"{each} at least 1": "it is at least 1" for each in PARAMETERS if each != "kv_bytes"
    },
)
