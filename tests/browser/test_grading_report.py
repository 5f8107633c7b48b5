"""The pages of a class in Chromium, from a file: accessible, within the phone, on their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from classes import STRANGE, a_class, a_mark, a_record
from driving import assert_accessible_and_not_too_wide, box, violations
from playwright.sync_api import Browser, Page

from course.grading.results.class_report import write_class_report
from course.grading.results.feedback import write_feedback
from course.grading.results.scheme import Scheme

pytestmark = pytest.mark.browser

RECORDS = [
    *a_class(30),
    a_record("Old", a_mark("failed", "l01.gone")),
    a_record("Unlucky", a_mark("internal", idea="KeyError")),
    a_record("Broken", problem="Line 3 has an open bracket."),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("report") / "report.html"
    return write_class_report(file, RECORDS, Scheme()).as_uri()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator:
    """Opens an address; afterwards, the page has complained of nothing and asked for nothing."""
    contexts, noise, asked = [], [], []

    def opened(address: str, width: int = 1000, scheme: str = "light") -> Page:
        viewport = {"width": width, "height": 800}
        contexts.append(chromium.new_context(viewport=viewport, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("dialog", lambda dialog: noise.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert noise == []
    assert {url for url in asked if not url.startswith("file:")} == set()
    assert len(asked) == len(contexts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_the_report_is_accessible_and_fits(open_page, report: str, width: int, scheme: str):
    assert_accessible_and_not_too_wide(open_page(report, width, scheme))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_students_page_is_accessible_and_fits(open_page, tmp_path: Path, scheme: str):
    for path in write_feedback(tmp_path, RECORDS[3:7] + RECORDS[-2:], Scheme(partial=0.5)):
        assert_accessible_and_not_too_wide(open_page(path.as_uri(), 390, scheme))


def test_names_and_exercises_stay_in_sight_while_the_map_scrolls(open_page, tmp_path: Path):
    records = a_class(300) + a_class(300, "l02_scheduling")
    page = open_page(write_class_report(tmp_path / "r.html", records, Scheme()).as_uri(), 390)
    found = page.locator(".map")
    found.scroll_into_view_if_needed()
    found.evaluate("(map) => map.scrollTo(150, 4000)")
    edge, top = box(found)[0], found.bounding_box()["y"]
    row = found.locator("tbody tr").nth(145)
    assert row.locator(".name").is_visible()
    assert box(row.locator("th"))[0] == pytest.approx(edge, abs=2)
    assert box(row.locator("td").first)[0] < edge + 100
    assert found.locator("thead th").nth(3).bounding_box()["y"] == pytest.approx(top, abs=2)
    assert found.bounding_box()["height"] <= 800
    assert row.bounding_box()["height"] < 40


def test_paper_is_light_shows_every_row_and_no_box_that_scrolls(open_page, report: str):
    page = open_page(report, 750, "dark")
    on_screen = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 252, 253)"
    assert on_screen == "rgb(25, 29, 34)"
    cut = "(all) => all.filter((each) => each.scrollHeight > each.clientHeight + 1).length"
    assert page.locator(".box").evaluate_all(cut) == 0
    assert violations(page) == []


def test_strange_names_are_read_as_they_are(open_page, report: str):
    names = open_page(report).locator(".map .name").all_text_contents()
    shown = [name.encode("utf-8", "backslashreplace").decode() for name in STRANGE]
    assert set(shown) <= set(names)
