"""Pictures of an engine: queues, K/V, masks, batches, windows and blocks, as they are operated.

`tests/js` tests the words and what is drawn of which state; here is what only a browser shows.
"""

import pytest
import samples
from driving import at_rest, box, focus_toolbar, from_the_start, live, press
from galleries import make, miscounted_run

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


def said(page):
    return page.locator(".sn-bv-said, .sn-mb-said").first.text_content()


def heights(found):
    return [each.bounding_box()["height"] for each in at_rest(found).all()]


# ---- the heap ------------------------------------------------------------------------------------


def test_a_heaps_top_is_the_first_cell(show):
    page = from_the_start(show([make("HeapStepper")], reduced_motion="reduce"))
    focus_toolbar(page)
    press(page, "ArrowRight", 20)
    entries = page.locator(".sn-he-entry:not(.sn-he-absent)")
    first = entries.filter(has_text="request 3")
    found = [each.bounding_box() for each in at_rest(first).all()]
    node, cell = sorted(found, key=lambda at: at["y"])
    others = [each.bounding_box() for each in at_rest(entries).all()]
    assert node["y"] == min(at["y"] for at in others)
    assert cell["x"] == min(at["x"] for at in others if at["y"] == cell["y"])
    fill = "all => all.map((each) => getComputedStyle(each).fill)"
    colours = first.locator("rect").evaluate_all(fill)
    assert len(colours) == 2 and len(set(colours)) == 1
    press(page, "End")
    assert "Taken out so far:request 3request 6" in page.locator(".sn-he-out").text_content()


# ---- the KV budget -------------------------------------------------------------------------------


def test_a_kv_budget_is_drawn_to_scale(show):
    page = from_the_start(show([make("KVBudget")]))
    picture = page.locator(".sn-kv-picture")
    held = picture.locator(".sn-kv-box-held")
    one = heights(held)[0] / 10
    assert [round(each / one) for each in heights(held)] == [10, 11, 11, 12, 13, 14, 12, 13]
    assert heights(picture.locator(".sn-kv-box-dropped")) == [pytest.approx(11 * one, abs=2)]
    hatched = heights(picture.locator("g > rect[fill^=url]"))
    assert [round(each / one) for each in hatched[-2:]] == [11, 11]
    line = at_rest(page).locator(".sn-kv-limit").bounding_box()["y"]
    first = at_rest(held.first).bounding_box()
    assert first["y"] + first["height"] - line == pytest.approx(22 * one, abs=2)
    assert at_rest(held).first.bounding_box()["width"] == held.last.bounding_box()["width"]
    page.get_by_role("button", name="Width shows time").click()
    assert at_rest(held).first.bounding_box()["width"] > held.last.bounding_box()["width"]


# ---- masks and batches ---------------------------------------------------------------------------


def test_arrow_keys_and_the_pointer_read_a_batch_cell_by_cell(show):
    page = show([make("BatchView")])
    assert said(page) == 'A (decode), row 0, column 7: token "t" (id 116) at position 21.'
    page.get_by_role("grid").focus()
    press(page, "ArrowLeft")
    assert said(page) == "A (decode), row 0, column 6: padding, computed and thrown away."
    press(page, "ArrowDown", 3)
    press(page, "End")
    focused = page.get_by_role("grid").get_attribute("aria-activedescendant")
    assert page.locator(f"#{focused}").get_attribute("aria-label") == "D, column 7"
    page.get_by_role("gridcell", name="C, column 3").hover()
    assert said(page).startswith("C (decode), row 2, column 3: ")
    page.get_by_role("gridcell", name="B, column 7").click()
    assert said(page).startswith("B (decode), row 1, column 7: ")


def test_a_batch_collapses_into_the_strip_and_shows_its_mask(show):
    page = show([make("BatchView")], reduced_motion="reduce")
    chip, cells = page.locator(".sn-chip"), page.locator(".sn-bv-picture .sn-bv-real .sn-bv-box")
    assert chip.text_content() == "11 useful of 32 computed"
    tops = "all => new Set(all.map((each) => Math.round(each.getBoundingClientRect().y))).size"
    assert at_rest(cells).evaluate_all(tops) == 4
    assert page.locator(".sn-bv-mask").is_hidden()
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert chip.text_content() == "11 useful of 11 computed"
    assert at_rest(cells).evaluate_all(tops) == 1
    lefts = cells.evaluate_all("all => all.map((each) => each.getBoundingClientRect().x)")
    assert lefts == sorted(lefts) and len(lefts) == 11
    press(page, "ArrowRight")
    assert page.locator(".sn-bv-mask .sn-mk-seen").count() == 22 + 15 + 9 + 36
    page.locator(".sn-bv-query").nth(2).hover()
    assert said(page).startswith("C (decode), query 2: ")


