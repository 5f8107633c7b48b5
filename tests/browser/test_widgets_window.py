"""The widgets of the sliding window in Chromium: keys, sliders, presses, widths, axe."""

import math

import pytest
from driving import (
    focus_toolbar,
    from_the_start,
    live,
    press,
)

from course.stories.l04_window import block_steps
from nanogpt import load_model
from widgets import AttentionByDistance, BlockTable, KVGrowth, ReceptiveField, StorageStrip

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------


def a_run(label, window, counted=None, error=None):
    """Two requests of 6 tokens; 1 comes in step 2 and is preempted in step 4 without a window."""
    held = [(6,), (7,), (8, 6), (9, 7), (10,), (11,), ()]
    steps = []
    for number, tokens in enumerate(held):
        kept = [min(each, window or each) for each in tokens]
        kv = [
            {
                "request_id": i, "kv_tokens": n, "live_bytes": 64 * n,
                "counted_tokens": n if counted is None else min(n, counted),
            }
            for i, n in enumerate(kept)
        ]  # fmt: skip
        work = [
            {"request_id": i, "kind": "decode", "start": n - 1, "end": n, "sampled": 1}
            for i, n in enumerate(tokens)
        ]
        steps.append({
            "step": number, "start_us": 1000 * number, "end_us": 1000 * number + 900,
            "token_budget": 16, "work": work, "waits": [], "admitted": [], "finished": [],
            "preempted": [1] if number == 4 else [], "kv": kv, "kv_before": 0,
            "kv_after": sum(kept), "kv_peak": sum(kept) + len(kept) if window else sum(kept),
            "forwards": [{"useful_tokens": len(kept), "computed_tokens": len(kept) + number % 3}],
        })  # fmt: skip
    requests = [
        {
            "id": i, "prompt_tokens": [1] * 6, "max_new_tokens": 6, "priority": 0,
            "arrival_step": 2 * i, "arrival_us": 2000 * i,
        }
        for i in range(2)
    ]  # fmt: skip
    trace = {
        "version": 2, "clock": {"name": "a large GPU", "modelled": True}, "executor": "padded",
        "token_budget": 16, "max_kv_tokens": 16, "requests": requests, "steps": steps,
        "error": error,
    }  # fmt: skip
    return {"label": label, "window": window, "trace": trace}


def a_growth():
    runs = [a_run("no window", None), *(a_run(f"W = {w}", w) for w in (7, 5, 4))]
    return KVGrowth(runs, "Growth", bytes_per_token=64)


def a_story():
    buffer = {"label": "batch buffer", "nbytes": 12800}

    def view(request, storage=0, offset=None):
        at = 640 * request if offset is None else offset
        label = f"request {request}"
        return {"label": label, "storage": storage, "offset_bytes": at, "nbytes": 640}

    return [
        {
            "words": "One buffer for twenty requests.", "storages": [buffer],
            "views": [view(i) for i in range(20)], "live_bytes": 12800, "counted_bytes": 12800,
        },
        {
            "words": "Nineteen are deleted.", "storages": [buffer], "views": [view(3)],
            "live_bytes": 12800, "counted_bytes": 640,
        },
        {
            "words": "The last one is copied.", "storages": [{"label": "copy", "nbytes": 640}],
            "views": [view(3, offset=0)], "live_bytes": 640, "counted_bytes": 640,
        },
    ]  # fmt: skip


def a_ring(window=6, sinks=2, positions=12):
    slots, steps = [None] * (window + sinks), []
    for new in range(positions):
        at = new if new < sinks else sinks + (new - sinks) % window
        slots[at] = new
        found = [{"position": each, "new": each == new} for each in slots]
        words = f"Position {new} goes to slot {at}."
        steps.append({"words": words, "slots": found, "sinks": sinks, "window": window})
    return steps


def an_attention(**more):
    weights = [[[math.exp(-d / (1 + 4 * layer + 3 * head)) for d in range(40)]
                for head in range(3)] for layer in range(2)]  # fmt: skip
    return AttentionByDistance(weights, 8, **more)


def every_widget():
    return [
        a_growth(),
        KVGrowth([a_run("miscounted", 6, counted=3, error="your evict raised KeyError")]),
        StorageStrip(a_story(), "One slice"),
        StorageStrip(a_ring(), "A ring"),
        an_attention(title="Attention", sink_weights=[[[0.2, 0.1]] * 3] * 2),
        ReceptiveField(8, 4, 48, "The field", probe=27),
        ReceptiveField(4, 3, 30, sinks=2, probe=5),
        BlockTable(block_steps(load_model()), "Blocks"),
    ]


# ---- all -----------------------------------------------------------------------------------------


# ---- KV growth -----------------------------------------------------------------------------------


