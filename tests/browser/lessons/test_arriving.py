"""Every lesson from a fresh page: the keyboard's way, what waits, accessibility and room."""

import itertools

import pytest
from driving import (
    assert_accessible,
    assert_fits,
    assert_shown_only_after,
    assert_stands_out,
    in_lesson,
)
from launching import wait_for
from notebooks import STEMS
from playwright.sync_api import expect

from course.registry import lesson_exercises

pytestmark = [pytest.mark.browser, in_lesson(*STEMS)]

# What has the focus, through shadow roots: [class, name].
FOCUSED = """() => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return [at.className, at.getAttribute("aria-label") ?? at.textContent];
}"""
# What an editor's frame says of the way out.
TELLS_THE_WAY_OUT = """() =>
    getComputedStyle(document.activeElement.closest(".cm-editor"), "::after").content
    === '"Esc, then Tab: go on"'"""
A_NEW_CELL = "Python"  # marimo's button after the last cell
SCHEMES = itertools.cycle(["dark", "light"])


def file_of(lesson, course_server):
    """The learner's copy of a lesson."""
    [file] = course_server.work.glob(f"{lesson.number}_*.py")
    return file


def test_the_keyboard_leads_from_the_top_to_the_end(lesson, course_server, complaints):
    """By Tab, and from an editor by Esc and Tab, as its frame says."""
    page = lesson.page
    page.evaluate("document.activeElement.blur()")
    names = []
    for _ in range(400):
        page.keyboard.press("Tab")
        css, name = page.evaluate(FOCUSED)
        names.append(name)
        if "cm-content" in css:
            page.wait_for_function(TELLS_THE_WAY_OUT)
            page.keyboard.press("Escape")
        if name.strip() == A_NEW_CELL:
            break
    assert name.strip() == A_NEW_CELL
    assert names.count("Commit") == page.locator(".sn-prediction").count()
    assert names.count("Show a hint") == page.locator(".sn-hints").count()
    for item in lesson_exercises(file_of(lesson, course_server).stem):
        assert any(f"def {item.name}" in name for name in names)
    # marimo's editor says so at every Esc, with our style sheet and without.
    complaints[:] = [each for each in complaints if "Field is not present in this" not in each]


def test_nothing_that_answers_a_prediction_is_shown(lesson):
    assert assert_shown_only_after(lesson.page, set())


def test_no_picture_shows_the_backquotes_of_a_name(lesson):
    expect(lesson.page.locator(".sn", has_text="`")).to_have_count(0)


def test_nothing_of_ours_breaks_an_accessibility_rule(lesson):
    assert_accessible(lesson)


def test_everything_stands_out_from_the_page(lesson):
    """In the themes by turns: what is untouched looks the same in every lesson."""
    assert_stands_out(lesson, next(SCHEMES))


def test_an_untouched_lesson_fits_a_narrow_page(lesson):
    page = lesson.page
    for width in (390, 640):  # a phone; a laptop at a zoom of 200 %
        assert_fits(lesson, width)
        wait_for(lambda: page.evaluate("App.scrollWidth - App.clientWidth") == 0)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_nothing_above_has_changed_the_file(lesson, course_server):
    """marimo saves a second after a change, and it changes what it takes for Markdown by itself.

    The looks since the lesson opened took longer.
    """
    file = file_of(lesson, course_server)
    assert file.read_text() == (course_server.root / "lessons" / file.name).read_text()
