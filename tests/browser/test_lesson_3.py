"""Lessons 3 and 3b as a learner works in them: predicted, answered right, wrong and endlessly.

One server and one page serve all tests, in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import (
    assert_presentable,
    assert_ran_by_itself,
    press_on,
    widget,
)
from launching import wait_for
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

NUM_REPORTS = 5
ROWS = """\
def fused_rows(known, cursors, num_new):
    longest = max(num_new)
    tokens, positions = [], []
    for mine, cursor, n in zip(known, cursors, num_new):
        padding = [0] * (longest - n)
        tokens.append(padding + mine[cursor : cursor + n])
        positions.append(padding + list(range(cursor, cursor + n)))
    return tokens, positions
"""
# The post's words: who knows 22 tokens decodes at position 22.
ROWS_AHEAD = ROWS.replace(
    "padding + list(range(cursor, cursor + n))",
    "padding + (list(range(cursor, cursor + n)) if n > 1 else [len(mine)])",
)
# Legal, and not the reference's: whoever is padding sees everything, since nobody reads it.
MASK = """\
def full_mask(past_lens, num_new):
    past, new = max(past_lens), max(num_new)
    mask = torch.ones(len(num_new), new, past + new, dtype=torch.bool)
    for row, held, n in zip(mask, past_lens, num_new):
        row[-n:, : past - held] = False
        row[-n:, past : past + new - n] = False
        row[-n:, past + new - n :] = torch.ones(n, n).tril().bool()
    return mask
"""
MASK_ENDLESS = """\
def full_mask(past_lens, num_new):
    while True:
        past_lens = sorted(past_lens)
"""
PACK = """\
def pack(past_lens, num_new):
    cu_q, cu_k = [0], [0]
    for past, new in zip(past_lens, num_new):
        cu_q.append(cu_q[-1] + new)
        cu_k.append(cu_k[-1] + past + new)
    mask = torch.zeros(cu_q[-1], cu_k[-1], dtype=torch.bool)
    for i, (past, new) in enumerate(zip(past_lens, num_new)):
        block = torch.ones(new, past + new).tril(past).bool()
        mask[cu_q[i] : cu_q[i + 1], cu_k[i] : cu_k[i + 1]] = block
    return cu_q, cu_k, mask
