"""Exercise 7b.2: whether to load K/V or to compute it again."""

import random
from collections.abc import Callable
from typing import Any

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from nanogpt.views.step_cost import Link, StepCost

# --- right answers ------------------------------------------------------------------------------


def load_or_compute(num_tokens: int, kv_bytes: int, link: Link, step_cost: StepCost) -> str:
    """Return "load" or "compute", whichever delays the request less."""
    # The step runs in any case, since at least one token is computed. So computing costs what the
    # step takes longer with these tokens, and loading costs all of its time: nothing overlaps it.
    load_us = link.latency_us + num_tokens * kv_bytes / link.bytes_per_us
    compute_us = step_cost(num_tokens + 1) - step_cost(1)
    return "load" if load_us < compute_us else "compute"


def in_bytes(num_tokens: int, kv_bytes: int, link: Link, step_cost: StepCost) -> str:
    saved_us = step_cost(1 + num_tokens) - step_cost(1) - link.latency_us
    return ("compute", "load")[num_tokens * kv_bytes < saved_us * link.bytes_per_us]


def by_two_steps(num_tokens: int, kv_bytes: int, link: Link, step_cost: StepCost) -> str:
    loaded = step_cost(1) + link.latency_us + kv_bytes * num_tokens / link.bytes_per_us
    if step_cost(num_tokens + 1) <= loaded:
        return "compute"
    return "load"


# --- wrong ideas --------------------------------------------------------------------------------


def loads(n: int, kv_bytes: int, link: Link, cost: StepCost) -> float:
    return link.latency_us + n * kv_bytes / link.bytes_per_us


def computes(n: int, kv_bytes: int, link: Link, cost: StepCost) -> float:
    return cost(n + 1) - cost(1)


def choosing(load: Any = loads, compute: Any = computes) -> Callable[..., str]:
    return lambda *args: "load" if load(*args) < compute(*args) else "compute"


MISCONCEPTIONS = (
    Misconception("not_a_choice", "The answer is a time, or a truth value.",
                  'The answer is one of two words: "load" or "compute".',
                  matches=lambda value: value not in ("load", "compute"),
                  examples=(loads, lambda *args: loads(*args) < computes(*args))),
    Misconception("always_load", "A copy is always quicker than computing.",
                  "Over this link the copy takes longer than the step with these tokens.",
                  lambda *args: "load"),
    Misconception("latency_forgotten", "Only the bytes take time.",
                  "Every transfer has a latency, however few bytes it has: add it.",
                  choosing(lambda n, kv, link, cost: n * kv / link.bytes_per_us)),
    Misconception("one_token_loaded", "`kv_bytes` are the bytes of all tokens.",
                  "`kv_bytes` are those of one token; the copy has `num_tokens` times as many.",
                  choosing(lambda n, kv, link, cost: loads(1, kv, link, cost))),
    Misconception("latency_of_each_token", "Each token is a transfer.",
                  "All tokens go in one transfer: the latency counts once.",
                  choosing(lambda n, kv, link, cost: n * loads(1, kv, link, cost))),
    Misconception("whole_step", "Computing costs a whole step.",
                  "The step runs in any case, for the tokens that are not cached: count only what "
                  "it takes longer with these, `step_cost(num_tokens + 1) - step_cost(1)`.",
                  choosing(compute=lambda n, kv, link, cost: cost(n)),
                  same_result=(choosing(compute=lambda n, kv, link, cost: cost(n + 1)),)),
    Misconception("straight_line", "Each token makes a step longer by the same time.",
                  "A step has a least time, in which the first tokens cost nothing more: ask "
                  "`step_cost` for the step with these tokens and for the step without them.",
                  choosing(compute=lambda n, kv, link, cost: n * (cost(1002) - cost(1001)))),
    Misconception("loads_at_equal_times", "At equal times, loading is better.",
                  'At equal times the answer is "compute", which leaves the link to others.',
                  lambda *args: "load" if loads(*args) <= computes(*args) else "compute"),
    Misconception("turned_around", "The longer of the two is chosen.",
                  "It is the other way around: choose what takes less time.",
                  lambda *args: "load" if loads(*args) > computes(*args) else "compute"),
)  # fmt: skip

