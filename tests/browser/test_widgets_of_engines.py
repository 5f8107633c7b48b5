"""Pictures of an engine: queues, K/V, masks, batches, windows and blocks, as they are operated."""

import pytest
import samples
from driving import box, focus_toolbar, from_the_start, live, press
from galleries import compared_pools, make, miscounted_run

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


def said(page):
    return page.locator(".sn-bv-said, .sn-mb-said").first.text_content()


def heights(found):
    return [each.bounding_box()["height"] for each in found.all()]


# ---- the heap ------------------------------------------------------------------------------------


def test_a_heap_is_told_move_by_move_and_its_top_is_the_first_cell(show):
    page = from_the_start(show([make("HeapStepper")], reduced_motion="reduce"))
    assert live(page) == "The heap is empty; 10 operations will change it."
    focus_toolbar(page)
    press(page, "ArrowRight", 4)
    assert live(page) == (
        "Operation 2 of 10, push request 1, key (1, 1). Request 1's key (1, 1) is smaller than "
        "its parent's, (2, 0): they swap places."
    )
    assert page.locator(".sn-he-crossed").count() == 1
    assert page.get_by_role("img").get_attribute("aria-label") == (
        "The array from its first cell: request 1 with key (1, 1) and request 0 with key (2, 0)."
    )
    press(page, "ArrowRight", 16)
    entries = page.locator(".sn-he-entry:not(.sn-he-absent)")
    first = entries.filter(has_text="request 3")
    node, cell = sorted((each.bounding_box() for each in first.all()), key=lambda at: at["y"])
    others = [each.bounding_box() for each in entries.all()]
    assert node["y"] == min(at["y"] for at in others)
    assert cell["x"] == min(at["x"] for at in others if at["y"] == cell["y"])
    fill = "all => all.map((each) => getComputedStyle(each).fill)"
    colours = first.locator("rect").evaluate_all(fill)
    assert len(colours) == 2 and len(set(colours)) == 1
    press(page, "End")
    assert "Taken out so far:request 3request 6" in page.locator(".sn-he-out").text_content()


# ---- the KV budget -------------------------------------------------------------------------------


def test_a_kv_budget_is_told_and_drawn_to_scale(show):
    page = from_the_start(show([make("KVBudget")]))
    picture = page.locator(".sn-kv-picture")
    held = picture.locator(".sn-kv-box-held")
    one = heights(held)[0] / 10
    assert [round(each / one) for each in heights(held)] == [10, 11, 11, 12, 13, 14, 12, 13]
    assert heights(picture.locator(".sn-kv-box-dropped")) == [pytest.approx(11 * one, abs=2)]
    hatched = heights(picture.locator("g > rect[fill^=url]"))
    assert [round(each / one) for each in hatched[-2:]] == [11, 11]
    line, first = page.locator(".sn-kv-limit").bounding_box()["y"], held.first.bounding_box()
    assert first["y"] + first["height"] - line == pytest.approx(22 * one, abs=2)
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    assert live(page) == (
        "Step 2: 12 of 22 KV tokens held. Request 1 is preempted: its 11 tokens are released; "
        "it has 1 generated token to keep."
    )
    press(page, "End")
    assert live(page).endswith("its 14 tokens are released. Recomputed so far: 11 tokens.")
    assert held.first.bounding_box()["width"] == held.last.bounding_box()["width"]
    page.get_by_role("button", name="Width shows time").click()
    assert held.first.bounding_box()["width"] > held.last.bounding_box()["width"]


# ---- masks and batches ---------------------------------------------------------------------------


