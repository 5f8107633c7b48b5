"""Lesson 7 as a learner works in it: predicted, answered wrong, right and endlessly, repaired.

The tests work in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import assert_ran_by_itself, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l07_fleet")]

WAIT_MS = 120_000  # for what follows an answer: runs of the fleet, on a busy machine
ON_EVENT = """\
def on_event(heap, generations, event):
    heap, newest = heap.copy(), dict(generations)
    kind, *rest = event
    if kind != "pop":
        newest[rest[0]] = newest.get(rest[0], 0) + 1
        if kind == "push":
            heapq.heappush(heap, (rest[1], rest[0], newest[rest[0]]))
        return heap, newest, None
    while heap:
        key, who, generation = heapq.heappop(heap)
        if newest[who] == generation:
            newest[who] += 1
            return heap, newest, who
    return heap, newest, None
"""
ON_EVENT_STALE = ON_EVENT.replace("if newest[who] == generation:", "if True:")
EXHIBIT_A = """\
def exhibit_a(generations, request_id):
    return {**generations, request_id: generations.get(request_id, 0) + 1}
"""
BUMP = """\
def bump(priority, now, deadline, remaining):
    slack = deadline - now - remaining
    return max(priority - 2, 0) if 0 <= slack <= 50_000 else priority
"""
BUMP_BY_DEADLINE = BUMP.replace(" - remaining", "")
ROUTE = """\
def route(workers, hits):
    def rank(worker):
        return worker.backlog_tokens - hits.get(worker.id, 0), worker.num_running, worker.id

    return min(workers, key=rank).id
"""
ROUTE_ENDLESS = """\
def route(workers, hits):
    while True:
        workers = workers[::-1]
"""
MY_POLICY = """\
def my_policy(snapshot):
    def rank(each):
        if snapshot.now_us - each.arrival_us > 800_000:
            return 0, each.arrival_us
        late = snapshot.now_us + each.remaining_us > each.deadline_us
        return 2 if late else 1, each.deadline_us

    for each in sorted(snapshot.waiting, key=rank):
        hits = snapshot.hit_tokens.get(each.id, {})
        able = [
            (worker.backlog_tokens - hits.get(worker.id, 0), worker.id)
            for worker in snapshot.workers
            if worker.num_running < worker.batch_size
            and each.kv_tokens_needed <= worker.kv_free_tokens
        ]
        if able:
            return each.id, min(able)[1]
    return None
