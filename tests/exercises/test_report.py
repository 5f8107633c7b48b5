"""A report tells the same story as a card, in the terminal and as data; and the task's card."""

from dataclasses import replace

import pytest

from course.exercise import Task
from course.registry import exercise
from course.report import Report
from course.task import TaskCard

FAILED = Report(
    exercise="l01.plan_step",
    status="failed",
    checks=("one decode", "the budget holds"),
    passed=1,
    idea="Decodes come first: `budget` counts them too.",
    example=(("input", "plan_step([1], [], [], 1)"), ("expected", "[(1, 1)]"), ("got", "[<b>]")),
    misconception="prefill_first",
    stdout="a & b\n",
    seconds=0.031,
)


def test_the_terminal_shows_the_idea_and_the_example():
    assert FAILED.text() == (
        "l01.plan_step: not yet (1 of 2 checks passed, 0.03 s)\n"
        "  Stopped at: the budget holds\n"
        "  Decodes come first: `budget` counts them too.\n"
        "    input     plan_step([1], [], [], 1)\n"
        "    expected  [(1, 1)]\n"
        "    got       [<b>]\n"
        "  It printed:\n"
        "    a & b"
    )


def test_the_card_says_everything_in_words_and_escapes_what_learners_wrote():
    html = FAILED._repr_html_()
    for words in ("Not yet", "1 of 2 checks passed, 0.03 s", "the budget holds", "Decodes come"):
        assert words in html
    assert "<code>budget</code>" in html
    assert "[&lt;b&gt;]" in html and "a &amp; b" in html and "[<b>]" not in html
    assert "<script" not in html and "http" not in html
    alone = Report("l01.x", "failed", ("a",), 0, "A lone ` stays.")
    assert "A lone ` stays." in alone._repr_html_()


@pytest.mark.parametrize(
    ("status", "words"), [("not_started", "not started yet"), ("missing", "not found")]
)
def test_a_report_of_nothing_run_has_no_tally(status, words):
    report = Report("l01.plan_step", status, ("a",), 0, "Write it.")
    assert report.text() == f"l01.plan_step: {words}\n  Write it."
    assert "checks passed" not in report._repr_html_()


def test_a_task_s_card_says_signature_rules_and_a_worked_case():
    contract = Task(
        ("`tokens` are all of them, so 0 <= len(`cached`) < their number.",),
        ([5, 7], [5]),
        [7],
    )
    card = TaskCard(replace(exercise("l00.next_inputs"), task=contract), "0.1")._repr_html_()
    assert f"Exercise 0.1 · {exercise('l00.next_inputs').title}</h3>" in card
    assert "about 5 minutes" in card
    assert "next_inputs(tokens: list[int], cached: list[int]) " in card
    assert '<span class="sng-arrow">-&gt;</span> list[int]</pre>' in card  # in one line, "->"
    assert "<li><code>tokens</code> are all of them, so 0 &lt;= len(<code>cached</code>)" in card
    assert "<pre>next_inputs([5, 7], [5])</pre>" in card and "<pre>[7]</pre>" in card
