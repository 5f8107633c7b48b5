"""A lesson from a fresh page: the keyboard's way, accessibility and room, and its predictions."""

import pytest
from driving import (
    JS,
    assert_accessible,
    assert_fits,
    assert_ran_by_itself,
    assert_shown_only_after,
    assert_stands_out,
    at_rest,
    expect,
    in_lesson,
)
from launching import wait_for
from notebooks import STEMS
from tiers import some

from course.registry import lesson_exercises

OPENED = some(STEMS, 1)
pytestmark = pytest.mark.browser

A_NEW_CELL = "Python"  # marimo's button after the last cell


@in_lesson(*OPENED)
def test_an_untouched_lesson_has_run_by_itself_and_fits_a_narrow_page(lesson):
    assert_ran_by_itself(lesson)
    asks = lesson.page.locator(".sn-prediction").count() > 0
    assert bool(assert_shown_only_after(lesson.page, set())) == asks
    expect(lesson.page.locator(".sn", has_text="`")).to_have_count(0)
    assert_fits(lesson, 390)
    wait_for(lambda: lesson.page.evaluate("App.scrollWidth - App.clientWidth") == 0)
    lesson.page.set_viewport_size({"width": 1280, "height": 900})


@in_lesson(*OPENED[:2])
def test_all_begins_at_one_left_edge_and_text_is_narrower_than_cards_pictures_and_code(lesson):
    column = at_rest(lesson.page).evaluate(JS["COLUMN"])
    left, text_right = column["text"][0]
    right = column["card"][0][1]
    assert text_right < right - 60
    for kind, boxes in column.items():
        assert boxes, kind
        edge = text_right if kind == "text" else right
        assert [box for box in boxes if abs(box[0] - left) > 2 or abs(box[1] - edge) > 2] == []


@in_lesson(*OPENED[::5])
def test_the_keyboard_leads_from_the_top_to_the_end(lesson, complaints):
    """By Tab, and from an editor by Esc and Tab, as its frame says."""
    page = lesson.page
    page.evaluate("document.activeElement.blur()")
    names = []
    for _ in range(400):
        page.keyboard.press("Tab")
        css, name = page.evaluate(JS["FOCUSED"])
        names.append(name)
        if "cm-content" in css:
            page.wait_for_function(JS["TELLS_THE_WAY_OUT"])
            page.keyboard.press("Escape")
        if name.strip() == A_NEW_CELL:
            break
    assert name.strip() == A_NEW_CELL
    assert names.count("Commit") == page.locator(".sn-prediction").count()
    assert names.count("Show a hint") == page.locator(".sn-hints").count()
    for item in lesson_exercises(lesson.stem):
        assert any(f"def {item.name}" in name for name in names)
    # marimo's editor says so at every Esc, with our style sheet and without.
    complaints[:] = [each for each in complaints if "Field is not present in this" not in each]


@in_lesson(*OPENED)
def test_nothing_of_that_has_changed_the_file(lesson, course_server):
    """marimo saves a second after a change, and it changes what it takes for Markdown by itself.

    The looks since the lesson opened took longer.
    """
    file = course_server.work / f"{lesson.stem}.py"
    assert file.read_text() == (course_server.root / "lessons" / file.name).read_text()


@in_lesson(*OPENED)
def test_what_answers_a_prediction_shows_only_after_it(lesson, course_server):
    """The first is committed by keyboard, the others are shown one by one."""
    page = lesson.page
    wait_for(lambda: page.evaluate(JS["IN_ROWS"]) == 0)  # of boxes that wait in a row, one is shown
    questions = page.locator(".sn-prediction")
    if questions.count() == 0:  # lesson 12 asks for diagnoses instead
        return
    first = questions.filter(has=page.get_by_role("radio")).first
    first.get_by_role("radio").first.focus()
    for key in ("Space", "Enter"):
        page.keyboard.press(key)
    expect(first.locator(".sn-pr-verdict")).to_be_visible()
    answered = {first.get_attribute("data-key")}
    [key] = answered
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob(f"{key}.json")] != [])
    met = set()  # the predictions that something of the page waits for
    while True:
        expect(page.locator(f".sn-waits[data-after='{key}']")).to_have_count(0)
        met |= assert_shown_only_after(page, answered)
        question = questions.filter(has=page.get_by_role("button", name="Show me")).first
        if question.count() == 0:
            break
        key = question.get_attribute("data-key")
        lesson.show_answer(key)
        answered.add(key)
    assert met and met <= answered
    expect(page.locator(".sn-waits")).to_have_count(0)


@in_lesson(*OPENED)
def test_with_all_answers_shown_nothing_of_ours_breaks_an_accessibility_rule(lesson):
    assert_accessible(lesson)
    assert_stands_out(lesson, "dark" if lesson.stem in STEMS[::2] else "light")
