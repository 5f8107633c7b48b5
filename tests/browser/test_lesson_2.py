"""Lesson 2 as a learner works in it: a right answer, a repaired exhibit, the heap by keyboard.

One server and one page serve all tests; each writes into cells that no other needs.
"""

import re

import pytest
from driving import (
    PICTURES,
    assert_accessible,
    assert_fits,
    assert_ran_by_itself,
    focus_toolbar,
    live,
    press_on,
    take_pictures,
    widget,
)
from launching import wait_for
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

NUM_REPORTS = 11  # six exercises and five exhibits
SORT_KEY = """\
def sort_key(policy, request):
    if policy == "fcfs":
        return (request.arrival_time,)
    if policy == "priority":
        return (request.priority, request.arrival_time)
    raise ValueError(policy)
"""
EXHIBIT_A = """\
def exhibit_a(active):
    return max(active, key=lambda request: (request.key, request.arrival_time, request.id)).id
"""
# Where the nodes and cells of a heap's entries stand, by their key: [key, x, y].
PLACES = """(all) => all.map((each) => {
    const at = new DOMMatrix(each.style.transform);
    return [each.querySelector(".sn-he-key").textContent, Math.round(at.e), Math.round(at.f)];
})"""


@pytest.fixture(scope="module")
def lesson(open_lesson):
    """Lesson 2, reached by its link on the first page."""
    return open_lesson("l02", NUM_REPORTS)


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
    kinds = ("kv-budget", "timeline", "heap-stepper", "prediction", "hints")
    assert_ran_by_itself(lesson, "The scheduler", kinds, not_started=6, failed=5)


def test_the_two_pictures_at_the_top_are_stepped_together(lesson):
    lesson.show_answer("l02.recompute")
    budget = widget(lesson, "kv-budget", "KV tokens against a budget of 22")
    timeline = widget(lesson, "timeline", "The same steps, request by request").first
    press_on(budget, "Home", *["ArrowRight"] * 6)
    expect(budget.locator(".sn-live")).to_contain_text("Request 0 is preempted")
    expect(timeline.locator(".sn-live")).to_contain_text("Step 6")


# ---- the heap ------------------------------------------------------------------------------------


def test_a_right_answer_turns_the_check_green_and_ranks_the_heap(lesson, course_server):
    lesson.answer(SORT_KEY)
    expect(lesson.report("sort_key", "passed")).to_contain_text("Passed")
    expect(widget(lesson, "heap-stepper", "Ranked by your sort_key")).to_be_attached()
    file = course_server.work / "l02_scheduling.py"
    wait_for(lambda: "    raise ValueError(policy)\n" in file.read_text(), limit_s=30)


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


# ---- the museum ----------------------------------------------------------------------------------


def test_a_repaired_exhibit_loses_its_symptom_and_passes_its_check(lesson):
    lesson.show_answer("l02.livelock")
    picture = widget(lesson, "kv-budget", "Exhibit A")
    symptom = picture.locator(".sn-note-bad")
    expect(symptom).to_contain_text("stopped after 40 steps")
    lesson.report("choose_victim", "failed", place=1)
    picture.scroll_into_view_if_needed()
    lesson.page.screenshot(path=PICTURES / "l02_exhibit_a_broken.png")

    lesson.answer(EXHIBIT_A)
    lesson.report("choose_victim", "passed", place=1)
    lesson.report("choose_victim", "not_started", place=0)
    expect(symptom).to_have_count(0)
    press_on(picture, "End")
    expect(picture.locator(".sn-live")).to_contain_text("Step 19: 0 of 22 KV tokens held.")
    lesson.page.screenshot(path=PICTURES / "l02_exhibit_a_repaired.png")


# ---- looking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_ours_breaks_an_accessibility_rule_in_lesson_2(lesson, scheme):
    assert_accessible(lesson, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_lesson_2_fits_its_page(lesson, scheme, width):
    page = lesson.page
    assert_fits(lesson, width, scheme)
    assert page.locator(".output table, .output pre").count() >= 8
    heap = page.locator(".sn-heap-stepper")
    press_on(heap, "Home", *["ArrowRight"] * 14)
    places = {
        "top": widget(lesson, "kv-budget", "KV tokens against a budget of 22"),
        "heap": heap,
        "stage": widget(lesson, "kv-budget", "KV tokens against a budget of 160"),
        "exhibit_b": page.get_by_role("heading", name=re.compile("Exhibit B")),
        "exhibit_c": page.get_by_role("heading", name=re.compile("Exhibit C")),
        "exhibit_e": page.get_by_role("heading", name=re.compile("Exhibit E")),
    }
    take_pictures(lesson, places, f"{scheme}_{width}")
