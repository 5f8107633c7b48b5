"""Exercise 0.4: how many requests a GPU serves at once, and how many tokens per second."""

import inspect
import math
import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_number, as_whole
from course.checks.comparing import Args, Comparison, Near
from course.exercise import Exercise, Misconception, Task
from course.format_values import named, show

# --- right answers ------------------------------------------------------------------------------


def capacity(
    gpu_bytes: int,
    weight_bytes: int,
    kv_bytes_per_token: int,
    bytes_per_us: int,
    token_us: int,
    prompt_len: int,
    output_len: int,
    itl_limit_us: int,
) -> tuple[int, int, float]:
    """Return `(kv_tokens, batch_size, tokens_per_s)` of one GPU that only decodes."""
    # Three limits, and the smallest one decides: the memory that the weights leave free, the
    # bytes that a step may read within the ITL limit, and the arithmetic that it may do in it.
    kv_tokens = (gpu_bytes - weight_bytes) // kv_bytes_per_token
    request_len = prompt_len + output_len
    request_bytes = request_len * kv_bytes_per_token
    by_memory = kv_tokens // request_len
    by_reading = (itl_limit_us * bytes_per_us - weight_bytes) // request_bytes
    by_arithmetic = itl_limit_us // token_us
    batch_size = max(0, min(by_memory, by_reading, by_arithmetic))
    # Reading and arithmetic overlap, so a step takes the longer of the two.
    read_us = (weight_bytes + batch_size * request_bytes) / bytes_per_us
    step_us = max(read_us, batch_size * token_us)
    return kv_tokens, batch_size, batch_size / step_us * 10**6


def by_growing_the_batch(
    gpu: int, weights: int, kv: int, speed: int, token_us: int, prompt: int, output: int, limit: int
) -> tuple[int, int, float]:
    def step_us(batch_size: int) -> float:
        read = weights + batch_size * (prompt + output) * kv
        return max(read / speed, token_us * batch_size)

    kv_tokens, batch_size = (gpu - weights) // kv, 0
    while (batch_size + 1) * (prompt + output) <= kv_tokens and step_us(batch_size + 1) <= limit:
        batch_size += 1
    return kv_tokens, batch_size, batch_size / step_us(batch_size) * 10**6


# --- wrong ideas --------------------------------------------------------------------------------


def longer(weights_us: float, kv_us: float, arithmetic_us: float) -> float:
    """The right time of a step."""
    return max(weights_us + kv_us, arithmetic_us)


def served(
    step: Callable[[float, float, float], float], args: Args, *, limited: bool = True
) -> tuple[int, int, float]:
    """The right answer, with another time of a step, and perhaps without an ITL limit."""
    gpu, weights, kv, speed, token_us, prompt, output, limit = args
    kv_tokens, length = (gpu - weights) // kv, prompt + output

    def step_us(batch: int) -> float:
        return step(weights / speed, batch * length * kv / speed, batch * token_us)

    batch = kv_tokens // length
    while limited and batch and step_us(batch) > limit:
        batch -= 1
    return kv_tokens, batch, batch / step_us(batch) * 1e6 if batch else 0.0


