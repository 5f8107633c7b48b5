"""The tiers' tables: what a week takes of one, and what it leaves for other weeks."""

import datetime
import math
import os

import pytest
import tiers

CASES = [f"case {number}" for number in range(23)]


@pytest.fixture(autouse=True)
def own_count(monkeypatch):
    monkeypatch.setattr(tiers, "left_out", 0)


def some_in(monkeypatch, tier: str, k: int, week: str = "2026-W48") -> list[str]:
    monkeypatch.setenv(tiers.TIER, tier)
    monkeypatch.setenv(tiers.WEEK, week)
    return tiers.some(iter(CASES), k)


@pytest.mark.parametrize("k", [1, 4, 5, 22])
def test_consecutive_weeks_take_the_whole_table_across_a_new_year_too(monkeypatch, k: int):
    first = datetime.date(2025, 12, 22)  # a year of 52 weeks ends a week later
    num_weeks = math.ceil(len(CASES) / k)
    weeks = [f"{first + datetime.timedelta(weeks=i):%G-W%V}" for i in range(num_weeks)]
    parts = [some_in(monkeypatch, "default", k, week) for week in weeks]
    assert parts == [some_in(monkeypatch, "default", k, week) for week in weeks]
    assert all(len(part) == k and part == sorted(part, key=CASES.index) for part in parts)
    assert {case for part in parts for case in part} == set(CASES)


def test_a_quick_run_takes_a_quarter_and_all_takes_everything(monkeypatch):
    assert [len(some_in(monkeypatch, "quick", k)) for k in (8, 1)] == [2, 1]
    assert tiers.left_out == 21 + 22
    assert some_in(monkeypatch, "default", 23) == some_in(monkeypatch, "all", 1) == CASES
    assert tiers.left_out == 21 + 22


def test_a_worker_is_given_whole_files(request: pytest.FixtureRequest):
    """Where groups get lost, xdist says nothing, and what tests of a file share is made twice."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith(f"@{request.path}")
