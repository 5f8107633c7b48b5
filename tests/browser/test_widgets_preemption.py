"""The widgets of a preempted pass in Chromium: keys, buttons, presses, places, widths, axe."""

import pytest
from driving import (
    box,
    focus_toolbar,
    from_the_start,
    live,
    press,
)

from widgets import SloCycle, VoteBoard

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------

MS = 1_000_000
BEGUN = 10**12


def a_record(layer=7, written_ms=210.4, num_layers=12, **changes):
    """Two ranks, 30 ms per layer, rank 1 2 ms behind; it sees the write at the last layer."""
    checks = [
        [
            {
                "layer": each, "reached_ns": BEGUN + (30 * each + 2 * rank) * MS,
                "vote": int(each == layer and rank == 1), "agree_ns": MS - rank * MS // 2,
            }
            for each in range(min(layer + 1, num_layers))
        ]
        for rank in range(2)
    ]  # fmt: skip
    return {
        "step": 4, "pass_number": 17, "layer": layer, "num_layers": num_layers, "waiter": 7,
        "victims": [3], "begun_ns": BEGUN, "written_ns": BEGUN + int(written_ms * MS),
        "replied_ns": BEGUN + (30 * layer + 4) * MS, "resumed_ns": None, "checks": checks,
        **changes,
    }  # fmt: skip


def a_board():
    def ending(how, words):
        return {"how": how, "layer": 7, "words": words}

    alone = [ending("hangs", "waits for rank 1"), ending("left", "left without a vote")]
    crash = [ending("crashed", "lost its socket"), ending("hangs", "waits for rank 0")]
    record = a_record(replied_ns=None)
    return VoteBoard([
        {"label": "with a vote", "words": "As it should be.", "record": a_record()},
        {"label": "alone", "words": "", "record": record, "endings": alone},
        {"label": "crash", "words": "", "record": record, "endings": crash},
        {"label": "too late", "words": "", "record": a_record(12, 350)},
        {"label": "no collective", "words": "", "record": a_record(), "agreement": "epoch"},
    ], "Votes")  # fmt: skip


def a_cycle(**changes):
    begun_us = BEGUN // 1000
    times = {
        "arrived_us": 205_000, "looked_us": 206_000, "cleaned_us": 215_000,
        "readmitted_us": 216_000, "first_token_us": 260_000,
    }  # fmt: skip
    known = {name: begun_us + time for name, time in times.items()}
    return SloCycle({"record": a_record(**changes), **known}, "The cycle", source="recorded")


def many_layers():
    record = a_record(24, 700, 32)
    return VoteBoard([{"label": "many", "words": "", "record": record}])


def every_widget():
    return [a_board(), many_layers(), a_cycle(), a_cycle(resumed_ns=BEGUN + 270 * MS)]


# ---- all -----------------------------------------------------------------------------------------


# ---- votes ---------------------------------------------------------------------------------------


def test_all_ranks_leave_at_the_layer_where_one_votes_to(show):
    page = from_the_start(show([a_board()]))
    picture = page.get_by_role("img")
    focus_toolbar(page)
    press(page, "ArrowRight", 6)
    assert live(page) == "As it should be.\nLayer 6: ranks 0 and 1 vote 0; MAX is 0."
    assert picture.locator(".sn-vb-write").count() == 0
    assert picture.locator(".sn-vb-ahead").count() == 2 * 5
    press(page, "ArrowRight")
    assert live(page) == (
        "As it should be.\nLayer 7: rank 0 votes 0, rank 1 votes 1; MAX is 1. Target 17 is written "
        "after rank 0 looked here, and before rank 1 did. All ranks leave here, none alone. "
        "7 of 12 layers computed for nothing: 58 percent of the pass."
    )
    assert picture.locator(".sn-vb-left").count() == 2
    assert picture.locator(".sn-vb-result-yes").count() == 1
    press(page, "End")
    assert picture.locator(".sn-vb-never").count() == 8
    work = picture.locator(".sn-vb-work-wasted").bounding_box()["width"]
    whole = picture.locator(".sn-vb-all").bounding_box()["width"]
    assert work / whole == pytest.approx(7 / 12, abs=0.01)
    assert page.locator(".sn-chip").text_content() == "wasted 58 %"


def test_the_write_is_drawn_behind_one_rank_s_look_and_before_the_other_s(show):
    page = from_the_start(show([a_board()]))
    focus_toolbar(page)
    press(page, "ArrowRight", 7)
    picture = page.get_by_role("img")
    left, right = box(picture.locator(".sn-vb-write"))
    begins, ends = box(picture.locator(".sn-vb-column"))
    # The line is bent: through rank 0's row right of the middle, through rank 1's left of it.
    assert begins < left < (begins + ends) / 2 < right < ends


def test_a_rank_that_left_alone_leaves_the_others_waiting(show):
    page = show([a_board()])
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


def test_many_layers_scroll_and_the_cursor_stays_in_view(show):
    page = show([many_layers()], width=390)
    scroller = page.locator(".sn-scroll")
    assert scroller.get_attribute("tabindex") == "0"
    focus_toolbar(page)
    press(page, "End")
    begins, ends = box(page.locator(".sn-vb-column"))
    left, right = box(scroller)
    assert left <= begins and ends <= right + 1


# ---- the cycle -----------------------------------------------------------------------------------


def test_the_cycle_is_told_event_by_event(show):
    page = show([a_cycle()])
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
    assert page.locator(".sn-chip").text_content() == "recorded"


def test_votes_stand_in_the_lanes_of_their_ranks(show):
    page = show([a_cycle()])
    focus_toolbar(page)
    press(page, "ArrowRight", 4)
    now = page.locator(".sn-cy-now circle")
    names = {name.text_content(): name.bounding_box() for name in page.locator(".sn-cy-name").all()}
    for dot, lane in zip(now.all(), ("rank 0", "rank 1"), strict=True):
        middle = dot.bounding_box()["y"] + dot.bounding_box()["height"] / 2
        assert names[lane]["y"] < middle < names[lane]["y"] + names[lane]["height"]
    assert page.get_by_role("img").locator(".sn-cy-zero").count() == 1
    assert page.get_by_role("img").locator(".sn-cy-one").count() == 1
    page.get_by_role("button", name="Whole pass").click()
    assert page.get_by_role("img").locator(".sn-cy-zero").count() == 15


def test_the_cycle_opens_on_its_events_and_the_whole_pass_squeezes_them(show):
    page = show([a_cycle()])
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    words = live(page)
    times = page.locator(".sn-cy-exact")
    before = box(times.nth(3))[0] - box(times.nth(0))[0]
    whole = page.get_by_role("button", name="Whole pass")
    whole.click()
    assert live(page) == words
    assert before > 5 * (box(times.nth(3))[0] - box(times.nth(0))[0])
    assert whole.get_attribute("aria-pressed") == "true"


def test_a_press_on_a_dot_goes_back_to_its_event(show):
    page = show([a_cycle()])
    focus_toolbar(page)
    press(page, "End")
    page.locator(".sn-cy-number").first.click()
    assert live(page).startswith("1 of 9: arrival, 205 ms into the pass.")
