"""Lesson 8 as a learner works in it: predicted, answered wrong, right and endlessly, repaired.

The tests work in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import assert_ran_by_itself, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l08_speculation")]

WAIT_MS = 120_000  # for what follows an answer: runs of the engine, on a busy machine
ACCEPT = """\
def accept(p, q, token, u, v):
    if u < p[token] / q[token]:
        return True, token
    missing = [max(0.0, a - b) for a, b in zip(p, q)]
    goal = v * sum(missing)
    for other, weight in enumerate(missing):
        goal -= weight
        if goal < 0:
            break
    return False, other
"""
ACCEPT_FROM_P = ACCEPT.replace("max(0.0, a - b)", "a")
ACCEPT_ENDLESS = """\
def accept(p, q, token, u, v):
    while True:
        u += v
"""
EXPECTED_TOKENS = """\
def expected_tokens(p, k):
    return sum(p**i for i in range(k + 1))
"""
EXPECTED_TOKENS_SHORT = EXPECTED_TOKENS.replace("k + 1", "k")
SPEEDUP = """\
def speedup(p, k, alpha):
    return expected_tokens(p, k) / (1 + k * alpha)
"""
ROLL_BACK = """\
def roll_back_kv(held, num_drafted, num_accepted):
    return held - num_drafted + num_accepted
"""
ROLL_BACK_NOTHING = """\
def roll_back_kv(held, num_drafted, num_accepted):
    return held
"""
EXHIBIT_B = ROLL_BACK.replace("def roll_back_kv(", "def exhibit_b(")


@pytest.fixture(scope="module")
def ran(lesson):
    """What is said of your engine's run, with a row for each request."""
    return lesson.page.locator(".output", has_text="passes without drafts")


def test_lesson_8_opens_by_its_link_and_runs_by_itself(lesson, ran):
    kinds = ("speculation-strip", "accept-bars", "curves", "timeline", "prediction", "hints")
    assert_ran_by_itself(lesson, "Speculative decoding", kinds, not_started=4, failed=2)
    expect(ran).to_contain_text("This run used the reference for accept, roll_back_kv")
    expect(ran).to_contain_text("Step for step, it is the reference's run.")


def test_what_answers_a_prediction_waits_until_it_is_committed_by_keyboard(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="Is the outcome distributed as p?")
    expect(question).not_to_contain_text("second chance")
    missing = lesson.page.locator(".output table", has_text="stays with probability")
    bars = widget(lesson, "accept-bars", "Three tokens")
    expect(missing).to_be_hidden()
    expect(bars).to_have_count(0)
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("second chance")
    expect(missing).to_be_visible()
    expect(bars).to_contain_text("the reference (yours is not written yet)")
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l08.resample.json")] != [])
    for key in ("four_times", "stands_still", "ghosts", "knew"):
        lesson.show_answer(f"l08.{key}")


def test_the_passes_of_a_text_are_told_by_keyboard(lesson):
    strip = widget(lesson, "speculation-strip", "Sixty characters, four drafts ahead")
    assert press_on(strip, "Home", "ArrowRight").startswith("Pass 2 of ")
    shown = strip.locator(".sn-sp-table tbody tr")
    marks = []
    for _ in range(8):
        lesson.page.keyboard.press("ArrowRight")
        marks += shown.locator("td:last-child").all_text_contents()
    assert {"✓ kept", "✗ rejected", "not read", "↻ resampled"} <= set(marks)
    told = lesson.page.locator(".output strong", has_text="passes for 60 characters")
    num_passes = told.text_content().split()[0]
    assert f"60 tokens in {num_passes} passes so far" in press_on(strip, "End")
    press_on(strip, "Home", *["ArrowRight"] * 8)
    strip.evaluate("each => each.scrollIntoView()")


