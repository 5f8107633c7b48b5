"""What answers a prediction is not on the page before it: widgets and HTML, in either order."""

import pytest
from driving import violations

from course.prediction import after
from course.report import Report
from widgets import Prediction, WorkBars

pytestmark = pytest.mark.browser

BARS = [{"name": "with a cache", "tokens": [3, 1, 1]}]
ADD = "(html) => document.querySelector('main').insertAdjacentHTML('{}', html)"


def question(key="l00.a", **left):
    return Prediction(key, f"What of {key}?", ["one", "two"], 1, "It is two.", **left)


def picture(key="l00.a"):
    return after(key, WorkBars(BARS, title=f"Five tokens answer {key}"))


def verdict(key="l00.a"):
    report = Report("l00.next_inputs", "failed", ("one",), 0, f"This answers {key}.")
    return after(key, report)._repr_html_()


@pytest.mark.parametrize("question_comes_first", [True, False])
def test_a_widget_and_a_card_wait_for_their_prediction(show, question_comes_first):
    widgets = [question(), picture()]
    page = show(widgets if question_comes_first else widgets[::-1])
    page.evaluate(ADD.format("beforeend" if question_comes_first else "afterbegin"), verdict())
    shown = page.inner_text("main")
    assert "answer" not in shown
    assert shown.count("Your prediction above is about this") == 2
    assert "answers" not in page.locator(".sn-work-bars").get_attribute("aria-label")
    assert violations(page) == []

    page.get_by_label("two").check()
    assert "answer" not in page.inner_text("main")
    page.get_by_role("button", name="Commit").click()
    shown = page.inner_text("main")
    assert "Five tokens answer l00.a" in shown
    assert "This answers l00.a." in shown
    assert "Your prediction above" not in shown
    assert page.locator(".sn-work-bars").get_attribute("aria-label") == "Five tokens answer l00.a"
    assert page.locator(".sn-wb-panel").count() == 1


def test_show_me_reveals_without_a_choice(show):
    page = show([question(), picture()])
    page.get_by_role("button", name="Show me").click()
    assert page.locator(".sn-pr-verdict").text_content() == "The answer: two"
    assert "Five tokens answer" in page.inner_text("main")
    assert page.get_by_role("button", name="Commit").count() == 0
    assert page.locator(".sn-pr-chosen").count() == 0
    assert page.get_by_label("one").is_disabled()


def test_each_of_two_predictions_shows_its_own_alone(show):
    page = show([question("l00.a"), question("l00.ab"), picture("l00.a"), picture("l00.ab")])
    page.evaluate(ADD.format("beforeend"), verdict("l00.a") + verdict("l00.ab"))
    page.get_by_role("button", name="Show me").nth(1).click()
    shown = page.inner_text("main")
    assert "Five tokens answer l00.ab" in shown
    assert "This answers l00.ab." in shown
    assert "answer l00.a\n" not in shown
    assert "This answers l00.a." not in shown
    page.get_by_role("button", name="Show me").click()
    assert "This answers l00.a." in page.inner_text("main")
    assert page.evaluate("document.documentElement.dataset.snDid") == "l00.ab l00.a"


@pytest.mark.parametrize("left", [{"choice": 0, "committed": True}, {"shown": True}])
def test_what_was_answered_on_an_earlier_visit_hides_nothing(show, left):
    page = show([picture(), question(**left)])
    page.evaluate(ADD.format("beforeend"), verdict())
    shown = page.inner_text("main")
    assert "Five tokens answer" in shown
    assert "This answers" in shown
