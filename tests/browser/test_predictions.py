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
    asked = [each.get_attribute("data-key") for each in page.locator(".sn-prediction").all()]
    keys = {key for key, _ in page.evaluate(WAITING)}
    keys |= {each.get_attribute("data-after") for each in waiting.all()}
    assert keys
    assert keys <= set(asked)
    for at, key in enumerate(asked):
        still = set(asked[at:])
        html = page.evaluate(WAITING)
        assert {each for each, seen in html if seen} == {each for each, _ in html} - still
        assert {each.get_attribute("data-after") for each in waiting.all()} == keys_of(page) & still
        page.locator(f".sn-prediction[data-key='{key}'] button", has_text="Show me").click()
        expect(page.locator(f".sn-waits[data-after='{key}']")).to_have_count(0)
    assert all(seen for _, seen in page.evaluate(WAITING))
    expect(waiting).to_have_count(0)


def keys_of(page) -> set[str]:
    """The predictions that some picture of the page waits for, or waited for."""
    found = page.locator(".sn[data-after]").all()
    return {each.get_attribute("data-after") for each in found} - {""}
