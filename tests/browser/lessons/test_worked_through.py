"""Every lesson once its learner has answered: accessibility, room and rest."""

import pytest
from driving import (
    assert_accessible,
    assert_fits,
    assert_no_text_is_cut_off,
    assert_stands_out,
    expect,
    in_lesson,
    shapes,
)
from launching import wait_for
from notebooks import STEMS

from course.registry import lesson_exercises

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

# An animation, even of what is out of sight, keeps a core busy for as long as the page is open.
# What moves by itself: a table's fading edge goes with its scrolling, and no clock.
MOVING = """() => document.getAnimations().filter((each) =>
    each.playState === "running" && each.timeline === document.timeline).length"""


@in_lesson(*STEMS)
def test_a_lesson_that_was_worked_through_fits_a_narrow_page_and_is_at_rest(lesson):
    lesson.show_all_answers()  # where this test runs by itself
    lesson.answer_right(*(item.name for item in lesson_exercises(lesson.stem)))
    expect(lesson.page.locator(".output table, .output pre").first).to_be_attached()
    assert_fits(lesson, 390)
    assert_no_text_is_cut_off(lesson.page)
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
    assert_no_text_is_cut_off(lesson.page)
    lesson.page.evaluate("document.activeElement.blur()")  # a cursor blinks
    wait_for(lambda: lesson.page.evaluate(MOVING) == 0)


@in_lesson("l01_chunked_prefill", "l09_fleet")
def test_its_themes_differ_by_colours_alone_and_break_no_rule(lesson):
    assert_accessible(lesson)
    drawn = []
    for scheme in ("light", "dark"):
        assert_stands_out(lesson, scheme)
        drawn.append(shapes(lesson.page))
    assert drawn[0] and drawn[0] == drawn[1], "or other rules may be broken in the second"