def test_the_queries_of_a_mask_are_read_by_keys(show):
    page = show([make("MaskBuild")])
    focus_toolbar(page)
    press(page, "End")
    page.get_by_role("listbox").focus()
    press(page, "ArrowDown", 3)
    assert said(page).startswith("B, query 0, a padding row")
    press(page, "ArrowLeft")
    assert said(page) == "B, laid over every query. It hides new column 0."


# ---- windows -------------------------------------------------------------------------------------


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


def test_growth_is_drawn_to_scale_and_what_is_counted_wrongly_is_marked(show):
    whole = make("KVGrowth", runs=[samples.windowed_run(None)], bytes_per_token=None)
    page = from_the_start(show([whole, make("KVGrowth", runs=[miscounted_run()])]))
    first, second = page.locator(".sn-kv-growth").all()
    held = heights(first.locator(".sn-kg-picture .sn-kg-held"))
    one = held[0] / 6
    assert [round(each / one) for each in held] == [6, 7, 8, 6, 9, 7, 10, 11]
    assert heights(first.locator(".sn-kg-picture .sn-kg-dropped")) == [
        pytest.approx(7 * one, abs=2)
    ]
    bars = first.locator(".sn-kg-picture .sn-kg-padding").all()
    padding = [float(bar.get_attribute("height")) for bar in bars]
    assert [round(each / max(padding) * 2) for each in padding] == [0, 1, 2, 0, 1, 2, 0]
    focus_toolbar(page)
    press(page, "End")
    assert second.locator(".sn-kg-picture .sn-kg-counted").count() == 6


def test_bytes_held_and_counted_are_drawn_to_scale(show):
    page = from_the_start(show([make("StorageStrip")]))
    picture = page.get_by_role("img")
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert [picture.locator(f".sn-ss-{kind}").count() for kind in ("seen", "unseen")] == [1, 19]
    held = at_rest(picture).locator(".sn-ss-held").bounding_box()["width"]
    counted = at_rest(picture).locator(".sn-ss-counted").bounding_box()["width"]
    assert held == pytest.approx(20 * counted, rel=0.02)
    # A bounding box has room for the corners of a line, the same on both sides.
    bracket, cell = box(page.locator(".sn-ss-bracket")), box(picture.locator(".sn-ss-seen"))
    assert sum(bracket) == pytest.approx(sum(cell), abs=2)


def test_attention_is_cut_by_keys_and_presses_and_its_sinks_are_kept_or_cut(show):
    page = show([make("AttentionByDistance", sink_weights=[[[0.2, 0.1]] * 3] * 2)])
    bars = page.get_by_role("img").first
    assert bars.locator(".sn-ad-cut").count() == 31
    focus_toolbar(page)
    press(page, "ArrowLeft", 5)
    assert bars.locator(".sn-ad-cut").count() == 36
    page.get_by_role("button", name="layer 1").click()
    page.get_by_role("button", name="mean").click()
    assert live(page).startswith("Layer 1, mean of its heads: a window of 3 cuts off")
    left, right = box(bars.locator(".sn-ad-cut").nth(10))
    bars.click(position={"x": (left + right) / 2 - box(bars)[0], "y": 180})
    assert "a window of 14 cuts off" in live(page)
    page.locator(".sn-ad-percent").nth(4).click()
    assert live(page).startswith("Layer 1, head 1: ")
    assert bars.locator(".sn-ad-sink").count() == 2
    page.get_by_role("button", name="Keep the sinks").click()
    assert bars.locator(".sn-ad-sink").count() == 0
    assert live(page).endswith("and are cut as well.")


def test_the_cone_widens_by_a_window_with_every_layer_and_a_token_finds_its_way(show):
    page = from_the_start(show([make("ReceptiveField")]))
    focus_toolbar(page)
    counts = []
    for _ in range(5):
        counts.append(page.get_by_role("img").locator(".sn-rf-acts").count())
        press(page, "ArrowRight")
    assert counts == [1, 10, 27, 52, 85]
    page.get_by_role("button", name="Show its way").click()
    assert page.locator(".sn-rf-way").count() == 1
    assert "\nToken 27 lies 20 back, and acts through 3 layers" in live(page)


# ---- blocks --------------------------------------------------------------------------------------


def test_a_pool_and_its_tree_open_where_a_block_is_first_shared(show):
    page = show([make("BlockPool"), make("PrefixTree")])
    pool, tree = page.locator(".sn-block-pool"), page.locator(".sn-prefix-tree")
    assert pool.locator(".sn-bp-shared").count() == 4
    assert pool.locator(".sn-bp-count").all_text_contents() == ["×2"] * 4
    assert tree.locator(".sn-pt-shared").count() == 4
    for index in range(2):
        focus_toolbar(page, index)
        press(page, "End")
    assert pool.locator(".sn-bp-held").count() == tree.locator(".sn-pt-held").count() == 0
    assert tree.locator(".sn-pt-cached").count() == 18
