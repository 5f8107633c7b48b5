"""The checks of lesson 2: their tiny scheduler, their workloads, and what their cards show."""

from typing import Any

import pytest
from answers import worked, wrong
from fakes import fake_arrivals, fake_engine
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course import harness
from course.answering import Here
from course.harness import run_checks
from course.registry import exercise
from course.report import Report
from nanogpt import EngineConfig, policies
from nanogpt.parts.request_view import RequestView
from solutions.l02_scheduling._serving import Decisions, Job, Serving, Workload, start_over
from solutions.l02_scheduling._workloads import MAX_STEPS
from solutions.l02b_waiting.aged_key import aged_key

MANY = examples(60)
WITH_WORKLOADS = ("l02.admit", "l02.choose_victim", "l02.resume")
WRONG = {f"{each.exercise} {each.name}": each for item in WITH_WORKLOADS for each in wrong(item)}


def workloads_alone(exercise_id: str, function: Any, seed: int = 0) -> Report:
    item: Any = exercise(exercise_id)
    return run_checks(exercise_id, Here(function), item.checks[-1:], seed=seed)


def oldest(active: list[RequestView]) -> int:
    return min(active, key=lambda request: (request.admitted_at or 0, request.id)).id


# --- the tiny scheduler ----------------------------------------------------------------------


@st.composite
def short_of_memory(draw: st.DrawFn) -> Workload:
    job = st.builds(
        Job, st.integers(0, 6), st.integers(0, 2), st.integers(1, 20), st.integers(1, 9)
    )
    jobs = draw(st.lists(job, min_size=1, max_size=5))
    needed = max(job.prompt + job.new - 1 for job in jobs)
    policy = draw(st.sampled_from(["fcfs", "priority"]))
    budget = needed + draw(st.integers(0, 9))
    return Workload(policy, budget, draw(st.integers(1, 4)), tuple(jobs))


@MANY
@given(short_of_memory())
def test_the_tiny_scheduler_takes_the_engine_s_steps(workload: Workload) -> None:
    config = EngineConfig(
        max_kv_tokens=workload.kv_budget,
        max_batch_size=workload.slots,
        max_prefilling=1,
        policy=workload.policy,
    )
    asks = [(job.arrival, job.prompt, job.new, job.priority) for job in workload.jobs]
    trace = fake_engine(config)[0].run(fake_arrivals(asks))
    counts = dict.fromkeys(range(len(asks)), 0)
    expected: dict[int, dict[int, str]] = {}
    for step in trace.steps:
        marks = dict.fromkeys(step.preempted, "x")
        for work in step.work:
            if work.sampled is not None:
                counts[work.request_id] += 1
                marks[work.request_id] = str(counts[work.request_id])
        expected[step.step] = marks
    serving = Serving(workload, Decisions())
    assert serving.run(400)
    for step, marks in enumerate(serving.diary):
        assert marks == expected.get(step, {})
    assert max(expected) == serving.step - 1


@pytest.mark.parametrize(("max_new", "steps"), [(5, 9), (8, 15), (10, 19), (12, 23)])
def test_the_oldest_victim_ends_only_if_the_text_is_kept(max_new: int, steps: int) -> None:
    workload = Workload("fcfs", 22, 8, (Job(0, 0, 10, max_new),) * 2)
    kept = Serving(workload, Decisions(choose_victim=oldest))
    assert kept.run(300) and kept.step == steps
    lost = Serving(workload, Decisions(choose_victim=oldest, resume=start_over))
    assert not lost.run(300)
    assert sum(mark == "x" for marks in lost.diary for mark in marks.values()) == 149


@MANY
@given(short_of_memory())
def test_the_right_victim_ends_even_if_the_text_is_lost(workload: Workload) -> None:
    assert Serving(workload, Decisions(resume=start_over)).run(MAX_STEPS)


# --- workloads by themselves -----------------------------------------------------------------

# A workload has a KV budget; and among equal keys, if the right victims go, whoever arrived first
# was also admitted first.
OUT_OF_REACH = (
    "l02.admit none_is_zero",
    "l02.admit zero_is_none",  # a workload's budget holds its largest request
    "l02.choose_victim last_admission",
    "l02.choose_victim first_number_alone",  # a workload's keys are (priority, arrival)
)


@pytest.mark.parametrize(
    "name",
    [name for name in WRONG if name not in OUT_OF_REACH],
)
def test_workloads_alone_catch_every_wrong_policy(name: str) -> None:
    answer = WRONG[name]
    reports = (workloads_alone(answer.exercise, answer.function, seed) for seed in range(12))
    assert any(report.status == "failed" for report in reports)


@pytest.mark.parametrize("exercise_id", WITH_WORKLOADS)
def test_workloads_come_to_decisions_that_differ(exercise_id: str) -> None:
    """Otherwise they would check nothing: verdicts of all kinds, victims among several."""
    answers: set[Any] = set()
    function = worked(exercise_id)

    def counted(*args: Any) -> Any:
        answer = function(*args)
        answers.add((str(answer), len(args[0]) if isinstance(args[0], list) else 0))
        return answer

    for seed in range(3):
        assert workloads_alone(exercise_id, counted, seed).status == "passed"
    assert len(answers) >= 3


