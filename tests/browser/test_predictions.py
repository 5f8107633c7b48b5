"""Every prediction of every lesson keeps its answer from a fresh page, and gives it when asked."""

import pytest
from driving import LIMIT_MS
from notebooks import STEMS
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

# What waits for a prediction as HTML: [key, whether it is to be seen].
WAITING = """() => [...document.querySelectorAll("[data-sn-after]")].map(
    (each) => [each.dataset.snAfter, each.querySelector(".sng-withheld").checkVisibility()])"""
READY = """() => document.querySelectorAll("[data-sn-after], marimo-anywidget").length > 0
    && !document.querySelector('[data-status="running"], [data-status="queued"]')"""


@pytest.mark.parametrize("stem", STEMS)
def test_what_answers_a_prediction_shows_only_after_it(page, course_server, stem):
    page.goto(f"{course_server.address.partition('/?')[0]}/?file={stem}.py")
    page.wait_for_function(READY, timeout=LIMIT_MS)
    waiting = page.locator(".sn-waits")
    asked: list[str] = []
    met = set()  # the predictions that something of the page waits for
    while (key := next_question(page, asked)) is not None:
        html = page.evaluate(WAITING)
        met |= {each for each, _ in html} | keys_of(page)
        assert {each for each, seen in html if seen} == {each for each, _ in html} & set(asked)
        assert {each.get_attribute("data-after") for each in waiting.all()} == keys_of(page) - set(
            asked
        )
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