def is_formed(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    whole = all(as_whole(each) is not None for each in value[:2])
    return whole and as_number(value[2]) is not None and math.isfinite(value[2])


MISCONCEPTIONS = (
    Misconception(
        "not_three",
        "A batch may be 6.7 requests.",
        "Return two ints and a finite number: `return kv_tokens, batch_size, tokens_per_s`. A part "
        "of a request cannot run, so round down.",
        matches=lambda value: not is_formed(value),
        examples=(
            lambda *args: capacity(*args)[1],
            lambda *args: (capacity(*args)[0], capacity(*args)[1] + 0.7, 1.0),
        ),
    ),
    Misconception(
        "no_weights",
        "All GPU memory holds K/V.",
        "The weights stay in GPU memory all the time, so K/V has only the remaining memory.",
        lambda *args: served(longer, (args[0] + args[1], *args[1:])),
    ),
    Misconception(
        "no_output",
        "A request holds the K/V of its prompt.",
        "A request adds K/V for every token that it generates, so before it ends it holds its "
        "prompt and its output. Counting only the prompt lets in requests that cannot finish.",
        lambda *args: served(longer, (*args[:6], 0, args[7])),
    ),
    Misconception(
        "no_itl_limit",
        "The batch is as large as memory allows.",
        "A larger batch makes each step longer, and every request waits for the whole step. Keep "
        "the step within the ITL limit.",
        lambda *args: served(longer, args, limited=False),
    ),
    Misconception(
        "sum",
        "A step reads and computes, so its times add up.",
        "Reading and arithmetic overlap: a step takes the longer of the two, not their sum.",
        lambda *args: served(lambda weights, kv, arithmetic: weights + kv + arithmetic, args),
    ),
    Misconception(
        "no_arithmetic",
        "Decodes are memory-bound.",
        "Decodes are memory-bound only while reading takes longer. Here the arithmetic of the "
        "batch takes longer than reading the weights and the K/V, so it sets the time of the step.",
        lambda *args: served(lambda weights, kv, arithmetic: weights + kv, args),
    ),
    Misconception(
        "no_kv_read",
        "A step reads the weights.",
        "A step reads the weights and also the K/V of every request in the batch, because each "
        "query attends to its whole context.",
        lambda *args: served(lambda weights, kv, arithmetic: max(weights, arithmetic), args),
    ),
    Misconception(
        "one_user",
        "Tokens per second are one over the ITL.",
        "That is the speed of one request. A step computes one token for each request of the "
        "batch, so the GPU's speed is batch_size times as high.",
        lambda *args: (*capacity(*args)[:2], capacity(*args)[2] / max(1, capacity(*args)[1])),
    ),
    Misconception(
        "cost_of_the_lesson",
        "A step costs max(weight read, arithmetic) + K/V read, as above.",
        "On this GPU all reading overlaps with the arithmetic, that of the K/V too: a step takes "
        "the longer of (weights + K/V) / bytes_per_us and the arithmetic.",
        lambda *args: served(lambda weights, kv, arithmetic: max(weights, arithmetic) + kv, args),
    ),
    Misconception(
        "per_microsecond",
        "Tokens divided by the time are tokens per second.",
        "The time of a step is in microseconds: multiply by 10**6 to get tokens per second.",
        lambda *args: (*capacity(*args)[:2], capacity(*args)[2] / 1e6),
    ),
    Misconception(
        "negative_batch",
        "A quotient is a batch size.",
        lambda got: f"No batch has {got[1]} requests: where not even one fits, the batch is 0.",
        matches=lambda value: is_formed(value) and value[1] < 0,
        examples=(
            lambda *args: capacity(*args) if capacity(*args)[1] else (capacity(*args)[0], -1, 0.0),
        ),
    ),
    Misconception(
        "below_the_limit",
        "A step must take less than the limit.",
        "A step may take exactly itl_limit_us: within the limit means at most the limit.",
        lambda *args: served(longer, (*args[:7], args[7] * (1 - 1e-9))),
    ),
    Misconception(
        "at_the_limit",
        "Steps take as long as the ITL limit allows.",
        "The limit is the longest that a step may take. A batch that memory keeps small finishes "
        "its step sooner: divide by the time that the step takes.",
        lambda *args: (*capacity(*args)[:2], capacity(*args)[1] / args[7] * 1e6),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_gpu(rng: random.Random) -> list[Args]:
    """GPUs on which one limit or another decides; now and then not even one request fits."""
    cases: list[Args] = []
    for _ in range(40):
        weights, kv, speed = rng.randint(200, 900), rng.randint(1, 6), rng.randint(40, 200)
        lengths = rng.randint(1, 20), rng.randint(1, 20)
        limit = weights // speed + rng.randint(0, 25)
        gpu = weights + rng.randint(1, 4000)
        cases.append((gpu, weights, kv, speed, rng.randint(1, 4), *lengths, max(1, limit)))
    return cases


def near_capacity(*args: Any) -> tuple[int, int, Near]:
    kv_tokens, batch_size, tokens_per_s = capacity(*args)
    return kv_tokens, batch_size, Near(tokens_per_s)


def drawn(value: Any) -> str:
    return f"({value[0]}, {value[1]}, {value[2]:.6g})" if is_formed(value) else show(value)


LLAMA = (80_000_000_000, 16_000_000_000, 131_072, 3_350_000, 32, 1000, 200)
JUDGE = Comparison(
    near_capacity,
    MISCONCEPTIONS,
    "Count the whole tokens of K/V that fit beside the weights. Find the largest batch that fits "
    "into them and whose step stays within the ITL limit. Divide its size by the time of its step, "
    "in seconds.",
    draw=drawn,
    evidence=[
        (1000, 400, 4, 100, 1, 20, 5, 9), (5000, 400, 1, 100, 2, 3, 2, 20),
        (1000, 400, 4, 100, 9, 20, 5, 60), (2000, 400, 4, 100, 1, 5, 20, 12),
    ],
)  # fmt: skip
on = JUDGE.on
PARAMETERS = tuple(inspect.signature(capacity).parameters)

EXERCISE = Exercise(
    number=4,
    title="Capacity of one GPU",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "All arguments are at least 1. A GPU has `gpu_bytes` of memory, more than the "
            "`weight_bytes` of the model. Each token in the cache needs `kv_bytes_per_token`.",
            "Every request has `prompt_len` prompt tokens and generates `output_len` tokens. "
            "Reserve room for all its tokens from the start, so that it can finish.",
            "Count the longest decode step, in which each request has computed all its tokens: it "
            "reads the weights once and the K/V of all requests, at `bytes_per_us`. Meanwhile it "
            "computes one token for each request, at `token_us` each. Overhead is left out.",
            "`itl_limit_us` is the longest that a step may take.",
            "Returns `(kv_tokens, batch_size, tokens_per_s)`: the tokens of K/V that fit, the "
            "largest batch within memory and limit (0 if there is none), and the tokens that the "
            "GPU then generates per second.",
        ),
        args=(1000, 400, 4, 100, 1, 10, 5, 8),
        result=(150, 6, 6 / 7.6 * 1_000_000),
        call="capacity(gpu_bytes=1000, weight_bytes=400, kv_bytes_per_token=4,\n"
        "         bytes_per_us=100, token_us=1,\n"
        "         prompt_len=10, output_len=5, itl_limit_us=8)",
        steps=(
            "600 bytes are left for K/V: 150 tokens, room for 10 requests.",
            "6 requests read 760 bytes in 7.6 µs and compute for 6 µs. 7 would read for 8.2 µs.",
        ),
    ),
    hints=(
        "Work out the batch that memory allows, and the batch that the ITL limit allows. Which of "
        "the two is smaller?",
        "A step with b requests reads the weights and b times the K/V of one request. How long "
        "does that take, and how long does the arithmetic of b tokens take?",
        "Start with a batch of 0 and add requests one by one, as long as the next one fits into "
        "memory and the step stays within the limit. The tokens per second are the batch size over "
        "the time of its step, in seconds.",
    ),
    right=(capacity, by_growing_the_batch),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("memory decides", on((1000, 400, 4, 100, 1, 20, 5, 50), (499, 400, 2, 50, 1, 3, 2, 40))),
        ("the ITL limit", on((1000, 400, 4, 100, 1, 20, 5, 6), (9000, 400, 4, 100, 1, 5, 20, 9))),
        ("arithmetic", on((5000, 400, 1, 100, 2, 3, 2, 20), (1000, 400, 4, 100, 9, 20, 5, 60))),
        ("no request fits", on((450, 400, 4, 100, 1, 20, 5, 50), (1000, 400, 4, 100, 1, 20, 5, 3))),
        ("8 billion parameters, 80 GB", on((*LLAMA, 50_000), (*LLAMA, 15_000))),
        ("any GPU", JUDGE.on_drawn(any_gpu)),
    ),
    draw_call=named(*PARAMETERS),
    equivalent_mutants={f"{name} at least 1": "it is at least 1" for name in PARAMETERS},
)