"""


@pytest.fixture(scope="module")
def lesson(open_lesson):
    """Lesson 3, reached by its link on the first page."""
    return open_lesson("l03", NUM_REPORTS)


# ---- arriving ------------------------------------------------------------------------------------


def test_lesson_3_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("batch-view", "mask-build", "timeline", "prediction", "hints")
    assert_ran_by_itself(lesson, "Interleaving", kinds, not_started=5)


def test_a_prediction_is_committed_by_keyboard_and_remembered(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="fused into one padded tensor")
    expect(question).not_to_contain_text("11 useful ones")
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("32 tokens for 11 useful ones")
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l03.fused_cost.json")] != [])


# ---- answering -----------------------------------------------------------------------------------


def test_a_wrong_batch_is_drawn_as_it_was_made_and_marked_where_it_differs(lesson):
    lesson.answer(ROWS_AHEAD)
    expect(lesson.report("fused_rows", "failed")).to_contain_text("positions count from 0")
    batch = widget(lesson, "batch-view", "Your batch")
    expect(batch.locator(".sn-bv-differs:not(.sn-legend *)")).to_have_count(3)  # the decodes
    expect(batch.locator(".sn-bv-said")).to_contain_text("A (decode), row 0, column 7")
    note = lesson.timeline.locator(".sn-note")
    expect(note).to_contain_text("is the first that differs", timeout=60_000)
    first = int(re.search(r"Step (\d+) is the first", note.text_content())[1])
    lesson.timeline.get_by_role("button", name="Jump to first difference").click()
    expect(lesson.timeline.locator(".sn-live")).to_contain_text(f"Yours, step {first}: ")


def test_a_right_answer_turns_the_check_green_runs_in_the_engine_and_is_saved(
    lesson, course_server
):
    lesson.answer(ROWS)
    expect(lesson.report("fused_rows", "passed")).to_contain_text("Passed")
    batch = widget(lesson, "batch-view", "Your batch")
    expect(batch.locator(".sn-legend")).to_contain_text("no cell differs from the reference")
    same = lesson.timeline.locator(".sn-note-good")
    expect(same).to_have_text("Both did the same work in every step.", timeout=60_000)
    expect(lesson.page.get_by_text("In this run fused_rows came from you")).to_be_attached()
    file = course_server.work / "l03_interleaving.py"
    wait_for(lambda: "tokens.append(padding + mine" in file.read_text(), limit_s=30)


def test_after_an_endless_mask_another_legal_one_passes(lesson):
    lesson.answer(MASK_ENDLESS)
    expect(lesson.report("full_mask", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("full_mask")).to_be_visible()
    lesson.wait_until_open()
    lesson.answer(MASK)
    lesson.report("full_mask", "passed")
    expect(lesson.stand_in("full_mask")).to_have_count(0)
    mask = widget(lesson, "mask-build", "full_mask([4, 2, 0], [1, 3, 2])")
    expect(mask.locator(".sn-legend")).to_contain_text("faded: a padding query")
    expect(mask.locator(".sn-mk-differs")).to_have_count(0)  # what padding sees is free
    expect(
        lesson.page.get_by_text("All six texts equal those of the oracle").first
    ).to_be_attached()


# ---- the museum ----------------------------------------------------------------------------------


def test_an_exhibits_mask_waits_for_its_prediction(lesson):
    mask = widget(lesson, "mask-build", "The post's example, with a decode in row A")
    said = lesson.page.locator(".output table", has_text="what Romeo says").locator("td code")
    assert len(set(said.all_text_contents())) > 1
    expect(mask).to_have_count(0)
    expect(lesson.page.locator(".output").get_by_text("it depends on what else is")).to_be_hidden()
    lesson.show_answer("l03.exhibit_a")
    expect(mask.locator(".sn-mk-differs").first).to_be_attached()


# ---- looking -------------------------------------------------------------------------------------


def test_it_is_presentable_once_it_is_worked_through(lesson):
    assert_presentable(lesson)


# ---- lesson 3b -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packing(lesson, open_lesson, course_server):
    """Lesson 3b, reached from the first page."""
    lesson.page.goto(course_server.address)
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
    return open_lesson("l03b", 1)


def test_lesson_3b_opens_by_its_link_and_runs_by_itself(packing):
    kinds = ("batch-view", "prediction", "hints")
    assert_ran_by_itself(packing, "Nothing padded", kinds, not_started=1)
    forms = packing.page.locator(".output table", has_text="executor").locator("tbody tr")
    expect(forms).to_have_count(4)
    expect(forms.get_by_text("all six the oracle's")).to_have_count(4)


def test_the_curves_and_the_bills_wait_for_their_prediction(packing):
    curves = packing.page.locator(".sn-curves")
    bills = packing.page.locator(".output table", has_text="CPU: ITL p99")
    expect(curves.locator("svg")).to_have_count(0)
    expect(bills).to_be_hidden()
    packing.show_answer("l03.p99")
    expect(curves.locator("svg").first).to_be_attached()
    expect(bills).to_be_visible()


def test_the_strip_and_its_mask_are_stepped_by_keyboard_with_the_learners_pack(packing):
    packing.answer(PACK)
    packing.report("pack", "passed")
    strip = widget(packing, "batch-view", "From padded to packed, by your pack")
    expect(strip).to_be_attached(timeout=60_000)
    chip = strip.locator(".sn-chip-strong")
    press_on(strip, "Home")
    expect(chip).to_have_text("11 useful of 32 computed")
    packing.page.keyboard.press("ArrowRight")
    expect(chip).to_have_text("11 useful of 11 computed")
    packing.page.keyboard.press("End")
    expect(strip.locator(".sn-bv-numbers")).to_contain_text("cu_q = [0, 1, 2, 3, 11]")
    expect(strip.locator(".sn-bv-mask .sn-mk-seen")).to_have_count(22 + 15 + 9 + 36)


def test_lesson_3b_is_presentable_once_lesson_3b_is_worked_through(packing):
    assert_presentable(packing)
