"""The course as a newcomer meets it: the first page, lesson 1, answers right, legal and endless.

One server and one page serve all tests; each writes into exercise cells that no other needs.
"""

import ast
import re

import pytest
from launching import wait_for
from playwright.sync_api import expect
from support import ROOT

from nanogpt import Engine, EngineConfig, Parts, Request, encode, load_model
from nanogpt.clock import LARGE_GPU, CostClock

pytestmark = pytest.mark.browser

SIZE = "return max(0, min(budget - num_decodes, remaining))"
MASK = """\
def chunk_mask(num_past: int, num_new: int) -> Tensor:
    keys = torch.arange(num_past + num_new)
    return keys[None, :] <= num_past + torch.arange(num_new)[:, None]
"""
INPUTS = """\
def chunk_inputs(tokens, cursor, n):
    end = cursor + n
    return tokens[cursor:end], list(range(cursor, end)), end == len(tokens)
"""
ENDLESS = """\
def chunk_inputs(tokens, cursor, n):
    while True:
        cursor += 1
"""
# Legal, and not the reference's: whoever has not started goes before whoever has.
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


@pytest.fixture(autouse=True)
def nothing_complained(complaints):
    """In no test does the console show an error or the page ask another machine for anything."""
    yield
    seen = complaints.copy()
    complaints.clear()
    assert seen == []


def test_the_first_page_is_a_map_of_the_lessons_without_code(page):
    assert "access_token" not in page.url
    expect(page.get_by_role("heading", level=1)).to_have_text("Serving NanoGPT")
    expect(page.locator(".cm-editor:visible")).to_have_count(0)
    cards = page.locator(".sng-map li")
    assert cards.count() >= 2
    for card in cards.all():
        expect(card).to_contain_text(re.compile(r"\d+ minutes .*0 of \d+ exercises passed"))
    expect(page.locator(".sng-next")).to_contain_text(re.compile(r"0 of \d+ exercises passed"))


def test_a_lesson_opens_by_its_link_and_runs_by_itself(lesson):
    page = lesson.page
    expect(page.get_by_role("heading", level=1)).to_contain_text("Chunked prefill")
    expect(page.locator(".sng-report[data-status=not_started]").first).to_be_attached()
    for kind in ("timeline", "mask_stepper", "step_cost", "prediction", "hints"):
        expect(page.locator(f".sn-{kind}").first).to_be_attached()
    widgets = page.locator("marimo-anywidget").count()
    expect(page.locator("marimo-anywidget .sn")).to_have_count(widgets)
    expect(page.locator(".marimo-error")).to_have_count(0)


def test_a_right_answer_that_is_typed_turns_the_check_green_and_is_saved(lesson, course_server):
    lesson.cell("chunk_size").locator(".cm-line", has_text="raise NotImpl").click()
    keyboard = lesson.page.keyboard
    keyboard.press("Home")
    keyboard.press("Shift+End")
    keyboard.type(SIZE)
    keyboard.press("Control+Enter")
    expect(lesson.report("chunk_size", "passed")).to_contain_text("Passed")
    file = course_server.work / "l01_chunked_prefill.py"
    wait_for(lambda: f"    {SIZE}\n" in file.read_text(), limit_s=30)
    pristine = (course_server.root / "lessons" / file.name).read_text()
    assert pristine == (ROOT / "lessons" / file.name).read_text()


def test_after_an_endless_loop_the_work_goes_on(lesson):
    lesson.answer(ENDLESS)
    expect(lesson.report("chunk_inputs", "timeout")).to_contain_text("Took too long")
    stopped = lesson.timeline.locator(".sn-note-bad")
    expect(stopped).to_contain_text("chunk_inputs took longer than", timeout=60_000)
    lesson.answer(MASK)
    lesson.report("chunk_mask", "passed")
    lesson.answer(INPUTS)
    lesson.report("chunk_inputs", "passed")
    expect(stopped).to_have_count(0, timeout=60_000)