def test_a_failing_workload_is_shrunk_to_the_smallest_that_shows_it() -> None:
    report = workloads_alone("l02.choose_victim", WRONG["l02.choose_victim key_alone"].function, 1)
    rows = dict(report.example)
    lines = rows["workload"].splitlines()
    assert len(lines) == 3, "the limits and two requests"
    assert rows["input"].count("RequestView") == 2
    assert all("prompt 1," in line for line in lines[1:])


def test_a_victim_that_goes_wrong_after_many_calls_is_caught() -> None:
    calls = iter(range(1000))

    def tires(active: list[RequestView]) -> int:
        return policies.choose_victim(active) if next(calls) < 32 else active[0].id

    report = exercise("l02.choose_victim").check(tires)
    assert report.status == "failed"
    assert report.passed >= 4, report.text()


# --- what the cards show ---------------------------------------------------------------------


def test_the_oldest_victim_is_shown_as_a_sawtooth() -> None:
    report = exercise("l02.choose_victim").check(oldest)
    assert (report.misconception, report.passed) == ("oldest", 1)
    lines = dict(report.example)["generated"].splitlines()
    assert lines[1].split()[2:9] == ["1", "2", "x", "1", "2", "3", "x"]
    assert lines[-1] == "x: preempted, 29 times in 60 steps, and not done yet"


def test_a_text_that_starts_over_is_shown_as_a_sawtooth() -> None:
    report = exercise("l02.resume").check(start_over)
    assert report.misconception == "restarts"
    assert dict(report.example)["generated"].count("x ") >= 4


def test_an_error_for_an_unknown_policy_is_an_answer_and_elsewhere_an_error() -> None:
    def always_raises(policy: str, request: RequestView) -> Any:
        raise ValueError(policy)

    assert exercise("l02.sort_key").check(always_raises).status == "raised"
    wrong_error = next(each for each in wrong("l02.sort_key") if each.key == "wrong_error")
    report = exercise("l02.sort_key").check(wrong_error.function)
    assert dict(report.example)["got"] == "KeyError"


def test_a_rank_may_be_any_tuple_that_puts_requests_in_order() -> None:
    def scaled(policy: str, request: RequestView) -> tuple[float, ...]:
        return tuple(3 * part + 0.5 for part in policies.sort_key(policy, request))

    assert exercise("l02.sort_key").check(scaled).status == "passed"


def test_a_victim_s_endless_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.05)
    calls = iter(range(1000))

    def hangs(active: list[RequestView]) -> int:
        while next(calls) > 4:
            pass
        return policies.choose_victim(active)

    assert exercise("l02.choose_victim").check(hangs).status in ("timeout", "raised")


# --- solutions against the engine's own ------------------------------------------------------

TOKENS = st.lists(st.integers(0, 64), max_size=6).map(tuple)
VIEWS = st.builds(
    RequestView,
    id=st.integers(0, 9),
    priority=st.integers(0, 3),
    arrival_time=st.integers(0, 9),
    admitted_at=st.none() | st.integers(0, 20),
    prompt_tokens=TOKENS,
    generated_tokens=TOKENS,
    max_new_tokens=st.integers(1, 9),
    kv_tokens=st.integers(0, 9),
    key=st.tuples(st.integers(0, 2)),
)
SMALL = st.integers(0, 20)


@MANY
@given(VIEWS, SMALL, st.none() | SMALL, SMALL, SMALL)
def test_admit_is_the_engine_s(view: RequestView, held: int, kv: Any, running: int, most: int):
    assert worked("l02.admit")(view, held, kv, running, most) == policies.admit(
        view, held, kv, running, most
    )


@MANY
@given(st.lists(VIEWS, min_size=1, max_size=6))
def test_choose_victim_is_the_engine_s(active: list[RequestView]):
    assert worked("l02.choose_victim")(active) == policies.choose_victim(active)


@MANY
@given(VIEWS, st.integers(1, 9))
def test_keys_and_ways_back_are_the_engine_s(view: RequestView, rate: int):
    assert worked("l02.resume")(view) == tuple(policies.resume(view))
    assert worked("l02.aged_key")(view, rate) == aged_key(view, rate)
    for policy in ("fcfs", "priority"):
        assert worked("l02.sort_key")(policy, view) == policies.sort_key(policy, view)


@MANY
@given(st.dictionaries(SMALL, SMALL), st.lists(SMALL))
def test_record_is_the_engine_s(tokens: dict[int, int], active_now: list[int]):
    forwarded, sampled = list(tokens), list(tokens.values())
    assert worked("l02.record")(forwarded, active_now, sampled) == tokens
    assert policies.record(forwarded, active_now, sampled) == tokens