def test_the_window_slider_changes_the_second_run_and_keeps_the_step(show):
    page = from_the_start(show([a_growth()]))
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
    assert page.locator(".sn-kg-side").all_text_contents() == ["no window", "W = 4"]
    press(page, "ArrowUp")
    press(page, "ArrowLeft")
    assert live(page).startswith("No window, step 2: ")


def test_stacks_are_to_scale_and_preemption_and_padding_are_drawn(show):
    page = from_the_start(show([KVGrowth([a_run("no window", None)])]))
    held = [box.bounding_box() for box in page.locator(".sn-kg-picture .sn-kg-held").all()]
    one = held[0]["height"] / 6
    assert [round(box["height"] / one) for box in held] == [6, 7, 8, 6, 9, 7, 10, 11]
    dropped = page.locator(".sn-kg-picture .sn-kg-dropped").bounding_box()
    assert dropped["height"] == pytest.approx(7 * one, abs=2)
    assert page.locator(".sn-kg-drop").first.text_content() == "1"
    heights = [
        float(bar.get_attribute("height"))
        for bar in page.locator(".sn-kg-picture .sn-kg-padding").all()
    ]
    assert [round(height / max(heights) * 2) for height in heights] == [0, 1, 2, 0, 1, 2, 0]
    assert page.locator(".sn-kg-total").text_content().startswith("No window: so far at most 6 KV")
    focus_toolbar(page)
    press(page, "End")
    assert "at most 16 KV tokens in all and 11 for one request" in (
        page.locator(".sn-kg-total").text_content()
    )


def test_bytes_take_the_place_of_tokens(show):
    page = from_the_start(show([a_growth()]))
    button = page.get_by_role("button", name="Show bytes")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert live(page).startswith("No window, step 0: 384 of 1,024 bytes held.")
    button.click()
    assert live(page).startswith("No window, step 0: 6 of 16 KV tokens held.")


def test_what_is_counted_wrongly_is_marked_and_a_stop_is_said(show):
    page = show([every_widget()[1]])
    assert page.locator(".sn-kg-picture .sn-kg-counted").count() == 6
    assert "The scheduler counts 3 instead of 6 for request 0" in live(page)
    assert page.locator(".sn-note-bad").text_content() == (
        "Miscounted stopped after step 6: your evict raised KeyError"
    )


# ---- storage -------------------------------------------------------------------------------------


def test_a_slice_keeps_its_whole_buffer_until_it_is_copied(show):
    page = from_the_start(show([StorageStrip(a_story())]))
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
    press(page, "End")
    assert live(page) == "The last one is copied. Held: 640 bytes; counted: 640."
    assert picture.locator(".sn-ss-freed").count() == 1
    assert picture.get_attribute("aria-label") == (
        "batch buffer, 12,800 bytes: freed; copy, 640 bytes: request 3 at byte 0, 640 long"
    )


def test_a_bracket_lies_under_its_bytes(show):
    page = show([StorageStrip(a_story()[1:2])])
    cell = page.get_by_role("img").locator(".sn-ss-seen").bounding_box()
    bracket = page.locator(".sn-ss-bracket").bounding_box()
    # A bounding box has room for the corners of a line, the same on both sides.
    middles = [box["x"] + box["width"] / 2 for box in (bracket, cell)]
    assert middles[0] == pytest.approx(middles[1], abs=1)
    assert bracket["width"] == pytest.approx(cell["width"], abs=10)
    assert page.get_by_text("request 3: 640 at 1,920", exact=True).is_visible()


def test_a_ring_overwrites_the_oldest_and_leaves_the_sinks(show):
    page = from_the_start(show([StorageStrip(a_ring())]))
    focus_toolbar(page)
    press(page, "ArrowRight", 9)
    assert live(page) == (
        "Position 9 goes to slot 3. Held: positions 0, 1 and 4 to 9, in 8 slots. Overwritten: 3."
    )
    assert page.locator(".sn-ss-position").all_text_contents() == [
        "0", "1", "8", "9", "4", "5", "6", "7",
    ]  # fmt: skip
    assert page.get_by_role("img").locator(".sn-ss-slot-sink").count() == 2


# ---- attention -----------------------------------------------------------------------------------


def test_the_keyboard_moves_the_cut_and_buttons_choose_the_head(show):
    page = show([an_attention()])
    picture = page.get_by_role("img").first
    assert picture.locator(".sn-ad-cut").count() == 31
    assert live(page).startswith("Layer 0, head 0: a window of 8 cuts off less than 1 percent")
    focus_toolbar(page)
    press(page, "ArrowLeft", 5)
    assert picture.locator(".sn-ad-cut").count() == 36
    page.get_by_role("button", name="layer 1").click()
    page.get_by_role("button", name="head 2").click()
    assert live(page).startswith("Layer 1, head 2: a window of 3 cuts off 69 percent")
    page.get_by_role("button", name="mean").click()
    assert live(page).startswith("Layer 1, mean of its heads: a window of 3 cuts off")
    assert page.locator(".sn-ad-chosen").count() == 3


