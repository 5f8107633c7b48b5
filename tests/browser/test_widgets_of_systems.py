"""Pictures of fleets, deadlines, preempted passes and drafts, as they are operated."""

import itertools
import re

import pytest
import samples
from driving import box, focus_toolbar, from_the_start, live, press
from galleries import make
from preempting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

APART = "(all) => all[1].getBoundingClientRect().y - all[0].getBoundingClientRect().y"


def middle(found):
    return sum(box(found)) / 2


# ---- the fleet -----------------------------------------------------------------------------------


def test_the_fleet_is_told_event_by_event_with_its_workers_and_troubles(show):
    page = from_the_start(show([make("FleetView")]))
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert live(page) == (
        "0.006 s, event 4 of 13: Request 1 is given to worker 1 after 1.0 ms of waiting: "
        "10 of its 30 tokens hit the cache. Nothing waits."
    )
    rows = page.locator(".sn-fv-table tbody tr").all_text_contents()
    assert "prefill of request 0" in rows[0]
    assert "prefill of request 1" in rows[1] and "40 set aside, 25 cached" in rows[1]
    assert page.locator(".sn-note-bad").text_content().startswith("It stopped: your decide named")
    told = []
    for _ in range(4):
        page.get_by_role("button", name="Next trouble").click()
        told.append(
            re.search(r"refused|loses its place|deadline of request 1 passes", live(page))[0]
        )
    assert told == ["refused", "loses its place", "deadline of request 1 passes", "refused"]


def test_a_fleet_is_zoomed_into_at_its_event_and_the_pointer_tells_of_its_moment(show):
    page = show([make("FleetView", trace=samples.simulated_fleet())])
    quiet = page.get_by_role("button", name="Next trouble")
    assert quiet.get_attribute("aria-disabled") == "true"
    focus_toolbar(page)
    press(page, "ArrowRight", 30)
    words = live(page)
    assert page.locator(".sn-fv-window").count() == 0
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
    assert live(page) == words
    left, right = box(page.locator(".sn-fv-window"))
    whole = box(page.locator(".sn-fv-picture"))
    assert (right - left) / (whole[1] - whole[0]) < 0.15
    focus_toolbar(page)
    press(page, "End")
    assert whole[0] <= box(page.locator(".sn-fv-cursor"))[0] <= whole[1]
    page = show([make("FleetView")])
    picture, caption = page.locator(".sn-fv-picture"), page.locator(".sn-fv-table caption")
    before, size = caption.text_content(), picture.bounding_box()
    picture.hover(position={"x": size["width"] / 2, "y": 40})
    assert caption.text_content() != before
    page.mouse.move(0, 0)
    assert caption.text_content() == before
    focus_toolbar(page)  # its help opens: the press must not close it and move the picture away
    size = picture.bounding_box()
    lane = page.locator(".sn-fv-name", has_text="worker 1").bounding_box()
    picture.click(position={"x": size["width"] / 2, "y": lane["y"] - size["y"] + 30})
    assert "loses its place at worker 1" in live(page)


def test_seeds_are_compared_metric_by_metric_and_one_by_one(show):
    page = show([make("PairedSeeds")])
    assert live(page) == (
        "Priority against FIFO, steady, 5 seeds, modelled. "
        "Better: TTFT p50. Worse: TTFT p99. Within noise: ITL mean."
    )
    panels, words = page.locator(".sn-ps-panel"), page.locator(".sn-ps-words")
    first, second = (panels.nth(each).bounding_box() for each in (0, 1))
    assert first["y"] == second["y"] and first["x"] < second["x"]
    marks = panels.locator(".sn-chip").all_text_contents()
    assert marks == ["✓ better", "✗ worse", "within noise"]
    assert panels.nth(0).locator("svg path.sn-ps-line").count() == 6
    assert "the interval holds 0" in words.nth(2).text_content()
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    assert words.nth(0).text_content() == "Seed 43: TTFT p50 239 → 11 ms (−228, better)."
    press(page, "Home")
    mark = panels.nth(0).locator(".sn-ps-better circle.sn-ps-mark").last.bounding_box()
    page.mouse.move(mark["x"] + 4, mark["y"] + 4)
    assert words.nth(1).text_content().startswith("Seed 46: TTFT p99 620 → 3,976 ms")
    page.mouse.down()
    page.mouse.up()
    assert page.locator(".sn-where").first.text_content() == "seed 46"


