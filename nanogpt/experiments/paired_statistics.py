"""Means over seeds and their 95 % confidence intervals.

Two policies meet the identical load of each seed, so their difference on a seed is free of that
load's luck. A difference whose interval holds 0 may be none at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and half the width of its 95 % interval, None for a single value."""

    mean: float
    half_width: float | None

    @property
    def low(self) -> float | None:
        """The interval's lower end."""
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        """The interval's upper end."""
        return None if self.half_width is None else self.mean + self.half_width

    @property
    def within_noise(self) -> bool:
        """Whether the interval holds 0, or there is none: no difference has been shown."""
        return self.half_width is None or abs(self.mean) <= self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent, normally distributed values, with Student's interval.

    Raises: statistics.StatisticsError for no value.
    """
    mean, n = fmean(values), len(values)
    if n == 1:
        return Estimate(mean, None)
    return Estimate(mean, student_t(n - 1) * stdev(values) / math.sqrt(n))


def paired(baseline: Sequence[float], other: Sequence[float]) -> Estimate:
    """The mean difference of `other` from `baseline`, pair by pair, with its 95 % interval."""
    return estimate([theirs - ours for ours, theirs in zip(baseline, other, strict=True)])


def student_t(freedom: int) -> float:
    """Half the width of a two-sided 95 % interval in standard errors, by degrees of freedom."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # halves the angle's range down to the last digit of a double
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
