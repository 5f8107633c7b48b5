"""Lesson 4b as a learner works in it: predicted, judged wrong and right, the curve by that judge.

The tests work in this order.
"""

import pytest
from driving import assert_ran_by_itself, figure, in_lesson, press_on, turn, widget
from launching import wait_for
from playwright.sync_api import expect

from nanogpt.figures import DARK, LIGHT

pytestmark = [pytest.mark.browser, in_lesson("l04b_window_quality")]

JUDGE = """\
def judge(full_logits, window_logits, targets):
    same = full_logits.argmax(1) == window_logits.argmax(1)
    loss = torch.nn.functional.cross_entropy
    added = loss(window_logits, targets) - loss(full_logits, targets)
    return same.float().mean().item(), added.item()
"""
BACKWARDS = JUDGE.replace(
    "loss(window_logits, targets) - loss(full_logits, targets)",
    "loss(full_logits, targets) - loss(window_logits, targets)",
)


def test_lesson_4b_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("prediction", "hints", "receptive-field", "attention-by-distance")
    assert_ran_by_itself(lesson, "What a window costs", kinds, not_started=1)


def test_the_knowledge_of_the_last_token_is_shown_after_its_prediction(lesson):
    lesson.show_answer("l04.far_token")
    field = widget(lesson, "receptive-field", "What the last token can know about")
    field.get_by_role("button", name="Show its way").click()
    assert "Token 20 lies 20 back, and acts through 3 layers" in press_on(field, "End")


def test_the_curve_is_the_learners_judges_as_soon_as_it_is_written(lesson, course_server):
    curve = figure(lesson, "The shipped model under a window")
    lesson.show_answer("l04.cost")
    expect(curve).to_contain_text("judge: the reference (yours is not written yet)")
    lesson.answer(BACKWARDS)
    card = lesson.report("judge", "failed")
    expect(card).to_contain_text("window")
    expect(curve).to_contain_text("judge: yours", timeout=60_000)
    lesson.answer(JUDGE)
    lesson.report("judge", "passed")
    expect(curve.get_by_role("img")).to_be_visible()
    file = course_server.work / "l04b_window_quality.py"
    wait_for(lambda: "    same = full_logits.argmax(1)" in file.read_text())


def test_the_curve_follows_the_page_into_the_dark(lesson):
    curve = (
        figure(lesson, "The shipped model under a window").locator("[style*='--fig-hue-0']").first
    )
    for scheme, theme in (("dark", DARK), ("light", LIGHT)):
        turn(lesson, scheme)
        red, green, blue = bytes.fromhex(theme.hues[0][1:])
        expect(curve).to_have_css("stroke", f"rgb({red}, {green}, {blue})")


def test_heads_are_looked_at_by_keyboard_after_their_prediction(lesson):
    lesson.show_answer("l04.layers")
    heads = widget(lesson, "attention-by-distance", "Attention weight by distance")
    assert press_on(heads, "ArrowLeft") != press_on(heads, "ArrowRight")
