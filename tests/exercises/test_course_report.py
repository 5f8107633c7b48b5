"""A report tells the same story as a card, in the terminal and as data."""

import json

import pytest

from course.report import Report

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


def test_the_card_escapes_what_learners_wrote():
    html = FAILED._repr_html_()
    assert "[&lt;b&gt;]" in html
    assert "a &amp; b" in html
    assert "[<b>]" not in html


def test_the_card_says_everything_in_words_and_not_in_colour_alone():
    html = FAILED._repr_html_()
    for words in ("Not yet", "1 of 2 checks passed, 0.03 s", "the budget holds", "Decodes come"):
        assert words in html


def test_code_in_the_sentence_is_set_as_code():
    assert "<code>budget</code>" in FAILED._repr_html_()
    alone = Report("l01.x", "failed", ("a",), 0, "A lone ` stays.")
    assert "A lone ` stays." in alone._repr_html_()


def test_the_card_has_no_script_and_asks_for_nothing_outside():
    html = FAILED._repr_html_()
    assert "<script" not in html
    assert "http" not in html


@pytest.mark.parametrize(
    "mark", [".dark ", '[data-jp-theme-light="false"]', "prefers-color-scheme"]
)
def test_the_card_has_dark_colours_wherever_it_is_shown(mark):
    assert mark in FAILED._repr_html_()


@pytest.mark.parametrize(
    ("status", "words"),
    [("not_started", "not started yet"), ("missing", "not found")],
)
def test_a_report_of_nothing_run_has_no_tally(status, words):
    report = Report("l01.plan_step", status, ("a",), 0, "Write it.")
    assert report.text() == f"l01.plan_step: {words}\n  Write it."
    assert "checks passed" not in report._repr_html_()


def test_as_data_it_survives_json():
    data = json.loads(json.dumps(FAILED.to_json()))
    assert data["exercise"] == "l01.plan_step"
    assert data["checks"] == ["one decode", "the budget holds"]
    assert data["example"][2] == ["got", "[<b>]"]
    assert data["misconception"] == "prefill_first"
