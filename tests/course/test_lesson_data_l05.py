"""Behind lessons 5 and 5b: what they draw of any answer."""

import statistics

import pytest

from course.attempt import Attempt
from course.lesson_data.l05_policy import (
    REPORT_AND_VOICE,
    fitted,
    passes,
    simulated,
    sweep,
    your_slack,
)
from course.lesson_data.l05_victims import under_load, victim_decisions, victims_by, without_rule_1
from course.registry import exercise
from nanogpt.figures.drawing import named_curves
from nanogpt.slo import policy
from nanogpt.slo.load import two_tier_load
from nanogpt.slo.variants import (
    BATCHED,
    BATCHED_WITHOUT_RULE_1,
    SUSPENDED,
    UNPREEMPTED,
    doomed_pair,
)

pytestmark = pytest.mark.process


def attempted(exercise_id, function):
    return Attempt(exercise(exercise_id).check(function), function)


def not_written(*_):
    raise NotImplementedError


def test_the_fit_that_the_lesson_shows_is_the_line_that_is_drawn():
    chart, said = fitted()
    assert list(named_curves(chart)) == ["measured", "the line", "a cubic"]
    line = statistics.linear_regression(*zip(*sweep(), strict=True))
    assert f"{line.slope / 1000:.4f} ms per token and {line.intercept / 1000:.2f} ms" in said


def test_slack_is_drawn_by_the_learners_function_or_not_at_all():
    cases = your_slack(attempted("l05.slack", policy.slack))
    runner, waiter = ([each["slack_us"] for each in case["moments"]] for case in cases)
    assert runner == [20_000] * 5
    assert waiter == [20_000, 10_000, 0, -10_000, -20_000]
    assert "Once you have written" in your_slack(attempted("l05.slack", not_written))
    assert "cannot be drawn" in your_slack(attempted("l05.slack", lambda *_: "soon"))


def test_the_eight_moments_are_decided_by_the_learners_function():
    for answer in (policy.select_victim, not_written):
        decisions = victim_decisions(attempted("l05.select_victim", answer))
        assert [each["victim"] for each in decisions] == [1, None, None, 1, None, None, 2, None]
    for odd in (lambda *_: 1 / 0, lambda candidate, *_: candidate.id, lambda _, runs, *__: runs[0]):
        assert victim_decisions(attempted("l05.select_victim", odd)) is None, "none of them runs"


def test_a_run_that_goes_on_for_ever_or_fails_ends_in_a_sentence():
    def either(candidate, incumbent, margin):
        return candidate > margin * incumbent

    rule = victims_by(either)
    said = simulated(doomed_pair(), BATCHED_WITHOUT_RULE_1, most=50, select_victim=rule)
    assert said == "**The run was stopped** after 50 preemptions: hardly a request got done."
    assert passes(said) == said
    broken = simulated(REPORT_AND_VOICE, BATCHED, slack=lambda *_: 1 / 0)
    assert broken.startswith("**The run stopped:** ") and "ZeroDivisionError" in broken


def test_a_run_under_load_says_whose_it_is_and_where_it_differs_first():
    load = two_tier_load(seed=0, requests_per_s=4, duration_s=10)
    variants = (UNPREEMPTED, BATCHED, SUSPENDED)
    said = under_load(load, {"slack": attempted("l05.slack", policy.slack)}, variants)
    assert said.startswith("In these runs `slack` came from you. ")
    assert said.count("like the reference") == 3
    attempts = {
        "slack": attempted("l05.slack", not_written),
        "select_victim": attempted("l05.select_victim", without_rule_1),
    }
    said = under_load(load, attempts, variants)
    assert "`select_victim` came from you and `slack` from the reference." in said
    assert "differs first in pass" in said
