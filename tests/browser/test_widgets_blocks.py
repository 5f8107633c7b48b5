"""The pool of blocks and the tree of what can be found, in a browser."""

import pytest
from browser.test_widgets_window import from_the_start
from driving import focus_toolbar, live, press

from course.replay import replay
from course.stories.l01_chunks import one_tiny_layer
from course.stories.l09_pool import SETTINGS, six_requests
from nanogpt import Engine, Parts
from widgets import BlockPool, PrefixTree

pytestmark = pytest.mark.browser


def a_run(parts=None):
    return Engine(one_tiny_layer(), SETTINGS, parts or Parts()).run(six_requests()).to_json()


def beginnings_first(blocks):
    """An order in which what others stand behind gives way first."""
    free = [block for block in blocks if not block.count]
    return [block.id for block in sorted(free, key=lambda b: (b.last_used, b.depth))]


def a_pool(**more):
    return BlockPool(a_run(), title="Six requests", **more)


def a_stopped_run():
    """One that ends where the first of two that share a block leaves."""
    engine = Engine(one_tiny_layer(), SETTINGS, Parts(release=lambda counts, table: table))
    return replay(engine, six_requests()).to_json()


def every_widget():
    mine = a_run(Parts(evict_order=beginnings_first))
    return [
        a_pool(),
        BlockPool(mine, a_run(), title="Yours beside the reference", yours=True),
        BlockPool(a_stopped_run(), a_run(), yours=True),
        PrefixTree(a_run(), title="What can be found"),
        PrefixTree(a_run(), yours=False),
    ]


def test_a_pool_opens_where_a_block_is_first_shared_and_draws_it_once(show):
    page = show([a_pool()])
    assert page.locator(".sn-where").text_content() == "step 3 of 36"
    assert "finds its first 32 tokens in 4 blocks" in live(page)
    assert page.locator(".sn-bp-shared").count() == 4
    assert page.locator(".sn-bp-count").all_text_contents() == ["×2"] * 4
    assert page.locator(".sn-bp-found").count() == 4
    label = page.get_by_role("img").get_attribute("aria-label")
    assert "request 0: 0, 1, 2, 3, " in label
    assert "request 1: 0, 1, 2, 3, " in label


def test_what_is_free_but_found_stands_in_the_order_in_which_it_gives_way(show):
    page = from_the_start(show([a_pool()]))
    focus_toolbar(page)
    assert page.locator(".sn-bp-queue").text_content() == "No free block can still be found."
    press(page, "ArrowRight", 10)
    assert page.locator(".sn-bp-queue").text_content() == (
        "Free but still found, first to give way: 6, 5 and 4."
    )
    assert page.locator(".sn-bp-cached").count() == 3
    press(page, "End")
    assert "Request 5 decodes; request 5 is done." in live(page)
    assert page.locator(".sn-bp-held").count() == 0


def test_two_pools_are_told_side_by_side_and_drawn_one_at_a_time(show):
    page = show([BlockPool(a_run(Parts(evict_order=beginnings_first)), a_run(), yours=True)])
    yours, theirs = live(page).split("\n")
    assert yours.startswith("Yours, step 22: ")
    assert theirs.startswith("The reference, step 22: ")
    assert "Blocks 7 to 9 give way" in yours
    assert "Blocks 8 to 10 give way" in theirs
    assert "Step 22 is the first in which the pools differ." in page.inner_text(".sn-note")
    chip = page.locator(".sn-chip")
    assert chip.text_content() == "drawn: yours"
    drawn = page.get_by_role("img").get_attribute("aria-label")
    button = page.get_by_role("button", name="Draw the reference")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert chip.text_content() == "drawn: the reference"
    assert page.get_by_role("img").get_attribute("aria-label") != drawn
    focus_toolbar(page)
    press(page, "End")
    page.get_by_role("button", name="Jump to first difference").click()
    assert page.locator(".sn-where").text_content() == "step 22 of 36"


def test_a_tree_opens_at_the_first_hit_and_follows_the_pool_of_its_group(show):
    page = show([a_pool(group="g"), PrefixTree(a_run(), group="g")])
    tree = page.locator(".sn-prefix-tree")
    assert (
        tree.locator(".sn-live")
        .text_content()
        .startswith("Step 3. Request 1 follows the tree for 4 blocks.")
    )
    assert tree.locator(".sn-pt-shared").count() == 4
    assert tree.locator(".sn-pt-node text").all_text_contents()[:2] == ["JULIET:⏎", "r0 r1"]
    focus_toolbar(page)
    press(page, "End")
    assert tree.locator(".sn-where").text_content() == "step 36 of 36"
    assert tree.locator(".sn-pt-held").count() == 0
    assert tree.locator(".sn-pt-cached").count() == 18


def test_a_run_that_stopped_says_why(show):
    page = show([BlockPool(a_stopped_run(), a_run(), yours=True)])
    said = page.inner_text(".sn-note-bad")
    assert said.startswith("Yours stopped after step 9: your release frees block 0; with this one")
    assert live(page).startswith("Yours has stopped.\nThe reference, step 10: ")
