"""What holds for every lesson from a fresh page: the keyboard's way, what waits, room and rest."""

import pytest
from driving import Lesson, assert_accessible, assert_fits
from launching import wait_for
from notebooks import STEMS
from playwright.sync_api import expect

from course.registry import lesson_exercises

pytestmark = pytest.mark.browser

# What has the focus, through shadow roots: [class, name].
FOCUSED = """() => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return [at.className, at.getAttribute("aria-label") ?? at.textContent];
}"""
A_NEW_CELL = "Python"  # marimo's button after the last cell
# An animation, even of what is out of sight, keeps a core busy for as long as the page is open.
MOVING = "document.getAnimations().filter((each) => each.playState === 'running').length"
# What waits for a prediction as HTML: [key, whether it is to be seen].
WAITING = """() => [...document.querySelectorAll("[data-sn-after]")].map(
    (each) => [each.dataset.snAfter, each.querySelector(".sng-withheld").checkVisibility()])"""


@pytest.fixture(scope="module", params=STEMS)
def lesson(request, page, course_server) -> Lesson:
    """Each lesson in turn, untouched when its first test begins."""
    stem = request.param
    page.goto(course_server.address_of(f"{stem}.py"))
    opened = Lesson(page, stem.partition("_")[0], len(lesson_exercises(stem)))
    opened.wait_until_run()
    return opened


def test_the_keyboard_leads_from_the_top_to_the_end_and_changes_nothing(
    lesson, course_server, complaints
):
    """By Tab, and from an editor by Esc and Tab, as its frame says."""
    page = lesson.page
    [file] = course_server.work.glob(f"{lesson.number}_*.py")
    before = file.read_text()
    page.evaluate("document.activeElement.blur()")
    names = []
    for _ in range(400):
        page.keyboard.press("Tab")
        css, name = page.evaluate(FOCUSED)
        names.append(name)
        if "cm-content" in css:
            page.keyboard.press("Escape")
        if name.strip() == A_NEW_CELL:
            break
    assert name.strip() == A_NEW_CELL
    assert names.count("Commit") == page.locator(".sn-prediction").count()
    assert names.count("Show a hint") == page.locator(".sn-hints").count()
    for item in lesson_exercises(file.stem):
        assert any(f"def {item.name}" in name for name in names)
    page.wait_for_timeout(2500)  # longer than marimo waits before it saves
    assert file.read_text() == before
    # marimo's editor says so at every Esc, with our style sheet and without.
    complaints[:] = [each for each in complaints if "Field is not present in this" not in each]


def test_what_answers_a_prediction_shows_only_after_it(lesson):
    page = lesson.page
    waiting = page.locator(".sn-waits")
    asked: list[str] = []
    met = set()  # the predictions that something of the page waits for
    while (key := next_question(page, asked)) is not None:
        html = page.evaluate(WAITING)
        met |= {each for each, _ in html} | keys_of(page)
        assert {each for each, seen in html if seen} == {each for each, _ in html} & set(asked)
        shut = {each.get_attribute("data-after") for each in waiting.all()}
        assert shut == keys_of(page) - set(asked)
        page.locator(f".sn-prediction[data-key='{key}'] button", has_text="Show me").click()
        expect(page.locator(f".sn-waits[data-after='{key}']")).to_have_count(0)
        asked.append(key)
    assert met and met <= set(asked)
    assert all(seen for _, seen in page.evaluate(WAITING))
    expect(waiting).to_have_count(0)


def next_question(page, asked: list[str]) -> str | None:
    """The first prediction of the page not yet answered: one may itself wait for another."""
    for each in page.locator(".sn-prediction").all():
        if (key := each.get_attribute("data-key")) not in asked:
            return key
    return None


def keys_of(page) -> set[str]:
    """The predictions that some picture of the page waits for, or waited for."""
    found = page.locator(".sn[data-after]").all()
    return {each.get_attribute("data-after") for each in found} - {""}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_ours_breaks_an_accessibility_rule(lesson, scheme):
    assert_accessible(lesson, scheme)


@pytest.mark.parametrize("width", [390, 640])  # a phone; a laptop at a zoom of 200 %
def test_a_lesson_fits_a_narrow_page(lesson, width):
    page = lesson.page
    assert_fits(lesson, width)
    wait_for(lambda: page.evaluate("App.scrollWidth - App.clientWidth") == 0)


def test_an_open_lesson_is_at_rest(lesson):
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
    wait_for(lambda: lesson.page.evaluate(MOVING) == 0)
