"""The checks: right answers pass, wrong ones fail for their own reason, slips do not slip by."""

import ast
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import golden_verdicts
import pytest
import torch
from answers import IDS, Wrong, report_on, right, worked, wrong
from generated import examples
from golden_runs import digest
from golden_verdicts import SEEDS, UNLIKE_ITSELF, answers, key_of, said
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from course import harness
from course.answering import Here
from course.audit.auditing import SCORED, mutants_that_pass
from course.exercise import Exercise
from course.registry import exercise, exercises
from course.report import Report
from course.same_values import like, same
from nanogpt import planning
from nanogpt.parts import masks

RIGHT = [
    pytest.param(exercise_id, answer, id=f"{exercise_id}-{answer.__name__}")
    for exercise_id in IDS
    for answer in right(exercise_id)
]
WRONG = [
    pytest.param(each, id=f"{each.exercise}-{each.name}".replace(" ", "_"))
    for exercise_id in IDS
    for each in wrong(exercise_id)
]
WRITTEN: dict[str, str] = json.loads(golden_verdicts.WRITTEN.read_text(encoding="utf-8"))
COSTS_APART = {"l01.pick_budget"}  # whose first argument is drawn in a row of its own
POLICIES = {"l01.plan_step", "l02.admit", "l02.choose_victim", "l02.resume", "l05.gate"}
EXACT_IDS = [item for item in IDS if item != SCORED]
EXACT_RIGHT = [param for param in RIGHT if param.values[0] != SCORED]
SEEDED = ["l00.finish_steps", "l01.chunk_mask", *sorted(POLICIES)]


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Tiny tensors spend their time waiting for other threads on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.05)


@pytest.mark.parametrize(("exercise_id", "answer"), RIGHT)
def test_a_right_answer_passes_whatever_the_seed(exercise_id: str, answer: Any) -> None:
    for seed in range(5):
        report = report_on(exercise_id, answer, seed)
        assert report.status == "passed", report.text()
        assert report.passed == len(report.checks)
        assert_as_written_down(exercise_id, answer.__name__, seed, report)


def test_the_verdicts_written_down_are_those_of_today_s_answers() -> None:
    assert WRITTEN.keys() == {
        key_of(exercise_id, name, seed)
        for exercise_id, name, _ in answers()
        for seed in SEEDS
        if (exercise_id, name) not in UNLIKE_ITSELF
    }


@pytest.mark.parametrize("exercise_id", SEEDED)
def test_the_solution_passes_with_25_seeds(exercise_id: str) -> None:
    item = exercise(exercise_id)
    solution = worked(exercise_id)
    reports = [item.check(solution, seed=seed) for seed in range(5, 30)]
    assert {report.status for report in reports} == {"passed"}


def assert_as_written_down(exercise_id: str, name: str, seed: int, report: Report) -> None:
    """Of the first two seeds every word is, in tests/golden/."""
    if seed in SEEDS and (exercise_id, name) not in UNLIKE_ITSELF:
        assert digest(said(report)) == WRITTEN[key_of(exercise_id, name, seed)], report.text()


@pytest.mark.parametrize("answer", WRONG)
def test_a_wrong_answer_fails_with_its_own_misconception(answer: Wrong) -> None:
    for seed in (0, 1):
        report = report_on(answer.exercise, answer.function, seed)
        assert report.status == "failed", report.text()
        assert report.misconception == answer.key, report.text()
        assert_as_written_down(answer.exercise, answer.name, seed, report)


@pytest.mark.parametrize("answer", WRONG)
def test_feedback_is_one_sentence_and_a_small_counterexample(answer: Wrong) -> None:
    report = report_on(answer.exercise, answer.function, 0)
    assert report.idea.endswith(".") and ". " not in report.idea, report.idea
    assert len(report.idea) <= 200, report.idea
    rows = dict(report.example)
    assert {"input", "expected", "got"} <= rows.keys() or {"before", "after"} <= rows.keys()
    assert rows.get("expected") != rows.get("got", "nothing")
    assert all(len(text) <= 400 for text in rows.values())


@pytest.mark.parametrize(
    ("exercise_id", "key", "asked"),
    [
        ("l00.next_inputs", "feeds_everything", "next_inputs([5, 3, 8, 1], 3)"),
        ("l00.finish_steps", "waits_for_longest", "finish_steps([2, 5, 3], 2, True)"),
        ("l01.chunk_size", "negative", "chunk_size(4, 7, 10)"),
        ("l01.chunk_mask", "all_true", "chunk_mask(0, 3)"),
        ("l01.chunk_mask", "no_offset", "chunk_mask(2, 3)"),
        ("l01.chunk_inputs", "positions_restart", "chunk_inputs([5, 3, 8, 1, 9], 2, 2)"),
        ("l01.chunk_inputs", "always_samples", "chunk_inputs([5, 3, 8, 1, 9], 0, 2)"),
        ("l01.plan_step", "prefill_first", "plan_step([0], [(1, 20)], [], 8)"),
        ("l01.plan_step", "arrivals_wait", "plan_step([0], [], [(1, 4)], 8)"),
        ("l01.pick_budget", "smallest", "pick_budget(step_cost_us, 0, 2005)"),
        ("l02.record", "records_active", "record([0, 1], [2, 0, 1], [41, 7])"),
    ],
)
def test_the_lesson_s_own_misconception_is_shown_on_a_case_made_for_it(
    exercise_id: str, key: str, asked: str
) -> None:
    answer = next(each for each in wrong(exercise_id) if each.key == key)
    report = report_on(exercise_id, answer.function, 0)
    assert dict(report.example)["input"] == asked


