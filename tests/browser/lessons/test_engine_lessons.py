"""What learners see in lessons 0 to 5 of their answers, wrong ones and right ones.

The predictions are answered by then; the tests of a lesson work in this order.
"""

import re

import pytest
from driving import at_rest, box, expect, in_lesson, press_on, worked_source
from launching import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

HIDDEN_EDITORS = ".marimo-cell [data-testid='cell-editor']:is(.h-0, .opacity-20)"
TEXT_LINES = """(all) => all.filter(
    (each) => each.checkVisibility() && each.textContent.length > 300
).map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.bottom / 8)));
    return each.textContent.length / lines.size;
})"""


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
    lengths = page.locator(".markdown.prose .paragraph").evaluate_all(TEXT_LINES)
    assert len(lengths) > 2
    assert min(lengths) > 55 and max(lengths) <= 76  # in a wide font; last lines are shorter
    page.reload()
    lesson.wait_until_open()
    expect(page.locator(".sn-work-bars .sn-wb-panel").first).to_be_visible()
    expect(page.locator(".sn-waits")).to_have_count(0)


# ---- lesson 2 ------------------------------------------------------------------------------------


@in_lesson("l02_scheduling")
def test_a_wrong_victim_is_told_why_and_the_right_one_ends_the_livelock(lesson):
    lesson.answer_right("sort_key")
    heap = lesson.widget("heap-stepper", "Ranked by your sort_key")
    assert press_on(heap, "Home").startswith("The heap is empty; ")
    number, of = re.findall(r"\d+", press_on(heap, "End"))[:2]
    assert number == of  # all have been let in
    lesson.answer(worked_source("l02.choose_victim").replace("max(", "min("))
    expect(lesson.report("choose_victim", "failed")).to_contain_text("the largest key")
    lesson.answer_right("choose_victim")
    said = lesson.page.get_by_text("In this run sort_key, choose_victim came from you")
    expect(said).to_be_attached()
    twins = lesson.widget("kv-budget", "The same two requests, under your rule")
    assert press_on(twins, "End").startswith("Step 19")  # both are done
    budget = lesson.widget("kv-budget", "KV tokens against a budget of 160")
    timeline = lesson.widget("timeline", "The same steps, request by request")
    press_on(budget, "Home", *["ArrowRight"] * 7)
    expect(budget.locator(".sn-live")).to_contain_text("Request 2 is preempted")
    expect(timeline.locator(".sn-live")).to_contain_text(re.compile("[Ss]tep 7: "))


# ---- lesson 2b -----------------------------------------------------------------------------------

FADES = "(element) => getComputedStyle(element).maskImage"


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


# ---- lesson 3 ------------------------------------------------------------------------------------

# The post's words: who knows 22 tokens decodes at position 22.
ROWS_AHEAD = """\
def prepare_inputs(known, cursors, num_new):
    longest = max(num_new)
    tokens, positions = [], []
    for mine, cursor, n in zip(known, cursors, num_new):
        padding = [0] * (longest - n)
        tokens.append(padding + mine[cursor : cursor + n])
        at = list(range(cursor, cursor + n)) if n > 1 else [len(mine)]
        positions.append(padding + at)
    return tokens, positions
"""
# Legal, and not the reference's: padding sees everything, since nothing reads it.
GENEROUS_MASK = """\
def full_mask(past_lens, num_new):
    past, new = max(past_lens), max(num_new)
    mask = torch.ones(len(num_new), new, past + new, dtype=torch.bool)
    for row, held, n in zip(mask, past_lens, num_new):
        row[-n:, : past - held] = False
        row[-n:, past : past + new - n] = False
        row[-n:, past + new - n :] = torch.ones(n, n).tril().bool()
    return mask
"""


def assert_first_difference_is_shown(lesson):
    note = lesson.timeline.locator(".sn-note")
    expect(note).to_contain_text("is the first that differs")
    first = int(re.search(r"Step (\d+) is the first", note.text_content())[1])
    lesson.timeline.get_by_role("button", name="Jump to first difference").click()
    expect(lesson.timeline.locator(".sn-live")).to_contain_text(f"Yours, step {first}: ")