def test_a_dropped_counter_revives_an_entry_in_alarm(show):
    page = from_the_start(show([make("LazyHeap")]))
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert page.locator(".sn-lh-forgotten").text_content() == "request 3 forgotten"
    assert page.locator("svg .sn-lh-stale").count() == 2
    press(page, "ArrowRight")
    assert page.locator("svg .sn-lh-revived").count() == 2
    assert page.locator("svg .sn-lh-stale").count() == 0
    assert "is live again" in live(page) and live(page).endswith("2 live and 1 revived.")
    assert page.locator("svg .sn-lh-revived .sn-lh-alarm").first.is_visible()


# ---- deadlines -----------------------------------------------------------------------------------


def test_the_bar_begins_at_now_and_the_part_past_the_deadline_is_another_colour(show):
    page = show([make("SlackTimeline")])
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    assert live(page) == (
        "Fits, 40.0 ms after the arrival: 500 tokens to compute, predicted 60.0 ms. The bar ends "
        "50.0 ms before the deadline: slack +50.0 ms, score 0.00909 per ms.\n"
        "Too late, 40.0 ms after the arrival: 500 tokens to compute, predicted 60.0 ms. The bar "
        "overshoots the deadline by 10.0 ms: slack −10.0 ms, score −0.02 per ms."
    )
    fits, late = page.get_by_role("img").all()
    assert fits.locator(".sn-sk-late").count() == 0
    begins, ends = box(fits.locator(".sn-sk-bar"))
    deadline = middle(fits.locator(".sn-sk-deadline"))
    assert middle(fits.locator(".sn-sk-now")) == pytest.approx(begins, abs=1)
    assert (deadline - ends) / (ends - begins) == pytest.approx(50 / 60, rel=0.03)
    begins, ends = box(late.locator(".sn-sk-bar"))
    assert middle(late.locator(".sn-sk-deadline")) == pytest.approx(ends, abs=1.5)
    late_begins, late_ends = box(late.locator(".sn-sk-late"))
    assert (late_ends - late_begins) / (ends - begins) == pytest.approx(10 / 50, rel=0.1)
    pictures = page.get_by_role("img")  # each is drawn anew for its width
    page.set_viewport_size({"width": 1000, "height": 900})  # side by side where there is room
    wait_for(lambda: pictures.evaluate_all(APART) == 0)
    page.set_viewport_size({"width": 390, "height": 900})
    wait_for(lambda: pictures.evaluate_all(APART) > 0)


def test_every_decision_marks_its_case_and_its_scores_are_to_scale(show):
    page = show([make("GatePicture")])
    picture = page.get_by_role("img")

    def at(kind):
        return middle(picture.locator(f".sn-gp-{kind}"))

    assert (at("bar") - at("zero")) / (at("ring") - at("zero")) == pytest.approx(1.2, abs=0.02)
    assert (at("candidate") - at("zero")) / (at("ring") - at("zero")) == pytest.approx(2, abs=0.03)
    assert picture.locator(".sn-gp-victim").count() == 1
    focus_toolbar(page)
    marked = []
    for number in range(5):
        here = page.locator(".sn-gp-here")
        marked.append(here.text_content() if here.count() else None)
        if number == 3:  # a doomed incumbent: the margin reaches down
            assert at("bar") < at("candidate") < at("ring") < at("zero")
            assert picture.get_by_text("1.2 × incumbent: lower, not higher").is_visible()
        for line in page.locator(".sn-gp-bar").all():
            roles = [box(role) for role in page.locator(".sn-gp-role").all()]
            assert roles
            assert not [role for role in roles if role[0] < box(line)[0] < role[1]]
        press(page, "ArrowRight")
    assert marked == [
        "this case: Preempt if the candidate's score is more than 1.2 times the incumbent's.",
        "this case: Keep: nothing is sacrificed for a request that cannot be saved.",
        "this case: Preempt: the incumbent misses its deadline anyway.",
        "this case: Keep: no order rescues either of them.",
        None,
    ]
    assert picture.locator(".sn-gp-immune").count() == 1
    assert page.locator(".sn-chip").text_content() == "aggressive, margin 1.2"
    assert live(page).endswith("there is no incumbent. No request is preempted.")


