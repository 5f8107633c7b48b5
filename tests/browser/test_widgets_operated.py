"""One way to operate each picture that has more than its player: presses, keys, sliders, zoom.

`tests/js` holds the words, places and sizes of every state; here is what only a browser shows.
"""

import pytest
import samples
from driving import at_rest, box, focus_toolbar, from_the_start, live, press
from galleries import make

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


def said(page):
    return page.locator(".sn-bv-said, .sn-mb-said").first.text_content()


# ---- an engine's ---------------------------------------------------------------------------------


def test_a_kv_budget_is_drawn_to_scale_and_its_columns_show_time_when_asked(show):
    page = from_the_start(show([make("KVBudget")]))
    held = page.locator(".sn-kv-budget .sn-picture .sn-kv-box-held")
    heights = [each.bounding_box()["height"] for each in at_rest(held).all()]
    assert [round(10 * each / heights[0]) for each in heights] == [
        10, 11, 10, 12, 13, 14, 11, 12, 13, 14,
    ]  # fmt: skip
    limit = at_rest(page.locator(".sn-kv-limit")).bounding_box()
    first, last = (at_rest(each).bounding_box() for each in (held.first, held.last))
    assert first["y"] + heights[0] - limit["y"] == pytest.approx(2.2 * heights[0], abs=2)
    assert first["width"] == last["width"]
    page.get_by_role("button", name="Width shows time").click()
    assert at_rest(held).first.bounding_box()["width"] > held.last.bounding_box()["width"]


def test_arrow_keys_and_the_pointer_read_a_batch_cell_by_cell_and_its_mask(show):
    page = show([make("BatchView")])
    page.get_by_role("grid").focus()
    press(page, "ArrowLeft")
    assert said(page) == "A (decode), row 0, column 6: padding, computed and thrown away."
    focused = page.get_by_role("grid").get_attribute("aria-activedescendant")
    assert page.locator(f"#{focused}").get_attribute("aria-label") == "A, column 6"
    page.get_by_role("gridcell", name="C, column 3").hover()
    assert said(page).startswith("C (decode), row 2, column 3: ")
    focus_toolbar(page)
    press(page, "End")
    page.locator(".sn-bv-query").nth(2).hover()
    assert said(page).startswith("C (decode), query 2: ")


def test_the_queries_of_a_mask_are_read_by_keys(show):
    page = show([make("MaskBuild")])
    focus_toolbar(page)
    press(page, "End")
    page.get_by_role("listbox").focus()
    press(page, "ArrowDown", 3)
    assert said(page).startswith("Row B, query 0 at position 4.")
    press(page, "ArrowLeft")
    assert said(page).endswith("It sees past columns 0 to 3 and new column 0.")


def test_the_window_s_slider_changes_the_second_run_and_keeps_the_step(show):
    page = from_the_start(show([make("KVGrowth")]))
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    slider = page.get_by_role("slider", name="window", exact=True)
    slider.focus()
    press(page, "ArrowRight", 2)
    assert slider.get_attribute("aria-valuetext") == "W = 4"
    assert "\nW = 4, step 3: 8 of 16 KV tokens held" in live(page)
    page.get_by_role("button", name="Show bytes").click()
    assert live(page).startswith("No window, step 3: 1,024 of 1,024 bytes held.")


def test_attention_is_cut_by_presses_and_its_sinks_are_kept_or_cut(show):
    page = show([make("AttentionByDistance", sink_weights=[[[0.2, 0.1]] * 3] * 2)])
    bars = page.get_by_role("img").first
    left, right = box(bars.locator(".sn-ad-cut").nth(10))
    bars.click(position={"x": (left + right) / 2 - box(bars)[0], "y": 180})
    assert "a window of 19 cuts off" in live(page)
    page.locator(".sn-ad-percent").nth(4).click()
    assert live(page).startswith("Layer 1, head 1: ")
    page.get_by_role("button", name="Keep the sinks").click()
    assert live(page).endswith("and are cut as well.")


def test_a_token_finds_its_way_through_the_layers(show):
    page = show([make("ReceptiveField")])
    focus_toolbar(page)
    press(page, "End")
    page.get_by_role("button", name="Show its way").click()
    assert page.locator(".sn-rf-way").count() == 1
    assert "\nToken 27 lies 20 back, and acts through 3 layers" in live(page)


# ---- deadlines, fleets, preempted passes, drafts -------------------------------------------------


def test_a_fleet_is_zoomed_into_its_troubles_are_visited_and_the_pointer_tells_its_moment(show):
    page = from_the_start(show([make("FleetView")]))
    for trouble in ("refused", "loses its place", "deadline of request 1 passes", "refused"):
        page.get_by_role("button", name="Next trouble").click()
        assert trouble in live(page)
    words = live(page)
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
    assert live(page) == words
    assert page.locator(".sn-fv-window").count() == 1
    picture, caption = page.locator(".sn-fv-picture"), page.locator(".sn-fv-table caption")
    before, size = caption.text_content(), at_rest(picture).bounding_box()
    picture.hover(position={"x": size["width"] / 2, "y": 40})
    assert caption.text_content() != before
    page.mouse.move(0, 0)
    assert caption.text_content() == before


def test_the_words_of_a_gate_s_rows_leave_the_bar_free(show):
    page = show([make("GatePicture")])
    focus_toolbar(page)
    for _ in range(5):
        for line in page.locator(".sn-gp-bar").all():
            roles = [box(role) for role in page.locator(".sn-gp-role").all()]
            assert roles
            assert not [role for role in roles if role[0] < box(line)[0] < role[1]]
        press(page, "ArrowRight")


def test_a_cycle_is_squeezed_by_the_whole_pass_and_its_numbers_are_pressed(show):
    page = show([make("SloCycle")])
    focus_toolbar(page)
    press(page, "End")
    times, words = page.locator(".sn-cy-exact"), live(page)
    before = box(times.nth(3))[0] - box(times.nth(0))[0]
    page.get_by_role("button", name="Whole pass").click()
    assert live(page) == words
    assert before > 5 * (box(times.nth(3))[0] - box(times.nth(0))[0])
    page.locator(".sn-cy-number").first.click()
    assert live(page).startswith("1 of 9: arrival, 205 ms into the pass.")


def test_a_pass_leaves_what_stands_and_its_tokens_tell_of_their_pass(show):
    page = from_the_start(show([make("SpeculationStrip")]))
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    kept, verdicts = (
        page.locator(".sn-sp-strip .sn-sp-kept").first,
        page.locator(".sn-sp-table tbody td:last-child"),
    )
    kept.hover()
    assert verdicts.all_text_contents() == ["✓ kept", "✓ kept", "+ bonus"]
    page.mouse.move(0, 0)
    assert verdicts.all_text_contents() == ["plain"]
    kept.click()
    assert live(page).startswith("Pass 1 of 12:")


def test_u_keeps_or_turns_down_and_v_draws_what_is_missing(show):
    page = show([make("AcceptBars", **samples.accept_bars(from_p=True))])
    page.get_by_role("slider", name="u", exact=True).focus()
    press(page, "Home")
    words = page.locator(".sn-ab-said").first
    assert words.text_content().endswith("At u = 0.013 the rule keeps it: a stands there.")
    press(page, "End")
    page.get_by_role("slider", name="v", exact=True).focus()
    press(page, "Home")
    assert page.locator(".sn-ab-wrong").text_content() == " By the rule b would stand there."
