"""Lesson 2b as a learner works in it: predicted, answered right, drawn by their own key."""

import pytest
from driving import assert_ran_by_itself, in_lesson
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l02b_waiting")]

AGED_KEY = """\
def aged_key(request, rate):
    return (request.arrival_time + rate * request.priority,)
"""


def test_lesson_2b_opens_by_its_link_and_runs_by_itself(lesson):
    assert_ran_by_itself(lesson, "Who waits", ("curves", "prediction", "hints"), not_started=1)


def test_the_bills_of_priority_wait_for_their_prediction(lesson):
    table = lesson.page.locator(".output table", has_text="inversion")
    expect(table).to_be_hidden()
    lesson.show_answer("l02.priority")
    expect(table).to_be_visible()


def test_ageing_is_drawn_by_the_learners_key(lesson):
    lesson.answer(AGED_KEY)
    expect(lesson.report("aged_key", "passed")).to_contain_text("Passed")
    expect(lesson.page.get_by_text("Ageing ranks by your aged_key.")).to_be_visible()
