"""Behind lesson 5: what it draws of any answer, and what its prose says of its runs."""

import re

import pytest

from course.attempt import Attempt
from course.registry import exercise
from course.stories.l05_curves import RUNGS, rung_by_load, your_policy_by_load
from course.stories.l05_ladder import Ladder, gate_by, gate_decisions, under_load, without_rule_1
from course.stories.l05_policy import (
    REPORT_AND_VOICE,
    chunk_prices,
    fitted,
    passes,
    shared_passes,
    simulated,
    your_slack,
)
from nanogpt.slo import policy, predictor, simulate, two_tier_load
from nanogpt.slo.variants import (
    BATCHED,
    BATCHED_WITHOUT_RULE_1,
    FORK,
    SEEN,
    SUSPENDED,
    UNPREEMPTED,
    doomed_pair,
)
from widgets import GatePicture, SlackTimeline


def attempted(exercise_id, function):
    return Attempt(exercise(exercise_id).check(function), function)


def not_written(*_):
    raise NotImplementedError


# ---- the line ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (not_written, ["the reference's line"]),
        (lambda points: None, ["the reference's line"]),
        (lambda points: (float("nan"), 0.0), ["the reference's line"]),
        (predictor.fit, ["your line"]),
        (lambda points: [40.0, 0], ["your line", "the reference's line"]),
    ],
)
def test_the_line_that_is_drawn_is_the_learners_beside_the_references(answer, names):
    chart, said = fitted(attempted("l05.fit", answer))
    assert chart.names() == ["measured", *names, "a cubic"]
    assert chart.source == ("your line is not written yet" if answer is not_written else "")
    wanted = (
        "0.0400 ms per token and 0.00 ms" if len(names) == 2 else "0.0405 ms per token and -0.67"
    )
    assert wanted in said


# ---- slack and the gate --------------------------------------------------------------------------


def test_slack_is_drawn_by_the_learners_function_or_not_at_all():
    cases = your_slack(attempted("l05.slack", policy.slack))
    assert SlackTimeline(cases).cases
    runner, waiter = ([each["slack_us"] for each in case["moments"]] for case in cases)
    assert runner == [20_000] * 5
    assert waiter == [20_000, 10_000, 0, -10_000, -20_000]
    assert "Once you have written" in your_slack(attempted("l05.slack", not_written))
    assert "cannot be drawn" in your_slack(attempted("l05.slack", lambda *_: "soon"))


def test_the_eight_moments_are_decided_by_the_learners_gate():
    for answer in (policy.gate, not_written):
        decisions = gate_decisions(attempted("l05.gate", answer))
        assert [each["victim"] for each in decisions] == [1, None, None, 1, None, None, 2, None]
        assert GatePicture(decisions).decisions
    assert gate_decisions(attempted("l05.gate", lambda *_: 1 / 0)) is None
    for odd in (lambda waiter, *_: waiter.id, lambda *_: True, lambda _, runners, *__: runners[0]):
        assert gate_decisions(attempted("l05.gate", odd)) is None, "it names no runner"


# ---- runs ----------------------------------------------------------------------------------------


def test_a_run_that_goes_on_for_ever_or_fails_ends_in_a_sentence():
    def either(waiter, runner, margin):
        return waiter > margin * runner

    said = simulated(doomed_pair(), BATCHED_WITHOUT_RULE_1, most=50, gate=gate_by(either))
    assert said == "**The run was stopped** after 50 preemptions: hardly a request got done."
    assert passes(said) == said
    broken = simulated(REPORT_AND_VOICE, BATCHED, slack=lambda *_: 1 / 0)
    assert broken.startswith("**The run stopped:** ")


def test_passes_are_drawn_as_bars_with_their_words():
    table = passes(simulated(REPORT_AND_VOICE, SEEN))
    assert "2 of 10, **aborted** |" in table
    assert "| 82 to 512 | 1 + 0 |" in table
    assert "| 1 | 50 | 150 ms | 512 ms, **missed** |" in table
    assert not re.search("[█▒░]", table)
    assert len(simulated(REPORT_AND_VOICE, FORK).decisions) == 0


def test_a_run_under_load_says_whose_it_is_and_where_it_differs_first():
    load = two_tier_load(seed=0, requests_per_s=4, duration_s=10)
    right = {"slack": attempted("l05.slack", policy.slack)}
    assert under_load(load, right).startswith("In these runs `slack` came from you. ")
    assert under_load(load, right).count("like the reference") == 3
    attempts = {
        "slack": attempted("l05.slack", not_written),
        "gate": attempted("l05.gate", without_rule_1),
    }
    said = under_load(load, attempts)
    assert "`gate` came from you and `slack` from the reference." in said
    assert "differs first in pass" in said


def test_attainment_is_drawn_at_every_load_or_the_run_that_failed_is_named():
    chart = your_policy_by_load({"slack": attempted("l05.slack", policy.slack)})
    assert chart.title == "Requests in time against load, policy: yours"
    for panel, urgent in zip(chart.panels, (True, False), strict=True):
        for line, variant in zip(panel.lines, (UNPREEMPTED, BATCHED, SUSPENDED), strict=True):
            assert line.points[2] == (4, 100 * by_variant(variant).attainment(urgent=urgent))
    said = your_policy_by_load({"slack": attempted("l05.slack", lambda *_: "soon")})
    assert said.startswith("SLO-aware batches, no preemption, 1 requests per second: ")


def by_variant(variant):
    return simulate(two_tier_load(seed=0, requests_per_s=4, duration_s=30), variant)


def test_a_rung_is_drawn_beside_the_first_with_the_recorded_means_and_intervals():
    ladder = Ladder()
    for rung in RUNGS:
        first, other = rung_by_load(rung).chart.panels[0].lines
        cell = ladder.cell("control", 4)["urgent"]
        assert (first.points[1], first.halves[1]) == ((4, cell["mean"]), cell["half_width"])
        assert other.name == rung


def test_the_tables_say_what_the_prose_says():
    assert "| 128 | 1,784 ms, ×2.46 | 56 ms |" in chunk_prices()
    assert "| 200 tokens + 300 + 300 + 300 | 120 ms | **missed** |" in shared_passes()
    ladder = Ladder()
    assert ladder.cell("fork")["num_preemptions"] == 0
    assert (ladder.percent("seen", "urgent"), ladder.percent("seen", "generous")) == ("3 %", "7 %")
    assert ladder.of_all("unpreempted", 10) > ladder.of_all("suspended", 10)
    assert "**71**" in ladder.table(["unpreempted"])
    assert [row["variant"] for row in ladder.rows()][3] == "+ arrivals seen in mid-pass"