"""
MY_POLICY_BY_ARRIVAL = MY_POLICY.replace("key=rank", "key=lambda each: each.arrival_us")


@pytest.fixture(scope="module")
def compared(lesson):
    """The table of your fleet in a burst, beside FIFO and the reference."""
    return lesson.page.locator(".output table", has_text="TTFT, median / 99th percentile")


def said(lesson, words):
    """What cells show with these words in it."""
    return lesson.page.locator(".output", has_text=words)


def test_lesson_7_opens_by_its_link_and_runs_by_itself(lesson):
    kinds = ("fleet-view", "lazy-heap", "curves", "paired-seeds", "prediction", "hints")
    assert_ran_by_itself(lesson, "Serving with a fleet", kinds, not_started=4)
    words = "This run used the reference for on_event, bump, route: not written yet."
    expect(said(lesson, words)).to_be_attached()
    expect(said(lesson, "Still broken.")).to_have_count(3)


def test_what_answers_a_prediction_waits_until_it_is_committed_by_keyboard(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="What does that do to the time")
    expect(question).not_to_contain_text("Most requests pass quickly")
    classes = said(lesson, "TTFT in ms, median / longest").locator("table")
    seeds = widget(lesson, "paired-seeds", "300 requests per second: by priority")
    expect(classes).to_be_hidden()
    expect(seeds).to_have_count(0)
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("Most requests pass quickly")
    expect(classes).to_be_visible()
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l07.overload.json")] != [])
    marks = seeds.locator(".sn-ps-panel .sn-chip")
    expect(marks).to_have_text(["✓ better", "✗ worse"])
    assert press_on(seeds, "Home", "ArrowRight").startswith("Seed 42")
    seeds.evaluate("each => each.scrollIntoView()")
    for key in ("score", "exhibit_a", "exhibit_b", "baseline"):
        lesson.show_answer(f"l07.{key}")


def test_the_rush_opens_where_its_queue_is_longest_and_is_told_by_keyboard(lesson):
    fleet = widget(lesson, "fleet-view", "300 requests per second, in order of arrival")
    expect(fleet).to_contain_text("232 wait")
    assert "Request 1 arrives: priority " in press_on(fleet, "Home", *["ArrowRight"] * 2)
    fleet.evaluate("each => each.scrollIntoView()")


def test_a_wrong_heap_is_shown_stale_and_stops_the_fleet_and_a_right_one_keeps_its_queue(
    lesson, compared, course_server
):
    lesson.answer(ON_EVENT_STALE)
    expect(lesson.report("on_event", "failed")).to_contain_text("stale")
    heap = widget(lesson, "lazy-heap", "A queue, by your on_event")
    expect(heap).to_be_attached(timeout=WAIT_MS)
    press_on(heap, "End")
    expect(heap.locator(".sn-lh-popped.sn-lh-wrong").first).to_contain_text("did not wait")
    expect(compared).to_contain_text("The run stopped: your on_event popped", timeout=WAIT_MS)
    expect(widget(lesson, "fleet-view", "The reference's fleet in a burst")).to_be_attached()

    lesson.answer(ON_EVENT)
    expect(lesson.report("on_event", "passed")).to_contain_text("Passed")
    same = "decision by decision like the reference"
    expect(compared).to_contain_text(same, timeout=WAIT_MS)
    press_on(heap, "End")
    expect(heap.locator(".sn-lh-popped")).to_have_text(["#3", "#7", "#5"])
    expect(heap.locator(".sn-lh-wrong")).to_have_count(0)
    words = "In this run on_event came from you and bump, route from the reference."
    expect(said(lesson, words)).to_be_attached()
    heap.evaluate("each => each.scrollIntoView()")
    file = course_server.work / "l07_fleet.py"
    wait_for(lambda: "    kind, *rest = event\n" in file.read_text())


def test_a_wrong_bump_is_named_and_marked_where_the_fleet_s_decisions_part(lesson, compared):
    lesson.answer(BUMP_BY_DEADLINE)
    expect(lesson.report("bump", "failed")).to_contain_text("not of the deadline alone")
    parts = re.compile(r"differs first at 1,231\.2 ms: yours .* request \d+.*, the reference ")
    expect(compared).to_contain_text(parts, timeout=WAIT_MS)
    lesson.answer(BUMP)
    lesson.report("bump", "passed")
    expect(compared).not_to_contain_text("differs first", timeout=WAIT_MS)


def test_after_an_endless_route_a_right_one_sends_as_the_reference_does(lesson, compared):
    lesson.answer(ROUTE_ENDLESS)
    expect(lesson.report("route", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("route")).to_be_visible()
    hottest = lesson.page.locator(".output table", has_text="requests per worker").first

    lesson.answer(ROUTE)
    lesson.report("route", "passed")
    expect(compared).to_contain_text("decision by decision like the reference", timeout=WAIT_MS)
    expect(said(lesson, "In this run on_event, bump, route came from you.")).to_be_attached()
    *_, reference, mine = hottest.locator("tr").all()
    cells = [row.locator("td").all_text_contents() for row in (reference, mine)]
    assert cells[1][0] == "your route"
    assert cells[0][1:] == cells[1][1:]
    fleet = widget(lesson, "fleet-view", "Your fleet in a burst")
    assert "Request " in press_on(fleet, "Home", *["ArrowRight"] * 2)
    fleet.evaluate("each => each.scrollIntoView()")


def test_a_policy_is_scored_load_by_load_and_drawn_on_a_practice_load(lesson):
    by_fifo = widget(lesson, "fleet-view", "A practice load, by FIFO: your my_policy is not")
    expect(by_fifo).to_be_attached()
    expect(said(lesson, "52 of 135 deadlines missed")).to_be_attached()
    lesson.answer(MY_POLICY_BY_ARRIVAL)
    card = lesson.report("my_policy", "failed")
    expect(card).to_contain_text(
        "You nearly always take the oldest request, which is what FIFO does"
    )
    expect(card).to_contain_text(re.compile(r"-?\d+\.\d percentage points to FIFO on average"))
    lesson.answer(MY_POLICY)
    expect(lesson.report("my_policy", "passed")).to_contain_text("Passed")
    mine = widget(lesson, "fleet-view", "A practice load, by your my_policy")
    expect(mine).to_be_attached(timeout=WAIT_MS)
    expect(said(lesson, re.compile(r"^\d+ of 135 deadlines missed"))).not_to_contain_text("52 of")


def test_a_repaired_exhibit_loses_its_symptoms(lesson):
    heap = widget(lesson, "lazy-heap", "Exhibit A: whose turn is it?")
    press_on(heap, "Home", *["ArrowRight"] * 5)
    expect(heap.locator("svg .sn-lh-revived").first).to_be_visible()
    lesson.answer(EXHIBIT_A)
    expect(said(lesson, "All leave in the order of their keys.")).to_be_visible(timeout=WAIT_MS)
    expect(heap.locator("svg .sn-lh-revived")).to_have_count(0, timeout=WAIT_MS)
    press_on(heap, "End")
    expect(heap.locator(".sn-lh-popped")).to_have_text(["#7", "#3", "#5"])
    expect(said(lesson, "Still broken.")).to_have_count(2)
