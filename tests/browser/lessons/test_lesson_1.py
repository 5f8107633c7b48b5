"""Lesson 1 as a newcomer meets it: answers right, legal and endless, an editor beside the page.

The tests work in this order, each in cells that no other needs.
"""

import re

import pytest
from driving import at_rest, expect, in_lesson, press_on
from launching import wait_for

from course.lesson_data.l01_chunks import six_requests
from nanogpt import Engine, EngineConfig, Policies, load_model
from nanogpt.clock import LARGE_GPU, CostClock

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
ENDLESS = """\
def chunk_inputs(tokens, cursor, n):
    while True:
        cursor += 1
"""
KEEPS_THE_LOCK = """\
def chunk_inputs(tokens, cursor, n):
    return sum(range(10**12))
"""
LEAVES = """\
def chunk_inputs(tokens, cursor, n):
    __import__("os")._exit(0)
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
# The columns and rows of the learner's cells, read off the drawing: [state, row, step].
DRAWN = """(picture) => {
    const [block] = picture.querySelectorAll(":scope > g");
    const middle = (rect) => +rect.getAttribute("x") + rect.getAttribute("width") / 2;
    const steps = [...block.querySelectorAll(".sn-step")].map(
        (text) => [+text.getAttribute("x"), +text.textContent]);
    const cells = [...block.querySelectorAll(".sn-tl-prefill, .sn-tl-decode")];
    const top = Math.min(...cells.map((cell) => +cell.getAttribute("y")));
    return cells.map((cell) => [
        cell.classList.contains("sn-tl-decode") ? "decode" : "prefill",
        Math.round((cell.getAttribute("y") - top) / 36),
        steps.find(([x]) => Math.abs(x - middle(cell)) < 2)?.[1],
    ]);
}"""


# ---- reading -------------------------------------------------------------------------------------


def run_with(policies):
    engine = Engine(
        load_model(), EngineConfig(token_budget=32), policies, clock=CostClock(LARGE_GPU)
    )
    return engine.run(six_requests()).steps


def plan_of(step):
    """Who decodes, and who prefills which tokens, in a step that the engine took."""
    decodes = {work.request_id for work in step.work if work.kind == "decode"}
    prefills = [each for each in step.work if each.kind == "prefill"]
    return decodes, {(each.request_id, each.start, each.end - 1) for each in prefills}


def plan_in(words):
    """The same, read from the words that a timeline says about a step."""
    decodes = re.search(r"requests? ([\d, and]+) decodes? ", words)
    prefills = re.findall(r"request (\d+) prefills tokens? (\d+)(?: to (\d+))?", words)
    return (
        {int(each) for each in re.findall(r"\d+", decodes[1])} if decodes else set(),
        {(int(who), int(start), int(last or start)) for who, start, last in prefills},
    )


def words_of_yours(lesson):
    return lesson.timeline.locator(".sn-live").text_content().split("\n")[0]


# ---- answering -----------------------------------------------------------------------------------


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


def test_another_legal_plan_is_drawn_as_it_ran_and_compared_with_the_reference(lesson):
    names = {}
    exec(NEWEST_FIRST, names)
    steps = run_with(Policies(plan_step=names["plan_step"]))
    plans = [plan_of(step) for step in steps]
    reference = [plan_of(step) for step in run_with(Policies())]
    pairs = enumerate(zip(plans, reference, strict=False))
    first = next(index for index, (mine, other) in pairs if mine != other)
    assert first > 0

    lesson.answer(NEWEST_FIRST)
    lesson.report("plan_step", "failed")
    timeline = lesson.timeline
    differs = timeline.locator(".sn-note", has_text=f"Step {first} is the first that differs")
    expect(differs).to_be_attached()

    press_on(timeline, "Home")
    for number, plan in enumerate(plans):
        words = words_of_yours(lesson)
        assert words.startswith(f"Yours, step {number}: ")
        assert plan_in(words) == plan
        lesson.page.keyboard.press("ArrowRight")
    drawn = at_rest(timeline).locator(".sn-picture").evaluate(DRAWN)
    assert sorted(map(tuple, drawn)) == sorted(
        (work.kind, work.request_id, step.step) for step in steps for work in step.work
    )

    lesson.page.keyboard.press("End")
    timeline.get_by_role("button", name="Jump to first difference").click()
    assert plan_in(words_of_yours(lesson)) == plans[first]
    live = timeline.locator(".sn-live").text_content()
    assert live.startswith(f"Yours, step {first}: ")
    assert f"The reference, step {first}: " in live
    assert plan_in(live.split("\n")[1]) == reference[first]


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
@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        (ENDLESS, "timeout", "and was stopped"),
        (KEEPS_THE_LOCK, "timeout", "and was stopped on its line 2"),
        (LEAVES, "crashed", "ended the whole Python process"),
    ],
    ids=["an endless loop", "a call that keeps the lock", "os._exit"],
)
def test_after_an_answer_that_never_comes_back_the_work_goes_on(
    lesson, course_server, source, status, words
):
    lesson.answer(source)
    expect(lesson.report("chunk_inputs", status)).to_contain_text(words)
    expect(lesson.stand_in("chunk_inputs")).to_be_visible()
    lesson.answer(INPUTS)
    lesson.report("chunk_inputs", "passed")
    expect(lesson.stand_in("chunk_inputs")).to_have_count(0)
    expect(lesson.timeline.locator(".sn-note-bad")).to_have_count(0)
    # What the answer uses is kept with it.
    kept = (course_server.work / "answers" / "l01.chunk_inputs.py").read_text()
    assert re.findall(r"^(?:import|def)? ?(\w+)", kept, re.MULTILINE) == [
        "numpy", "ONCE", "places", "chunk_inputs"
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
