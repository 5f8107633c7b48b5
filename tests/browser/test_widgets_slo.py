"""The widgets of the SLO policy in Chromium: keys, buttons, places, widths, axe."""

import itertools

import pytest
from driving import (
    box,
    focus_toolbar,
    live,
    press,
)

from nanogpt.slo.policy import predict, slack, urgency
from widgets import GatePicture, RepairLadder, SlackTimeline

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------

A, C = 100.0, 10_000.0


def a_case(label, deadline, rate=0.0):
    """500 tokens, seen every 20 ms; `rate` tokens are computed per microsecond."""
    moments = []
    for now in range(0, 60_001, 20_000):
        done = int(now * rate)
        spare = slack(now, deadline, 500, done, A, C)
        moments.append({
            "now_us": now, "done_tokens": done, "predicted_us": predict(500 - done, A, C),
            "slack_us": spare, "urgency": urgency(spare, deadline - now),
        })  # fmt: skip
    return {
        "label": label, "arrival_us": 0, "deadline_us": deadline, "total_tokens": 500,
        "a": A, "c": C, "moments": moments,
    }  # fmt: skip


def a_slack(*labels):
    cases = {
        "fits": a_case("fits", 150_000),
        "too late": a_case("too late", 90_000),
        "running": a_case("running", 75_000, rate=0.005),
    }
    return SlackTimeline([cases[label] for label in labels], "Slack")


def a_request(number, spare, left, **more):
    return {"id": number, "slack_us": spare, "urgency": urgency(spare, left), **more}


def a_gate():
    calm = a_request(1, 300_000, 900_000, immune=False)
    tight = a_request(2, 80_000, 120_000, immune=False)
    lost = a_request(3, -3_000, 100_000, immune=False)
    spared = a_request(4, 50_000, 60_000, immune=True)
    hurried, late = a_request(7, 20_000, 60_000), a_request(7, -20_000, 91_000)

    def decision(waiter, runners, reference, victim, words, mode="conservative"):
        return {
            "waiter": waiter, "runners": runners, "reference": reference, "victim": victim,
            "margin": 1.2, "mode": mode, "words": words,
        }  # fmt: skip

    return GatePicture([
        decision(hurried, [calm, tight], 2, 1, "It passes."),
        decision(late, [tight, calm], 2, None, "Too late for it."),
        decision(hurried, [lost, spared], 3, 3, "The runner is lost."),
        decision(late, [lost], 3, None, "Both are lost."),
        decision(hurried, [spared], None, None, "All are immune.", "aggressive"),
    ], "The gate")  # fmt: skip


def a_ladder():
    def cell(urgent, generous, share, preemptions):
        return {
            "urgent": [urgent, max(0, urgent - 5), urgent + 4], "generous": [generous, None, None],
            "wasted_share": share, "preemptions": preemptions,
        }  # fmt: skip

    rows = [
        ("arrival order, everyone batched along", 45, 85, 0, 0),
        ("most urgent first", 58, 80, 0, 0),
        ("+ arrivals seen in mid-pass", 1, 60, 0.55, 340),
        ("+ SLO-aware batches", 80, 90, 0.1, 60),
    ]
    return RepairLadder([
        {
            "variant": name, "words": f"This is {name}.",
            "loads": {"2": cell(urgent + 10, 95, share, count),
                      "4": cell(urgent, generous, share, count)},
        }
        for name, urgent, generous, share, count in rows
    ], "Ladder", load="4")  # fmt: skip


def every_widget():
    return [a_slack("fits", "too late"), a_slack("running"), a_gate(), a_ladder()]


# ---- all -----------------------------------------------------------------------------------------


# ---- slack ---------------------------------------------------------------------------------------


def test_the_bar_begins_at_now_and_the_part_past_the_deadline_is_another_colour(show):
    page = show([a_slack("fits", "too late")])
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
    deadline = sum(box(fits.locator(".sn-sk-deadline"))) / 2
    assert sum(box(fits.locator(".sn-sk-now"))) / 2 == pytest.approx(begins, abs=1)
    assert (deadline - ends) / (ends - begins) == pytest.approx(50 / 60, rel=0.03)
    begins, ends = box(late.locator(".sn-sk-bar"))
    assert sum(box(late.locator(".sn-sk-deadline"))) / 2 == pytest.approx(ends, abs=1.5)
    late_begins, late_ends = box(late.locator(".sn-sk-late"))
    assert (late_ends - late_begins) / (ends - begins) == pytest.approx(10 / 50, rel=0.1)
    assert late.get_by_text("slack −10.0 ms", exact=True).is_visible()


def test_cases_stand_side_by_side_where_there_is_room(show):
    tops = {}
    for width in (1000, 390):
        page = show([a_slack("fits", "too late")], width=width)
        tops[width] = [each.bounding_box()["y"] for each in page.get_by_role("img").all()]
    assert tops[1000][0] == tops[1000][1]
    assert tops[390][0] < tops[390][1]


def test_what_is_computed_already_is_hatched_and_not_paid_for_again(show):
    page = show([a_slack("running")])
    focus_toolbar(page)
    press(page, "End")
    assert live(page) == (
        "Running, 60.0 ms after the arrival: 200 of 500 tokens are left, predicted 30.0 ms. The "
        "bar overshoots the deadline by 15.0 ms: slack −15.0 ms, score −0.0667 per ms. For the "
        "whole prompt it would be 60.0 ms."
    )
    assert page.get_by_role("img").locator(".sn-sk-done").count() == 1
    press(page, "Home")
    assert page.get_by_role("img").locator(".sn-sk-done").count() == 0


