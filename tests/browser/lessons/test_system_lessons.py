"""What learners see in lessons 6 to 11 of their answers, wrong ones and right ones.

The predictions are answered by then; the tests of a lesson work in this order.
"""

import os
import re
import urllib.request
from contextlib import suppress

import psutil
import pytest
from driving import expect, in_lesson, press_on, worked_source
from launching import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


# ---- lesson 6 ------------------------------------------------------------------------------------

CHECKPOINT_ALONE = """\
def preemption_point(vote):
    if vote:
        yield ("leave",)
"""


def ranks_below():
    """The ids of the rank processes that the course has started, not those of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended since
            if "nanogpt.preemption.rank" in process.cmdline() and process.ppid() != os.getpid():
                found.append(process.pid)
    return found


@in_lesson("l06_preempting_the_pass")
def test_ranks_that_leave_alone_hang_on_the_stage_and_those_that_vote_leave_together(lesson):
    lesson.show_all_answers()
    board = lesson.widget("vote-board", "The target is written between two reads at layer 3")
    lesson.answer(CHECKPOINT_ALONE)
    expect(lesson.report("preemption_point", "failed")).to_contain_text("waits for ever")
    mine = board.get_by_role("button", name="yours", exact=True)
    mine.click(timeout=60_000)
    press_on(board, "End")
    expect(board.locator(".sn-chip-strong")).to_have_text("hangs")
    expect(board.locator("svg[role=img] .sn-vb-alone")).to_have_count(1)
    lesson.answer_right("preemption_point")
    expect(board.locator(".sn-chip-strong")).not_to_have_text("hangs")
    mine.click()
    press_on(board, "Home", *["ArrowRight"] * 3)
    expect(board.locator(".sn-live")).to_contain_text("MAX is 1")
    expect(board.locator("svg[role=img] .sn-vb-left")).to_have_count(2)


@in_lesson("l06_preempting_the_pass")
def test_a_right_clean_up_undoes_the_pass_of_real_ranks(lesson):
    lesson.answer_right("resume_or_abort")
    asked = lesson.shows("By your resume_or_abort:")
    expect(asked).to_contain_text("suspended for 1,200 ms, then: resume")
    lesson.answer_right("rollback_step")
    states = lesson.page.locator(".output table", has_text="previous_step")
    cells = states.locator("tr", has_text="yours").locator("td")
    expect(cells).to_have_text(["yours", "2 8 5 3", "6", "6", "6", "3"])
    # A machine that is too busy shows the recording instead, and says so.
    ran = lesson.shows("The pass over 1,400 tokens takes")
    words = re.compile("^(On this machine, just now, with your rollback|Recorded, not run here)")
    expect(ran).to_contain_text(words)
    expect(lesson.widget("slo-cycle", "The same preemption, thread by thread")).to_be_attached()


@in_lesson("l06_preempting_the_pass")
def test_no_rank_is_left_when_the_page_is_closed_in_the_middle_of_a_pass(lesson, course_server):
    lesson.wait_until_open()
    wait_for(lambda: ranks_below() == [], limit_s=180)  # those of the page before are ending
    # Another text, so that its run is not known yet.
    lesson.answer(worked_source("l06.rollback_step").replace("back ", "first "))
    wait_for(lambda: len(ranks_below()) == 2, limit_s=180)
    ranks = ranks_below()
    lesson.page.goto(course_server.address)  # the lesson's own page is closed by that
    expect(lesson.page.locator(".sng-map")).to_be_visible()
    wait_for(lambda: not any(map(psutil.pid_exists, ranks)), limit_s=180)
    lesson.page.go_back()
    lesson.wait_until_open()


# ---- lesson 7 ------------------------------------------------------------------------------------

NO_PARENT = """\
def block_hashes(tokens, size, salt):
    import hashlib
    found = []
    for end in range(size, len(tokens) + 1, size):
        said = repr((salt, tokens[end - size : end]))
        found.append(hashlib.sha256(said.encode()).hexdigest())
    return found
"""
ALL_FOUR = "allocate, block_hashes, longest_match, evict_order"


@pytest.fixture
def shared(lesson):
    """What is said of your engine's run, with a row for each request."""
    return lesson.shows("From earlier lessons:")


