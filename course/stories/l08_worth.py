"""Behind lesson 8's formulas: what speculation is worth, as published and as it is."""

import math
import random
from contextlib import suppress
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from nanogpt.fleet.speculating import break_even
from nanogpt.parts import acceptance
from widgets import whose

Series = dict[str, Any]

RATES = (0.2, 0.4, 0.6, 0.85, 0.95)
_MOST_DRAFTS = 12
_ALPHA, _K = 0.1, 4


def four_times() -> str:
    """What p = 0.85, K = 4 and a draft cost of 0.1 are really worth, in words."""
    p, worth = 0.85, acceptance.speedup
    return (
        f"A pass gives {acceptance.expected_tokens(p, _K):.3f} tokens and a round takes "
        f"1 + 4 · 0.1 = {1 + _K * _ALPHA:g} passes' time: **{worth(p, _K, _ALPHA):.2f} times**. "
        f"And 4.0 cannot be, whatever the draft: a **perfect** one, p = 1, gives {_K + 1} tokens "
        f"in {1 + _K * _ALPHA:g}, which is **{worth(1.0, _K, _ALPHA):.2f}**. The published formula "
        "charges for one drafted token where the draft model runs K times, and it counts each "
        "guess by itself, as if those behind a rejected one could stay. (Break-even is at p = "
        f"{break_even(_K, _ALPHA):.2f}; the description has about 0.6.)"
    )


def speedup_series(speedup: Attempt, tokens: Attempt) -> list[Series]:
    """Speed-up by the number of drafts, as published and by the rule, for each p: curves.

    The rule is the learner's once both of its formulas are written and give numbers.
    """
    drawn = {"as published": _curve(_published), whose(False): _curve(acceptance.speedup)}
    if speedup.started and tokens.started:
        with suppress(RunError):
            mine = run(_curve, speedup.or_reference(acceptance.speedup))
            if _all_numbers(mine):
                drawn = {"as published": drawn["as published"], whose(True): mine}
    return [
        {"name": name, "points": points[p], "when": {"p": p}}
        for name, points in drawn.items()
        for p in RATES
    ]


def _published(p: float, k: int, alpha: float) -> float:
    return (1 + k * p) / (1 + alpha)


def _curve(rule: Any) -> dict[float, list[list[float]]]:
    return {p: [[k, rule(p, k, _ALPHA)] for k in range(_MOST_DRAFTS + 1)] for p in RATES}


def _all_numbers(curves: dict[float, list[list[Any]]]) -> bool:
    values = [y for points in curves.values() for _, y in points]
    return all(isinstance(y, int | float) and math.isfinite(y) for y in values)


def edges() -> str:
    """Break-even by K, in words."""
    return ", ".join(f"{break_even(k, _ALPHA):.2f} for K = {k}" for k in (1, 2, 4, 8))


def rounds(p: float, k: int, times: int = 20_000) -> float:
    """Tokens per pass of a machine that drafts and verifies, dice thrown for each guess."""
    dice, tokens = random.Random(8), 0
    for _ in range(times):
        accepted = 0
        while accepted < k and dice.random() < p:
            accepted += 1
        tokens += accepted + 1
    return tokens / times