def test_a_wrong_accept_bends_the_law_which_a_right_one_keeps(lesson, ran, course_server):
    bars = widget(lesson, "accept-bars", "Three tokens")
    counted = lesson.page.locator(".output", has_text="judged by your accept")
    off = counted.locator("td strong")  # more than chance explains
    lesson.answer(ACCEPT_FROM_P)
    card = lesson.report("accept", "failed")
    expect(card).to_contain_text("second chance")
    expect(bars).to_contain_text("your accept", timeout=WAIT_MS)
    law = bars.get_by_role("img", name="comes out")
    expect(law).to_have_attribute(
        "aria-label", re.compile(r"^a: p 0\.125, .* comes out 0\.188; b: ")
    )
    expect(off.first).to_be_attached(timeout=WAIT_MS)
    expect(ran).to_contain_text("In this run accept came from you", timeout=WAIT_MS)

    lesson.answer(ACCEPT)
    expect(lesson.report("accept", "passed")).to_contain_text("Passed")
    right = re.compile(r"^a: p 0\.125, q 0\.625, comes out 0\.125; b: ")
    expect(law).to_have_attribute("aria-label", right, timeout=WAIT_MS)
    expect(off).to_have_count(0, timeout=WAIT_MS)
    expect(ran).to_contain_text("Step for step, it is the reference's run.", timeout=WAIT_MS)
    file = course_server.work / "l08_speculation.py"
    wait_for(lambda: "    goal = v * sum(missing)\n" in file.read_text())


def test_the_curve_of_speed_ups_is_drawn_by_both_of_your_formulas(lesson):
    curves = widget(lesson, "curves", "What speculation is worth")
    expect(curves).to_contain_text("the reference (yours is not written yet)")
    lesson.answer(EXPECTED_TOKENS_SHORT)
    expect(lesson.report("expected_tokens", "failed")).to_contain_text("own")
    lesson.answer(EXPECTED_TOKENS)
    lesson.report("expected_tokens", "passed")
    lesson.answer(SPEEDUP)
    lesson.report("speedup", "passed")
    expect(curves).to_contain_text("yours", timeout=WAIT_MS)
    curves.get_by_text("The numbers").click()
    at_four = curves.locator("tr", has=lesson.page.get_by_role("rowheader", name="4", exact=True))
    expect(at_four).to_contain_text("2.6")
    expect(at_four).to_contain_text("4")


def test_a_wrong_rollback_stops_your_engine_and_a_right_one_gives_the_oracle_s_texts(lesson, ran):
    lesson.answer(ROLL_BACK_NOTHING)
    expect(lesson.report("roll_back_kv", "failed")).to_contain_text("rejected")
    stopped = re.compile("The run stopped early.*: your roll_back_kv.* rejected drafts")
    expect(ran).to_contain_text(stopped, timeout=WAIT_MS)

    lesson.answer(ROLL_BACK)
    lesson.report("roll_back_kv", "passed")
    expect(ran).to_contain_text("In this run accept, roll_back_kv came from you", timeout=WAIT_MS)
    expect(ran).to_contain_text("Step for step, it is the reference's run.")
    rows = ran.locator("tbody tr")
    expect(rows).to_have_count(3)
    for row in rows.all():
        _, without, with_drafts, verdict, _ = row.locator("td").all_text_contents()
        assert int(with_drafts) < 0.7 * int(without)
        assert verdict == "the oracle's"
    said = press_on(lesson.timeline, "Home", *["ArrowRight"] * 2)
    assert re.match("Yours, step 2: requests 0 and 1 decode and sample ('.*?'|a space), ", said)
    lesson.timeline.evaluate("each => each.scrollIntoView()")


def test_after_an_endless_accept_the_work_goes_on(lesson, ran):
    lesson.answer(ACCEPT_ENDLESS)
    expect(lesson.report("accept", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("accept")).to_be_visible()
    lesson.answer(ACCEPT)
    lesson.report("accept", "passed")
    expect(lesson.stand_in("accept")).to_have_count(0)
    expect(ran).to_contain_text("Step for step, it is the reference's run.", timeout=WAIT_MS)


def test_a_repaired_exhibit_loses_its_symptom_and_passes_its_check(lesson):
    served = lesson.page.locator(".output", has_text="passes. The oracle: ")
    expect(served).to_contain_text("They part after")
    lesson.report("roll_back_kv", "failed", place=1)
    lesson.answer(EXHIBIT_B)
    lesson.report("roll_back_kv", "passed", place=1)
    expect(served).to_contain_text("They are the same.", timeout=WAIT_MS)
