"""Paired differences: intervals by hand, against published tables, and their true coverage."""

import math

import pytest

from nanogpt.experiments.paired_statistics import paired, student_t


def test_the_t_values_are_those_of_the_tables_and_of_the_closed_forms():
    table = {1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980}
    assert {freedom: round(student_t(freedom), 3) for freedom in table} == table
    assert student_t(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-12)
    assert student_t(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-12)
    assert student_t(20_000) == pytest.approx(1.959964, abs=2e-4)


def test_a_difference_is_taken_pair_by_pair():
    """The pairs differ by a thousand from seed to seed, the two sides by 9, 10 and 11."""
    got = paired([1000, 2000, 3000], [1009, 2011, 3010])
    half = 4.302652729 * 1 / math.sqrt(3)
    assert got.mean == 10 and not got.within_noise
    assert (got.low, got.high) == (pytest.approx(10 - half), pytest.approx(10 + half))
    assert paired([5, 5], [3, 3]).mean == -2


def test_an_interval_that_holds_zero_is_within_noise_and_a_single_pair_has_no_interval():
    assert paired([0, 0], [1, 3]).within_noise
    assert not paired([0, 0], [2, 2]).within_noise
    assert paired([1, 2], [1, 2]).within_noise
    got = paired([4], [7])
    assert (got.mean, got.low, got.high, got.within_noise) == (3, None, None, True)
