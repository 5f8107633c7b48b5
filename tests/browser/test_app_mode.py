"""Lessons in app mode, where no code is on the page: to be read, predicted and looked at."""

import pytest
from driving import JS, Lesson, assert_accessible, assert_fits, assert_stands_out, at_rest, expect
from support import ROOT

from course.lesson_map import find_lesson
from course.registry import lesson_exercises

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


@pytest.fixture(scope="module")
def mode():
    return "run"


@pytest.mark.parametrize("stem", ["l00_kv_cache", "l04_sliding_window", "l07_blocks"])
def test_a_lesson_shows_its_tasks_and_its_pictures_without_code(page, course_server, stem):
    page.goto(course_server.address_of(f"{stem}.py"))
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text(f"{find_lesson(stem).number} · ")
    expect(page.locator(".sng-task")).to_have_count(len(lesson_exercises(stem)))
    expect(page.locator(".sng-report").first).to_be_attached()
    questions = page.locator(".sn-prediction")
    asked = (ROOT / "lessons" / f"{stem}.py").read_text(encoding="utf-8").count(" predict(\n")
    expect(questions).to_have_count(asked)
    assert page.locator(".cm-content").count() == 0
    assert page.locator(".marimo-error").count() == 0
    # "Your code" stands above an editor, and here is none; nor do slow selectors reach a page.
    label = "card => getComputedStyle(card, '::after').content"
    yours = page.locator("[data-yours]").all()
    assert {at_rest(each).evaluate(label) for each in yours} <= {"none"}
    assert at_rest(page).evaluate(JS["SELECTORS_WITH_HAS"]) == [":root:has(> body.dark)"]
    lesson = Lesson(page, stem)
    lesson.show_answer(questions.first.get_attribute("data-key"))
    expect(page.locator(".sn").last).to_be_attached()
    assert_accessible(lesson)
    assert_fits(lesson, 390)
    page.set_viewport_size({"width": 1280, "height": 900})
    assert_stands_out(lesson, "dark")
