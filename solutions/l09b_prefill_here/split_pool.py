"""Exercise 9b.1: how many workers of a fleet should prefill."""

import random
from collections.abc import Callable
from itertools import pairwise

from course.checks.comparing import Args, Comparison, not_whole
from course.exercise import Exercise, Misconception, Task
from nanogpt.views.fleet_views import PoolCosts, PoolLoad

Times = Callable[[PoolLoad, PoolCosts], tuple[float, float]]


def split_pool(workers: int, load: PoolLoad, costs: PoolCosts) -> int:
    """Return the number of prefill workers; 0 for a mixed pool."""
    # Both sides of a transfer are busy with it, and the busier pool limits the fleet.
    transfer_us = load.prompt_tokens * costs.transfer_us
    prefill_us = load.prompt_tokens * costs.prefill_us + transfer_us
    decode_us = load.new_tokens * costs.decode_us + transfer_us
    best, best_us = 0, 1e6 / load.requests_per_s
    for n in range(1, workers):
        busier_us = max(prefill_us / n, decode_us / (workers - n))
        if busier_us < best_us or (best == 0 and busier_us == best_us):
            best, best_us = n, busier_us
    return best


def by_min(workers: int, load: PoolLoad, costs: PoolCosts) -> int:
    return chosen(workers, load, costs, times)


def times(load: PoolLoad, costs: PoolCosts) -> tuple[float, float]:
    """Microseconds of a request in each pool."""
    transfer = load.prompt_tokens * costs.transfer_us
    return load.prompt_tokens * costs.prefill_us + transfer, (
        load.new_tokens * costs.decode_us + transfer
    )


def chosen(
    workers: int, load: PoolLoad, costs: PoolCosts, times: Times, busy: Callable[..., float] = max,
    may_mix: bool = True,
) -> int:  # fmt: skip
    """The choice by other times, or by another measure of how busy the pools are."""
    prefill, decode = times(load, costs)
    of = {n: busy(prefill / n, decode / (workers - n)) for n in range(1, workers)}
    best = min(of, key=lambda n: of[n], default=0)
    fits = best and load.requests_per_s * max(prefill / best, decode / (workers - best)) <= 1e6
    return best if fits or not may_mix else 0


def other(times: Times = times, **changes: object) -> Callable[..., int]:
    return lambda workers, load, costs: chosen(workers, load, costs, times, **changes)  # type: ignore[arg-type]


