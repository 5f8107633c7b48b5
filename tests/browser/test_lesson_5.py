"""Lesson 5 as a learner works in it: predicted, answered wrong, right and endlessly, repaired.

One server and one page serve all tests, in this order; each leaves a right answer behind it.
"""

import re

import pytest
from launching import wait_for
from playwright.sync_api import expect
from support import ROOT

pytestmark = pytest.mark.browser

PICTURES = ROOT / ".browser-test" / "pictures"
NUM_REPORTS = 9  # five exercises and four exhibits
SLACK = """\
def slack(now, deadline, total, done, a, c):
    left = total - done
    return deadline - now - (a * left + c if left else 0)
"""
# The post's words: the time left minus the predicted TTFT.
SLACK_OF_ALL = """\
def slack(now, deadline, total, done, a, c):
    return deadline - now - (a * total + c)
"""
GATE = """\
def gate(waiter, runners, margin, mode):
    order = sorted(
        (each for each in runners if not each.num_preemptions),
        key=lambda each: (-each.urgency, each.id),
    )
    if waiter.urgency < 0 or not order:
        return None
    reference = order[0] if mode == "conservative" else order[-1]
    return order[-1].id if waiter.urgency > margin * reference.urgency else None
"""
BATCH = """\
def slo_batch(head, waiters, a, c, bound, guard):
    batch, tokens = [head.id], head.tokens
    for each in waiters:
        tokens += each.tokens
        spare = head.time_to_deadline_us - (a * tokens + c)
        if tokens > bound or spare < guard * head.slo_us:
            break
        batch.append(each.id)
    return batch
"""
BATCH_ENDLESS = """\
def slo_batch(head, waiters, a, c, bound, guard):
    while True:
        bound += 1
"""
EXHIBIT_A = SLACK.replace("def slack(", "def exhibit_a(")
# What of our own elements leaves the page, or holds more than fits into it.
TOO_WIDE = """(all) => all
    .filter((each) => each.getBoundingClientRect().right > window.innerWidth
        || each.scrollWidth > each.clientWidth)
    .map((each) => each.className)"""
OURS = {"include": [[".sng-report"], {"fromShadowDom": ["marimo-anywidget", ".sn"]}]}


@pytest.fixture(scope="module")
def lesson(open_lesson):
    """Lesson 5, reached by its link on the first page."""
    return open_lesson("l05", NUM_REPORTS)


@pytest.fixture(autouse=True)
def nothing_complained(complaints):
    """In no test does the console show an error or the page ask another machine for anything."""
    yield
    seen = complaints.copy()
    complaints.clear()
    assert seen == []


def widget(lesson, kind, title):
    """The widget of a kind whose title begins so."""
    named = lesson.page.locator(".sn-title", has_text=re.compile(f"^{re.escape(title)}"))
    return lesson.page.locator(f".sn-{kind}", has=named)


def focus(found):
    found.locator(".sn-toolbar [tabindex='0']").focus()


def violations(page, context):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page, context=context).response
    assert found["passes"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]


def test_lesson_5_opens_by_its_link_and_runs_by_itself(lesson):
    page = lesson.page
    expect(page.get_by_role("heading", level=1)).to_contain_text("SLO policy")
    for kind in ("slack-timeline", "gate-picture", "repair-ladder", "prediction", "hints"):
        expect(page.locator(f".sn-{kind}").first).to_be_attached()
    expect(page.locator(".sn")).to_have_count(page.locator("marimo-anywidget").count())
    expect(page.locator(".marimo-error, .console-output-area .stderr")).to_have_count(0)
    expect(page.locator(".sng-report[data-status=not_started]")).to_have_count(5)
    expect(page.locator(".sng-report[data-status=failed]")).to_have_count(4)


def test_a_prediction_is_committed_by_keyboard_and_remembered(lesson, course_server):
    question = lesson.page.locator(".sn-prediction", has_text="gets its first token 390 ms after")
    expect(question).not_to_contain_text("The report's TTFT goes from")
    question.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "Enter"):
        lesson.page.keyboard.press(key)
    expect(question.locator(".sn-pr-verdict")).to_have_text("You predicted it.")
    expect(question).to_contain_text("The report's TTFT goes from 410 to 522 ms")
    progress = course_server.work / "progress"
    wait_for(lambda: [*progress.rglob("l05.price.json")] != [], limit_s=30)


