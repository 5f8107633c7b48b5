"""Lesson 3 as a learner works in it: predicted, answered right, wrong and endlessly.

The tests work in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import assert_ran_by_itself, in_lesson, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l03_interleaving")]

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
# Legal, and not the reference's: padding sees everything, since nothing reads it.
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
    wait_for(lambda: "tokens.append(padding + mine" in file.read_text())


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