# ---- the gate ------------------------------------------------------------------------------------


def test_every_decision_marks_its_case(show):
    page = show([a_gate()])
    focus_toolbar(page)
    marked = []
    for _ in range(5):
        here = page.locator(".sn-gp-here")
        marked.append(here.text_content() if here.count() else None)
        press(page, "ArrowRight")
    assert marked == [
        "this case: Preempt if the waiter's score is more than 1.2 times the reference's.",
        "this case: Keep: nothing is sacrificed for a request that cannot be saved.",
        "this case: Preempt: the reference misses its deadline anyway.",
        "this case: Keep: no order rescues either of them.",
        None,
    ]
    assert page.locator("[aria-current]").count() == 0
    assert page.locator(".sn-chip").text_content() == "aggressive, margin 1.2"
    assert live(page).endswith("Every runner is immune: there is none to measure it by. "
                               "Nothing gives way.")  # fmt: skip


def test_scores_are_to_scale_and_the_margin_reaches_up_or_down(show):
    page = show([a_gate()])
    picture = page.get_by_role("img")

    def middle(kind):
        return sum(box(picture.locator(kind))) / 2

    zero, ring, bar = middle(".sn-gp-zero"), middle(".sn-gp-ring"), middle(".sn-gp-bar")
    assert (bar - zero) / (ring - zero) == pytest.approx(1.2, abs=0.02)
    assert (middle(".sn-gp-waiter") - zero) / (ring - zero) == pytest.approx(2, abs=0.03)
    assert picture.locator(".sn-gp-victim").count() == 1
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    zero, ring, bar = middle(".sn-gp-zero"), middle(".sn-gp-ring"), middle(".sn-gp-bar")
    assert bar < middle(".sn-gp-waiter") < ring < zero
    assert picture.get_by_text("1.2 × reference: lower, not higher").is_visible()
    press(page, "ArrowRight")
    assert picture.locator(".sn-gp-bar").count() == 0
    assert picture.locator(".sn-gp-immune").count() == 1


def test_no_role_lies_on_the_line_of_the_margin(show):
    page = show([a_gate()])
    focus_toolbar(page)
    for _ in range(5):
        for line in page.locator(".sn-gp-bar").all():
            at = box(line)[0]
            roles = [box(role) for role in page.locator(".sn-gp-role").all()]
            assert roles
            assert not [role for role in roles if role[0] < at < role[1]]
        press(page, "ArrowRight")


def test_on_a_phone_no_role_lies_on_a_name(show):
    page = show([a_gate()], width=300)
    focus_toolbar(page)
    for _ in range(5):
        names, roles = (
            [each.bounding_box() for each in page.locator(f".sn-gp-scores .sn-gp-{kind}").all()]
            for kind in ("name", "role")
        )
        assert roles
        for name, role in itertools.product(names, roles):
            assert any(
                one[start] >= other[start] + other[size]
                for start, size in (("x", "width"), ("y", "height"))
                for one, other in ((name, role), (role, name))
            )
        press(page, "ArrowRight")


# ---- the repair ladder ---------------------------------------------------------------------------


def test_the_ladder_is_climbed_one_fix_at_a_time(show):
    page = show([a_ladder()])
    picture = page.get_by_role("img")
    bars = []
    focus_toolbar(page)
    for _ in range(4):
        bars.append(picture.locator(".sn-rl-urgent").count())
        press(page, "ArrowRight")
    assert bars == [1, 2, 3, 4]
    press(page, "ArrowLeft")
    assert live(page) == (
        "+ arrivals seen in mid-pass, at 4 requests/s. In time: urgent 1 % (0 to 5), 57 points "
        "less than before; generous 60 %, 20 points less than before. 340 preemptions throw away "
        "55 % of the computing time.\nThis is + arrivals seen in mid-pass."
    )
    assert picture.locator(".sn-rl-whisker").count() == 3


def test_bars_are_to_scale_and_the_load_changes_them(show):
    page = show([a_ladder()])
    focus_toolbar(page)
    press(page, "End")

    def widths(kind):
        found = page.get_by_role("img").locator(kind).all()
        return [float(each.get_attribute("width")) for each in found]

    one = widths(".sn-rl-urgent")[0] / 45
    assert [round(width / one) for width in widths(".sn-rl-urgent")] == [45, 58, 1, 80]
    assert [round(width / one) for width in widths(".sn-rl-generous")] == [85, 80, 60, 90]
    button = page.get_by_role("button", name="2 requests per second")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert [round(width / one) for width in widths(".sn-rl-urgent")] == [55, 68, 11, 90]
    assert "at 2 requests/s" in live(page)
    assert widths(".sn-rl-wasted")[2] == pytest.approx(64 * 0.55)


def test_a_long_name_does_not_lie_under_the_bars(show):
    page = show([a_ladder()])
    bars = box(page.get_by_role("img").locator(".sn-rl-urgent").first)[0]
    for name in page.locator(".sn-rl-name").all():
        assert box(name)[1] < bars