def test_arrow_keys_and_the_pointer_read_a_batch_cell_by_cell(show):
    page = show([make("BatchView")])
    assert said(page) == 'A (decode), row 0, column 7: token "t" (id 116) at position 21.'
    page.get_by_role("grid").focus()
    press(page, "ArrowLeft")
    assert said(page) == "A (decode), row 0, column 6: padding, computed and thrown away."
    press(page, "ArrowDown", 3)
    assert said(page) == 'D (prefill), row 3, column 6: token " " (id 32) at position 6.'
    press(page, "Home")
    assert said(page).endswith('token "T" (id 84) at position 0.')
    press(page, "End")
    focused = page.get_by_role("grid").get_attribute("aria-activedescendant")
    assert page.locator(f"#{focused}").get_attribute("aria-label") == "D, column 7"
    page.get_by_role("gridcell", name="C, column 3").hover()
    assert said(page) == "C (decode), row 2, column 3: padding, computed and thrown away."
    page.get_by_role("gridcell", name="B, column 7").click()
    assert said(page) == 'B (decode), row 1, column 7: token "t" (id 116) at position 14.'


def test_a_batch_collapses_into_the_strip_and_shows_its_mask(show):
    page = show([make("BatchView")], reduced_motion="reduce")
    chip, cells = page.locator(".sn-chip"), page.locator(".sn-bv-picture .sn-bv-real .sn-bv-box")
    assert chip.text_content() == "11 useful of 32 computed"
    tops = "all => new Set(all.map((each) => Math.round(each.getBoundingClientRect().y))).size"
    assert cells.evaluate_all(tops) == 4
    assert page.locator(".sn-bv-mask").is_hidden()
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert chip.text_content() == "11 useful of 11 computed"
    assert live(page).startswith("The packed strip: the same 11 tokens in one row")
    assert cells.evaluate_all(tops) == 1
    lefts = cells.evaluate_all("all => all.map((each) => each.getBoundingClientRect().x)")
    assert lefts == sorted(lefts) and len(lefts) == 11
    press(page, "ArrowRight")
    numbers = page.locator(".sn-bv-numbers code").all_text_contents()
    assert numbers == ["cu_seqlens_q = [0, 1, 2, 3, 11]", "cu_seqlens_k = [0, 22, 37, 46, 54]"]
    assert page.locator(".sn-bv-mask .sn-mk-seen").count() == 22 + 15 + 9 + 36
    assert page.locator(".sn-bv-mask .sn-mk-wrong").count() == 0
    page.get_by_role("grid").focus()
    press(page, "ArrowDown", 4)
    assert said(page) == (
        'D (prefill), query 4: token "o" (id 111) at position 1. It sees its own keys 46 and 47.'
    )
    page.locator(".sn-bv-query").nth(2).hover()
    assert said(page).startswith("C (decode), query 2: ")


def test_a_wrong_batch_is_drawn_as_given_and_marked(show):
    page = show([make("BatchView", **samples.wrong_batch())], reduced_motion="reduce")
    assert page.locator(".sn-bv-picture .sn-bv-differs").count() == 6
    assert page.locator(".sn-bv-stray").count() == 3
    assert "padding, and yet it holds token 116 at position 0. The reference holds" in said(page)
    focus_toolbar(page)
    press(page, "End")
    assert "the reference: [0, 22, 37, 46, 54]" in page.locator(".sn-bv-numbers").text_content()
    page.locator(".sn-bv-query").nth(1).hover()
    assert "keys 0 to 20 of another request, A" in said(page)
    assert page.locator(".sn-bv-mask .sn-mk-wrong").count() > 21


def test_the_steps_of_a_mask_say_what_they_hide_and_each_query_what_it_sees(show):
    page = show([make("MaskBuild")])
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert live(page) == "Pasted. What happens. 3 cells are hidden by this step."
    assert page.locator(".sn-mb-row .sn-mk-changed").count() == 3
    press(page, "End")
    assert live(page) == "AND. What happens. 9 cells are hidden by this step."
    assert page.locator(".sn-mb-row .sn-mk-wrong").count() == 0
    assert page.locator(".sn-mb-thrown").count() == 1
    listbox = page.get_by_role("listbox")
    listbox.focus()
    press(page, "ArrowDown")
    assert said(page) == (
        "A, query 1 at position 3. It sees positions 0 to 3 (2 of 2 past, 2 of 3 new)."
    )
    press(page, "ArrowDown", 2)
    assert said(page) == (
        "B, query 0, a padding row whose output is thrown away. It sees past columns 0 to 3."
    )
    press(page, "ArrowLeft")
    assert said(page) == "B, laid over every query. It hides new column 0."


