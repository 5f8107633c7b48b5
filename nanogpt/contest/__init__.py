"""The contest: recorded workloads, their score on a modelled clock, and a bound on any score.

Times are integer microseconds of the modelled clock; a score is a whole number. docs/contest.md has
the rules.
"""

from nanogpt.contest.scoring import (
    BASELINES,
    Entry,
    PriorityKey,
    Round,
    Score,
    play,
    play_round,
    priority_key,
)
from nanogpt.contest.upper_bound import bound
from nanogpt.contest.workloads import NAMES, Call, Workload, workload

__all__ = [
    "BASELINES", "NAMES", "Call", "Entry", "PriorityKey", "Round", "Score", "Workload", "bound",
    "play", "play_round", "priority_key", "workload",
]  # fmt: skip
