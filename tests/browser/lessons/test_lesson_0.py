"""Lesson 0 as a newcomer meets it: the tasks, the keyboard's way through, a narrow page."""

import pytest
from driving import assert_ran_by_itself, in_lesson
from playwright.sync_api import expect

from course.registry import lesson_exercises

pytestmark = [pytest.mark.browser, in_lesson("l00_kv_cache")]

HIDDEN_EDITORS = ".marimo-cell [data-testid='cell-editor']:is(.h-0, .opacity-20)"
TEXT_LINES = """(all) => all.filter(
    (each) => each.checkVisibility() && each.textContent.length > 300
).map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.bottom / 8)));
    return each.textContent.length / lines.size;
})"""


def test_the_untouched_lesson_runs_by_itself(lesson):
    kinds = ("work-bars", "step-cost", "batching", "timeline", "prediction", "hints")
    assert_ran_by_itself(lesson, "The KV cache and batching", kinds, not_started=3)


def test_each_task_stands_over_the_learners_framed_cell(lesson):
    for item in lesson_exercises("l00_kv_cache"):
        card = lesson.page.locator(f"[data-task='{item.id}']")
        expect(card).to_contain_text(item.title)
        label = card.evaluate("(card) => getComputedStyle(card, '::after').content")
        assert label == '"Your code"'
        frame = lesson.cell(item.name).locator("xpath=ancestor::*[@data-testid='cell-editor'][1]")
        width = frame.evaluate("(editor) => getComputedStyle(editor).borderTopWidth")
        below = frame.bounding_box()["y"] - card.bounding_box()["y"] - card.bounding_box()["height"]
        assert (width, 0 < below < 40) == ("2px", True)


def test_no_editor_of_a_hidden_cell_is_on_the_page(lesson):
    hidden = lesson.page.locator(HIDDEN_EDITORS)
    assert hidden.count() > 20
    assert [each for each in hidden.all() if each.is_visible()] == []


def test_a_prediction_is_committed_by_keyboard_and_shows_what_it_withheld(lesson):
    page = lesson.page
    bars = page.locator(".sn-work-bars")
    expect(bars.locator(".sn-wb-panel")).to_have_count(0)
    expect(page.locator(".output").get_by_text("598 times as much")).to_be_hidden()
    question = page.locator(".sn-prediction", has_text="How many tokens go through")
    question.get_by_label("1,190 without, 69 with").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(bars.locator(".sn-wb-panel")).to_have_count(2)
    expect(page.locator(".output").get_by_text("598 times as much")).to_be_visible()
    expect(page.locator(".output").get_by_text("slot-steps idle")).to_be_hidden()
    page.reload()
    lesson.wait_until_open()
    expect(bars.locator(".sn-wb-panel")).to_have_count(2)
    expect(page.locator(".output").get_by_text("598 times as much")).to_be_visible()


def test_lines_of_text_have_65_to_75_characters(lesson):
    lengths = lesson.page.locator(".markdown.prose .paragraph").evaluate_all(TEXT_LINES)
    assert len(lengths) > 5
    assert min(lengths) > 55  # a last line is rarely full
    assert max(lengths) <= 76
