"""Pictures of fleets, deadlines, preempted passes and drafts, as they are operated.

`tests/js` tests the words and what is drawn of which state; here is what only a browser shows.
"""

import re

import pytest
import samples
from driving import at_rest, box, focus_toolbar, from_the_start, live, press
from galleries import make
from preempting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

APART = "(all) => all[1].getBoundingClientRect().y - all[0].getBoundingClientRect().y"


def middle(found):
    return sum(box(found)) / 2


# ---- the fleet -----------------------------------------------------------------------------------


def test_a_button_goes_from_trouble_to_trouble_of_a_fleet(show):
    page = from_the_start(show([make("FleetView")]))
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
    before, size = caption.text_content(), at_rest(picture).bounding_box()
    picture.hover(position={"x": size["width"] / 2, "y": 40})
    assert caption.text_content() != before
    page.mouse.move(0, 0)
    assert caption.text_content() == before
    focus_toolbar(page)  # its help opens: the press must not close it and move the picture away
    size = at_rest(picture).bounding_box()
    lane = at_rest(page).locator(".sn-fv-name", has_text="worker 1").bounding_box()
    picture.click(position={"x": size["width"] / 2, "y": lane["y"] - size["y"] + 30})
    assert "loses its place at worker 1" in live(page)


def test_seeds_are_compared_metric_by_metric_and_one_by_one(show):
    page = show([make("PairedSeeds")])
    panels, words = page.locator(".sn-ps-panel"), page.locator(".sn-ps-words")
    first, second = (at_rest(panels).nth(each).bounding_box() for each in (0, 1))
    assert first["y"] == second["y"] and first["x"] < second["x"]
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    assert words.nth(0).text_content().startswith("Seed 43: ")
    press(page, "Home")
    mark = at_rest(panels).nth(0).locator(".sn-ps-better circle.sn-ps-mark").last.bounding_box()
    page.mouse.move(mark["x"] + 4, mark["y"] + 4)
    assert words.nth(1).text_content().startswith("Seed 46: ")
    page.mouse.down()
    page.mouse.up()
    assert page.locator(".sn-where").first.text_content() == "seed 46"


# ---- deadlines -----------------------------------------------------------------------------------


def test_the_bar_begins_at_now_and_the_part_past_the_deadline_is_another_colour(show):
    page = show([make("SlackTimeline")])
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
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
    focus_toolbar(page)
    for number in range(5):
        assert page.locator(".sn-gp-here").count() == (number < 4)
        if number == 3:  # a doomed incumbent: the margin reaches down
            assert at("bar") < at("candidate") < at("ring") < at("zero")
        for line in page.locator(".sn-gp-bar").all():
            roles = [box(role) for role in page.locator(".sn-gp-role").all()]
            assert roles
            assert not [role for role in roles if role[0] < box(line)[0] < role[1]]
        press(page, "ArrowRight")


# ---- a preempted pass ----------------------------------------------------------------------------


def test_all_ranks_leave_at_the_layer_where_one_votes_to(show):
    page = from_the_start(show([make("VoteBoard")]))
    picture = page.get_by_role("img")
    focus_toolbar(page)
    press(page, "ArrowRight", 7)
    assert picture.locator(".sn-vb-left").count() == 2
    # The write's line is bent: through rank 0's row right of the middle, rank 1's left of it.
    left, right = box(picture.locator(".sn-vb-write"))
    begins, ends = box(picture.locator(".sn-vb-column"))
    assert begins < left < (begins + ends) / 2 < right < ends
    press(page, "End")
    assert picture.locator(".sn-vb-never").count() == 8
    work = at_rest(picture).locator(".sn-vb-work-wasted").bounding_box()["width"]
    whole = at_rest(picture).locator(".sn-vb-all").bounding_box()["width"]
    assert work / whole == pytest.approx(7 / 12, abs=0.01)


def test_a_cycle_is_squeezed_by_the_whole_pass(show):
    page = show([make("SloCycle")])
    picture = page.get_by_role("img")
    focus_toolbar(page)
    press(page, "End")
    assert page.locator("[aria-current=step]").text_content() == "9first token"
    times = page.locator(".sn-cy-exact")
    before = box(times.nth(3))[0] - box(times.nth(0))[0]
    words = live(page)
    page.get_by_role("button", name="Whole pass").click()
    assert live(page) == words
    assert before > 5 * (box(times.nth(3))[0] - box(times.nth(0))[0])
    assert picture.locator(".sn-cy-zero").count() == 15
    page.locator(".sn-cy-number").first.click()
    assert live(page).startswith("1 of 9: arrival, 205 ms into the pass.")


# ---- drafts ------------------------------------------------------------------------------------


def test_a_pass_shows_its_drafts_and_leaves_what_stands(show):
    page = from_the_start(show([make("SpeculationStrip")]))
    focus_toolbar(page)
    press(page, "ArrowRight")
    strip = page.locator(".sn-sp-strip")
    shown = "all => all.filter((each) => each.offsetParent).map((each) => each.textContent)"
    tokens, verdicts = (
        strip.locator(".sn-sp-token"),
        page.locator(".sn-sp-table tbody td:last-child"),
    )
    assert at_rest(tokens).evaluate_all(shown) == ["h", "e", "␣", "x", "y", "↵"]
    assert verdicts.all_text_contents() == ["✗ rejected", "not read", "↻ resampled"]
    press(page, "ArrowRight")
    assert at_rest(tokens).evaluate_all(shown) == ["h", "e", "␣", "↵", "W"]
    strip.locator(".sn-sp-kept").first.hover()
    assert verdicts.all_text_contents() == ["✓ kept", "✓ kept", "+ bonus"]
    page.mouse.move(0, 0)
    assert verdicts.all_text_contents() == ["plain"]
    strip.locator(".sn-sp-kept").first.click()
    assert live(page).startswith("Pass 1 of 12:")


def test_u_keeps_or_turns_down_and_v_draws_what_is_missing(show):
    page = show([make("AcceptBars"), make("AcceptBars", **samples.accept_bars(from_p=True))])
    words = page.locator(".sn-ab-said").first
    page.get_by_role("slider", name="u", exact=True).first.focus()
    press(page, "Home")
    assert words.text_content().endswith("At u = 0.013 the rule keeps it: a stands there.")
    page.get_by_role("button", name="draft c").first.click()
    press(page, "End")
    assert "stays with probability 1." in words.text_content()
    assert page.locator(".sn-ab-wrong").count() == 0
    page.get_by_role("slider", name="v", exact=True).nth(1).focus()
    press(page, "Home")
    assert page.locator(".sn-ab-wrong").text_content() == " By the rule b would stand there."