def test_the_ladder_is_climbed_one_fix_at_a_time_and_its_bars_are_to_scale(show):
    page = from_the_start(show([make("RepairLadder")]))
    picture = page.get_by_role("img")

    def widths(kind):
        found = picture.locator(f".sn-rl-{kind}").all()
        return [float(each.get_attribute("width")) for each in found]

    bars = []
    focus_toolbar(page)
    for _ in range(4):
        bars.append(len(widths("urgent")))
        press(page, "ArrowRight")
    assert bars == [1, 2, 3, 4]
    one = widths("urgent")[0] / 45
    assert [round(width / one) for width in widths("urgent")] == [45, 58, 1, 80]
    assert [round(width / one) for width in widths("generous")] == [85, 80, 60, 90]
    first = box(picture.locator(".sn-rl-urgent").first)[0]
    assert all(box(name)[1] < first for name in page.locator(".sn-rl-name").all())
    press(page, "ArrowLeft")
    assert live(page) == (
        "+ arrivals seen in mid-pass, at 4 requests/s. In time: urgent 1 % (0 to 5), 57 points "
        "less than before; generous 60 %, 20 points less than before. 340 preemptions throw away "
        "55 % of the computing time.\nThis is + arrivals seen in mid-pass."
    )
    assert picture.locator(".sn-rl-whisker").count() == 3
    button = page.get_by_role("button", name="2 requests per second")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert [round(width / one) for width in widths("urgent")] == [55, 68, 11]
    assert widths("wasted")[2] == pytest.approx(64 * 0.55)


# ---- a preempted pass ----------------------------------------------------------------------------


def test_all_ranks_leave_at_the_layer_where_one_votes_to(show):
    page = from_the_start(show([make("VoteBoard")]))
    picture = page.get_by_role("img")
    focus_toolbar(page)
    press(page, "ArrowRight", 6)
    assert live(page) == "As it should be.\nLayer 6: ranks 0 and 1 vote 0; MAX is 0."
    press(page, "ArrowRight")
    assert live(page) == (
        "As it should be.\nLayer 7: rank 0 votes 0, rank 1 votes 1; MAX is 1. Target 17 is written "
        "after rank 0 looked here, and before rank 1 did. All ranks leave here, no rank by itself. "
        "7 of 12 layers computed for nothing: 58 percent of the pass."
    )
    assert picture.locator(".sn-vb-left").count() == 2
    # The write's line is bent: through rank 0's row right of the middle, rank 1's left of it.
    left, right = box(picture.locator(".sn-vb-write"))
    begins, ends = box(picture.locator(".sn-vb-column"))
    assert begins < left < (begins + ends) / 2 < right < ends
    press(page, "End")
    assert picture.locator(".sn-vb-never").count() == 8
    work = picture.locator(".sn-vb-work-wasted").bounding_box()["width"]
    whole = picture.locator(".sn-vb-all").bounding_box()["width"]
    assert work / whole == pytest.approx(7 / 12, abs=0.01)


def test_a_rank_that_left_alone_leaves_the_others_waiting(show):
    page = show([make("VoteBoard")])
    picture = page.get_by_role("img")
    page.get_by_role("button", name="alone", exact=True).click()
    focus_toolbar(page)
    press(page, "Home")
    press(page, "ArrowRight", 7)
    assert "the collective never answers" in live(page)
    assert "Rank 0 hangs here: it waits for rank 1. Rank 1 leaves here" in live(page)
    kinds = ("hangs", "alone", "left", "result-stuck", "result-yes")
    assert [picture.locator(f".sn-vb-{kind}").count() for kind in kinds] == [1, 1, 0, 1, 0]
    assert page.locator(".sn-chip").text_content() == "hangs"
    page.get_by_role("button", name="crash").click()
    assert picture.locator(".sn-vb-crashed").count() == 1
    page.get_by_role("button", name="too late").click()
    press(page, "End")
    assert live(page).endswith("All 12 layers are run.")
    page.get_by_role("button", name="no collective").click()
    assert picture.locator(".sn-vb-result").count() == 0


def test_the_cycle_is_told_event_by_event_and_squeezed_by_the_whole_pass(show):
    page = show([make("SloCycle")])
    picture = page.get_by_role("img")
    focus_toolbar(page)
    told = []
    for _ in range(9):
        told.append(page.locator("[aria-current=step]").text_content())
        press(page, "ArrowRight")
    assert told == [
        "1arrival", "2inbox", "3monitor", "4shared memory", "5vote", "6leave", "7clean-up",
        "8re-admission", "9first token",
    ]  # fmt: skip
    assert live(page) == (
        "9 of 9: first token, 260 ms into the pass.\n"
        "Request 7 has its first token, 55.0 ms after it arrived."
    )
    times = page.locator(".sn-cy-exact")
    before = box(times.nth(3))[0] - box(times.nth(0))[0]
    words = live(page)
    page.get_by_role("button", name="Whole pass").click()
    assert live(page) == words
    assert before > 5 * (box(times.nth(3))[0] - box(times.nth(0))[0])
    assert picture.locator(".sn-cy-zero").count() == 15
    page.locator(".sn-cy-number").first.click()
    assert live(page).startswith("1 of 9: arrival, 205 ms into the pass.")


