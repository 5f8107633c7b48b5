"""What holds for every widget: it stays in its container, and the keyboard gets in and out."""

import pytest
from galleries import GALLERIES

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


# 640 is a laptop's page of 1280 at a zoom of 200 %, 320 the same at 400 %.
@pytest.mark.parametrize("width", [320, 390, 640])
@pytest.mark.parametrize("gallery", GALLERIES)
def test_no_widget_is_wider_than_its_container(show, gallery, width):
    page = show(asked(GALLERIES[gallery]()), width=width)
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


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