@in_lesson("l07_blocks")
def test_a_hash_without_its_parent_finds_what_is_not_there_and_another_text_comes_out(
    lesson, shared
):
    pool = lesson.widget("block-pool", "The pool while your functions run")
    lesson.answer(NO_PARENT)
    expect(lesson.report("block_hashes", "failed")).to_contain_text("parent")
    expect(shared).to_contain_text("Not what the oracle generate() says: the text of request 5.")
    note = pool.locator(".sn-note")
    expect(note).to_have_text("Step 29 is the first in which the pools differ.")
    mine, right = press_on(pool, "Home", "End", *["ArrowLeft"] * 7).split("\n")
    assert "Request 5 starts and finds its first 40 tokens in 5 blocks" in mine
    assert "Request 5 starts and finds its first 32 tokens in 4 blocks" in right
    lesson.answer_right("block_hashes")
    expect(note).to_have_text("Both pools did the same in every step.")
    expect(shared).to_contain_text("All six texts equal those of the oracle")


@in_lesson("l07_blocks")
def test_all_four_are_yours_and_measured(lesson, shared):
    lesson.answer_right("allocate", "longest_match", "evict_order")
    expect(shared).to_contain_text(f"In this run {ALL_FOUR} came from you.")
    expect(shared).to_contain_text("112 more were found in cached blocks")
    sixteen = lesson.page.locator(".output tr", has_text="blocks of 16, yours")
    expect(sixteen).to_contain_text("800")
    found_again = lesson.page.locator(".output tr", has_text="shared, yours")
    expect(found_again).to_contain_text("107")


# ---- lesson 8 ------------------------------------------------------------------------------------

SAMPLE_FROM_P = """\
def rejection_sample(p, q, token, u, v):
    if u < p[token] / q[token]:
        return True, token
    goal = v * sum(p)
    for other, weight in enumerate(p):
        goal -= weight
        if goal < 0:
            break
    return False, other
"""
ROLL_BACK_NOTHING = """\
def roll_back_kv(held, num_drafted, num_accepted):
    return held
"""


@pytest.fixture
def speculated(lesson):
    """What is said of your engine's run, with a row for each request."""
    return lesson.shows("passes without drafts")


@in_lesson("l08_speculation")
def test_a_wrong_accept_bends_the_law_which_a_right_one_keeps(lesson, speculated):
    lesson.show_all_answers()
    bars = lesson.widget("accept-bars", "Three tokens")
    off = lesson.shows("judged by your rejection_sample").locator(
        "td strong"
    )  # more than chance explains
    lesson.answer(SAMPLE_FROM_P)
    expect(lesson.report("rejection_sample", "failed")).to_contain_text("second chance")
    expect(bars).to_contain_text("your rejection_sample")
    law = bars.get_by_role("img", name="comes out")
    wrong = re.compile(r"^a: p 0\.125, .* comes out 0\.188; b: ")
    expect(law).to_have_attribute("aria-label", wrong)
    expect(off.first).to_be_attached()
    expect(speculated).to_contain_text("In this run rejection_sample came from you")
    lesson.answer_right("rejection_sample")
    right = re.compile(r"^a: p 0\.125, q 0\.625, comes out 0\.125; b: ")
    expect(law).to_have_attribute("aria-label", right)
    expect(off).to_have_count(0)
    expect(speculated).to_contain_text("Every step is the same as in the reference's run.")


@in_lesson("l08_speculation")
def test_a_wrong_rollback_stops_your_engine_and_a_right_one_gives_the_oracle_s_texts(
    lesson, speculated
):
    lesson.answer(ROLL_BACK_NOTHING)
    expect(lesson.report("roll_back_kv", "failed")).to_contain_text("rejected")
    stopped = re.compile("The run stopped early.*: roll_back_kv.* rejected drafts")
    expect(speculated).to_contain_text(stopped)
    lesson.answer_right("roll_back_kv")
    expect(speculated).to_contain_text("In this run rejection_sample, roll_back_kv came from you")
    expect(speculated).to_contain_text("Every step is the same as in the reference's run.")
    rows = speculated.locator("tbody tr")
    expect(rows).to_have_count(3)
    for row in rows.all():
        _, without, with_drafts, verdict, _ = row.locator("td").all_text_contents()
        assert int(with_drafts) < 0.7 * int(without)
        assert verdict == "equal"
    said = press_on(lesson.timeline, "Home", *["ArrowRight"] * 2)
    assert re.match("Yours, step 2: requests 0 and 1 decode and sample ('.*?'|a space), ", said)


# ---- lesson 9 ------------------------------------------------------------------------------------

