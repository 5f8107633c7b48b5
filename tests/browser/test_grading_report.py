"""The pages of a class in Chromium, from a file: accessible, within the phone, on their own."""

import pytest
from driving import assert_accessible_and_not_too_wide, at_rest, box

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def records():
    from classes import a_class, a_mark, a_record

    return [
        *a_class(30),
        a_record("Old", a_mark("failed", "l01.gone")),
        a_record("Unlucky", a_mark("internal", idea="KeyError")),
        a_record("Broken", problem="Line 3 has an open bracket."),
    ]


@pytest.fixture(scope="module")
def report(records, tmp_path_factory):
    from course.grading.results.pages import class_report, write_text
    from course.grading.results.scheme import Scheme

    file = tmp_path_factory.mktemp("report") / "report.html"
    return write_text(file, class_report(records, Scheme())).as_uri()


def test_the_report_is_accessible_fits_and_shows_names_as_they_are(visit, report):
    from classes import STRANGE

    page = visit(report)
    names = page.locator(".map .name").all_text_contents()
    assert {name.encode("utf-8", "backslashreplace").decode() for name in STRANGE} <= set(names)
    for width, scheme in ((1000, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert_accessible_and_not_too_wide(page)
    # Below a short page the window has the page's colour, unless its html has one of its own.
    background = "getComputedStyle(document.documentElement).backgroundColor"
    assert at_rest(page).evaluate(background) == "rgba(0, 0, 0, 0)"


@pytest.mark.nightly
def test_a_students_page_is_accessible_and_fits(visit, records, tmp_path):
    from course.grading.results.pages import write_feedback
    from course.grading.results.scheme import Scheme

    for path in write_feedback(tmp_path, records[3:7] + records[-2:], Scheme(partial=0.5)):
        assert_accessible_and_not_too_wide(visit(path.as_uri(), width=390))


@pytest.mark.nightly
def test_names_and_exercises_stay_in_sight_while_the_map_scrolls(visit, tmp_path):
    from classes import a_class

    from course.grading.results.pages import class_report, write_text
    from course.grading.results.scheme import Scheme

    records = a_class(300) + a_class(300, "l02_scheduling")
    report = write_text(tmp_path / "r.html", class_report(records, Scheme()))
    page = visit(report.as_uri(), width=390)
    found = page.locator(".map")
    found.scroll_into_view_if_needed()
    found.evaluate("(map) => map.scrollTo(150, 4000)")
    edge, top = box(found)[0], at_rest(found).bounding_box()["y"]
    row = found.locator("tbody tr").nth(145)
    assert row.locator(".name").is_visible()
    assert box(row.locator("th"))[0] == pytest.approx(edge, abs=2)
    assert box(row.locator("td").first)[0] < edge + 100
    head = at_rest(found).locator("thead th").nth(3).bounding_box()
    assert head["y"] == pytest.approx(top, abs=2)
    assert at_rest(found).bounding_box()["height"] <= 900
    assert at_rest(row).bounding_box()["height"] < 40
