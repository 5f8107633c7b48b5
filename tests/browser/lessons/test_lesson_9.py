"""Lesson 9 as a learner works in it: predicted, answered wrong, right and endlessly, repaired.

The tests work in this order; each leaves a right answer behind it.
"""

import re

import pytest
from driving import assert_ran_by_itself, in_lesson, press_on, widget
from launching import wait_for
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, in_lesson("l09_blocks")]

WAIT_MS = 120_000  # for what follows an answer: runs of the engine, on a busy machine
ALLOCATE = """\
def allocate(num_blocks, num_tokens, size, free):
    n = max(0, (num_tokens + size - 1) // size - num_blocks)
    return free[:n] if n <= len(free) else None
"""
RELEASE = """\
def release(counts, table):
    return [block for block in table if counts[block] == 1]
"""
RELEASE_ALL = RELEASE.replace(" if counts[block] == 1", "")
BLOCK_HASHES = """\
def block_hashes(tokens, size, salt):
    import hashlib
    found, parent = [], ""
    for end in range(size, len(tokens) + 1, size):
        said = repr((parent, salt, tokens[end - size : end]))
        parent = hashlib.sha256(said.encode()).hexdigest()
        found.append(parent)
    return found
"""
NO_PARENT = BLOCK_HASHES.replace("repr((parent, salt,", "repr((salt,")
LONGEST_MATCH = """\
def longest_match(hashes, cached, num_tokens, size):
    blocks = []
    for each in hashes[: (num_tokens - 1) // size]:
        if each not in cached:
            break
        blocks.append(cached[each])
    return blocks, len(blocks) * size
"""
MATCH_ENDLESS = """\
def longest_match(hashes, cached, num_tokens, size):
    while True:
        size += 1
"""
WRITABLE = """\
def writable(table, counts, index, free):
    block = table[index]
    if counts[block] == 1:
        return table, None
    return table[:index] + [free[0]] + table[index + 1 :], (block, free[0])
"""
EVICT_ORDER = """\
def evict_order(blocks):
    free = [b for b in blocks if b.count == 0]
    return [b.id for b in sorted(free, key=lambda b: (b.last_used, -b.depth))]
"""
PARENTS_FIRST = EVICT_ORDER.replace("-b.depth", "b.depth")
EXHIBIT_A = BLOCK_HASHES.replace("def block_hashes(", "def exhibit_a(")
ALL_SIX = "allocate, release, block_hashes, longest_match, writable, evict_order"


@pytest.fixture(scope="module")
def ran(lesson):
    """What is said of your engine's run, with a row for each request."""
    return lesson.page.locator(".output", has_text="Of the earlier lessons:")


@pytest.fixture(scope="module")
def pool(lesson):
    """The pool of your engine's run."""
    return widget(lesson, "block-pool", "The pool of that run")


def test_lesson_9_opens_by_its_link_and_runs_by_itself(lesson, ran, pool):
    kinds = ("block-pool", "prefix-tree", "timeline", "curves", "prediction", "hints")
    assert_ran_by_itself(lesson, "Blocks and shared prefixes", kinds, not_started=6, failed=4)
    expect(ran).to_contain_text(f"This run used the reference for {ALL_SIX}: not written yet.")
    expect(ran).to_contain_text("All six texts equal those of the oracle")
    expect(pool).to_contain_text("The reference (yours is not written yet).")


def test_what_answers_a_prediction_waits_until_it_is_committed_by_keyboard(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="how much holds tokens?")
    expect(question).not_to_contain_text("and little else")
    table = lesson.page.locator(".output table", has_text="a slot for each request")
    expect(table).to_be_hidden()
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("and little else")
    expect(table).to_be_visible()
    wait_for(lambda: [*(course_server.work / "progress").rglob("l09.reserved.json")] != [])
    recorded = widget(lesson, "block-pool", "Six requests on nineteen blocks")
    expect(recorded).to_have_count(0)
    for key in ("shared", "whole", *(f"exhibit_{letter}" for letter in "abcde")):
        lesson.show_answer(f"l09.{key}")
    expect(recorded).to_have_count(1)


def test_the_recorded_pool_is_told_by_keyboard(lesson):
    recorded = widget(lesson, "block-pool", "Six requests on nineteen blocks")
    said = press_on(recorded, "Home", *["ArrowRight"] * 3)
    assert said.startswith("Step 3: Request 1 starts and finds its first 32 tokens in 4 blocks; ")
    expect(recorded.locator(".sn-bp-count")).to_have_text(["×2"] * 4)
    assert "request 0 is done" in press_on(recorded, *["ArrowRight"] * 7)
    expect(recorded.locator(".sn-bp-queue")).to_have_text(
        "Free but still found, first to give way: 6, 5 and 4."
    )
    said = press_on(recorded, *["ArrowRight"] * 4)
    assert "Request 3 starts and finds its first 48 tokens in 6 blocks" in said
    assert "Block 6 gives way" in said
    tree = widget(lesson, "prefix-tree", "What can be found, each block behind its parent")
    said = press_on(tree, "End", *["ArrowLeft"] * 20)
    assert re.match(r"Step 16\. .*\n17 blocks can be found: 8 in tables and 9 free\.", said)
    recorded.evaluate("each => each.scrollIntoView()")


