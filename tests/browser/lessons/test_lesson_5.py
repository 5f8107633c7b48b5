"""Lesson 5 as a learner works in it: predicted, answered wrong, right and endlessly, repaired.

The tests work in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import assert_ran_by_itself, figure, focus_toolbar, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l05_slo_policy")]

SLACK = """\
def slack(now, deadline, total, done, a, c):
    left = total - done
    return deadline - now - (a * left + c if left else 0)
"""
# The post's words: the time left minus the predicted TTFT.
SLACK_OF_ALL = """\
def slack(now, deadline, total, done, a, c):
    return deadline - now - (a * total + c)
"""
GATE = """\
def gate(waiter, runners, margin, mode):
    order = sorted(
        (each for each in runners if not each.num_preemptions),
        key=lambda each: (-each.urgency, each.id),
    )
    if waiter.urgency < 0 or not order:
        return None
    reference = order[0] if mode == "conservative" else order[-1]
    return order[-1].id if waiter.urgency > margin * reference.urgency else None
"""
GATE_ENDLESS = """\
def gate(waiter, runners, margin, mode):
    while True:
        margin += 1
"""
EXHIBIT_A = """\
def exhibit_a(waiter, runner, margin):
    return waiter >= 0 and (runner < 0 or waiter > margin * runner)
"""
FIT = """\
def fit(points):
    if len({x for x, _ in points}) < 2:
        raise ValueError("one length says nothing of the slope")
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    a = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return a, mean_y - a * mean_x
"""
FIT_THROUGH_0 = """\
def fit(points):
    return sum(x * y for x, y in points) / sum(x * x for x, _ in points), 0.0
"""


def test_lesson_5_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("slack-timeline", "gate-picture", "repair-ladder", "prediction", "hints")
    assert_ran_by_itself(lesson, "SLO policy", kinds, not_started=5, failed=1)


def test_a_prediction_is_committed_by_keyboard_and_remembered(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="gets its first token 390 ms after")
    expect(question).not_to_contain_text("The report's TTFT goes from")
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("The report's TTFT goes from 410 to 522 ms")
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l05.price.json")] != [])


def test_the_learners_line_is_drawn_through_the_points_beside_the_references(lesson):
    curves = figure(lesson, "Our model on a CPU, measured once")
    expect(curves).to_contain_text("your line is not written yet")
    lesson.answer(FIT_THROUGH_0)
    lesson.report("fit", "failed")
    expect(curves).to_contain_text("your line", timeout=60_000)
    expect(curves).to_contain_text("the reference's line")
    lesson.answer(FIT)
    lesson.report("fit", "passed")
    expect(curves).not_to_contain_text("the reference's line", timeout=60_000)
    expect(curves).to_contain_text("your line")


def test_a_wrong_slack_is_marked_where_it_differs_and_a_right_one_is_drawn(lesson, course_server):
    page = lesson.page
    compared = page.locator(".output table", has_text="preemptions, computed in vain")
    lesson.answer(SLACK_OF_ALL)
    card = lesson.report("slack", "failed")
    expect(card).to_contain_text("done")
    mine = widget(lesson, "slack-timeline", "Promised within 80 ms, by your slack")
    expect(mine).to_be_attached(timeout=60_000)
    press_on(mine, "End")
    differs = mine.locator(".sn-sk-differs:not(.sn-legend *)")
    expect(differs).to_have_count(1)  # of the runner; for the one that waits it is right
    expect(compared).to_contain_text("differs first in pass", timeout=60_000)

    lesson.answer(SLACK)
    expect(lesson.report("slack", "passed")).to_contain_text("Passed")
    expect(differs).to_have_count(0, timeout=60_000)
    expect(compared).not_to_contain_text("differs first in pass", timeout=60_000)
    expect(compared).to_contain_text("like the reference")
    expect(page.get_by_text(re.compile("In these runs slack came from you"))).to_be_attached()
    file = course_server.work / "l05_slo_policy.py"
    wait_for(lambda: "    left = total - done\n" in file.read_text())

    press_on(mine, "Home", *["ArrowRight"] * 2)
    said = mine.locator(".sn-live")
    expect(said).to_contain_text("It runs, 20.0 ms after the arrival: 300 of 500 tokens are left")
    expect(said).to_contain_text("It waits, 20.0 ms after the arrival: 500 tokens to compute")
    mine.evaluate("each => each.scrollIntoView()")


def test_after_an_endless_gate_a_right_one_decides_the_eight_moments(lesson):
    lesson.answer(GATE_ENDLESS)
    expect(lesson.report("gate", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("gate")).to_be_visible()

    lesson.answer(GATE)
    lesson.report("gate", "passed")
    expect(lesson.stand_in("gate")).to_have_count(0)
    picture = widget(lesson, "gate-picture", "Eight moments, by your gate")
    expect(picture).to_be_attached(timeout=60_000)
    press_on(picture, "Home")
    victims = []
    for _ in range(8):
        victims.append(picture.get_by_role("img").locator(".sn-gp-victim").count())
        lesson.page.keyboard.press("ArrowRight")
    assert victims == [1, 0, 0, 1, 0, 0, 1, 0]


def test_the_ladder_is_climbed_by_keyboard(lesson):
    lesson.show_answer("l05.null")
    lesson.show_answer("l05.visible")
    ladder = widget(lesson, "repair-ladder", "The repair ladder")
    focus_toolbar(ladder)
    said = ladder.locator(".sn-live")
    for key, words in (("Home", "No preemption."), ("End", "The batches alone")):
        lesson.page.keyboard.press(key)
        expect(said).to_contain_text(words)
    ladder.evaluate("each => each.scrollIntoView()")


def test_a_repaired_exhibit_loses_its_symptom_and_passes_its_check(lesson):
    seen = lesson.page.locator(".output", has_text="10,200 ms").locator("table")
    expect(seen.first).to_contain_text("aborted")
    verdict = lesson.report("gate", "failed", place=1)
    expect(verdict).not_to_be_visible()
    lesson.show_answer("l05.after_you")
    expect(verdict).to_be_visible()
    lesson.answer(EXHIBIT_A)
    lesson.report("gate", "passed", place=1)
    expect(seen.first).not_to_contain_text("aborted")
