"""Lesson 10 as a learner works in it: predicted, answered wrong, right and endlessly, repaired.

The tests work in this order; each leaves a right answer behind it.
"""

import re
import urllib.request

import pytest
from driving import assert_ran_by_itself, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l10_capstone")]

WAIT_MS = 120_000  # for what follows an answer: a server and its clients, on a busy machine
DOOR = """\
def admit_or_refuse(queue, limits, request):
    kv_tokens = request.num_prompt_tokens + request.max_new_tokens - 1
    if request.num_prompt_tokens > limits.max_prompt_tokens or kv_tokens > limits.max_kv_tokens:
        return 400, None
    if queue.is_closing:
        return 503, None
    if len(queue.running) + queue.num_waiting < limits.max_requests:
        return "accept"
    if not queue.running or not queue.tokens_per_s:
        return 429, 1
    seconds = min(queue.running) * len(queue.running) / queue.tokens_per_s
    return 429, min(-int(-seconds // 1), limits.max_retry_s)
"""
DOOR_WITHOUT_END = """\
def admit_or_refuse(queue, limits, request):
    return "accept"
"""
EVENTS = """\
def next_events(committed, sent, is_done):
    data = b"".join(committed)
    while not is_done:
        try:
            data.decode()
            break
        except UnicodeDecodeError:
            data = data[:-1]
    new = data.decode(errors="replace")[sent:]
    return [new] if new else []
"""
EVENTS_AGAIN = EVENTS.replace("[sent:]", "")
EVENTS_ENDLESS = """\
def next_events(committed, sent, is_done):
    while True:
        sent += 1
"""
LEAVING = """\
def on_disconnect(state, request_id):
    waiting = [i for i in state["waiting"] if i != request_id]
    running, leaving = dict(state["running"]), list(state["leaving"])
    if request_id in running and not state["in_step"]:
        del running[request_id]
    elif request_id in running and request_id not in leaving:
        leaving.append(request_id)
    return {**state, "waiting": waiting, "running": running, "leaving": leaving}
"""
EXHIBIT_E = LEAVING.replace("def on_disconnect(", "def exhibit_e(")


@pytest.fixture(scope="module")
def served(lesson):
    """What is said of the six clients, with a row for each."""
    return lesson.page.locator(".output", has_text="longest gap")


def test_lesson_10_opens_by_its_link_and_runs_by_itself(lesson, served):
    kinds = ("timeline", "prediction", "hints")
    assert_ran_by_itself(lesson, "Your engine, served", kinds, not_started=3, failed=5)
    expect(served).to_contain_text("The reference stands in for admit_or_refuse, next_events")
    expect(served).to_contain_text("All six texts are the oracle's", timeout=WAIT_MS)


def test_what_answers_a_prediction_waits_until_it_is_committed_by_keyboard(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="32 clients stream from one engine")
    measured = lesson.page.locator(".output table", has_text="over the bare engine's")
    expect(measured).to_be_hidden()
    question.get_by_role("radio").first.focus()
    for key in ("Space", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(measured).to_be_visible()
    expect(measured.locator("tbody tr")).to_have_count(6)
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l10.http_cost.json")] != [])
    for key in ("leaver", "doubled", "halves", "computed_on", "patient", "ground"):
        lesson.show_answer(f"l10.{key}")
    expect(lesson.page.locator(".output", has_text="left after its fifth event")).to_be_visible()


def test_the_server_that_stands_answers_whatever_asks_it(lesson):
    said = lesson.page.locator(".output", has_text="Your engine is served at")
    [address] = re.findall(r"http://127\.0\.0\.1:\d+", said.text_content())[:1]
    with urllib.request.urlopen(f"{address}/v1/models", timeout=20) as answer:
        assert b'"nanogpt"' in answer.read()


def test_a_door_without_an_end_fails_and_a_right_one_refuses_with_seconds(lesson, course_server):
    lesson.answer(DOOR_WITHOUT_END)
    expect(lesson.report("admit_or_refuse", "failed")).to_contain_text("only looks kind")
    crowd = lesson.page.locator(".output", has_text="12 clients at once")
    expect(crowd).to_contain_text("must be 429", timeout=WAIT_MS)

    lesson.answer(DOOR)
    lesson.report("admit_or_refuse", "passed")
    expect(crowd).to_contain_text(re.compile(r"with Retry-After: \d"), timeout=WAIT_MS)
    expect(crowd).not_to_contain_text("must be 429")
    file = course_server.work / "l10_capstone.py"
    wait_for(lambda: "    seconds = min(queue.running)" in file.read_text())


def test_a_stream_that_says_all_again_is_one_sentence_and_a_right_one_the_oracle_s(lesson, served):
    bytes_sent = lesson.page.locator(".output", has_text="A stream of six tokens")
    lesson.answer(EVENTS_AGAIN)
    card = lesson.report("next_events", "failed")
    expect(card).to_contain_text("what has been sent is not sent again")
    expect(bytes_sent).to_contain_text("by your next_events", timeout=WAIT_MS)
    failed = re.compile("A part failed: your next_events returned")
    expect(served).to_contain_text(failed, timeout=WAIT_MS)

    lesson.answer(EVENTS)
    lesson.report("next_events", "passed")
    expect(served).to_contain_text("All six texts are the oracle's", timeout=WAIT_MS)
    expect(served).not_to_contain_text("A part failed")
    timeline = widget(lesson, "timeline", "Six clients, as the engine")
    assert "tep 0: " in press_on(timeline, "Home")


def num_yours(served) -> int:
    """How many parts the served engine has taken, with those of other lessons."""
    return int(re.findall(r"(\d+) of \d+ parts are yours\.", served.inner_text())[0])


def expect_yours(served, num_parts: int) -> None:
    counted = re.compile(rf"\b{num_parts} of \d+ parts are yours\.")
    expect(served).to_contain_text(counted, timeout=WAIT_MS)


def test_after_an_endless_part_the_work_goes_on(lesson, served):
    before = num_yours(served)
    lesson.answer(EVENTS_ENDLESS)
    expect(lesson.report("next_events", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("next_events")).to_be_visible()
    expect_yours(served, before - 1)
    lesson.answer(EVENTS)
    lesson.report("next_events", "passed")
    expect(lesson.stand_in("next_events")).to_have_count(0)
    expect_yours(served, before)
    expect(served).to_contain_text("All six texts are the oracle's")


def test_all_three_are_counted_and_a_repaired_exhibit_loses_its_symptom(lesson, served):
    before = num_yours(served)
    lesson.answer(LEAVING)
    lesson.report("on_disconnect", "passed")
    expect_yours(served, before + 1)
    expect(served).not_to_contain_text("The reference stands in")

    ground = lesson.page.locator(".output", has_text="what it has given")
    expect(ground).to_contain_text("KeyError: 1")
    lesson.report("on_disconnect", "failed", place=2)
    lesson.answer(EXHIBIT_E)
    lesson.report("on_disconnect", "passed", place=2)
    expect(ground).not_to_contain_text("KeyError", timeout=WAIT_MS)
    expect(ground).to_contain_text("the oracle's text")
