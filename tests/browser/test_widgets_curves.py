"""Curves and the bars of a draft in Chromium: sliders, marks, tables, widths, themes, axe."""

import itertools
import re

import pytest
from driving import press

from widgets import AcceptBars, Curves

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------


def costs(**more):
    """What a step costs over the length of its chunk, for three numbers of decodes."""
    lengths = (1, 8, 16, 32, 64, 128)
    series = [
        {
            "name": name,
            "points": [[n, fixed + 0.03 * each(n, d)] for n in lengths],
            "when": {"decodes": d},
        }
        for d in (0, 4, 16)
        for name, fixed, each in [
            ("two forwards", 9.6, lambda n, d: n + d),
            ("padded, one forward", 4.8, lambda n, d: n * (d + 1)),
            ("packed", 4.8, lambda n, d: n + d),
        ]
    ]  # fmt: skip
    slider = {"name": "decodes", "values": [0, 4, 16], "shown": 1}
    return Curves(
        series, ("chunk length", "tokens"), ("a step", "ms"), "What a chunk costs beside decodes",
        sliders=[slider], source="modelled: a large GPU", **more,
    )  # fmt: skip


def a_fit():
    """Measured passes with two lines through them, one of which is below 0 at its beginning."""
    points = [[n, 0.05 + 0.021 * n + 0.03 * (n % 3)] for n in range(2, 40, 3)]
    return Curves(
        [
            {"name": "measured", "points": points, "style": "points"},
            {"name": "yours", "points": [[0, -0.02], [40, 0.92]]},
            {"name": "the reference", "points": [[0, 0.08], [40, 0.92]]},
        ],
        ("tokens of the pass", ""),
        ("time", "ms"),
        question="Which line predicts a pass?",
    )


def losses():
    found = [[2**n, 1.5 + 1.4 / 2**n] for n in range(9)]
    return Curves([{"name": "loss", "points": found}], ("W", "tokens"), ("loss", ""), log_x=True)


def drafts(**more):
    """p = 1/8, 2/8, 5/8 and q = 5/8, 1/8, 2/8, by the rule, or with a second draw from p."""
    p, q = [1 / 8, 2 / 8, 5 / 8], [5 / 8, 1 / 8, 2 / 8]
    grid = [(i + 0.5) / 40 for i in range(40)]

    def drawn(shares, v):
        return next(i for i in range(3) if v * sum(shares) < sum(shares[: i + 1]))

    def outcome(token, u, v):
        if u * q[token] < p[token]:
            return [True, token]
        return [False, drawn(p if more else [max(0, a - b) for a, b in zip(p, q, strict=True)], v)]

    outcomes = [[[outcome(token, u, v) for v in grid] for u in grid] for token in range(3)]
    return AcceptBars(p, q, outcomes, ["a", "b", "c"], "Three tokens", **more)


def every_widget():
    return [costs(), a_fit(), losses(), drafts(), drafts(name="drawing from p")]


def dashes(page):
    return [line.get_attribute("stroke-dasharray") for line in page.locator(".sn-cu-line").all()]


# ---- curves --------------------------------------------------------------------------------------


def test_a_slider_chooses_the_series_and_leaves_the_axes_alone(show):
    page = show([costs()])
    said = page.locator(".sn-cu-said")
    assert said.text_content() == (
        "At the end: two forwards 13.56 ms at 128 tokens, padded, one forward 24 ms at 128 tokens "
        "and packed 8.76 ms at 128 tokens."
    )
    axis = page.locator(".sn-axis").all_text_contents()
    slider = page.get_by_role("slider", name="decodes")
    assert slider.get_attribute("aria-valuetext") == "4"
    slider.focus()
    press(page, "ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "16"
    assert "padded, one forward 70.08 ms" in said.text_content()
    assert page.locator(".sn-axis").all_text_contents() == axis


def test_series_differ_in_dashes_and_are_named_where_they_end(show):
    page = show([costs()])
    assert len(set(dashes(page))) == 3
    names = page.locator(".sn-cu-name")
    assert names.all_text_contents() == ["two forwards", "padded, one forward", "packed"]
    tops = sorted(each.bounding_box()["y"] for each in names.all())
    assert all(below - above >= 16 for above, below in itertools.pairwise(tops))
    assert page.locator(".sn-legend").count() == 0


def test_on_a_phone_a_legend_takes_the_place_of_the_names(show):
    page = show([costs()], width=390)
    assert page.locator(".sn-cu-name").count() == 0
    assert page.locator(".sn-legend li").count() == 3


def test_what_is_below_zero_is_drawn_below_the_line_of_zero(show):
    page = show([a_fit()])
    zero = page.locator(".sn-cu-zero").bounding_box()["y"]
    yours = page.locator(".sn-cu-line").first.bounding_box()
    assert yours["y"] + yours["height"] > zero + 2
    assert page.locator(".sn-cu-point").count() == 13
    question = page.locator(".sn-question")
    assert question.text_content() == "Which line predicts a pass?"
    title = page.locator(".sn-head").bounding_box()
    assert question.bounding_box()["y"] < title["y"]
    assert question.evaluate("each => getComputedStyle(each).fontWeight") == "600"


def test_the_table_holds_every_number(show):
    page = show([losses()])
    page.get_by_text("The numbers").click()
    rows = [re.sub(r"\s+", " ", row) for row in page.locator("tr").all_text_contents()]
    assert rows[:3] == ["W, tokensloss", "12.9", "22.2"]
    assert len(rows) == 10
    ticks = page.locator(".sn-axis").all_text_contents()
    assert [mark for mark in ticks if mark in ("1", "2", "4", "128", "256")][-3:] == [
        "4",
        "128",
        "256",
    ]


# ---- drafts --------------------------------------------------------------------------------------


def test_u_keeps_or_turns_down_and_v_draws_what_is_missing(show):
    page = show([drafts()])
    said = page.locator(".sn-ab-said")
    assert said.text_content() == (
        "The draft is a. p / q is 0.2, so it stays with probability 0.2. "
        "At u = 0.512 the rule turns it down; at v = 0.512 c stands there."
    )
    page.get_by_role("slider", name="u", exact=True).focus()
    press(page, "Home")
    assert said.text_content().endswith("At u = 0.013 the rule keeps it: a stands there.")
    page.get_by_role("button", name="draft c").click()
    press(page, "End")
    assert "stays with probability 1." in said.text_content()
    assert page.locator(".sn-ab-wrong").count() == 0


def test_by_the_rule_comes_out_what_was_wanted_and_by_another_it_does_not(show):
    page = show([drafts(), drafts(name="drawing from p")])
    pictures = page.get_by_role("img")
    assert pictures.nth(1).get_attribute("aria-label") == (
        "a: p 0.125, q 0.625, comes out 0.125; b: p 0.25, q 0.125, comes out 0.25; "
        "c: p 0.625, q 0.25, comes out 0.625"
    )
    assert "a: p 0.125, q 0.625, comes out 0.188;" in pictures.nth(3).get_attribute("aria-label")
    page.get_by_role("slider", name="v", exact=True).nth(1).focus()
    press(page, "Home")
    assert page.locator(".sn-ab-wrong").text_content() == " By the rule b would stand there."