@pytest.mark.parametrize("exercise_id", [item for item in IDS if item not in COSTS_APART])
def test_a_call_is_drawn_alike_whether_it_raised_or_returned_something_wrong(
    exercise_id: str,
) -> None:
    def raises(*args: Any) -> Any:
        raise RuntimeError("no answer")

    def returns(*args: Any) -> Any:
        return object()

    of_error, of_value = (dict(report_on(exercise_id, f).example) for f in (raises, returns))
    assert of_error["input"] == of_value["input"]


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_exercise_has_three_right_answers_and_its_wrong_ones(exercise_id: str) -> None:
    assert len(right(exercise_id)) >= 4, "the solution and three more"
    keys = {each.key for each in wrong(exercise_id)}
    assert len(keys) >= (12 if exercise_id in POLICIES else 5)


@pytest.mark.parametrize("exercise_id", EXACT_IDS)
def test_a_check_needs_few_calls_so_that_it_takes_about_a_tenth_of_a_second(
    exercise_id: str,
) -> None:
    item, calls = exercise(exercise_id), itertools.count()
    solution = worked(exercise_id)

    def counted(*args: Any) -> Any:
        next(calls)
        return solution(*args)

    assert item.check(counted).status == "passed"
    assert next(calls) <= 250


@pytest.mark.parametrize("exercise_id", IDS)
def test_an_untouched_stub_is_not_started(exercise_id: str) -> None:
    def stub(*_: Any) -> None:
        raise NotImplementedError

    assert exercise(exercise_id).check(stub).status == "not_started"


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize("exercise_id", IDS)
def test_an_endless_loop_is_a_timeout(exercise_id: str) -> None:
    def endless(*_: Any) -> None:
        while True:
            pass

    assert exercise(exercise_id).check(endless).status == "timeout"


@pytest.mark.parametrize("exercise_id", IDS)
@pytest.mark.parametrize(
    "junk", [None, 3, -1.5, "text", [], [None], (1, 2), (1, 2, 3), {}, torch.zeros(2, 3), len],
    ids=repr,
)  # fmt: skip
def test_junk_fails_with_a_sentence(exercise_id: str, junk: Any) -> None:
    report = exercise(exercise_id).check(lambda *_: junk)
    assert report.status == "failed"
    assert report.idea and "could not work" not in report.idea, report.idea


def test_every_exercise_is_registered_with_its_name_its_hints_and_its_part() -> None:
    parts = {item.id: item.part for item in exercises() if item.part}
    assert parts == {
        "l01.chunk_mask": "chunk_mask",
        "l01.chunk_inputs": "chunk_inputs",
        "l01.plan_step": "plan_step",
        "l02.sort_key": "sort_key",
        "l02.admit": "admit",
        "l02.choose_victim": "choose_victim",
        "l02.resume": "resume",
        "l02.record": "record",
        "l03.fused_rows": "fused_rows",
        "l03.full_mask": "full_mask",
        "l03.split_kv": "split_kv",
        "l03.pack": "pack",
        "l04.visible": "visible",
        "l04.evict": "evict",
        "l04.held": "held",
        "l04.ring_slot": "ring_slot",
        "l08.accept": "accept",
        "l08.roll_back_kv": "roll_back_kv",
        "l09.allocate": "allocate",
        "l09.release": "release",
        "l09.block_hashes": "block_hashes",
        "l09.longest_match": "longest_match",
        "l09.writable": "writable",
        "l09.evict_order": "evict_order",
    }
    for item in exercises():
        assert item.id == f"{item.lesson[:3]}.{item.name}"
        assert item.minutes > 0 and item.points > 0
        assert len(set(item.hints)) == 3 and all(item.hints)


TASKS = [item for item in exercises() if item.task is not None]


def test_every_exercise_has_a_task() -> None:
    assert [item.id for item in exercises() if item.task is None] == []


@pytest.mark.parametrize("item", TASKS, ids=lambda item: item.id)
def test_a_task_s_worked_case_is_what_the_right_answer_gives(item: Exercise) -> None:
    """Of several right results, the worked answer's."""
    assert item.task is not None
    value = item.task.worked(worked(item.id))
    assert same(like(value, item.task.result), item.task.result)


