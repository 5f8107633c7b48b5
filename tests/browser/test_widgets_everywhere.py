"""What holds for every widget: rules, room, whole and legible words, the keyboard's way."""

import pytest
from driving import (
    COLOURS,
    JS,
    TOO_FAR,
    assert_accessible_and_not_too_wide,
    assert_no_text_is_cut_off,
    assert_one_tab_stop_each,
    at_rest,
    expect,
    shapes,
    stand_at,
    violations,
)
from galleries import GALLERIES, gallery
from painted import words_of
from tiers import some

pytestmark = pytest.mark.browser

WITH_OTHER_STOPS = {"basics", "drafts", "fusing"}  # grids, sliders and questions


def asked(widgets):
    """The widgets, with a question above each picture."""
    for each in widgets:
        if each.has_trait("start"):
            each.question = "What does a request that arrives in the middle of a pass wait for?"
    return widgets


def unfold(page):
    """Show what stands folded, and what a button shows."""
    for name in ("Show a hint", "alone"):
        for button in page.get_by_role("button", name=name, exact=True).all():
            button.click()
    for each in page.locator("summary").all():
        each.click()


def turn(page, scheme):
    """Choose the page's theme, and wait until every widget follows."""
    page.emulate_media(color_scheme=scheme)
    expect(page.locator(f".sn:not([data-theme={scheme}])")).to_have_count(0)


@pytest.mark.parametrize("name", some(GALLERIES, 2))
def test_nothing_breaks_an_accessibility_rule_or_the_page_s_width_in_either_theme(show, name):
    page = show(asked(gallery(name)), reduced_motion="reduce")
    if name not in WITH_OTHER_STOPS:
        assert_one_tab_stop_each(page)
    unfold(page)
    for width, part in ((1000, None), (390, 0.3)):  # and where the players stand
        page.set_viewport_size({"width": width, "height": 800})
        if part is not None:
            stand_at(page, part)
        assert_accessible_and_not_too_wide(page)
        assert at_rest(page).evaluate(JS["OUT_OF_WIDGET"]) == []
        assert_no_text_is_cut_off(page)
        in_light = shapes(page)
        turn(page, "dark")
        assert violations(page, runOnly=COLOURS) == []
        assert shapes(page) == in_light, "or the other rules may be broken in dark"
        turn(page, "light")


HEIGHT = "document.documentElement.scrollHeight"
FOCUSED = "document.activeElement.id || document.activeElement.closest('.widget')?.id"


@pytest.mark.nightly
@pytest.mark.parametrize("name", GALLERIES)
def test_tab_goes_through_every_widget_and_out_again_and_each_is_whole_at_other_widths(show, name):
    widgets = gallery(name)
    page = show(widgets, width=390)
    page.evaluate(JS["DOORS"])
    pictures = {f"widget-{at}" for at, each in enumerate(widgets) if each.has_trait("start")}
    for key, door in (("Tab", "after"), ("Shift+Tab", "before")):
        visited = []
        height = page.evaluate(HEIGHT)
        for _ in range(8 * len(widgets)):
            page.keyboard.press(key)
            visited.append(page.evaluate(FOCUSED))
            assert at_rest(page).evaluate(HEIGHT) == height, "or a click finds the page moved"
            if visited[-1] == door:
                break
        assert visited[-1] == door
        assert pictures <= set(visited)
    for width in (320, 1400):  # 320 is a laptop's page at a zoom of 400 %
        page.set_viewport_size({"width": width, "height": 800})
        stand_at(page, 0.7)
        assert at_rest(page).evaluate(JS["OUT_OF_WIDGET"]) == []
        assert at_rest(page).evaluate(TOO_FAR) <= 0


LEAST_CONTRAST = 4.5  # of text of ordinary size: WCAG 2.2, 1.4.3


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", GALLERIES)
def test_the_words_of_pictures_stand_out_from_what_is_painted_behind_them(show, name, scheme):
    page = show(gallery(name), color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": 1000, "height": page.evaluate(HEIGHT) + 200})
    seen, faint = 0, set()
    for part in (None, 0.2, 0.8):  # None: as it opens
        if part is not None:
            stand_at(page, part)
        found = words_of(page)
        if part is None:
            page.locator(".sn").evaluate_all(JS["LEAVE_WHAT_MOVES"])
        seen += len(found)
        faint |= {
            (word.where, word.words, part, round(word.contrast, 2))
            for word in found
            if word.contrast < LEAST_CONTRAST
        }
    assert seen > 0
    assert faint == set()
