"""Lesson 3b as a learner works in it: predicted, answered right, stepped through."""

import pytest
from driving import assert_ran_by_itself, in_lesson, press_on, widget
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l03b_packing")]

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


def test_lesson_3b_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("batch-view", "prediction", "hints")
    assert_ran_by_itself(lesson, "Nothing padded", kinds, not_started=1)
    forms = lesson.page.locator(".output table", has_text="executor").locator("tbody tr")
    expect(forms).to_have_count(4)
    expect(forms.get_by_text("all six the oracle's")).to_have_count(4)


def test_the_curves_and_the_bills_wait_for_their_prediction(lesson):
    curves = lesson.page.locator(".sn-curves")
    bills = lesson.page.locator(".output table", has_text="CPU: ITL p99")
    expect(curves.locator("svg")).to_have_count(0)
    expect(bills).to_be_hidden()
    lesson.show_answer("l03.p99")
    expect(curves.locator("svg").first).to_be_attached()
    expect(bills).to_be_visible()


def test_the_strip_and_its_mask_are_stepped_by_keyboard_with_the_learners_pack(lesson):
    lesson.answer(PACK)
    lesson.report("pack", "passed")
    strip = widget(lesson, "batch-view", "From padded to packed, by your pack")
    expect(strip).to_be_attached(timeout=60_000)
    chip = strip.locator(".sn-chip-strong")
    press_on(strip, "Home")
    expect(chip).to_have_text("11 useful of 32 computed")
    lesson.page.keyboard.press("ArrowRight")
    expect(chip).to_have_text("11 useful of 11 computed")
    lesson.page.keyboard.press("End")
    expect(strip.locator(".sn-bv-numbers")).to_contain_text("cu_q = [0, 1, 2, 3, 11]")
    expect(strip.locator(".sn-bv-mask .sn-mk-seen")).to_have_count(22 + 15 + 9 + 36)