@pytest.mark.parametrize("item", TASKS, ids=lambda item: item.id)
def test_a_task_s_signature_is_the_stub_s(item: Exercise) -> None:
    lesson = ROOT / "lessons" / f"{item.lesson}.py"
    body = ast.parse(lesson.read_text(encoding="utf-8")).body
    stub = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == item.name)
    assert stub.returns is not None and item.task is not None
    signature = f"{stub.name}({ast.unparse(stub.args)}) -> {ast.unparse(stub.returns)}"
    signature = signature.replace("'", "")  # around the names that a lesson's setup does not bring
    assert item.task.signature == signature


@pytest.mark.parametrize("item", TASKS, ids=lambda item: item.id)
def test_a_task_is_said_in_sentences_and_its_code_is_closed(item: Exercise) -> None:
    assert item.task is not None and item.task.rules
    for rule in item.task.rules:
        assert rule.endswith(".") and rule.count("`") % 2 == 0, rule


# --- solutions against the engine's own ------------------------------------------------------

_remaining = st.integers(1, 30)
no_deadline = examples(60)


@st.composite
def _offers(draw: st.DrawFn) -> tuple[list[int], list[Any], list[Any], int]:
    ids = draw(st.lists(st.integers(0, 99), unique=True, max_size=12))
    first, second = sorted(draw(st.tuples(st.integers(0, len(ids)), st.integers(0, len(ids)))))
    prefilling = [(i, draw(_remaining)) for i in ids[first:second]]
    waiting = [(i, draw(_remaining)) for i in ids[second:]]
    return ids[:first], prefilling, waiting, draw(st.integers(1, 40))


@no_deadline
@given(_offers())
def test_plan_step_is_the_engine_s(offer: tuple[list[int], list[Any], list[Any], int]) -> None:
    assert worked("l01.plan_step")(*offer) == planning.plan_step(*offer)


@no_deadline
@given(st.integers(0, 40), st.integers(1, 40))
def test_chunk_mask_is_the_engine_s(num_past: int, num_new: int) -> None:
    assert torch.equal(
        worked("l01.chunk_mask")(num_past, num_new), masks.chunk_mask(num_past, num_new)
    )


@no_deadline
@given(st.lists(st.integers(0, 64), min_size=1), st.data())
def test_chunk_inputs_is_the_engine_s(tokens: list[int], data: st.DataObject) -> None:
    cursor = data.draw(st.integers(0, len(tokens) - 1))
    n = data.draw(st.integers(1, len(tokens) - cursor))
    assert worked("l01.chunk_inputs")(tokens, cursor, n) == planning.chunk_inputs(tokens, cursor, n)


@no_deadline
@given(st.integers(1, 50), st.integers(0, 50), st.integers(1, 50))
def test_chunk_size_is_the_engine_s(budget: int, num_decodes: int, remaining: int) -> None:
    engine_s = planning.chunk_size(budget, num_decodes, remaining)
    assert worked("l01.chunk_size")(budget, num_decodes, remaining) == engine_s


# --- the workload check by itself ------------------------------------------------------------


def _workloads_alone(function: Callable[..., Any], seed: int = 0) -> Any:
    item: Any = exercise("l01.plan_step")
    return harness.run_checks("l01.plan_step", Here(function), item.checks[-1:], seed=seed)


@pytest.mark.parametrize(
    "answer", [item for item in WRONG if item.values[0].exercise == "l01.plan_step"]
)
def test_workloads_alone_catch_every_wrong_plan(answer: Wrong) -> None:
    assert any(_workloads_alone(answer.function, seed).status == "failed" for seed in range(3))


def test_a_failing_workload_is_shrunk_to_the_smallest_that_shows_it() -> None:
    def prefill_first(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Any:
        decodes_last = [*prefilling, *waiting, *((i, 1) for i in decodes)]
        return planning.plan_step([], decodes_last, [], budget)

    report = _workloads_alone(prefill_first)
    assert report.misconception == "prefill_first"
    rows = dict(report.example)
    assert rows["workload"].splitlines()[0].startswith("budget 1,")
    assert len(rows["workload"].splitlines()) == 3  # the budget and two requests
    assert "prompt 1, new 2" in rows["workload"]


def test_a_plan_that_goes_wrong_after_many_calls_is_caught() -> None:
    calls = itertools.count()

    def tires(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Any:
        plan = planning.plan_step(decodes, prefilling, waiting, budget)
        return plan if next(calls) < 90 else plan[:-1]

    report = exercise("l01.plan_step").check(tires)
    assert (report.status, report.passed) == ("failed", 6), report.text()


# --- mutants ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("exercise_id", "answer"), EXACT_RIGHT)
def test_every_slip_in_a_right_answer_is_caught(exercise_id: str, answer: Any) -> None:
    """But for those that are right all the same: `still_right` says why."""
    item = exercise(exercise_id)
    survivors = {name for name, passes in mutants_that_pass(item, answer) if passes}
    own = f"{answer.__name__}(): "
    assert survivors == {name for name in item.still_right if name.startswith(own)}
