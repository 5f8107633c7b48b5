"""Lesson 4 as a learner works in it: predicted, answered right, wrong and endlessly, repaired.

The tests work in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import assert_ran_by_itself, figure, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l04_sliding_window")]

VISIBLE = """\
def visible(query, key, window, sinks):
    if key > query:
        return False
    return window is None or key < sinks or query - key <= window
"""
VISIBLE_NARROW = VISIBLE.replace("<= window", "< window")
# Legal, and not the reference's: the ring turns backwards, behind it lie the sinks.
RING = """\
def ring_slot(position, window, sinks):
    if position < sinks:
        return window + position
    return window - 1 - position % window
"""
HELD_ENDLESS = """\
def held(cursor, num_tokens, window, sinks):
    while True:
        cursor += 1
"""
HELD = """\
def held(cursor, num_tokens, window, sinks):
    if window is None:
        return cursor + num_tokens, cursor + num_tokens
    limit = sinks + window
    return min(cursor, limit) + num_tokens, min(cursor + num_tokens, limit)
"""
EXHIBIT_A = """\
def exhibit_a(k, v, window, sinks):
    kept = [i for i in range(k.shape[1]) if i < sinks or i >= k.shape[1] - window]
    return k[:, kept], v[:, kept]
"""


# ---- arriving ------------------------------------------------------------------------------------


def test_lesson_4_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("kv-growth", "storage-strip", "block-table", "timeline", "prediction", "hints")
    assert_ran_by_itself(lesson, "The sliding window", kinds, not_started=5, failed=1)


def test_a_prediction_is_committed_by_keyboard_and_remembered(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="How many bytes are freed")
    expect(question).not_to_contain_text("A view is a window frame")
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "ArrowUp", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("Not this time. The answer: 0")
    expect(question).to_contain_text("A view is a window frame")
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l04.freed.json")] != [])


def test_every_picture_is_stepped_by_keyboard_alone(lesson):
    growth = widget(lesson, "kv-growth", "KV tokens of three requests")
    said = press_on(growth, "Home", *["ArrowRight"] * 30)
    held = dict(re.findall(r"(.+?), step 30: (\d+) KV tokens held", said))
    assert int(held["No window"]) > int(held["W = 20"]) == 60
    storage = widget(lesson, "storage-strip", "What a slice of 640 bytes keeps alive")
    assert "Held: 12,800 bytes; counted: 640." in press_on(storage, "Home", *["ArrowRight"] * 2)
    assert "Held: 640 bytes; counted: 640." in press_on(storage, "End")
    blocks = widget(lesson, "block-table", "A pool of eight blocks")
    assert "Given back: block" in " ".join(
        press_on(blocks, "ArrowRight" if step else "Home") for step in range(20)
    )


def test_the_window_s_slider_draws_another_run(lesson):
    drawn = figure(lesson, "KV tokens over time")
    expect(drawn).to_contain_text("a window of 24")
    thumb = lesson.page.locator("marimo-slider", has_text="Window W").get_by_role("slider")
    thumb.focus()
    thumb.press("ArrowRight")
    expect(drawn).to_contain_text("a window of 32")
    label = drawn.get_by_role("img").get_attribute("aria-label")
    assert "a window of 32: 32 at 0, 0 at 54" in label
    assert "KV budget: 100." in label


# ---- answering -----------------------------------------------------------------------------------


def test_a_wrong_answer_is_drawn_as_it_is_and_marked_at_the_first_difference(lesson):
    lesson.answer(VISIBLE_NARROW)
    lesson.report("visible", "failed")
    masks = widget(lesson, "mask-stepper", "A window of 4 and 1 sink")
    # Of 14 queries those from 5 on lose the key 4 back, and the one that is a sink they keep.
    expect(masks.locator(".sn-mk-verdict")).to_have_text("9 cells differ", timeout=60_000)
    note = lesson.timeline.locator(".sn-note")
    expect(note).to_contain_text("is the first that differs", timeout=60_000)
    first = int(re.search(r"Step (\d+) is the first", note.text_content())[1])
    lesson.timeline.get_by_role("button", name="Jump to first difference").click()
    expect(lesson.timeline.locator(".sn-live")).to_contain_text(f"Yours, step {first}: ")


def test_a_right_answer_turns_the_check_green_runs_in_the_engine_and_is_saved(
    lesson, course_server
):
    lesson.answer(VISIBLE)
    expect(lesson.report("visible", "passed")).to_contain_text("Passed")
    same = lesson.timeline.locator(".sn-note-good")
    expect(same).to_have_text("Both did the same work in every step.", timeout=60_000)
    expect(lesson.page.get_by_text("In these runs visible came from you")).to_be_attached()
    file = course_server.work / "l04_sliding_window.py"
    wait_for(lambda: "key < sinks or query - key <= window" in file.read_text())


def test_another_ring_is_as_right_as_the_reference_and_drawn_as_it_is(lesson):
    unwritten = lesson.page.get_by_text("Once you have written ring_slot")
    expect(unwritten).to_be_attached()
    lesson.answer(RING)
    lesson.report("ring_slot", "passed")
    ring = widget(lesson, "storage-strip", "A window of 5 and 2 sinks, by your ring_slot")
    expect(ring).to_be_attached(timeout=60_000)
    expect(unwritten).to_have_count(0)
    assert press_on(ring, "Home").startswith("Position 0 goes into slot 5.")
    assert "Overwritten: 2" in press_on(ring, *["ArrowRight"] * 7)
    runs = lesson.page.locator(".output table", has_text="held and live bytes")
    expect(runs.locator("td", has_text="all equal")).to_have_count(4, timeout=60_000)


def test_after_an_endless_loop_the_work_goes_on(lesson):
    lesson.answer(HELD_ENDLESS)
    expect(lesson.report("held", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("held")).to_be_visible()
    lesson.answer(HELD)
    lesson.report("held", "passed")
    expect(lesson.stand_in("held")).to_have_count(0)


# ---- the museum ----------------------------------------------------------------------------------


def test_a_repaired_eviction_stays_in_the_budget_and_passes_its_check(lesson):
    verdict = lesson.report("evict", "failed", place=1)
    expect(verdict).not_to_be_visible()  # it would answer the question above it
    lesson.show_answer("l04.one_in_one_out")
    expect(verdict).to_be_visible()
    picture = widget(lesson, "kv-growth", "Exhibit A, against a KV budget of 60")
    assert "128 of 60 KV tokens held, 68 over the budget" in press_on(
        picture, "Home", *["ArrowRight"] * 4
    )
    lesson.answer(EXHIBIT_A)
    lesson.report("evict", "passed", place=1)
    lesson.report("evict", "not_started", place=0)
    expect(picture.locator(".sn-kg-total")).to_contain_text("at most 60 KV tokens in all")
    expect(picture.locator(".sn-kg-counted")).to_have_count(0)
