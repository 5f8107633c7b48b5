"""Every lesson once it is worked through: what waited, accessibility, room and rest."""

import pytest
from driving import (
    assert_accessible,
    assert_fits,
    assert_no_text_is_cut_off,
    assert_shown_only_after,
    assert_stands_out,
    in_lesson,
    shapes,
)
from launching import wait_for
from notebooks import STEMS
from playwright.sync_api import Locator, expect

pytestmark = [pytest.mark.browser, in_lesson(*STEMS)]

# An animation, even of what is out of sight, keeps a core busy for as long as the page is open.
# What moves by itself: a table's fading edge goes with its scrolling, and no clock.
MOVING = """() => document.getAnimations().filter((each) =>
    each.playState === "running" && each.timeline === document.timeline).length"""


def keys(questions: Locator) -> set[str]:
    """The keys of predictions."""
    return {each.get_attribute("data-key") for each in questions.all()}


def test_what_answers_a_prediction_shows_only_after_it(lesson):
    """One by one, from those on that are not answered yet."""
    page = lesson.page
    questions = page.locator(".sn-prediction")
    unanswered = page.get_by_role("button", name="Show me")
    answered = keys(questions) - keys(questions.filter(has=unanswered))
    met = set()  # the predictions that something of the page waits for
    while True:
        met |= assert_shown_only_after(page, answered)
        question = questions.filter(has=unanswered).first
        if question.count() == 0:
            break
        key = question.get_attribute("data-key")
        lesson.show_answer(key)
        answered.add(key)
    assert met and met <= answered
    expect(page.locator(".sn-waits")).to_have_count(0)


def test_nothing_of_ours_breaks_an_accessibility_rule_with_all_answers_shown(lesson):
    assert_accessible(lesson)


def test_everything_stands_out_from_the_page_in_themes_that_differ_by_colours_alone(lesson):
    drawn = []
    for scheme in ("light", "dark"):
        assert_stands_out(lesson, scheme)
        drawn.append(shapes(lesson.page))
    assert drawn[0] and drawn[0] == drawn[1], "or other rules may be broken in the second"


def test_a_lesson_with_all_answers_shown_fits_a_narrow_page(lesson):
    assert lesson.page.locator(".output table, .output pre").count() >= 1
    assert_fits(lesson, 390)
    assert_no_text_is_cut_off(lesson.page)
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
    assert_no_text_is_cut_off(lesson.page)


def test_an_open_lesson_is_at_rest(lesson):
    lesson.page.evaluate("document.activeElement.blur()")  # a cursor blinks
    wait_for(lambda: lesson.page.evaluate(MOVING) == 0)
