"""What holds for every widget: rules, room, words that are whole, and the keyboard's way."""

import pytest
from driving import (
    COLOURS,
    assert_accessible_and_not_too_wide,
    assert_no_text_is_cut_off,
    assert_one_tab_stop_each,
    shapes,
    stand_at,
    violations,
)
from galleries import GALLERIES
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

# What reaches out of its widget although nothing between the two scrolls. Words on an SVG may lie
# in its label's room.
OUTSIDE = """() => [...document.querySelectorAll(".sn")].flatMap((root) => {
    const edge = root.getBoundingClientRect();
    const scrolls = (each) => {
        for (let box = each.parentElement; box && box !== root; box = box.parentElement) {
            if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
        }
        return false;
    };
    const out = [...root.querySelectorAll("*")].filter((each) =>
        each.getBoundingClientRect().right > edge.right + 0.5 && !scrolls(each)
        && getComputedStyle(each).position !== "absolute");
    if (root.scrollWidth > root.clientWidth) out.push(root);
    return out.map((each) => `${root.className}: ${each.tagName} ${each.getAttribute("class")}`);
})"""
DOORS = """() => {
    const main = document.querySelector("main");
    for (const [id, put] of [["before", "prepend"], ["after", "append"]]) {
        const door = document.createElement("button");
        door.id = id;
        main[put](door);
    }
    document.getElementById("before").focus();
}"""
HEIGHT = "document.documentElement.scrollHeight"
FOCUSED = "document.activeElement.id || document.activeElement.closest('.widget')?.id"


def asked(widgets):
    """The widgets, with a question above each picture."""
    for each in widgets:
        if each.has_trait("start"):
            each.question = "What does a request that arrives in the middle of a pass wait for?"
    return widgets


# What stands there in the very moment in which the page says that it is ready, and later.
AT_READY = """new MutationObserver((_, observer) => {
    if (document.documentElement.dataset.ready) {
        observer.disconnect();
        window.atReady = document.body.innerHTML;
    }
}).observe(document, { attributes: true, subtree: true });"""
LATER = """async () => {
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
    return document.body.innerHTML;
}"""


@pytest.mark.parametrize("gallery", GALLERIES)
def test_a_page_that_says_it_is_ready_has_drawn(show, gallery):
    page = show(GALLERIES[gallery](), reduced_motion="reduce")
    page.add_init_script(AT_READY)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("window.atReady") == page.evaluate(LATER)


# 640 is a laptop's page of 1280 at a zoom of 200 %, 320 the same at 400 %.
@pytest.mark.parametrize("width", [320, 390, 640])
@pytest.mark.parametrize("gallery", GALLERIES)
def test_no_widget_is_wider_than_its_container(show, gallery, width):
    page = show(asked(GALLERIES[gallery]()), width=width)
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


# Widths, and where the players stand there; None: where they open.
STANDING = {1000: None, 390: 0.3, 1400: 0.7}


@pytest.mark.parametrize("gallery", GALLERIES)
def test_nothing_breaks_an_accessibility_rule_or_the_page_s_width_in_either_theme(show, gallery):
    page = show(GALLERIES[gallery](), reduced_motion="reduce")
    unfold(page)
    for width, part in STANDING.items():
        page.set_viewport_size({"width": width, "height": 800})
        if part is not None:
            stand_at(page, part)
        assert_accessible_and_not_too_wide(page)
        in_light = shapes(page)
        turn(page, "dark")
        assert violations(page, runOnly=COLOURS) == []
        assert shapes(page) == in_light, "or the other rules may be broken in dark"
        turn(page, "light")


@pytest.mark.parametrize("gallery", GALLERIES)
def test_no_text_of_a_picture_is_cut_off(show, gallery):
    page = show(GALLERIES[gallery](), reduced_motion="reduce")
    unfold(page)
    for width, part in {390: 1, 1000: 0.6}.items():
        stand_at(page, part)
        # Each picture is drawn anew where it stands.
        page.set_viewport_size({"width": width, "height": 800})
        assert_no_text_is_cut_off(page)


def turn(page, scheme):
    """Choose the page's theme, and wait until every widget follows."""
    page.emulate_media(color_scheme=scheme)
    expect(page.locator(f".sn:not([data-theme={scheme}])")).to_have_count(0)


def unfold(page):
    """Show what stands folded, and what a button shows."""
    for name in ("Show a hint", "alone"):
        for button in page.get_by_role("button", name=name, exact=True).all():
            button.click()
    for each in page.locator("summary").all():
        each.click()


@pytest.mark.parametrize(
    "gallery", ["blocks", "fleet", "preemption", "scheduling", "slo", "window"]
)
def test_each_is_one_tab_stop_and_its_picture_has_words(show, gallery):
    assert_one_tab_stop_each(show(GALLERIES[gallery]()))


@pytest.mark.parametrize("gallery", GALLERIES)
def test_tab_goes_through_every_widget_and_out_again_both_ways(show, gallery):
    widgets = GALLERIES[gallery]()
    page = show(widgets, width=390)
    page.evaluate(DOORS)
    pictures = {f"widget-{at}" for at, each in enumerate(widgets) if each.has_trait("start")}
    for key, door in (("Tab", "after"), ("Shift+Tab", "before")):
        visited = []
        height = page.evaluate(HEIGHT)
        for _ in range(8 * len(widgets)):
            page.keyboard.press(key)
            visited.append(page.evaluate(FOCUSED))
            assert page.evaluate(HEIGHT) == height, "or a click finds the page moved"
            if visited[-1] == door:
                break
        assert visited[-1] == door
        assert pictures <= set(visited)
