"""What holds for every exercise, and for whatever an answer to it does or returns."""

import ast
import inspect
import re
from fractions import Fraction
from typing import Any

import pytest
import torch
from answers import IDS, worked
from support import ROOT
from tiers import some

from course import harness
from course.lesson_map import find_lesson
from course.registry import exercise, lesson_exercises
from course.same_values import like, same
from course.task import task

COSTS_APART = "l01.pick_budget"  # whose first argument is drawn in a row of its own


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no words for it")


class Wordy:
    def __repr__(self) -> str:
        return "wordy" * 20_000


JUNK = [None, 3, -1.5, "text", [], [None], (1, 2), (1, 2, 3), {}, torch.zeros(2, 3), len]
HUGE = [
    10**5000,
    "x" * 100_000,
    [*range(10_000)],
    [-(10**5000), 10**5000],
    {10**5000: "x" * 100_000},
    Fraction(10**5000),
    Unshowable(),
    [Wordy(), Wordy()],
    type("N" * 100_000, (), {})(),
]


def in_place_of_a_part(value: Any, part: Any) -> Any:
    """What is like the value, but for its first part, which is this one."""
    if isinstance(value, list | tuple) and value:
        return type(value)([part, *value[1:]])
    if isinstance(value, dict) and value:
        return value | {next(iter(value)): part}
    return part


# --- records and tasks ---------------------------------------------------------------------------


@pytest.mark.parametrize("exercise_id", IDS)
def test_a_task_is_the_stub_s_with_a_right_case_worked_by_hand(exercise_id: str) -> None:
    item = exercise(exercise_id)
    assert exercise_id == item.id == f"{item.lesson[:3]}.{item.name}"
    assert item.minutes > 0 and item.points > 0 and len(set(item.hints)) == 3 and all(item.hints)
    body = ast.parse((ROOT / "lessons" / f"{item.lesson}.py").read_text(encoding="utf-8")).body
    stub = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == item.name)
    assert stub.returns is not None
    signature = f"{stub.name}({ast.unparse(stub.args)}) -> {ast.unparse(stub.returns)}"
    assert item.signature == signature.replace("'", "")
    assert list(inspect.signature(item.right[0]).parameters) == [a.arg for a in stub.args.args]
    value = item.task.worked(worked(exercise_id))
    assert same(like(value, item.task.result), item.task.result)
    place = [each.id for each in lesson_exercises(item.lesson)].index(item.id) + 1
    number = f"Exercise {find_lesson(item.lesson).number}.{place} · "
    assert number in task(exercise_id)._repr_html_()
    for rule in item.task.rules:
        assert rule.endswith((".", ":")) and rule.count("`") % 2 == 0, rule
    if any(isinstance(arg, list | dict | torch.Tensor) for arg in item.task.args):
        told = " ".join(item.task.rules)  # since every check refuses an answer that changes them
        assert re.search("not (be )?change|a copy", told), told


# --- what a report says --------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("exercise_id", some(IDS, 8))
def test_an_answer_that_never_answers_is_told_so(
    exercise_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.05)

    def stub(*_: Any) -> Any:
        raise NotImplementedError

    def endless(*_: Any) -> Any:
        while True:
            pass

    def raises(*_: Any) -> Any:
        raise RuntimeError("no answer")

    check = exercise(exercise_id).check
    assert [check(each).status for each in (stub, endless)] == ["not_started", "timeout"]
    of_error, of_junk = (dict(check(each).example) for each in (raises, lambda *_: object()))
    assert exercise_id == COSTS_APART or of_error["input"] == of_junk["input"]


@pytest.mark.process
@pytest.mark.parametrize("exercise_id", some(IDS, 8))
def test_junk_fails_with_a_sentence_and_no_report_is_long(exercise_id: str) -> None:
    right, check = worked(exercise_id), exercise(exercise_id).check
    whole = [*JUNK, *HUGE]
    answers = [lambda *_, value=value: value for value in whole]
    answers += [lambda *args, v=v: in_place_of_a_part(right(*args), v) for v in HUGE]
    for answer, value in zip(answers, [*whole, *HUGE], strict=True):
        report = check(answer)
        assert report.status == "failed", type(value)
        assert 0 < len(report.idea) <= 300
        assert "could not work with" not in report.idea and " at 0x" not in report.text()
        assert all(len(text) <= 2600 for _, text in report.example)
