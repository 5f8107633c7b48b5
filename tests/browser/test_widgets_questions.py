"""Predictions and hints, and what is not on the page before its prediction is answered."""

import pytest
import samples
from driving import at_rest, violations
from galleries import make

from course.prediction import after
from course.report import Report

pytestmark = pytest.mark.browser

ADD = "(html) => document.querySelector('main').insertAdjacentHTML('{}', html)"


def question(key="l00.a", **left):
    options = {"options": ["one", "two"], "answer": 1, "reveal": "It is two."}
    return make("Prediction", key=key, question=f"What of {key}?", **options, **left)


def picture(key="l00.a"):
    return after(key, make("WorkBars", f"Five tokens answer {key}"))


def verdict(key="l00.a"):
    report = Report("l00.next_inputs", "failed", ("one",), 0, f"This answers {key}.")
    return after(key, report)._repr_html_()


def test_a_prediction_shows_its_answer_only_after_committing(show):
    number = make("Prediction", key="q", options=(), answer=69, reveal="50 + 19.")
    kept = make("Prediction", key="r", choice=1, committed=True)
    page = show([make("Prediction"), number, kept])
    first, second, third = page.locator(".sn-prediction").all()
    assert "poisoned" not in first.text_content()
    first.get_by_role("button", name="Commit").click()
    assert first.get_by_text("Choose one first.").is_visible()
    first.get_by_label("Yes").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert first.locator(".sn-pr-verdict").text_content() == "You predicted it."
    assert first.locator(".sn-pr-reveal strong").text_content() == "poisoned"
    assert first.get_by_label("Yes").is_disabled()
    assert first.get_by_role("button", name="Commit").count() == 0

    second.get_by_label("Your number").fill("seventy")
    second.get_by_role("button", name="Commit").click()
    assert second.get_by_text("Type a number first.").is_visible()
    second.get_by_label("Your number").fill("1,050")
    page.keyboard.press("Enter")
    assert second.locator(".sn-pr-verdict").text_content() == "You said 1,050; it is 69."

    assert third.get_by_label("Only with one layer").is_checked()  # as it was left
    assert third.locator(".sn-pr-verdict").text_content() == "You predicted it."


@pytest.mark.parametrize("question_comes_first", [True, False])
def test_a_widget_and_a_card_wait_for_their_prediction(show, question_comes_first):
    widgets = [question(), picture()]
    page = show(widgets if question_comes_first else widgets[::-1])
    page.evaluate(ADD.format("beforeend" if question_comes_first else "afterbegin"), verdict())
    page.wait_for_timeout(200)
    shown = page.inner_text("main")
    assert "answer" not in shown
    assert shown.count("Your prediction above is about this") == 1  # two in a row stand as one
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


@pytest.mark.nightly
def test_each_of_two_predictions_shows_its_own_alone_and_without_a_choice(show):
    page = show([question("l00.a"), question("l00.ab"), picture("l00.a"), picture("l00.ab")])
    page.evaluate(ADD.format("beforeend"), verdict("l00.a") + verdict("l00.ab"))
    page.get_by_role("button", name="Show me").nth(1).click()
    shown = page.inner_text("main")
    assert "Five tokens answer l00.ab" in shown
    assert "This answers l00.ab." in shown
    assert "answer l00.a\n" not in shown
    assert "This answers l00.a." not in shown
    assert page.locator(".sn-pr-verdict").text_content() == "The answer: two"
    assert page.locator(".sn-pr-chosen").count() == 0
    page.get_by_role("button", name="Show me").click()
    assert "This answers l00.a." in page.inner_text("main")
    assert at_rest(page).evaluate("document.documentElement.dataset.snDid") == "l00.ab l00.a"


@pytest.mark.nightly
@pytest.mark.parametrize("left", [{"choice": 0, "committed": True}, {"shown": True}])
def test_what_was_answered_on_an_earlier_visit_hides_nothing(show, left):
    page = show([picture(), question(**left)])
    page.evaluate(ADD.format("beforeend"), verdict())
    shown = page.inner_text("main")
    assert "Five tokens answer" in shown
    assert "This answers" in shown


@pytest.mark.nightly
def test_hints_come_one_at_a_time_and_as_text(show):
    page = show([make("Hints")])
    rungs = page.locator(".sn-hi-rung")
    assert rungs.count() == 0
    for shown, name in enumerate(["Show a hint", "Show hint 2 of 3", "Show hint 3 of 3"], start=1):
        page.get_by_role("button", name=name).click()
        assert rungs.count() == shown
    assert samples.hints()["hints"][2] in rungs.last.text_content()
    button = page.get_by_role("button", name="All hints are shown")
    assert button.get_attribute("aria-disabled") == "true"
