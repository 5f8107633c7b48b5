"""How every picture is stepped, played, linked and left, shown on timelines and KV budgets."""

import re

import pytest
import samples
from driving import JS, at_rest, box, focus_toolbar, from_the_start, live, press
from galleries import make

pytestmark = pytest.mark.browser


def a_timeline(**changes):
    return make("Timeline", **{"trace": samples.chunked_run(8), "reference": None, **changes})


def a_comparison(**changes):
    """The learner's run, whose second step differs, beside the reference."""
    return make("Timeline", **changes)


# ---- keys, buttons, the pointer ------------------------------------------------------------------


def test_the_keyboard_and_the_pointer_step_a_picture_and_the_page_hears_nothing(show):
    page = show([a_timeline()])
    page.evaluate("document.addEventListener('keydown', () => { document.body.dataset.heard = 1 })")
    assert live(page) == (
        "Step 0: request 0 prefills tokens 0 to 5 of 6 and samples a line break. "
        "6 of 9 tokens, 5.3 ms (modelled: a large GPU)."
    )
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert live(page) == (
        "Step 1: request 0 decodes and samples a line break; "
        "request 1 prefills tokens 0 to 7 of 24. "
        "9 of 9 tokens, 5.3 ms (modelled: a large GPU)."
    )
    seen = []
    for key in ("End", "ArrowRight", "ArrowLeft", "Home"):
        press(page, key)
        seen.append(live(page).split(":")[0])
    assert seen == ["Step 14", "Step 14", "Step 13", "Step 0"]
    for _ in range(2):  # up and down choose a button, Space presses it: forward, to the end
        press(page, "ArrowDown")
        press(page, "Space")
        seen.append(live(page).split(":")[0])
    assert seen[4:] == ["Step 1", "Step 14"]
    assert at_rest(page).evaluate("document.body.dataset.heard") is None
    page.locator(".sn-timeline .sn-picture").click(position={"x": 3 + 57 * 2.5, "y": 60})
    assert live(page).startswith("Step 2: ")


def test_a_click_brings_the_keys_along_where_the_browser_does_not_move_the_focus(show):
    """Safari and Firefox on a Mac do not; Chromium does not after a cancelled mousedown."""
    page = show([a_timeline()])
    page.evaluate("addEventListener('mousedown', (event) => event.preventDefault(), true)")
    page.get_by_role("button", name="Step forward").click()
    press(page, "ArrowRight")
    assert live(page).startswith("Step 2: ")


def test_the_first_step_that_differs_is_open_marked_in_both_runs_and_found_again(show):
    page = show([a_comparison(), a_timeline(), a_comparison(start=3), a_timeline(start=99)])
    opened = [live(page, index).split(":")[0] for index in range(4)]
    assert opened == ["Yours, step 1", "Step 0", "Yours, step 3", "Step 14"]
    first = page.locator(".sn-timeline").first
    places = "(all) => all.map((each) => [each.getAttribute('x'), each.getAttribute('y')])"
    marks = first.locator(".sn-picture .sn-tl-first").evaluate_all(places)
    assert len(marks) == 2
    assert marks == at_rest(first).locator(".sn-cursor").evaluate_all(places)
    assert first.locator(".sn-note").text_content() == (
        "Step 1 is the first that differs. Yours: request 1 prefills tokens 0 to 23 of 24 and "
        "samples a line break. The reference: request 1 prefills tokens 0 to 7 of 24."
    )
    from_the_start(page)
    first.get_by_role("button", name="Jump to first difference").click()
    assert live(page).startswith("Yours, step 1: ")
    assert "\nThe reference, step 1: " in live(page)


@pytest.mark.nightly
def test_space_plays_to_the_end_and_the_live_line_is_quiet_meanwhile(show):
    page = show([make("MaskStepper")])
    focus_toolbar(page)
    press(page, "Home")
    press(page, "Space")
    assert page.locator(".sn-live").get_attribute("aria-live") == "off"
    page.wait_for_selector("button[aria-label=Play]")
    assert live(page).startswith("Query row 3, ")
    assert page.locator(".sn-live").get_attribute("aria-live") == "polite"


# ---- narrow pages, themes, layout ----------------------------------------------------------------


@pytest.mark.nightly
def test_on_a_narrow_page_the_cursor_and_the_clock_are_in_view_and_stay_so(show):
    page = show([a_timeline()], width=390)
    assert page.get_by_text("modelled: a large GPU", exact=True).is_visible()
    focus_toolbar(page)
    press(page, "End")
    for width in (390, 1000, 390):  # turned, and back
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => done(1)))")
        left, right = box(page.locator(".sn-timeline .sn-cursor"))
        assert 0 <= left < right <= width


@pytest.mark.nightly
def test_the_theme_follows_the_page_whatever_the_system_says(show):
    page = show([make("Batching")], color_scheme="dark")
    assert page.locator(".sn").get_attribute("data-theme") == "dark"
    for change, theme in (
        ("classList.add('light')", "light"),
        ("className = ''", "dark"),
        ("dataset.jpThemeLight = 'true'", "light"),
        ("dataset.jpThemeLight = 'false'", "dark"),
    ):
        page.evaluate(f"document.body.{change}")
        page.wait_for_selector(f".sn[data-theme={theme}]")


# ---- groups, and being taken away ----------------------------------------------------------------


def test_widgets_of_one_group_share_the_step_and_only_the_moved_one_speaks(show):
    trace = samples.preempting_run()
    linked = [make("KVBudget", group="a"), a_timeline(trace=trace, yours=False, group="a")]
    short = make("KVBudget", trace=samples.preempting_run(4), group="a")
    page = from_the_start(show([*linked, short, make("KVBudget", group="b"), make("KVBudget")]))

    def shown():
        return [int(re.findall(r"\d+", live(page, index))[0]) for index in range(5)]

    def spoken():
        return [line.get_attribute("aria-live") for line in page.locator(".sn-live").all()[:2]]

    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert (shown(), spoken()) == ([3, 3, 3, 0, 0], ["polite", "off"])
    focus_toolbar(page, 1)
    press(page, "End")
    assert (shown(), spoken()) == (
        [10, 10, 3, 0, 0],
        ["off", "polite"],
    )  # a shorter run stays at its end


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["KVBudget", "Hints"])
def test_a_widget_that_is_taken_away_leaves_nothing_behind_and_listens_no_more(show, kind):
    from widgets.standalone import state

    widget = make(kind, **({"group": "a"} if kind == "KVBudget" else {}))
    left = show([]).evaluate(
        JS["TAKEN_AWAY"],
        [widget._esm, state(widget)],
    )
    assert left == [True, 0, 0, 0]
