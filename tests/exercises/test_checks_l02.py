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
from solutions.l02b_waiting import aged_key as aged
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

# A workload has a KV budget; and among equal keys, if the right victims go, what arrived first
# was also admitted first.
OUT_OF_REACH = (
    "l02.admit none_is_zero",
    "l02.admit zero_is_none",  # a workload's budget holds its largest request
    "l02.choose_victim last_admission",
    "l02.choose_victim first_number_alone",  # a workload's keys are (priority, arrival)
    "l02.choose_victim tie_to_first 2",  # a workload's list is in the order of admission
    "l02.choose_victim key_alone 2",
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

    def in_one_exact_number(policy: str, request: RequestView) -> tuple[float, ...]:
        *levels, arrival = policies.sort_key(policy, request)
        return ((int(sum(levels)) << 1000) + arrival,)

    for rank in (scaled, in_one_exact_number):
        report = exercise("l02.sort_key").check(rank)
        assert report.status == "passed", report.text()


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        ((10**5000, 1), None),
        ((1, [10**5000]), "this one holds [<an int of about 5000 digits>]."),
        ((1, float("nan")), "this one holds nan."),
        ((1, "late"), "this one holds 'late'."),
        ((1, "late" * 100), "this one holds a str."),
    ],
)
@pytest.mark.parametrize("exercise_id", ["l02.sort_key", "l02.aged_key"])
def test_a_rank_of_anything_is_judged_in_a_short_sentence(
    monkeypatch: pytest.MonkeyPatch, exercise_id: str, rank: Any, said: str | None
) -> None:
    monkeypatch.setattr(aged, "sleep", lambda seconds: None)
    report = exercise(exercise_id).check(lambda *_: rank)
    assert report.status == "failed"
    assert "could not work" not in report.idea and len(report.idea) < 200
    assert said is None or report.idea.endswith(said)
    assert all(len(text) <= 700 for _, text in report.example)


def test_another_error_is_named_without_an_article() -> None:
    ways = [each.function for each in wrong("l02.sort_key") if each.key == "wrong_error"]
    ideas = [exercise("l02.sort_key").check(way).idea for way in ways]
    assert "; KeyError looks" in ideas[0] and "; UnboundLocalError looks" in ideas[1]


def test_no_limit_on_the_kv_is_no_large_limit() -> None:
    def at_most_5000(r: RequestView, held: int, budget: int | None, *batch: int) -> str:
        return policies.admit(r, held, 5000 if budget is None else budget, *batch)

    assert exercise("l02.admit").check(at_most_5000).status == "failed"


def first_of_all(active: list[RequestView], *fields: str) -> int:
    victim = active[0]
    for request in active[1:]:
        if [getattr(request, f) for f in fields] > [getattr(victim, f) for f in fields]:
            victim = request
    return victim.id


@pytest.mark.parametrize(
    ("fields", "key"), [(("key",), "key_alone"), (("key", "arrival_time"), "tie_to_first")]
)
def test_what_is_said_of_a_tie_names_nothing_that_the_answer_need_not_have(
    fields: tuple[str, ...], key: str
) -> None:
    report = exercise("l02.choose_victim").check(lambda active: first_of_all(active, *fields))
    assert report.misconception == key
    assert "max" not in report.idea and "oldest" not in report.idea


@pytest.mark.parametrize("scale", [1, 4, 0.25])
def test_a_rank_by_a_clock_of_whole_seconds_is_asked_for_again_a_second_later(
    monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    now = [1_700_000_000.0]
    monkeypatch.setattr(aged, "sleep", lambda seconds: now.append(now[-1] + seconds))

    def by_the_second(request: RequestView, rate: float) -> tuple[float, ...]:
        return (scale * (request.priority - (int(now[-1]) - request.arrival_time) / rate),)

    report = exercise("l02.aged_key").check(by_the_second)
    assert report.misconception == "changes"
    assert dict(report.example)["got"].endswith(", asked a second later")


def test_a_rank_of_small_numbers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(aged, "sleep", waits.append)
    assert exercise("l02.aged_key").check(aged_key).status == "passed"
    assert set(waits) == {0}


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
