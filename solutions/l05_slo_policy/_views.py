"""Requests as the policy sees them, and moments for `select_victim`."""

import random
from typing import Any

from course.checks.comparing import Args
from nanogpt.slo import policy
from nanogpt.views.slo_view import SloView

A, C = 100.0, 10_000.0  # 0.1 ms per token and 10 ms per pass, in microseconds


def seen(id: int, left_ms: float, slack_ms: float, preempted: int = 0, **fields: Any) -> SloView:
    """A request with its deadline in `left_ms` and `slack_ms` of slack."""
    slack_us, left_us = round(1000 * slack_ms), round(1000 * left_ms)
    known: dict[str, Any] = {
        "tokens": max(1, round((left_us - slack_us - C) / A)),
        "slo_us": 200_000,
        "num_preemptions": preempted,
        "edf_score": policy.edf_score(slack_us, left_us),
    }
    return SloView(id=id, slack_us=slack_us, time_to_deadline_us=left_us, **(known | fields))


def any_moments(rng: random.Random, count: int) -> list[Args]:
    """Moments in which every rule decides somewhere, those with few running requests first."""
    moments: list[Args] = []
    while len(moments) < count:
        ids = rng.sample(range(10), rng.choice((1, 2, 2, 3, 3, 4)) + 1)
        margin = rng.choice((1.0, 1.2, 1.6, 2.0))
        candidate, *runners = (any_view(rng, id) for id in ids)
        close = [abs(candidate.edf_score - margin * runner.edf_score) for runner in runners]
        if margin in (1.0, 2.0) or min(close) > 1e-9:  # 1.2 times a score is not exact
            moments.append((candidate, runners, margin))
    return sorted(moments, key=lambda args: len(args[1]))


def any_view(rng: random.Random, id: int) -> SloView:
    left_ms = rng.choice((0, 1, 20, 40, 50, 60, 80, 100, 120, 400))
    slack_ms = rng.choice((-left_ms - 5, -7, -0.001, 0, 0, left_ms / 4, left_ms / 2))
    preempted = rng.choice((0, 0, 0, 0, 1, 2))
    return seen(id, left_ms, min(slack_ms, left_ms), preempted)