# ---- drafts and curves ---------------------------------------------------------------------------


def test_a_pass_shows_its_drafts_and_leaves_what_stands(show):
    page = from_the_start(show([make("SpeculationStrip")]))
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert live(page) == (
        "Pass 2 of 12: the draft proposes 2 tokens, 0 are kept, and a resampled token “↵” follows: "
        "1 token from one pass.\n4 tokens in 2 passes so far: 2.00 per pass, 2 of 4 drafts kept."
    )
    strip = page.locator(".sn-sp-strip")
    shown = "all => all.filter((each) => each.offsetParent).map((each) => each.textContent)"
    tokens, verdicts = (
        strip.locator(".sn-sp-token"),
        page.locator(".sn-sp-table tbody td:last-child"),
    )
    assert tokens.evaluate_all(shown) == ["h", "e", "␣", "x", "y", "↵"]
    assert verdicts.all_text_contents() == ["✗ rejected", "not read", "↻ resampled"]
    press(page, "ArrowRight")
    assert tokens.evaluate_all(shown) == ["h", "e", "␣", "↵", "W"]
    assert strip.get_attribute("aria-label") == "The text after this pass: ROMEO:\nhe \nW"
    strip.locator(".sn-sp-kept").first.hover()
    assert verdicts.all_text_contents() == ["✓ kept", "✓ kept", "+ bonus"]
    page.mouse.move(0, 0)
    assert verdicts.all_text_contents() == ["plain"]
    strip.locator(".sn-sp-kept").first.click()
    assert live(page).startswith("Pass 1 of 12:")


def test_u_keeps_or_turns_down_and_v_draws_what_is_missing(show):
    page = show([make("AcceptBars"), make("AcceptBars", **samples.accept_bars(from_p=True))])
    words = page.locator(".sn-ab-said").first
    assert words.text_content() == (
        "The draft is a. p / q is 0.2, so it stays with probability 0.2. "
        "At u = 0.512 the rule turns it down; at v = 0.512 c stands there."
    )
    page.get_by_role("slider", name="u", exact=True).first.focus()
    press(page, "Home")
    assert words.text_content().endswith("At u = 0.013 the rule keeps it: a stands there.")
    page.get_by_role("button", name="draft c").first.click()
    press(page, "End")
    assert "stays with probability 1." in words.text_content()
    assert page.locator(".sn-ab-wrong").count() == 0
    pictures = page.get_by_role("img")
    assert pictures.nth(1).get_attribute("aria-label") == (
        "a: p 0.125, q 0.625, comes out 0.125; b: p 0.25, q 0.125, comes out 0.25; "
        "c: p 0.625, q 0.25, comes out 0.625"
    )
    assert "a: p 0.125, q 0.625, comes out 0.188;" in pictures.nth(3).get_attribute("aria-label")
    page.get_by_role("slider", name="v", exact=True).nth(1).focus()
    press(page, "Home")
    assert page.locator(".sn-ab-wrong").text_content() == " By the rule b would stand there."


def test_a_slider_chooses_the_series_which_differ_in_dashes_and_are_named_at_their_ends(show):
    page = show([make("Curves")])
    words, axis = page.locator(".sn-cu-said"), page.locator(".sn-axis").all_text_contents()
    assert words.text_content() == (
        "At the end: two forwards 13.56 ms at 128 tokens, padded, one forward 24 ms at 128 tokens "
        "and packed 8.76 ms at 128 tokens."
    )
    dashes = [line.get_attribute("stroke-dasharray") for line in page.locator(".sn-cu-line").all()]
    assert len(dashes) == len(set(dashes)) == 3
    names = page.locator(".sn-cu-name")
    assert names.all_text_contents() == ["two forwards", "padded, one forward", "packed"]
    tops = sorted(each.bounding_box()["y"] for each in names.all())
    assert all(below - above >= 16 for above, below in itertools.pairwise(tops))
    slider = page.get_by_role("slider", name="decodes")
    slider.focus()
    press(page, "ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "16"
    assert "padded, one forward 70.08 ms" in words.text_content()
    assert page.locator(".sn-axis").all_text_contents() == axis
    narrow = show([make("Curves")], width=390)
    assert narrow.locator(".sn-cu-name").count() == 0
    assert narrow.locator(".sn-legend li").count() == 3
