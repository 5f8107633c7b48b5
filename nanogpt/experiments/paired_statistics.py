"""Paired differences and their confidence intervals: what many seeds say that one cannot.

Two policies meet the identical load of each seed, so that the difference on a seed is free of the
luck of that load. The interval says what the mean difference may be from here on, and a difference
whose interval holds 0 may be none at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean of paired differences (other minus baseline) and its 95 % interval.

    `low` and `high` are None with fewer than two pairs: one difference says nothing of its spread.
    """

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def within_noise(self) -> bool:
        """Whether the interval holds 0, or there is none: no difference has been shown."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


def paired(baseline: Sequence[float], other: Sequence[float]) -> Paired:
    """The mean difference of `other` from `baseline`, pair by pair, with its 95 % interval.

    The interval is Student's, which takes the differences as independent draws from one bell
    curve. Raises: ValueError without a pair, for lists of different lengths or a value that is
    not finite.
    """
    if len(baseline) != len(other):
        raise ValueError(f"there are {len(baseline)} and {len(other)} values; they must be pairs")
    if not baseline:
        raise ValueError("there are 0 pairs; a difference needs at least 1")
    for value in (*baseline, *other):
        if not math.isfinite(value):
            raise ValueError(f"a value is {value}; it must be finite")
    differences = [theirs - ours for ours, theirs in zip(baseline, other, strict=True)]
    mean, n = fmean(differences), len(differences)
    if n == 1:
        return Paired(mean, None, None, 1)
    half = student_t(n - 1) * stdev(differences) / math.sqrt(n)
    return Paired(mean, mean - half, mean + half, n)


def student_t(freedom: int) -> float:
    """Half the width of a two-sided 95 % interval in standard errors, by degrees of freedom.

    Raises: ValueError for fewer than 1 degree of freedom.
    """
    if freedom < 1:
        raise ValueError(f"there are {freedom} degrees of freedom; it must be at least 1")
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # halving the angle's range: to the last digit of a double
        middle = (low + high) / 2
        if _share_within(middle, freedom) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _share_within(angle: float, freedom: int) -> float:
    """P(|T| <= sqrt(freedom) tan(angle)) of Student's t, a finite sum for whole degrees.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