def test_a_wrong_mask_stands_beside_the_right_one_and_begins_at_the_difference(show):
    page = show([make("MaskBuild", **samples.compared_mask())])
    assert page.get_by_role("toolbar").count() == 0
    assert live(page) == "Beside. 2 cells differ."
    assert page.locator(".sn-mb-row .sn-mk-differs").count() == 4
    assert page.locator(".sn-mb-row .sn-mk-wrong").count() == 2
    assert said(page) == (
        "B, query 1 at position 4. It sees positions 0 to 4 (4 of 4 past, 1 of 2 new), and it "
        "should not see padding: new column 0. Against the right, theirs also shows new column 0."
    )
    lefts = [each.bounding_box()["x"] for each in page.locator(".sn-mb-matrix").all()]
    assert lefts[0] < lefts[1]
    assert page.locator(".sn-mk-cursor[visibility=visible]").count() == 2


# ---- windows -------------------------------------------------------------------------------------


def test_the_window_s_slider_changes_the_second_run_and_keeps_the_step(show):
    page = from_the_start(show([make("KVGrowth")]))
    focus_toolbar(page)
    press(page, "ArrowRight", 3)
    assert live(page) == (
        "No window, step 3: 16 of 16 KV tokens held.\n"
        "W = 7, step 3: 14 of 16 KV tokens held, 16 at the height of the step."
    )
    slider = page.get_by_role("slider", name="window", exact=True)
    slider.focus()
    press(page, "ArrowRight", 2)
    assert slider.get_attribute("aria-valuetext") == "W = 4"
    assert live(page).endswith(
        "\nW = 4, step 3: 8 of 16 KV tokens held, 10 at the height of the step."
    )
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
    total = first.locator(".sn-kg-total").text_content()
    assert "at most 16 KV tokens in all and 11 for one request" in total
    assert second.locator(".sn-kg-picture .sn-kg-counted").count() == 6
    assert "The scheduler counts 3 instead of 6 for request 0" in live(page, 1)
    assert second.locator(".sn-note-bad").text_content() == (
        "Miscounted stopped after step 6: your evict raised KeyError"
    )


def test_a_slice_keeps_its_whole_buffer_until_it_is_copied(show):
    page = from_the_start(show([make("StorageStrip")]))
    picture = page.get_by_role("img")
    assert picture.locator(".sn-ss-seen").count() == 20
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert live(page) == (
        "Nineteen are deleted. Held: 12,800 bytes; counted: 640. "
        "No view shows 12,160 of the bytes held."
    )
    assert [picture.locator(f".sn-ss-{kind}").count() for kind in ("seen", "unseen")] == [1, 19]
    held = picture.locator(".sn-ss-held").bounding_box()["width"]
    counted = picture.locator(".sn-ss-counted").bounding_box()["width"]
    assert held == pytest.approx(20 * counted, rel=0.02)
    # A bounding box has room for the corners of a line, the same on both sides.
    bracket, cell = box(page.locator(".sn-ss-bracket")), box(picture.locator(".sn-ss-seen"))
    assert sum(bracket) == pytest.approx(sum(cell), abs=2)
    press(page, "End")
    assert live(page) == "The last one is copied. Held: 640 bytes; counted: 640."
    assert picture.get_attribute("aria-label") == (
        "batch buffer, 12,800 bytes: freed; copy, 640 bytes: request 3 at byte 0, 640 long"
    )