POP_STALE = """\
def pop_live(heap, newest):
    heap = heap.copy()
    if not heap:
        return None, heap
    key, who, generation = heapq.heappop(heap)
    return who, heap
"""
BY_ARRIVAL = """\
def my_policy(snapshot):
    for each in sorted(snapshot.waiting, key=lambda each: each.arrival_us):
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


@in_lesson("l09_fleet")
def test_a_wrong_heap_is_shown_stale_and_a_right_one_keeps_its_queue(lesson):
    rush = lesson.widget("fleet-view", "60 requests per second, in order of arrival")
    expect(rush).to_be_attached()
    lesson.answer(POP_STALE)
    expect(lesson.report("pop_live", "failed")).to_contain_text("stale")
    heap = lesson.widget("lazy-heap", "A queue with your pop_live")
    expect(heap).to_be_attached()
    press_on(heap, "End")
    expect(heap.locator(".sn-lh-popped.sn-lh-wrong").first).to_contain_text("did not wait")
    lesson.answer_right("pop_live")
    press_on(heap, "End")
    expect(heap.locator(".sn-lh-popped")).to_have_text(["#3", "#7", "#5"])
    expect(heap.locator(".sn-lh-wrong")).to_have_count(0)
    lesson.answer_right("route")
    expect(lesson.shows("200 requests with twelve system prompts")).to_contain_text("your route")


@in_lesson("l09_fleet")
def test_a_policy_is_scored_and_drawn(lesson):
    lesson.answer(BY_ARRIVAL)
    card = lesson.report("my_policy", "failed")
    expect(card).to_contain_text("The policy nearly always takes the oldest request, as FIFO does")
    expect(card).to_contain_text(re.compile(r"-?\d+\.\d percentage points against FIFO on average"))
    lesson.answer_right("route", "my_policy")  # the worked policy calls route
    expect(lesson.widget("fleet-view", "A practice load, with your my_policy")).to_be_attached()


# ---- lesson 10 -----------------------------------------------------------------------------------

ADMITS_ALL = """\
def admission_control(queue, limits, request):
    return "accept"
"""
EVENTS_ENDLESS = """\
def stream_delta(committed, sent, is_done):
    while True:
        sent += 1
"""


@pytest.fixture
def served(lesson):
    """What is said of the six clients, with a row for each."""
    return lesson.shows("longest gap")


@in_lesson("l10_capstone")
def test_the_server_that_stands_answers_whatever_asks_it(lesson, served):
    expect(served).to_contain_text("The reference stands in for admission_control, stream_delta")
    expect(served).to_contain_text("All six texts are the oracle's")
    said = lesson.shows("Your engine is served at")
    [address] = re.findall(r"http://127\.0\.0\.1:\d+", said.text_content())[:1]
    with urllib.request.urlopen(f"{address}/v1/models", timeout=20) as answer:
        assert b'"nanogpt"' in answer.read()


@in_lesson("l10_capstone")
def test_admission_without_an_end_fails_and_a_right_one_refuses_with_seconds(lesson):
    lesson.answer(ADMITS_ALL)
    expect(lesson.report("admission_control", "failed")).to_contain_text("queue without a limit")
    crowd = lesson.shows("its whole text")
    expect(crowd.get_by_role("row").last).to_have_text(re.compile(r"12\s*200"))
    lesson.answer_right("admission_control")
    expect(crowd).to_contain_text(re.compile(r"429\s*\d+ s"))


@in_lesson("l10_capstone")
def test_a_stream_that_repeats_or_never_ends_is_told_and_a_right_one_serves_again(lesson, served):
    lesson.answer(worked_source("l10.stream_delta").replace("[sent:]", ""))
    card = lesson.report("stream_delta", "failed")
    expect(card).to_contain_text("send it no text that it already has")
    expect(lesson.shows("A stream of six tokens")).to_contain_text("by your stream_delta")
    expect(served).to_contain_text("0 of 6 texts are the oracle's")
    lesson.answer(EVENTS_ENDLESS)
    expect(lesson.report("stream_delta", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("stream_delta")).to_be_visible()
    lesson.answer_right("stream_delta")
    expect(lesson.stand_in("stream_delta")).to_have_count(0)
    expect(served).to_contain_text("All six texts are the oracle's")
    timeline = lesson.widget("timeline", "Six clients, as the engine")
    assert "tep 0: " in press_on(timeline, "Home")


# ---- lesson 11 -----------------------------------------------------------------------------------


@in_lesson("l11_milliseconds")
def test_the_roofline_and_the_overlap_are_drawn_by_the_learner_s_functions(lesson):
    lesson.answer_right("roofline")
    expect(lesson.shows("8B, H100: 64 decodes").first).to_contain_text("By roofline, yours")
    lesson.answer_right("quantize_kv")
    expect(lesson.shows("requests that fit").first).to_contain_text("By quantize_kv, yours")
    lesson.answer_right("overlap")
    expect(lesson.shows("A hundred steps whose execution takes 5 ms").first).to_contain_text(
        "computed by overlap: yours"
    )
