"""The checks of lesson 5: their tiny prefill engine, their workloads, and what their cards show."""

import random
from typing import Any

import pytest
from answers import wrong
from generated import examples
from giveaways import given_away
from hypothesis import given
from hypothesis import strategies as st

from course.answering import Here
from course.harness import Ask, run_checks
from course.registry import exercise
from course.report import Report
from nanogpt import slo
from nanogpt.slo import SloView, policy, predictor
from solutions.l05_slo_policy import fit, gate, slack, slo_batch, urgency
from solutions.l05_slo_policy._prefills import Job, Prefills, Workload, any_workloads

MANY = examples(60)
MODULES = {each.EXERCISE.id: each for each in (fit, slack, urgency, gate, slo_batch)}
WRONG = {
    f"{exercise_id} {each.name}": each for exercise_id in MODULES for each in wrong(exercise_id)
}


def card(name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(exercise(WRONG[name].exercise).check(WRONG[name].function).example)


def workloads_alone(function: Any, seed: int = 0) -> Report:
    return run_checks("l05.gate", Here(function), gate.EXERCISE.checks[-1:], seed=seed)


# --- what is accepted ------------------------------------------------------------------------


@pytest.mark.parametrize("exercise_id", MODULES)
def test_the_policy_s_own_functions_pass(exercise_id: str) -> None:
    item = exercise(exercise_id)
    reports = [item.check(getattr(slo, item.name), seed=seed) for seed in range(25)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@pytest.mark.parametrize("digits", [7, 9, 12])
def test_a_line_and_an_urgency_may_be_a_rounding_away(digits: int) -> None:
    def rounded(value: float) -> float:
        return float(f"{value:.{digits}g}")

    def rounded_line(points: list[tuple[int, float]]) -> tuple[float, float]:
        a, c = fit.fit(points)
        return rounded(a), rounded(c)

    assert exercise("l05.fit").check(rounded_line).status == "passed"
    report = exercise("l05.urgency").check(lambda *args: rounded(urgency.urgency(*args)))
    assert report.status == "passed"


@pytest.mark.parametrize("by", [1.001, 0.999])
def test_a_line_that_is_a_thousandth_off_fails(by: float) -> None:
    assert exercise("l05.fit").check(lambda p: (fit.fit(p)[0] * by, fit.fit(p)[1])).passed == 0
    assert exercise("l05.urgency").check(lambda *a: urgency.urgency(*a) * by).passed == 0


def test_a_slack_may_be_rounded_or_not() -> None:
    for as_kind in (int, float, round):
        report = exercise("l05.slack").check(lambda *args, k=as_kind: k(slack.slack(*args)))
        assert report.status == "passed"


# --- the tiny prefill engine -----------------------------------------------------------------


@st.composite
def loads(draw: st.DrawFn) -> Workload:
    job = st.builds(Job, st.integers(0, 400), st.integers(1, 1500), st.integers(5, 900))
    mode = draw(st.sampled_from(["conservative", "aggressive"]))
    jobs = draw(st.lists(job, min_size=1, max_size=6))
    return Workload(
        mode, draw(st.sampled_from([1.0, 1.2, 2.0])), draw(st.integers(1, 3)), tuple(jobs)
    )


@MANY
@given(loads())
def test_under_the_right_gate_everybody_gets_done(workload: Workload) -> None:
    prefills = Prefills(workload, policy.gate)
    assert prefills.run(100)
    # Each preemption has a victim that was never preempted before.
    thrown_away = sum("thrown away" in line for line in prefills.diary)
    assert thrown_away <= len(workload.jobs)
    assert len(prefills.diary) <= 2 * len(workload.jobs)
    if workload.slots == 1:
        assert max(prefills.lost) <= 1


def test_two_doomed_requests_throw_each_other_back_for_ever_by_the_margin_alone() -> None:
    def by_the_margin(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
        last = min(runners, key=lambda runner: runner.urgency)
        return last.id if waiter.urgency > margin * last.urgency else None

    pair = Workload("conservative", 1.2, 1, (Job(0, 2000, 50), Job(0, 2000, 50)))
    endless = Prefills(pair, by_the_margin)
    assert not endless.run(100) and sum(endless.lost) == 100
    assert Prefills(pair, policy.gate).run(2)


def test_without_rule_1_a_long_prompt_begins_anew_for_every_urgent_one() -> None:
    long, lost = gate.STARVED.jobs[0], {}
    without = WRONG["l05.gate ignores_rule_1"].function
    for name, asked in (("rules", policy.gate), ("none", without)):
        prefills = Prefills(gate.STARVED, asked)
        assert prefills.run(40)
        lost[name] = prefills.lost
    assert long.tokens == 2000
    assert lost == {"rules": [1, 0, 0, 0, 0], "none": [4, 0, 0, 0, 0]}


def test_the_diary_says_who_ran_when() -> None:
    workload = Workload(
        "aggressive", 1.2, 2, (Job(0, 500, 900), Job(0, 300, 800), Job(30, 100, 60))
    )
    prefills = Prefills(workload, policy.gate)
    assert prefills.run(10)
    assert prefills.diary == [
        "0-30 ms: 1 and 0, thrown away for 2",
        "30-80 ms: 2 and 1, done",
        "80-140 ms: 0, done",
    ]


# --- workloads by themselves -----------------------------------------------------------------

# Two requests with exactly the same urgency, or one exactly the margin above the other, or with a
# slack of exactly 0, come up in moments made for it rather than in workloads. What changes an
# argument decides as it should.
OUT_OF_REACH = {"just_the_margin", "tie", "slack_0_is_doomed", "in_place"}


@pytest.mark.parametrize(
    "name",
    [each.name for each in wrong("l05.gate") if each.key not in OUT_OF_REACH],
)
def test_workloads_alone_catch_every_wrong_gate(name: str) -> None:
    ask = Ask("gate", Here(WRONG[f"l05.gate {name}"].function), seed=0)
    workloads = any_workloads(random.Random(7), (2, 3, 3, 4, 5, 6) * 15)
    assert any(gate.first_wrong(ask, workload) for workload in workloads)


def test_workloads_come_to_decisions_of_all_kinds() -> None:
    kinds: set[tuple[str, bool, bool, bool]] = set()

    def watched(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
        victim = gate.gate(waiter, runners, margin, mode)
        immune = any(runner.num_preemptions for runner in runners)
        kinds.add((mode, victim is None, len(runners) > 1, immune))
        return victim

    for seed in range(20):
        assert workloads_alone(watched, seed).status == "passed"
    assert len(kinds) >= 14, kinds


def test_a_failing_workload_is_shrunk_to_the_smallest_that_shows_it() -> None:
    report = workloads_alone(WRONG["l05.gate never"].function)
    assert report.misconception == "never"
    rows = dict(report.example)
    assert len(rows["workload"].splitlines()) == 3  # the limits and two requests
    assert rows["passes"].splitlines()[-1].endswith("the gate is asked")


def test_a_gate_that_goes_wrong_after_many_calls_is_caught() -> None:
    calls = 0

    def tires(*args: Any) -> int | None:
        nonlocal calls
        calls += 1
        return gate.gate(*args) if calls < 120 else args[1][0].id

    report = exercise("l05.gate").check(tires)
    assert (report.status, report.passed) == ("failed", 6), report.text()


# --- what the cards show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "expected", "got"),
    [
        (
            "l05.fit changed_places",
            "fit([(100, 20000.0), (200, 30000.0)])",
            "(a=100, c=10000)",
            "(a=10000, c=100)",
        ),
        (
            "l05.slack ignores_progress",
            "slack(now=60000, deadline=90000, total=400, done=300, a=100.0, c=10000.0)",
            "10000.0",
            "-20000.0",
        ),
        (
            "l05.urgency divides_by_zero",
            "urgency(slack=-30000, time_to_deadline=0)",
            "-1",
            "ZeroDivisionError",
        ),
        (
            "l05.gate margin_on_negative_scores",
            "gate(waiter, runners, margin=1.2, mode='conservative')\n"
            "waiter id=7: slack_us=-4000, urgency=-0.01099, num_preemptions=0\n"
            "runner id=3: slack_us=-20000, urgency=-0.01, num_preemptions=0",
            "None",
            "3",
        ),
        (
            "l05.slo_batch everyone",
            "slo_batch(head, waiters, a=100.0, c=10000.0, bound=2048, guard=0.125)\n"
            "head id=4: tokens=300, slo_us=200000, time_to_deadline_us=90000\n"
            "waiter id=2: tokens=200, slo_us=400000, time_to_deadline_us=400000\n"
            "waiter id=7: tokens=200, slo_us=2000000, time_to_deadline_us=900000",
            "[4, 2]",
            "[4, 2, 7]",
        ),
    ],
)
def test_a_misconception_is_shown_on_a_case_made_for_it(
    name: str, asked: str, expected: str, got: str
) -> None:
    assert card(name) == {"input": asked, "expected": expected, "got": got}


def test_the_starved_prompt_is_shown_pass_by_pass() -> None:
    rows = card("l05.gate ignores_rule_1")
    assert rows["passes"].splitlines()[:3] == [
        "0-150 ms: 0, thrown away for 1",
        "150-180 ms: 1, done",
        "180-300 ms: 0, thrown away for 2",
    ]
    assert (rows["expected"], rows["got"]) == ("None", "0")


def test_an_error_in_a_gate_names_the_answer_s_own_line() -> None:
    def divides(waiter: Any, runners: Any, margin: float, mode: str) -> Any:
        if waiter.slack_us < 0:
            return 1 // 0
        return gate.gate(waiter, runners, margin, mode)

    report = exercise("l05.gate").check(divides)
    assert report.status == "raised"
    assert "ZeroDivisionError on its line 3" in report.idea, report.idea


@pytest.mark.parametrize("exercise_id", MODULES)
def test_hints_and_the_sentence_for_an_unknown_mistake_hold_no_code_of_the_answer(
    exercise_id: str,
) -> None:
    item, module = exercise(exercise_id), MODULES[exercise_id]
    for text in (*item.hints, module.JUDGE.idea):
        assert given_away(text, getattr(module, item.name)) == []


def test_what_came_in_is_shown_by_its_ids_when_it_was_changed() -> None:
    assert card("l05.gate in_place")["before"] == "runners = the ids [5, 2]"


# --- solutions against the policy's own ------------------------------------------------------

TIME, TOKENS = st.integers(-300_000, 300_000), st.integers(1, 3000)


@st.composite
def views(draw: st.DrawFn, first: int, last: int) -> SloView:
    left = draw(st.integers(-50, 300)) * 1000
    slack = left - draw(st.integers(0, 400)) * 1000
    return SloView(
        draw(st.integers(first, last)), draw(TOKENS), slack, left, policy.urgency(slack, left),
        draw(st.integers(1, 2_000_000)), draw(st.integers(0, 2)),
    )  # fmt: skip


@MANY
@given(st.lists(st.tuples(TOKENS, st.integers(1, 10**6)), min_size=2, max_size=9))
def test_fit_is_the_predictor_s(points: list[tuple[int, float]]) -> None:
    if len({tokens for tokens, _ in points}) < 2:
        with pytest.raises(ValueError, match="2 different prompt lengths"):
            fit.fit(points)
    else:
        assert fit.JUDGE.reference(points) == predictor.fit(points)


@MANY
@given(TIME, TIME, TOKENS, st.integers(0, 3000))
def test_slack_is_the_policy_s_to_a_rounding(
    now: int, deadline: int, total: int, done: int
) -> None:
    args = (now, deadline, total, min(done, total), 173.046, 34_133.0)
    assert slack.slack(*args) == pytest.approx(slo.slack(*args), abs=0.5)


@MANY
@given(TIME, TIME)
def test_urgency_is_the_policy_s(slack: int, left: int) -> None:
    assert urgency.urgency(slack, left) == pytest.approx(slo.urgency(slack, left), rel=1e-12)


@MANY
@given(views(99, 99), st.lists(views(0, 20), max_size=5, unique_by=lambda each: each.id), st.data())
def test_gate_is_the_policy_s(waiter: SloView, runners: list[SloView], data: Any) -> None:
    margin = data.draw(st.sampled_from([1.0, 1.2, 3.0]))
    for mode in ("conservative", "aggressive"):
        wanted = policy.gate(waiter, runners, margin, mode)
        assert gate.gate(waiter, runners, margin, mode) == wanted


@MANY
@given(st.integers(0, 10_000))
def test_slo_batch_is_the_policy_s(seed: int) -> None:
    for args in slo_batch.any_queues(random.Random(seed), 5):
        assert slo_batch.slo_batch(*args) == policy.slo_batch(*args)
