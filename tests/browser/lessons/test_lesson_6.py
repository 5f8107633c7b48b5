"""Lesson 6 as a learner works in it: predicted, answered wrong, right and endlessly, in real ranks.

The tests work in this order; each leaves a right answer behind it.
"""

import os
import re
from pathlib import Path

import pytest
from driving import assert_ran_by_itself, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect
from support import unavailable

pytestmark = [pytest.mark.browser, in_lesson("l06_preempting_the_pass")]

VOTE_ENDLESS = """\
def local_vote(target, step, layer, num_layers):
    while layer < num_layers:
        target += 1
"""
VOTE = """\
def local_vote(target, step, layer, num_layers):
    return 1 if target == step and layer / num_layers <= 0.9 else 0
"""
FATE = """\
def resume_or_abort(suspended_us, pass_us, urgent_waits, memory_is_short, bound):
    if not urgent_waits or suspended_us >= bound * pass_us:
        return "resume"
    return "abort" if memory_is_short else "sleep"
"""
CHECKPOINT = """\
def checkpoint(vote):
    if (yield ("max", vote)) == 1:
        yield ("leave",)
"""
CHECKPOINT_ALONE = """\
def checkpoint(vote):
    if vote:
        yield ("leave",)
"""
CLEAN_UP = """\
def clean_up(books, aborted, waiter):
    back = tuple(i for i in books.running if i in aborted)
    waiting = back + books.waiting
    return replace(
        books,
        waiting=waiting,
        running=tuple(i for i in books.running if i not in aborted),
        kv=books.kv - set(aborted),
        previous_step=books.previous_step - set(aborted),
        next_up=waiter if waiter in waiting else None,
    )
"""


def ranks_of(course):
    """The process ids of the rank processes that run in this copy of the course."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            folder = Path(os.readlink(process / "cwd"))
            place = (process / "environ").read_bytes()
        except OSError:
            continue  # it has ended since, or is somebody else's
        ours = folder.is_relative_to(course.root) or str(course.root).encode() in place
        if b"nanogpt.preemption.rank" in command and ours:
            found.append(int(process.name))
    return found


def test_lesson_6_opens_by_its_link_and_runs_by_itself(lesson, course_server):
    kinds = ("slo-cycle", "vote-board", "prediction", "hints")
    assert_ran_by_itself(lesson, "Preempting the pass", kinds, not_started=4)
    ran = lesson.page.locator(".output", has_text="The pass over 1,400 tokens takes")
    expect(ran).to_contain_text(re.compile("^(On this machine, just now|Recorded, not run here)"))
    assert ranks_of(course_server) == []


def test_the_stage_waits_for_its_prediction_which_is_committed_by_keyboard(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="How often does it hang?")
    board = widget(lesson, "vote-board", "The target is written between two glances at layer 3")
    expect(question).not_to_contain_text("That is what makes it a race")
    expect(board).to_have_count(0)
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("That is what makes it a race")
    expect(board).to_be_visible()
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l06.hangs.json")] != [])


def test_the_recorded_preemption_is_told_by_keyboard(lesson):
    cycle = widget(lesson, "slo-cycle", "An urgent arrival in mid-pass")
    press_on(cycle, "Home")
    told = []
    for _ in range(9):
        told.append(cycle.locator("[aria-current=step]").text_content()[1:])
        lesson.page.keyboard.press("ArrowRight")
    assert told == [
        "arrival", "inbox", "monitor", "shared memory", "vote", "leave", "clean-up",
        "re-admission", "first token",
    ]  # fmt: skip
    expect(cycle.locator(".sn-chip")).to_have_text("recorded")


def test_ranks_that_leave_alone_hang_on_the_stage_and_those_that_vote_leave_together(
    lesson, course_server
):
    board = widget(lesson, "vote-board", "The target is written between two glances at layer 3")
    lesson.answer(CHECKPOINT_ALONE)
    expect(lesson.report("checkpoint", "failed")).to_contain_text("waits for ever")
    mine = board.get_by_role("button", name="yours", exact=True)
    mine.click(timeout=60_000)
    press_on(board, "End")
    expect(board.locator(".sn-chip-strong")).to_have_text("hangs")
    expect(board.locator("svg[role=img] .sn-vb-alone")).to_have_count(1)

    lesson.answer(CHECKPOINT)
    expect(lesson.report("checkpoint", "passed")).to_contain_text("Passed")
    expect(board.locator(".sn-chip-strong")).not_to_have_text("hangs", timeout=60_000)
    mine.click()
    press_on(board, "Home", *["ArrowRight"] * 3)
    expect(board.locator(".sn-live")).to_contain_text("MAX is 1")
    expect(board.locator("svg[role=img] .sn-vb-left")).to_have_count(2)
    board.evaluate("each => each.scrollIntoView()")
    file = course_server.work / "l06_preempting_the_pass.py"
    wait_for(lambda: '    if (yield ("max", vote)) == 1:\n' in file.read_text())


def test_after_an_endless_loop_the_work_goes_on(lesson):
    board = widget(lesson, "vote-board", "The target is written between two glances at layer 3")
    mine = board.get_by_role("button", name="yours", exact=True)
    lesson.answer(VOTE_ENDLESS)
    expect(lesson.report("local_vote", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("local_vote")).to_be_visible()
    expect(mine).to_be_attached(timeout=60_000)  # with the reference's vote
    lesson.answer(VOTE)
    lesson.report("local_vote", "passed")
    expect(lesson.stand_in("local_vote")).to_have_count(0)
    expect(mine).to_be_attached(timeout=60_000)
    lesson.answer(FATE)
    lesson.report("resume_or_abort", "passed")
    asked = lesson.page.locator(".output", has_text="By your resume_or_abort:")
    expect(asked).to_contain_text("sleeps 1,200 ms, then: resume")


def test_a_right_clean_up_undoes_the_pass_of_real_ranks(lesson):
    lesson.answer(CLEAN_UP)
    lesson.report("clean_up", "passed")
    books = lesson.page.locator(".output table", has_text="scheduled last")
    cells = books.locator("tr", has_text="yours").locator("td")
    expect(cells).to_have_text(["yours", "2 8 5 3", "6", "6", "6", "3"])
    # A machine that is too busy shows the recording instead, and says so.
    ran = lesson.page.locator(".output", has_text="The pass over 1,400 tokens takes")
    words = re.compile("^(On this machine, just now, with your clean_up|Recorded, not run here)")
    expect(ran).to_contain_text(words, timeout=60_000)
    expect(widget(lesson, "slo-cycle", "The same preemption, thread by thread")).to_be_attached()


def test_no_rank_is_left_when_the_page_is_closed_in_the_middle_of_a_pass(lesson, course_server):
    if not Path("/proc/self/cmdline").exists():
        unavailable("processes are found in /proc, which is not here")
    lesson.wait_until_open()
    assert ranks_of(course_server) == []
    lesson.page.locator(".cm-content", has_text="HERE = True").click()
    lesson.page.keyboard.press("Control+Enter")
    wait_for(lambda: len(ranks_of(course_server)) == 2, limit_s=180)
    lesson.page.goto(course_server.address)  # the lesson's own page is closed by that
    expect(lesson.page.locator(".sng-map")).to_be_visible(timeout=60_000)
    wait_for(lambda: ranks_of(course_server) == [], limit_s=180)
    lesson.page.go_back()
    lesson.wait_until_open()