def test_a_ring_overwrites_the_oldest_and_leaves_the_sinks(show):
    page = from_the_start(show([make("StorageStrip", **samples.ring())]))
    focus_toolbar(page)
    press(page, "ArrowRight", 9)
    assert live(page) == (
        "Position 9 goes to slot 3. Held: positions 0, 1 and 4 to 9, in 8 slots. Overwritten: 3."
    )
    assert "".join(page.locator(".sn-ss-position").all_text_contents()) == "01894567"
    assert page.get_by_role("img").locator(".sn-ss-slot-sink").count() == 2


def test_attention_is_cut_by_keys_and_presses_and_its_sinks_are_kept_or_cut(show):
    page = show([make("AttentionByDistance", sink_weights=[[[0.2, 0.1]] * 3] * 2)])
    bars = page.get_by_role("img").first
    assert bars.locator(".sn-ad-cut").count() == 31
    assert live(page).startswith("Layer 0, head 0: a window of 8 cuts off less than 1 percent")
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
    assert live(page) == (
        "Through 4 layers, down to the tokens: positions 15 to 47 can act on the logits "
        "(4 × 8 = 32 back).\n"
        "Token 27 lies 20 back, and acts through 3 layers (27 → 35 → 43 → 47): it can change the "
        "logits. Its own K/V is evicted by then, but the kept entries above were computed from it."
    )


# ---- blocks --------------------------------------------------------------------------------------


def test_a_pool_and_its_tree_open_where_a_block_is_first_shared(show):
    page = show([make("BlockPool"), make("PrefixTree")])
    pool, tree = page.locator(".sn-block-pool"), page.locator(".sn-prefix-tree")
    assert "finds its first 32 tokens in 4 blocks" in live(page)
    assert pool.locator(".sn-bp-shared").count() == 4
    assert pool.locator(".sn-bp-count").all_text_contents() == ["×2"] * 4
    label = pool.get_by_role("img").get_attribute("aria-label")
    assert "request 0: 0, 1, 2, 3, " in label and "request 1: 0, 1, 2, 3, " in label
    assert live(page, 1).startswith("Step 3. Request 1 follows the tree for 4 blocks.")
    assert tree.locator(".sn-pt-shared").count() == 4
    assert tree.locator(".sn-pt-node text").all_text_contents()[:2] == ["JULIET:⏎", "r0 r1"]
    focus_toolbar(page)
    press(page, "Home")
    queue = pool.locator(".sn-bp-queue")
    assert queue.text_content() == "No free block is cached."
    press(page, "ArrowRight", 10)
    assert queue.text_content() == "Cached blocks, in the order of eviction: 6, 5 and 4."
    press(page, "End")
    assert "Request 5 decodes; request 5 is done." in live(page)
    focus_toolbar(page, 1)
    press(page, "End")
    assert pool.locator(".sn-bp-held").count() == tree.locator(".sn-pt-held").count() == 0
    assert tree.locator(".sn-pt-cached").count() == 18


def test_two_pools_are_told_side_by_side_and_drawn_one_at_a_time(show):
    compared = compared_pools(evict_order=samples.beginnings_first)
    stopped = compared_pools(free_table=lambda counts, table: table)
    page = show([make("BlockPool", **compared), make("BlockPool", **stopped)])
    yours, theirs = live(page).split("\n")
    assert yours.startswith("Yours, step 22: ") and "Blocks 7 to 9 are evicted" in yours
    assert theirs.startswith("The reference, step 22: ") and "Blocks 8 to 10 are evicted" in theirs
    chip, picture = page.locator(".sn-chip").first, page.get_by_role("img").first
    assert chip.text_content() == "drawn: yours"
    drawn = picture.get_attribute("aria-label")
    page.get_by_role("button", name="Draw the reference").first.click()
    assert chip.text_content() == "drawn: the reference"
    assert picture.get_attribute("aria-label") != drawn
    note = page.inner_text(".sn-note-bad")
    assert note.startswith(
        "Yours stopped after step 9: free_table returned [0, 1, 2, 3, 4, 5, ...]"
    )
    assert live(page, 1).startswith("Yours has stopped.\nThe reference, step 10: ")