# --- cases --------------------------------------------------------------------------------------


def any_machine(rng: random.Random) -> list[Args]:
    """Links of which about half are too slow, and steps with and without a least time."""
    cases: list[Args] = []
    for _ in range(50):
        fixed, each, least = rng.randint(0, 900), rng.randint(5, 600), rng.randint(1000, 6000)
        cost = StepCost(fixed, each, least=rng.choice((None, least)))
        kv_bytes = rng.choice((4096, 131_072))
        speed = max(1, round(kv_bytes / each * rng.choice((0.7, 1.1, 1.6, 3))))
        cases.append((rng.randint(1, 60), kv_bytes, Link(rng.randint(0, 900), speed), cost))
    return cases


JUDGE = Comparison(
    load_or_compute,
    MISCONCEPTIONS,
    "How long does the copy take? And how much longer does the step take, if it computes these "
    "tokens as well?",
    evidence=any_machine(random.Random(1)),
)
SERVER, FLOOR = StepCost(500, 30), StepCost(500, 500, least=5300)
CASES: dict[str, list[Args]] = {
    "a fast link and a slow one": [
        (16, 4096, Link(20, 8192), SERVER), (16, 4096, Link(20, 100), SERVER),
        (32, 4096, Link(20, 140), SERVER),
    ],
    "few tokens": [
        (1, 4096, Link(40, 8192), SERVER), (8, 4096, Link(20, 8192), FLOOR),
        (12, 131_072, Link(100, 1000), FLOOR),
    ],
    "equal times, or nearly": [
        (4, 4096, Link(56, 256), SERVER), (2, 100, Link(9, 4), SERVER), (1, 59, Link(0, 2), SERVER),
    ],
}  # fmt: skip

EXERCISE = Exercise(
    number=2, title="Load or compute?", minutes=8, points=2,
    task=Task(
        rules=(
            "`num_tokens` tokens (at least 1) of a request are only in host memory. `kv_bytes` are "
            "the bytes of one token's K/V.",
            "A transfer takes `link.latency_us` µs, and one µs more for every `link.bytes_per_us` "
            "bytes. All tokens go in one transfer before the step, while nothing is computed.",
            "`step_cost(n)` is the time in µs of a step that computes n tokens. The step runs in "
            "any case, for at least 1 token that is cached nowhere.",
            'Return "load" if that is the shorter way to the end of the step, otherwise "compute".',
        ),
        args=(16, 4096, Link(20, 8192), StepCost(500, 30)),
        call="load_or_compute(num_tokens=16, kv_bytes=4096,\n"
        "  link=Link(latency_us=20, bytes_per_us=8192),\n"
        "  step_cost=lambda tokens: 500 + 30 * tokens)",
        steps=(
            "The copy has 16 × 4096 bytes, which take 8 µs, and a latency of 20 µs: 28 µs.",
            "A step of 17 tokens takes 1,010 µs and one of 1 token 530 µs: 480 µs more.",
        ),
        result="load",
    ),
    hints=(
        "Write down the time until the first token, once with a copy and once without. Which part "
        "is the same in both?",
        "The step without these tokens has at least one token left. How much longer is the step "
        "with them?",
        "Compare `link.latency_us + num_tokens * kv_bytes / link.bytes_per_us` with "
        "`step_cost(num_tokens + 1) - step_cost(1)`.",
    ),
    right=(load_or_compute, in_bytes, by_two_steps), misconceptions=MISCONCEPTIONS,
    checks=(*((name, JUDGE.on(*cases)) for name, cases in CASES.items()),
            ("any machine", JUDGE.on_drawn(any_machine)),),
    draw_call=named("num_tokens", "kv_bytes", "link", "step_cost"),
    equivalent_mutants={f"{name} at least 1": "it is at least 1"
                        for name in ("num_tokens", "kv_bytes", "link.bytes_per_us")},
)  # fmt: skip
