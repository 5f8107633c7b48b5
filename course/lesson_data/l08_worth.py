"""Behind lesson 8's formulas: what speculation is worth, as published and as it is."""

import math
import random
from contextlib import suppress
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from nanogpt.policies import acceptance
from widgets import whose

Series = dict[str, Any]

RATES = (0.2, 0.4, 0.6, 0.85, 0.95)
_MOST_DRAFTS = 12
_ALPHA, _K = 0.1, 4


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


def rounds(p: float, k: int, times: int = 20_000) -> float:
    """Tokens per pass of a machine that drafts and verifies, dice thrown for each guess."""
    dice, tokens = random.Random(8), 0
    for _ in range(times):
        accepted = 0
        while accepted < k and dice.random() < p:
            accepted += 1
        tokens += accepted + 1
    return tokens / times
