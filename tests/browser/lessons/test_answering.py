"""What only a real page shows of lessons 0 to 10: frames, a phone's room, controls, processes.

What a lesson says and draws of each answer is tested without a browser in
`course/test_lessons.py`. The predictions are answered by then; the tests work in this order.
"""

import os
import re
import urllib.request
from contextlib import suppress

import psutil
import pytest
from driving import JS, at_rest, box, expect, in_lesson, worked_source
from launching import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

HIDDEN_EDITORS = ".marimo-cell [data-testid='cell-editor']:is(.h-0, .opacity-20)"
FADES = "(element) => getComputedStyle(element).maskImage"


@in_lesson("l00_kv_cache")
def test_a_lesson_s_tasks_stand_over_framed_cells_its_lines_are_short_and_a_reload_keeps_it(lesson):
    lesson.show_all_answers()
    page = lesson.page
    for name in ("next_inputs", "finish_steps"):
        card = page.locator(f"[data-task='l00.{name}']")
        label = card.evaluate("(card) => getComputedStyle(card, '::after').content")
        assert label == '"Your code"'
        frame = lesson.cell(name).locator("xpath=ancestor::*[@data-testid='cell-editor'][1]")
        width = frame.evaluate("(editor) => getComputedStyle(editor).borderTopWidth")
        above = at_rest(card).bounding_box()
        below = at_rest(frame).bounding_box()["y"] - above["y"] - above["height"]
        assert (width, 0 < below < 40) == ("2px", True)
    hidden = page.locator(HIDDEN_EDITORS)
    assert hidden.count() > 20
    assert [each for each in hidden.all() if each.is_visible()] == []
    lengths = page.locator(".markdown.prose .paragraph").evaluate_all(JS["TEXT_LINES"])
    assert len(lengths) > 2
    assert min(lengths) > 55 and max(lengths) <= 76  # in a wide font; last lines are shorter
    page.reload()
    lesson.wait_until_open()
    expect(page.locator(".sng-fig-panel").first).to_be_visible()
    expect(page.locator(".sn-waits")).to_have_count(0)


@in_lesson("l02b_waiting")
def test_on_a_phone_a_wide_table_fades_where_it_goes_on_and_the_hourglass_hides_nothing(lesson):
    lesson.show_all_answers()
    table = lesson.page.locator(".output table", has_text="inversion")
    lesson.page.set_viewport_size({"width": 390, "height": 900})
    wait_for(lambda: "linear-gradient" in table.evaluate(FADES))
    table.evaluate("(table) => { table.scrollLeft = table.scrollWidth; }")
    wait_for(lambda: table.evaluate(FADES) == "none")
    left, _ = box(table)
    assert box(table.locator("tbody td").first)[0] == pytest.approx(left, abs=1)
    lesson.answer(worked_source("l02.aged_key") + "\n__import__('time').sleep(8)\n")
    hourglass = lesson.page.locator(".running-app-icon")
    expect(hourglass).to_be_visible()
    assert box(hourglass)[1] <= box(lesson.page.locator("#App h1"))[0]
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
    lesson.answer_right("aged_key")
    expect(lesson.page.get_by_text("Ageing ranks by your aged_key.")).to_be_visible()


@in_lesson("l04_sliding_window")
def test_the_window_s_slider_draws_another_run(lesson):
    lesson.show_all_answers()
    drawn = lesson.figure("KV tokens over time")
    expect(drawn).to_contain_text("a window of 24")
    thumb = lesson.page.locator("marimo-slider", has_text="Window W").get_by_role("slider")
    thumb.focus()
    thumb.press("ArrowRight")
    expect(drawn).to_contain_text("a window of 32")
    label = drawn.get_by_role("img").get_attribute("aria-label")
    assert "a window of 32: 32 at 0, 0 at 54" in label and "KV budget: 100." in label


def ranks_below():
    """The ids of the rank processes that the course has started, not those of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended since
            if "nanogpt.preemption.rank" in process.cmdline() and process.ppid() != os.getpid():
                found.append(process.pid)
    return found


@in_lesson("l06_preempting_the_pass")
def test_no_rank_is_left_when_the_page_is_closed_in_the_middle_of_a_pass(lesson, course_server):
    lesson.show_all_answers()
    wait_for(lambda: ranks_below() == [], limit_s=180)  # those of the page before are ending
    # Another text, so that its run is not known yet.
    lesson.answer(worked_source("l06.rollback_step").replace("back ", "first "))
    wait_for(lambda: len(ranks_below()) == 2, limit_s=180)
    ranks = ranks_below()
    lesson.page.goto(course_server.address)  # the lesson's own page is closed by that
    expect(lesson.page.locator(".sng-map")).to_be_visible()
    wait_for(lambda: not any(map(psutil.pid_exists, ranks)), limit_s=180)
    lesson.page.go_back()
    lesson.wait_until_open()


@in_lesson("l10_capstone")
def test_the_server_that_stands_answers_whatever_asks_it(lesson):
    lesson.show_all_answers()
    said = lesson.shows("Your engine is served at")
    [address] = re.findall(r"http://127\.0\.0\.1:\d+", said.text_content())[:1]
    with urllib.request.urlopen(f"{address}/v1/models", timeout=20) as answer:
        assert b'"nanogpt"' in answer.read()