def test_a_press_on_a_bar_cuts_there_and_on_a_cell_shows_its_head(show):
    page = show([an_attention()])
    bars = page.get_by_role("img").first
    box = bars.locator(".sn-ad-cut").nth(10).bounding_box()
    frame = bars.bounding_box()
    bars.click(position={"x": box["x"] - frame["x"] + box["width"] / 2, "y": 180})
    assert "a window of 19 cuts off" in live(page)
    page.locator(".sn-ad-percent").nth(4).click()
    assert live(page).startswith("Layer 1, head 1: ")


def test_sinks_are_kept_or_cut(show):
    page = show([an_attention(sink_weights=[[[0.2, 0.1]] * 3] * 2)])
    assert page.get_by_role("img").first.locator(".sn-ad-sink").count() == 2
    page.get_by_role("button", name="Keep the sinks").click()
    assert page.get_by_role("img").first.locator(".sn-ad-sink").count() == 0
    assert live(page).endswith("and are cut as well.")


# ---- the receptive field -------------------------------------------------------------------------


def test_the_cone_widens_by_a_window_with_every_layer(show):
    page = from_the_start(show([ReceptiveField(8, 4, 48, probe=27)]))
    focus_toolbar(page)
    counts = []
    for _ in range(5):
        counts.append(page.get_by_role("img").locator(".sn-rf-acts").count())
        press(page, "ArrowRight")
    assert counts == [1, 10, 27, 52, 85]
    assert live(page).endswith("\nToken 27 lies 20 back.")
    assert page.locator(".sn-rf-way").count() == 0
    page.get_by_role("button", name="Show its way").click()
    assert page.locator(".sn-rf-way").count() == 1
    assert live(page) == (
        "Through 4 layers, down to the tokens: positions 15 to 47 can act on the logits "
        "(4 × 8 = 32 back).\n"
        "Token 27 lies 20 back, and acts through 3 layers (27 → 35 → 43 → 47): it can change the "
        "logits. Its own K/V is evicted by then, but the kept entries above were computed from it."
    )


def test_the_slider_and_a_press_choose_the_token(show):
    page = show([ReceptiveField(4, 2, 30, probe=5)])
    page.get_by_role("button", name="Show its way").click()
    assert page.locator(".sn-rf-way.sn-rf-short").count() == 1
    slider = page.get_by_role("slider", name="token", exact=True)
    slider.focus()
    press(page, "End")
    assert live(page).endswith("Token 29 is the query itself.")
    press(page, "ArrowLeft", 6)
    assert "Token 23 lies 6 back, and acts through 2 layers (23 → 27 → 29)" in live(page)
    assert page.locator(".sn-rf-short").count() == 0
    page.get_by_role("img").click(position={"x": 58 + 26 * 10.5, "y": 60})
    assert slider.input_value() == "10"


def test_on_a_phone_the_field_is_whole(show):
    page = show([ReceptiveField(8, 4, 48)], width=390)
    assert page.locator(".sn-scroll").get_attribute("tabindex") is None
    last = page.locator(".sn-rf-acts").first.bounding_box()
    assert last["x"] + last["width"] <= 390


# ---- block tables --------------------------------------------------------------------------------


def test_a_block_goes_back_when_its_last_entry_is_out_of_sight(show):
    page = from_the_start(show([BlockTable(block_steps(load_model()))]))
    focus_toolbar(page)
    press(page, "ArrowRight", 2)
    assert live(page) == (
        "Request 0 brings position 11. Request 1 brings position 6.\n"
        "3 of 8 blocks are free; of the 20 entries lent, 12 seen, 7 behind the window, 1 empty."
    )
    picture = page.get_by_role("img")
    assert picture.locator(".sn-bt-outside").count() == 7
    assert page.locator(".sn-chip").text_content() == "3 free blocks"
    press(page, "ArrowRight")
    assert live(page).startswith(
        "Request 0 brings position 12. Request 1 brings position 7. Given back: block 1."
    )
    assert picture.get_attribute("aria-label") == (
        "Tables. request 0: 0, given back, 2, 3; request 1: 4, 5"
    )
    assert picture.locator(".sn-bt-gone").count() == 1
    assert picture.locator(".sn-bt-free.sn-bt-lit").count() == 1


def test_a_table_and_its_blocks_share_a_colour(show):
    page = show([BlockTable(block_steps(load_model())[:2])])
    focus_toolbar(page)
    press(page, "End")
    fill = "all => all.map((each) => getComputedStyle(each).fill)"
    tables = page.locator(".sn-bt-entry").evaluate_all(fill)
    blocks = page.get_by_role("img").locator(".sn-bt-block").evaluate_all(fill)
    first, second = tables[0], tables[-1]
    assert tables == blocks == [first] * 3 + [second] * 2
    assert first != second