def test_a_wrong_slack_is_marked_where_it_differs_and_a_right_one_is_drawn(lesson, course_server):
    page = lesson.page
    compared = page.locator(".output table", has_text="preemptions, computed in vain")
    lesson.answer(SLACK_OF_ALL)
    card = lesson.report("slack", "failed")
    expect(card).to_contain_text("done")
    mine = widget(lesson, "slack-timeline", "Promised within 80 ms, by your slack")
    expect(mine).to_be_attached(timeout=60_000)
    focus(mine)
    page.keyboard.press("End")
    differs = mine.locator(".sn-sk-differs:not(.sn-legend *)")
    expect(differs).to_have_count(1)  # of the runner; for the one that waits it is right
    expect(compared).to_contain_text("differs first in pass", timeout=60_000)

    lesson.answer(SLACK)
    expect(lesson.report("slack", "passed")).to_contain_text("Passed")
    expect(differs).to_have_count(0, timeout=60_000)
    expect(compared).not_to_contain_text("differs first in pass", timeout=60_000)
    expect(compared).to_contain_text("like the reference")
    expect(page.get_by_text(re.compile("In these runs slack came from you"))).to_be_attached()
    file = course_server.work / "l05_slo_policy.py"
    wait_for(lambda: "    left = total - done\n" in file.read_text(), limit_s=30)

    focus(mine)
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    said = mine.locator(".sn-live")
    expect(said).to_contain_text("It runs, 20.0 ms after the arrival: 300 of 500 tokens are left")
    expect(said).to_contain_text("It waits, 20.0 ms after the arrival: 500 tokens to compute")
    mine.evaluate("each => each.scrollIntoView()")
    page.screenshot(path=PICTURES / "l05_slack.png")


def test_after_an_endless_loop_the_work_goes_on(lesson):
    lesson.answer(BATCH_ENDLESS)
    expect(lesson.report("slo_batch", "timeout")).to_contain_text("Took too long")
    stopped = lesson.page.locator(".output table", has_text="The run stopped")
    expect(stopped).to_contain_text("slo_batch took longer than", timeout=60_000)
    lesson.answer(BATCH)
    lesson.report("slo_batch", "passed")
    expect(stopped).to_have_count(0, timeout=60_000)


def test_the_learner_s_gate_decides_the_eight_moments(lesson):
    lesson.answer(GATE)
    lesson.report("gate", "passed")
    picture = widget(lesson, "gate-picture", "Eight moments, by your gate")
    expect(picture).to_be_attached(timeout=60_000)
    focus(picture)
    lesson.page.keyboard.press("Home")
    victims = []
    for _ in range(8):
        victims.append(picture.get_by_role("img").locator(".sn-gp-victim").count())
        lesson.page.keyboard.press("ArrowRight")
    assert victims == [1, 0, 0, 1, 0, 0, 1, 0]


def test_the_ladder_is_climbed_by_keyboard(lesson):
    ladder = widget(lesson, "repair-ladder", "The repair ladder")
    focus(ladder)
    said = ladder.locator(".sn-live")
    for key, words in (("Home", "No preemption."), ("End", "The batches alone")):
        lesson.page.keyboard.press(key)
        expect(said).to_contain_text(words)
    ladder.evaluate("each => each.scrollIntoView()")
    lesson.page.screenshot(path=PICTURES / "l05_ladder.png")


def test_a_repaired_exhibit_loses_its_symptom_and_passes_its_check(lesson):
    seen = lesson.page.locator(".output", has_text="650 ms").locator("table")
    expect(seen.first).to_contain_text("aborted")
    lesson.report("slack", "failed", place=1)
    lesson.answer(EXHIBIT_A)
    lesson.report("slack", "passed", place=1)
    expect(seen.first).not_to_contain_text("aborted")
    expect(seen.last).not_to_contain_text("missed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_ours_breaks_an_accessibility_rule_in_lesson_5(lesson, scheme):
    lesson.page.emulate_media(color_scheme=scheme)
    expect(lesson.page.locator(f".sn[data-theme={scheme}]")).to_have_count(
        lesson.page.locator(".sn").count()
    )
    assert violations(lesson.page, OURS) == []


def test_lesson_5_fits_a_narrow_page(lesson):
    page = lesson.page
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 900})
    ours = page.locator(".sn, .sng-report")
    wait_for(lambda: ours.evaluate_all(TOO_WIDE) == [])
    for name, element in {
        "gate": page.locator(".sn-gate-picture"),
        "exhibit_d": page.get_by_role("heading", name=re.compile("Exhibit D")),
    }.items():
        element.evaluate("each => each.scrollIntoView()")
        page.screenshot(path=PICTURES / f"l05_{name}_390.png")
