"""Lesson 2b as a learner works in it: predicted, answered right, drawn by their own key."""

import pytest
from driving import assert_ran_by_itself, box, in_lesson
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l02b_waiting")]

FADES = "(element) => getComputedStyle(element).maskImage"
FONT = "(element) => getComputedStyle(element).fontFamily"
AGED_KEY = """\
def aged_key(request, rate):
    return (request.arrival_time + rate * request.priority,)
"""


def test_lesson_2b_opens_by_its_link_and_runs_by_itself(lesson):
    assert_ran_by_itself(lesson, "Waiting", ("curves", "prediction", "hints"), not_started=1)


def test_the_bills_of_priority_wait_for_their_prediction(lesson):
    table = lesson.page.locator(".output table", has_text="inversion")
    expect(table).to_be_hidden()
    lesson.show_answer("l02.priority")
    expect(table).to_be_visible()


def test_a_table_too_wide_for_a_phone_fades_where_it_goes_on_and_keeps_its_first_column(lesson):
    table = lesson.page.locator(".output table", has_text="inversion")
    lesson.page.set_viewport_size({"width": 390, "height": 900})
    wait_for(lambda: "linear-gradient" in table.evaluate(FADES))
    table.evaluate("(table) => { table.scrollLeft = table.scrollWidth; }")
    wait_for(lambda: table.evaluate(FADES) == "none")
    left, _ = box(table)
    assert box(table.locator("tbody td").first)[0] == pytest.approx(left, abs=1)
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
    wait_for(lambda: table.evaluate("(table) => table.scrollWidth <= table.clientWidth"))
    assert table.evaluate(FADES) == "none"


def test_a_pictures_question_is_set_in_the_font_of_the_text(lesson):
    question = lesson.page.locator(".sn-question").first
    text = lesson.page.locator("#App .markdown.prose .paragraph").first
    assert question.evaluate(FONT) == text.evaluate(FONT)


def test_the_hourglass_lies_on_no_text_of_a_narrow_page(lesson):
    lesson.page.set_viewport_size({"width": 390, "height": 900})
    lesson.answer(AGED_KEY + "__import__('time').sleep(4)\n")
    hourglass = lesson.page.locator(".running-app-icon")
    expect(hourglass).to_be_visible()
    assert box(hourglass)[1] <= box(lesson.page.locator("#App h1"))[0]
    lesson.page.set_viewport_size({"width": 1280, "height": 900})


def test_ageing_is_drawn_by_the_learners_key(lesson):
    lesson.answer(AGED_KEY)
    expect(lesson.report("aged_key", "passed")).to_contain_text("Passed")
    expect(lesson.page.get_by_text("Ageing ranks by your aged_key.")).to_be_visible()
