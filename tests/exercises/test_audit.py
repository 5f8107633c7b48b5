"""Each exercise's audit finds nothing; what it finds in checks that are not as they should be.

The audit is the test of an exercise, its check and its answers. Right answers pass, also in other
types; wrong ones are told their own misconception; slips in right answers and weaker forms of them
fail, but for those whose reason to pass is written down.
"""

import dataclasses
import io
from typing import Any

import pytest
from answers import IDS
from rich.console import Console
from tiers import some, tier

from course.__main__ import main
from course.audit.audit_command import show
from course.audit.auditing import Audit, Count, audit
from course.audit.mutants import marked, mutants
from course.harness import Failure
from course.registry import exercise

SIZE = exercise("l01.chunk_size")


def shown(*audits: Audit) -> str:
    text = io.StringIO()
    show(audits, Console(file=text, width=120, markup=False, highlight=False))
    return text.getvalue()


@pytest.mark.process
def test_what_passes_without_a_reason_is_shown_with_the_line_that_changed() -> None:
    lax = audit(dataclasses.replace(SIZE, checks=SIZE.checks[:1]), 1)
    assert lax.explained == 4
    said = shown(lax)
    for sentence in (
        "a mutant passes, and no reason is written down: by_counting(): n = {0 => 1}",
        "a weaker answer passes, and no reason is written down: num_decodes at most 7",
        "a wrong answer passes: `at_least_one`, way 1 to write it",
    ):
        assert f"\nl01.chunk_size: {sentence}\n" in said
    assert said.endswith(f"\n{len(lax.findings)} findings.\n")


@pytest.mark.process
def test_a_wrong_answer_that_is_told_another_idea_is_found() -> None:
    renamed = dataclasses.replace(SIZE.misconceptions[1], key="below_0")
    found = audit(dataclasses.replace(SIZE, misconceptions=(renamed,)), 1)
    assert found.wrong == Count(0, 1)
    assert found.findings == ("a wrong answer is told `negative`: `below_0`, way 1 to write it",)


@pytest.mark.process
def test_a_right_answer_that_fails_is_found_and_nothing_is_made_of_it() -> None:
    def half(token_budget: int, num_decodes: int, remaining: int) -> int:
        return SIZE.right[0](token_budget, num_decodes, remaining) // 2

    found = audit(dataclasses.replace(SIZE, right=[*SIZE.right, half]), 2)
    assert found.right == Count(6, 8)
    assert found.mutants is None and found.weakened is None
    assert len(found.findings) == 1
    assert found.findings[0].startswith("a right answer fails: half, seed 0: ")


@pytest.mark.process
def test_a_right_result_that_is_refused_in_another_type_is_found() -> None:
    def not_of_numpy(ask: Any, rng: Any) -> Failure | None:
        return None if type(ask(8, 3, 5)) is int else Failure("Return an int.")

    wary = dataclasses.replace(SIZE, checks=[("an int", not_of_numpy)])
    assert "refused in floats for ints: by_counting: Return an int." in audit(wary, 1).findings


@pytest.mark.process
def test_a_reason_for_what_does_not_pass_is_found_unless_it_was_not_asked_about() -> None:
    mutant, unknown = "by_cases(): return {0 => 1}", "no such line"
    reasons = {**SIZE.equivalent_mutants, mutant: "none", unknown: "none"}
    item = dataclasses.replace(SIZE, equivalent_mutants=reasons)
    stale = [f"has a reason to pass, and does not: {name}" for name in (mutant, unknown)]
    assert audit(item, 1).findings == tuple(stale)
    part = audit(item, 1, choose=lambda made: [m for m in made[:5] if m[0] != mutant])
    assert part.findings == (stale[1],)
    assert part.mutants is not None and part.mutants.all == 5


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("return f(0)[0]", "return f(0)[-1]", "return f(0)[{0 => -1}]"),
        ("if a >= b:", "if a > b:", "if a {>= => >} b:"),
        ("if able:", "if not able:", "if {able => not able}:"),
        ("x = 1", "pass", "{x = 1 => pass}"),
    ],
)
def test_a_mutant_s_line_shows_what_changed(old: str, new: str, line: str) -> None:
    assert marked(old, new) == line


# --- every exercise -------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("exercise_id", IDS)
def test_the_audit_of_an_exercise_finds_nothing(exercise_id: str) -> None:
    num_seeds = 5 if tier() == "all" else 1

    def choose(made: list[Any]) -> list[Any]:
        return some(made, 3)

    assert audit(exercise(exercise_id), num_seeds, choose=choose).findings == ()


# --- learn.py audit ------------------------------------------------------------------------------


def test_several_exercises_are_added_up() -> None:
    counted = Audit(
        exercise="l01.chunk_size", right=Count(4, 4), wrong=Count(9, 10), mutants=Count(7, 8),
        weakened=Count(5, 6), variants=Count(3, 3), explained=2, unexplained=0, findings=(),
        seconds=1.2,
    )  # fmt: skip
    scored = dataclasses.replace(counted, exercise="l09.my_policy", mutants=None, weakened=None)
    _, first, second, total = (line.split() for line in shown(counted, scored).splitlines()[:4])
    assert first == ["l01.chunk_size", "4/4", "9/10", "7/8", "5/6", "3/3", "2", "0", "1"]
    assert second[:6] == ["l09.my_policy", "4/4", "9/10", "-", "-", "3/3"]
    assert total == ["all", "8/8", "18/20", "7/8", "5/6", "6/6", "4", "0", "2"]
    assert shown(counted).endswith("\nNothing is unexplained.\n")


@pytest.mark.process
def test_a_lesson_is_audited_from_end_to_end_and_a_finding_is_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    item = exercise("l04.compare_logits")
    lax = dataclasses.replace(item, equivalent_mutants={"no such line": "none"})
    monkeypatch.setattr("course.audit.audit_command.exercise", lambda exercise_id: lax)
    assert main(["audit", "l04b", "--seeds", "3"]) == 1
    lesson, _, row, *findings = capsys.readouterr().out.splitlines()
    assert lesson.startswith("l04b_window_quality: ")
    num_right, num_mutants = len(item.right), sum(len(list(mutants(a))) for a in item.right)
    num_wrong = sum(len(each.written) for each in item.misconceptions)
    counts = [f"{n}/{n}" for n in (3 * num_right, num_wrong, num_mutants)]
    assert row.split()[:4] == ["l04.compare_logits", *counts]
    assert findings[0].endswith("does not: no such line") and findings[1] == "1 finding."