@in_lesson("l03_interleaving")
def test_a_batch_and_a_mask_are_drawn_as_they_were_made_and_marked_where_they_differ(lesson):
    lesson.answer(ROWS_AHEAD)
    expect(lesson.report("prepare_inputs", "failed")).to_contain_text("counted from 0")
    batch = lesson.widget("batch-view", "Your batch")
    expect(batch.locator(".sn-bv-differs:not(.sn-legend *)")).to_have_count(3)  # the decodes
    assert_first_difference_is_shown(lesson)
    lesson.answer_right("prepare_inputs")
    expect(batch.locator(".sn-legend")).to_contain_text("no cell differs from the reference")
    same = lesson.timeline.locator(".sn-note-good")
    expect(same).to_have_text("Both did the same work in every step.")
    expect(lesson.page.get_by_text("In this run prepare_inputs came from you")).to_be_attached()
    lesson.answer(GENEROUS_MASK)
    lesson.report("full_mask", "passed")
    mask = lesson.widget("mask-build", "full_mask([4, 2, 0], [1, 3, 2])")
    expect(mask.locator(".sn-legend")).to_contain_text("faded: a padding query")
    expect(mask.locator(".sn-mk-differs")).to_have_count(0)  # what padding sees is free
    oracle = lesson.page.get_by_text("All six texts equal those of the oracle")
    expect(oracle.first).to_be_attached()
    said = lesson.page.locator(".output table", has_text="Romeo's text").locator("td code")
    assert len(set(said.all_text_contents())) > 1


# ---- lesson 4 ------------------------------------------------------------------------------------

VISIBLE_NARROW = """\
def visible(query, key, window, sinks):
    return key <= query and (window is None or key < sinks or query - key < window)
"""
# Legal, and not the reference's: the ring turns backwards, behind it lie the sinks.
RING = """\
def rolling_buffer_index(position, window, sinks):
    if position < sinks:
        return window + position
    return window - 1 - position % window
"""


@in_lesson("l04_sliding_window")
def test_the_window_s_slider_draws_another_run_and_a_narrow_window_is_marked(lesson):
    drawn = lesson.figure("KV tokens over time")
    expect(drawn).to_contain_text("a window of 24")
    thumb = lesson.page.locator("marimo-slider", has_text="Window W").get_by_role("slider")
    thumb.focus()
    thumb.press("ArrowRight")
    expect(drawn).to_contain_text("a window of 32")
    label = drawn.get_by_role("img").get_attribute("aria-label")
    assert "a window of 32: 32 at 0, 0 at 54" in label and "KV budget: 100." in label
    lesson.answer(VISIBLE_NARROW)
    lesson.report("visible", "failed")
    masks = lesson.widget("mask-stepper", "A window of 4 and 1 sink")
    # Of 14 queries those from 5 on lose the key 4 back, and the one that is a sink they keep.
    expect(masks.locator(".sn-mk-verdict")).to_have_text("9 cells differ")
    assert_first_difference_is_shown(lesson)
    lesson.answer_right("visible")
    same = lesson.timeline.locator(".sn-note-good")
    expect(same).to_have_text("Both did the same work in every step.")


@in_lesson("l04_sliding_window")
def test_another_ring_is_as_right_as_the_reference(lesson):
    lesson.answer(RING)
    lesson.report("rolling_buffer_index", "passed")
    ring = lesson.widget("storage-strip", "A window of 5 and 2 sinks, by your rolling_buffer_index")
    expect(ring).to_be_attached()
    assert press_on(ring, "Home").startswith("Position 0 goes into slot 5.")
    assert "Overwritten: 2" in press_on(ring, *["ArrowRight"] * 7)
    runs = lesson.page.locator(".output table", has_text="bytes alive, compared")
    expect(runs.locator("td", has_text="all equal")).to_have_count(4)


# ---- lesson 5 ------------------------------------------------------------------------------------


@in_lesson("l05_slo_policy")
def test_a_right_choice_decides_the_eight_moments(lesson):
    lesson.answer_right("select_victim")
    picture = lesson.widget("gate-picture", "Eight moments, by your function")
    expect(picture).to_be_attached()
    press_on(picture, "Home")
    victims = []
    for _ in range(8):
        victims.append(picture.get_by_role("img").locator(".sn-gp-victim").count())
        lesson.page.keyboard.press("ArrowRight")
    assert victims == [1, 0, 0, 1, 0, 0, 1, 0]