MISCONCEPTIONS = (
    not_whole("A share of the workers is a size.", lambda w, load, costs: w / 3),
    Misconception(
        "free_link",
        "Sending K/V costs nothing.",
        "A transfer keeps both workers busy for `transfer_us` per prompt token: add it.",
        other(lambda load, c: (load.prompt_tokens * c.prefill_us, load.new_tokens * c.decode_us)),
    ),
    Misconception(
        "sender_only",
        "Only the sender is busy with a transfer.",
        "The receiver is busy too: it checks and copies the K/V of the whole prompt.",
        other(lambda load, c: (times(load, c)[0], load.new_tokens * c.decode_us)),
        same_result=(other(lambda ld, c: (ld.prompt_tokens * c.prefill_us, times(ld, c)[1])),),
    ),
    Misconception(
        "sum",
        "The less work altogether, the better.",
        "A request needs both pools, so the busier one limits the fleet: take the larger, not the "
        "sum.",
        other(busy=lambda prefill, decode: prefill + decode),
    ),
    Misconception(
        "halves",
        "Two kinds of work, two halves.",
        "The pools rarely have equal work. Compare every split from 1 to workers - 1.",
        lambda workers, load, costs: workers // 2,
        same_result=(lambda w, ld, c: w // 2 if split_pool(w, ld, c) else 0,),
    ),
    Misconception(
        "always_splits",
        "Two pools are better than one.",
        "In a mixed pool idle workers help with either work. If even the best split leaves a pool "
        "more work than time, return 0.",
        other(may_mix=False),
    ),
)


def any_pools(rng: random.Random) -> list[Args]:
    """Fleets in which no two splits are nearly equal, and none is nearly full."""
    cases: list[Args] = []
    while len(cases) < 60:
        workers = rng.randint(1, 9)
        load = PoolLoad(rng.randint(1, 120), rng.randint(50, 2000), rng.randint(5, 400))
        costs = PoolCosts(rng.randint(2, 40), rng.randint(20, 300), rng.randint(0, 9))
        prefill, decode = times(load, costs)
        of = sorted(max(prefill / n, decode / (workers - n)) for n in range(1, workers))
        apart = all(later > 1.001 * earlier for earlier, later in pairwise(of))
        if apart and all(abs(load.requests_per_s * each / 1e6 - 1) > 0.001 for each in of):
            cases.append((workers, load, costs))
    return sorted(cases, key=lambda case: case[0])


def case(workers: int, rps: float, prompt: int, new: int, *costs: float) -> Args:
    return workers, PoolLoad(rps, prompt, new), PoolCosts(*costs)


JUDGE = Comparison(
    split_pool,
    MISCONCEPTIONS,
    "Divide the time of a request in each pool by the workers of that pool. The larger of the two "
    "limits the split; take the split where it is smallest.",
    evidence=[
        *any_pools(random.Random(9)), case(4, 1, 100, 10, 2, 20, 0), case(4, 1, 100, 10, 1, 10, 7),
        case(2, 200, 100, 100, 90, 90, 0),
    ],
)  # fmt: skip
on = JUDGE.on
FULL = case(2, 100, 100, 1, 100, 1, 0), case(2, 1, 1_000_001, 1, 1, 1, 0)
AT_LEAST_1 = (
    "workers", "load.requests_per_s", "load.prompt_tokens", "load.new_tokens", "costs.prefill_us",
    "costs.decode_us",
)  # fmt: skip

EXERCISE = Exercise(
    number=1,
    title="How many workers prefill?",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`load` has `requests_per_s`, and the `prompt_tokens` and `new_tokens` of a request. "
            "`costs` has the microseconds of a worker per token: `prefill_us` for each prompt "
            "token, `decode_us` for each new one, and `transfer_us` for each prompt token that is "
            "sent, which keeps both workers busy.",
            "Return how many of the `workers` should prefill, from 1 to workers - 1, so that the "
            "busier of the two pools is as little busy as possible. Of equals, take the fewest.",
            "Return 0, a mixed pool, if every split gives one of its pools more work per second "
            "than it has time, or if there are fewer than 2 workers. Exactly full still works.",
        ),
        args=case(4, 50, 1000, 100, 13, 100, 2),
        result=2,
        call="split_pool(4, PoolLoad(requests_per_s=50, prompt_tokens=1000, new_tokens=100),\n"
        "           PoolCosts(prefill_us=13, decode_us=100, transfer_us=2))",
        steps=(
            "A request takes 1000 × (13 + 2) = 15,000 µs in the prefill pool, and "
            "1000 × 2 + 100 × 100 = 12,000 µs in the decode pool.",
            "1 prefill worker: 15,000 and 4,000 µs. 2: 7,500 and 6,000. 3: 5,000 and 12,000. The "
            "larger is smallest for 2.",
            "50 requests per second take 50 × 7,500 = 375,000 µs of each second there: it fits.",
        ),
    ),
    hints=(
        "With n prefill workers, how long does a request keep one of them busy? And the decode "
        "workers?",
        "For each n from 1 to workers - 1: the larger of prefill time / n and decode time / "
        "(workers - n).",
        "Keep the n with the smallest larger time. If that time, multiplied by the requests per "
        "second, is above 1,000,000 µs, return 0.",
    ),
    right=(split_pool, by_min),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("two workers", on(case(2, 10, 100, 10, 10, 100, 0), case(2, 10, 90, 50, 10, 100, 1))),
        ("the larger pool", on(case(4, 1, 1000, 10, 13, 100, 0), case(5, 1, 100, 90, 13, 100, 0))),
        ("the link counts", on(case(4, 1, 1000, 80, 10, 10, 9), case(12, 1, 100, 1, 9, 1, 0))),
        ("too much work", on(case(2, 80, 1000, 30, 13, 100, 1), *FULL)),
        ("one worker, and ties", on(case(1, 1, 9, 9, 1, 1, 1), case(3, 1, 8, 8, 4, 4, 0))),
        ("any load", JUDGE.on_drawn(any_pools)),
    ),
    equivalent_mutants={f"{name} at least 1": "it is at least 1" for name in AT_LEAST_1},
)
