"""Lesson 1 as a newcomer meets it: answers right, legal and endless, an editor beside the page.

The tests work in this order, each in cells that no other needs.
"""

import re

import pytest
from driving import expect, in_lesson, press_on
from launching import wait_for

pytestmark = [pytest.mark.browser, in_lesson("l01_chunked_prefill")]

SIZE = "return max(0, min(token_budget - num_decodes, remaining))"
INPUTS = """\
def chunk_inputs(tokens, cursor, n):
    end = cursor + n * ONCE
    return tokens[cursor:end], places(cursor, end), end == len(tokens)

import numpy as np
ONCE = 1

def places(cursor, end):
    return np.arange(cursor, end).tolist()
"""
KEEPS_THE_LOCK = """\
def chunk_inputs(tokens, cursor, n):
    return sum(range(10**12))
"""
# Legal, and not the reference's: what has not started goes before what has.
NEWEST_FIRST = """\
def plan_step(decodes, prefilling, waiting, budget):
    plan = [(who, 1) for who in decodes[:budget]]
    left = budget - len(plan)
    for who, remaining in waiting + prefilling:
        n = min(left, remaining)
        if n > 0:
            plan.append((who, n))
            left -= n
    return plan
"""


def test_an_answer_that_is_typed_turns_the_check_red_then_green_and_is_saved(lesson, course_server):
    wrong, keyboard = "return token_budget", lesson.page.keyboard
    for old, new, status in (("raise NotImpl", wrong, "failed"), (wrong, SIZE, "passed")):
        # Three clicks select the whole line, also where it wraps.
        lesson.cell("chunk_size").locator(".cm-line", has_text=old).click(click_count=3)
        keyboard.type(f"    {new}")
        keyboard.press("Control+Enter")
        lesson.report("chunk_size", status)
    file = course_server.work / f"{lesson.stem}.py"
    wait_for(lambda: f"    {SIZE}\n" in file.read_text())
    assert SIZE not in (course_server.root / "lessons" / file.name).read_text()


def test_another_legal_plan_is_compared_with_the_reference(lesson):
    lesson.answer(NEWEST_FIRST)
    lesson.report("plan_step", "failed")
    timeline = lesson.timeline
    differs = timeline.locator(".sn-note", has_text="is the first that differs")
    expect(differs).to_be_attached()
    first = re.findall(r"Step (\d+) is", differs.text_content())[0]
    press_on(timeline, "End")
    timeline.get_by_role("button", name="Jump to first difference").click()
    yours, reference = timeline.locator(".sn-live").text_content().split("\n")[:2]
    assert yours.startswith(f"Yours, step {first}: ")
    assert reference.startswith(f"The reference, step {first}: ")


def test_of_two_edits_at_once_the_editor_s_wins_and_the_page_s_is_kept(lesson, course_server):
    file = course_server.work / f"{lesson.stem}.py"
    before, head, after = file.read_text().partition("def pick_budget(")
    lesson.type_at_end("pick_budget", " or 1002")
    file.write_text(before + head + after.replace("raise Not", "raise  Not", 1))
    expect(lesson.cell("pick_budget")).to_contain_text("raise  Not")
    expect(lesson.page.get_by_text("Two versions of this lesson")).to_be_visible()
    wait_for(lambda: "raise  Not" in file.read_text())
    [kept] = (file.parent / "kept").glob(f"{file.stem}.*")
    assert " or 1002" in kept.read_text()
    [why] = (file.parent / "kept" / "why.txt").read_text().splitlines()
    assert why.endswith(f"It is kept as work/kept/{kept.name}.")


@pytest.mark.nightly
def test_after_an_answer_that_never_comes_back_the_work_goes_on(lesson, course_server):
    lesson.answer(KEEPS_THE_LOCK)
    report = lesson.report("chunk_inputs", "timeout")
    expect(report).to_contain_text("and was stopped on its line 2")
    expect(lesson.stand_in("chunk_inputs")).to_be_visible()
    lesson.answer(INPUTS)
    lesson.report("chunk_inputs", "passed")
    expect(lesson.stand_in("chunk_inputs")).to_have_count(0)
    expect(lesson.timeline.locator(".sn-note-bad")).to_have_count(0)
    # What the answer uses is kept with it.
    kept = (course_server.work / "answers" / "l01.chunk_inputs.py").read_text()
    assert re.findall(r"^(?:import|def)? ?(\w+)", kept, re.MULTILINE) == [
        "numpy", "chunk_inputs", "ONCE", "places"
    ]  # fmt: skip


def test_who_comes_back_finds_the_answers_and_the_progress(lesson, course_server):
    page = lesson.page
    lesson.report("chunk_size", "passed")
    passed = page.locator(".sng-report[data-status=passed]").count()
    page.goto(course_server.address)
    card = page.locator(".sng-map li", has_text="Chunked prefill")
    expect(card).to_contain_text(f"{passed} of 5 exercises passed")
    card.get_by_role("link").click()
    lesson.wait_until_open()
    lesson.report("chunk_size", "passed")
    expect(lesson.cell("chunk_size")).to_contain_text(SIZE)
    expect(page.locator(".sng-report[data-status=passed]")).to_have_count(passed)
