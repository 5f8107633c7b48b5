"""Paired differences: intervals by hand, against published tables, and their true coverage."""

import math
import random

import pytest

from nanogpt.experiments.paired_statistics import paired, student_t

# Two-sided 95 %, as printed in statistics textbooks.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 19: 2.093,
         29: 2.045, 30: 2.042, 60: 2.000, 120: 1.980}  # fmt: skip


@pytest.mark.parametrize(("freedom", "value"), TABLE.items())
def test_the_t_values_are_those_of_the_tables(freedom: int, value: float):
    assert round(student_t(freedom), 3) == value


def test_the_t_values_in_closed_form_and_at_the_bell_curves_end():
    assert student_t(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-12)
    assert student_t(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-12)
    assert student_t(20_000) == pytest.approx(1.959964, abs=2e-4)


def test_a_difference_is_taken_pair_by_pair():
    """The pairs differ by a thousand from seed to seed, the two sides by 9, 10 and 11."""
    got = paired([1000, 2000, 3000], [1009, 2011, 3010])
    assert (got.mean, got.n) == (10, 3)
    half = 4.302652729 * 1 / math.sqrt(3)
    assert (got.low, got.high) == (pytest.approx(10 - half), pytest.approx(10 + half))
    assert not got.within_noise


def test_the_sign_is_that_of_the_other():
    assert paired([5, 5], [3, 3]).mean == -2


def test_an_interval_that_holds_zero_is_within_noise():
    assert paired([0, 0], [1, 3]).within_noise
    assert paired([0, 0], [2, 2]).within_noise is False
    assert paired([1, 2], [1, 2]).within_noise


def test_one_pair_has_a_difference_and_no_interval():
    got = paired([4], [7])
    assert (got.mean, got.low, got.high, got.n) == (3, None, None, 1)
    assert got.within_noise


@pytest.mark.parametrize(
    ("baseline", "other", "message"),
    [
        ([], [], "there are 0 pairs; a difference needs at least 1"),
        ([1], [1, 2], "there are 1 and 2 values; they must be pairs"),
        ([1.0], [float("nan")], "a value is nan; it must be finite"),
        ([float("inf")], [1.0], "a value is inf; it must be finite"),
    ],
)
def test_what_makes_no_pairs_is_refused(baseline: list[float], other: list[float], message: str):
    with pytest.raises(ValueError, match=message):
        paired(baseline, other)


def test_the_t_needs_a_degree_of_freedom():
    with pytest.raises(ValueError, match="there are 0 degrees of freedom; it must be at least 1"):
        student_t(0)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_about_ninety_five_in_a_hundred_intervals_hold_the_true_difference(n: int):
    """Of 4000 fixed draws; four standard errors are 1.4 percentage points."""
    rng = random.Random(n)
    held = 0
    for _ in range(4000):
        loads = [rng.gauss(100, 50) for _ in range(n)]
        got = paired(loads, [load + rng.gauss(3, 2) for load in loads])
        assert got.low is not None and got.high is not None
        held += got.low <= 3 <= got.high
    assert held / 4000 == pytest.approx(0.95, abs=0.014)