def test_a_hash_without_its_parent_finds_what_is_not_there_and_another_text_comes_out(
    lesson, ran, pool, course_server
):
    lesson.answer(NO_PARENT)
    expect(lesson.report("block_hashes", "failed")).to_contain_text("parent")
    expect(ran).to_contain_text("In this run block_hashes came from you", timeout=WAIT_MS)
    expect(ran).to_contain_text("Not what the oracle generate() says: the text of request 5.")
    note = pool.locator(".sn-note")
    expect(note).to_have_text("Step 29 is the first in which the pools differ.", timeout=WAIT_MS)
    mine, right = press_on(pool, "Home", "End", *["ArrowLeft"] * 7).split("\n")
    assert "Request 5 starts and finds its first 40 tokens in 5 blocks" in mine
    assert "Request 5 starts and finds its first 32 tokens in 4 blocks" in right

    lesson.answer(BLOCK_HASHES)
    lesson.report("block_hashes", "passed")
    expect(note).to_have_text("Both pools did the same in every step.", timeout=WAIT_MS)
    expect(ran).to_contain_text("All six texts equal those of the oracle", timeout=WAIT_MS)
    expect(ran).to_contain_text("step for step the plan is the reference's too")
    file = course_server.work / "l09_blocks.py"
    wait_for(lambda: "    found, parent = [], " in file.read_text())


def test_a_release_that_frees_what_others_name_stops_your_engine(lesson, ran, pool):
    lesson.answer(RELEASE_ALL)
    expect(lesson.report("release", "failed")).to_contain_text("still read")
    stopped = "The run stopped early: your release frees block 0; with this one, 2 tables name it"
    expect(ran).to_contain_text(stopped, timeout=WAIT_MS)
    bad = pool.locator(".sn-note-bad")
    expect(bad).to_have_text(re.compile("^Yours stopped after step 9: your release frees block 0"))
    expect(pool.locator(".sn-live")).to_contain_text("Yours has stopped.")
    lesson.answer(RELEASE)
    lesson.report("release", "passed")
    expect(ran).to_contain_text("All six texts equal those of the oracle", timeout=WAIT_MS)


def test_an_order_that_loses_beginnings_first_is_seen_in_the_pool_alone(lesson, ran, pool):
    lesson.answer(PARENTS_FIRST)
    expect(lesson.report("evict_order", "failed")).to_contain_text("deepest goes first")
    note = pool.locator(".sn-note")
    expect(note).to_contain_text("is the first in which the pools differ", timeout=WAIT_MS)
    expect(ran).to_contain_text("All six texts equal those of the oracle", timeout=WAIT_MS)
    pool.get_by_role("button", name="Draw the reference").click()
    expect(pool.locator(".sn-chip")).to_have_text("drawn: the reference")
    lesson.answer(EVICT_ORDER)
    lesson.report("evict_order", "passed")
    expect(note).to_have_text("Both pools did the same in every step.", timeout=WAIT_MS)


def test_all_six_are_yours_and_measured(lesson, ran):
    for source, name in ((ALLOCATE, "allocate"), (LONGEST_MATCH, "longest_match")):
        lesson.answer(source)
        lesson.report(name, "passed")
    lesson.answer(WRITABLE)
    lesson.report("writable", "passed")
    expect(ran).to_contain_text(f"In this run {ALL_SIX} came from you.", timeout=WAIT_MS)
    expect(ran).to_contain_text("112 more were found in blocks")
    sixteen = lesson.page.locator(".output tr", has_text="blocks of 16, yours")
    expect(sixteen).to_contain_text("800", timeout=WAIT_MS)
    found_again = lesson.page.locator(".output tr", has_text="that are found, yours")
    expect(found_again).to_contain_text("107", timeout=WAIT_MS)
    said = press_on(lesson.timeline, "Home", *["ArrowRight"] * 3)
    assert said.startswith("Yours, step 3: request 0 decodes")
    assert "request 1 prefills tokens 32 to 54 of 55" in said
    lesson.timeline.evaluate("each => each.scrollIntoView()")


def test_after_an_endless_match_the_work_goes_on(lesson, ran):
    lesson.answer(MATCH_ENDLESS)
    expect(lesson.report("longest_match", "timeout")).to_contain_text("Took too long")
    expect(lesson.stand_in("longest_match")).to_be_visible()
    lesson.answer(LONGEST_MATCH)
    lesson.report("longest_match", "passed")
    expect(lesson.stand_in("longest_match")).to_have_count(0)
    expect(ran).to_contain_text("All six texts equal those of the oracle", timeout=WAIT_MS)


def test_a_repaired_exhibit_loses_its_symptom_and_passes_its_check(lesson):
    behind_another = lesson.page.locator(".output", has_text="tokens found").filter(
        has_text="this store"
    )
    expect(behind_another.first).to_contain_text("differs")
    lesson.report("block_hashes", "failed", place=1)
    lesson.answer(EXHIBIT_A)
    lesson.report("block_hashes", "passed", place=1)
    table = behind_another.locator("table").first
    expect(table.locator("tr").last.locator("td").nth(1)).to_have_text("16", timeout=WAIT_MS)
    expect(table).not_to_contain_text("differs")
