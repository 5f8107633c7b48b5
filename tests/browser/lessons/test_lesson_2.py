"""Lesson 2 as a learner works in it: predicted, answered wrong and right, replayed.

The tests work in this order; each writes into cells that no other needs.
"""

import re

import pytest
from driving import assert_ran_by_itself, focus_toolbar, in_lesson, live, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l02_scheduling")]

SORT_KEY = """\
def sort_key(policy, request):
    if policy == "fcfs":
        return (request.arrival_time,)
    if policy == "priority":
        return (request.priority, request.arrival_time)
    raise ValueError(policy)
"""
VICTIM = """\
def choose_victim(active):
    return max(active, key=lambda request: (request.key, request.arrival_time, request.id)).id
"""
POLITE_VICTIM = VICTIM.replace("max(", "min(")
# Where the nodes and cells of a heap's entries stand, by their key: [key, x, y].
PLACES = """(all) => all.map((each) => {
    const at = new DOMMatrix(each.style.transform);
    return [each.querySelector(".sn-he-key").textContent, Math.round(at.e), Math.round(at.f)];
})"""


def array_of(heap):
    """The keys in the array, from its first cell on, as they are drawn."""
    places = heap.locator(".sn-he-entry:not(.sn-he-absent)").evaluate_all(PLACES)
    lowest = max((y for _, _, y in places), default=0)
    return [key for key, _, y in sorted(places, key=lambda each: each[1]) if y == lowest]


def top_of(heap):
    """The key at the top of the tree, as it is drawn."""
    places = heap.locator(".sn-he-entry:not(.sn-he-absent)").evaluate_all(PLACES)
    return min(places, key=lambda each: each[2])[0]


# ---- arriving ------------------------------------------------------------------------------------


def test_lesson_2_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("heap-stepper", "kv-budget", "timeline", "prediction", "hints")
    assert_ran_by_itself(lesson, "The scheduler", kinds, not_started=5)
    post = lesson.page.locator(".output table", has_text="KEY CHECK")
    expect(post.get_by_text("yes", exact=True)).to_have_count(4)
    expect(post).to_contain_text("KV cache length: 19 ✓")


def test_a_prediction_opens_the_picture_at_the_preemption(lesson):
    budget = widget(lesson, "kv-budget", "KV tokens against a budget of 22")
    expect(budget).to_have_count(0)
    expect(lesson.page.locator(".output").get_by_text("safety valve")).to_be_hidden()
    lesson.show_answer("l02.recompute")
    expect(budget.locator(".sn-live")).to_contain_text("Request 0 is preempted")
    expect(lesson.page.locator(".output").get_by_text("safety valve")).to_be_visible()


def test_the_two_pictures_of_the_six_requests_are_stepped_together(lesson):
    budget = widget(lesson, "kv-budget", "KV tokens against a budget of 160")
    timeline = widget(lesson, "timeline", "The same steps, request by request")
    press_on(budget, "Home", *["ArrowRight"] * 7)
    expect(budget.locator(".sn-live")).to_contain_text("Request 2 is preempted")
    expect(timeline.locator(".sn-live")).to_contain_text("Step 7")


# ---- the heap ------------------------------------------------------------------------------------


def test_a_right_answer_turns_the_check_green_and_ranks_the_heap(lesson, course_server):
    lesson.answer(SORT_KEY)
    expect(lesson.report("sort_key", "passed")).to_contain_text("Passed")
    expect(widget(lesson, "heap-stepper", "Ranked by your sort_key")).to_be_attached()
    file = course_server.work / "l02_scheduling.py"
    wait_for(lambda: "    raise ValueError(policy)\n" in file.read_text())


def test_the_heap_is_stepped_by_keyboard_alone(lesson):
    heap = lesson.page.locator(".sn-heap-stepper")
    press = lesson.page.keyboard.press
    focus_toolbar(heap)
    press("Home")
    assert live(heap).startswith("The heap is empty; ")
    assert array_of(heap) == []

    for _ in range(3):  # append and settle request 0, append request 1
        press("ArrowRight")
    assert "push request 1, key (1, 0). Request 1 goes to the end of the array" in live(heap)
    assert (array_of(heap), top_of(heap)) == (["(2,0)", "(1,0)"], "(2,0)")
    press("ArrowRight")
    assert "they swap places" in live(heap)
    assert (array_of(heap), top_of(heap)) == (["(1,0)", "(2,0)"], "(1,0)")
    press("ArrowLeft")
    assert (array_of(heap), top_of(heap)) == (["(2,0)", "(1,0)"], "(2,0)")

    press("End")
    number, of = re.findall(r"\d+", live(heap))[:2]
    assert number == of
    assert array_of(heap) == []  # all have been let in
    assert heap.locator(".sn-he-taken").count() >= 8
    press("Home")
    assert heap.locator(".sn-he-taken").count() == 0


# ---- a wrong rule, a right one -------------------------------------------------------------------


def test_a_wrong_victim_is_told_why_and_the_right_one_ends_the_livelock(lesson):
    twins = widget(lesson, "kv-budget", "Two equal requests")
    expect(twins).to_have_count(0)
    lesson.show_answer("l02.livelock")
    expect(twins).to_contain_text("The reference, step")
    lesson.answer(POLITE_VICTIM)
    expect(lesson.report("choose_victim", "failed")).to_contain_text("the largest one gives way")
    lesson.answer(VICTIM)
    lesson.report("choose_victim", "passed")
    said = lesson.page.get_by_text("In this run sort_key, choose_victim came from you")
    expect(said).to_be_attached(timeout=60_000)
    press_on(twins, "End")
    expect(twins.locator(".sn-live")).to_contain_text("Exhibit A, step 39: 22 of 22")
    expect(twins.locator(".sn-live")).to_contain_text("Yours is already done.")
