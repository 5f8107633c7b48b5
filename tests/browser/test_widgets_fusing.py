"""The batch view and the mask in steps in Chromium: keys, pointer, motion, widths, axe."""

import pytest
from driving import (
    focus_toolbar,
    live,
    press,
)

from nanogpt.parts import fusing
from widgets import BatchView, MaskBuild

pytestmark = pytest.mark.browser


# ---- samples -------------------------------------------------------------------------------------

CURSORS, NUM_NEW = [21, 14, 8, 0], [1, 1, 1, 8]
TEXT = "To be, or not to be, that is the question"


def rows():
    return [
        {"id": row, "kind": "prefill" if row == 3 else "decode", "label": "ABCD"[row]}
        for row in range(4)
    ]


def a_batch():
    """The post's step: three decodes and the first 8 tokens of a prompt; positions put right."""
    ends = [cursor + n for cursor, n in zip(CURSORS, NUM_NEW, strict=True)]
    known = [[ord(letter) for letter in TEXT[:end]] for end in ends]
    tokens, positions = fusing.fused_rows(known, CURSORS, NUM_NEW)
    texts = [[chr(token) if token else "" for token in row] for row in tokens]
    cu_q, cu_k, mask = fusing.pack(CURSORS, NUM_NEW)
    packed = {"cu_q": cu_q, "cu_k": cu_k, "mask": mask.tolist()}
    return {"tokens": tokens, "positions": positions, "texts": texts, "packed": packed}


def a_view(**changes):
    batch = {**a_batch(), **changes}
    return BatchView(rows(), batch.pop("tokens"), batch.pop("positions"), NUM_NEW, **batch)


def a_wrong_view():
    """Right-padded, one position too far, and a mask that leaks."""
    right = a_batch()
    turned = [
        [*row[8 - n :], *row[: 8 - n]] for row, n in zip(right["tokens"], NUM_NEW, strict=True)
    ]
    later = [[each + 1 if each > 7 else each for each in row] for row in right["positions"]]
    mask = [[*row] for row in right["packed"]["mask"]]
    mask[1][:22] = [True] * 22
    packed = {**right["packed"], "cu_k": [0, 21, 35, 43, 43], "mask": mask}
    return a_view(tokens=turned, positions=later, texts=None, packed=packed, reference=right)


def matrices(masks, past, new):
    return [
        {"label": "AB"[row], "mask": mask, "past_len": past[row], "num_new": new[row]}
        for row, mask in enumerate(masks)
    ]


def a_build(**changes):
    """The post's T_past = 4, T = 3, B = 2, with row A two tokens short, in four steps."""
    past, new = [2, 4], [3, 2]
    whole = [[True] * 7 for _ in range(3)]
    pasted = [[column <= 4 + row for column in range(7)] for row in range(3)]
    padding = [[[False, False, *[True] * 5]], [[True] * 4 + [False, True, True]]]
    anded = [
        [[a and b for a, b in zip(row, line[0], strict=True)] for row in pasted] for line in padding
    ]
    common = {"words": "What happens.", "num_past": 4}
    steps = [
        {"name": "All true", **common, "masks": [{"label": "every row", "mask": whole}]},
        {"name": "Pasted", **common, "masks": [{"label": "every row", "mask": pasted}]},
        {"name": "The padding", **common, "masks": matrices(padding, past, new)},
        {"name": "AND", **common, "masks": matrices(anded, past, new)},
    ]
    return MaskBuild(steps, **changes)


def a_comparison():
    past, new = [2, 4], [3, 2]
    right = fusing.full_mask(past, new).tolist()
    wrong = [[[*row] for row in mask] for mask in right]
    wrong[1][1][4] = wrong[1][2][4] = True
    step = {"name": "Beside", "words": "", "num_past": 4, "compare": right}
    return MaskBuild([{**step, "masks": matrices(wrong, past, new)}], names=("theirs", "the right"))


def every_widget():
    wide = fusing.full_mask(CURSORS, NUM_NEW).tolist()
    masks = [
        {"label": "ABCD"[row], "mask": mask, "past_len": CURSORS[row], "num_new": NUM_NEW[row]}
        for row, mask in enumerate(wide)
    ]
    step = {"name": "A real batch", "words": "", "num_past": 21, "masks": masks}
    return [
        a_view(title="One step"), a_wrong_view(), a_view(packed=None),
        a_build(title="A mask in steps"), a_comparison(), MaskBuild([step]),
    ]  # fmt: skip


def said(page):
    return page.locator(".sn-bv-said, .sn-mb-said").first.text_content()


# ---- all -----------------------------------------------------------------------------------------


# ---- the batch -----------------------------------------------------------------------------------


def test_arrow_keys_read_the_batch_cell_by_cell(show):
    page = show([a_view()])
    page.evaluate("document.addEventListener('keydown', () => { document.body.dataset.heard = 1 })")
    assert said(page) == 'A (decode), row 0, column 7: token "t" (id 116) at position 21.'
    page.get_by_role("grid").focus()
    press(page, "ArrowLeft")
    assert said(page) == "A (decode), row 0, column 6: padding, computed and thrown away."
    press(page, "ArrowDown", 3)
    assert said(page) == 'D (prefill), row 3, column 6: token " " (id 32) at position 6.'
    press(page, "Home")
    assert said(page).endswith('token "T" (id 84) at position 0.')
    press(page, "End")
    assert said(page).startswith("D (prefill), row 3, column 7: ")
    assert page.evaluate("document.body.dataset.heard") is None
    focused = page.get_by_role("grid").get_attribute("aria-activedescendant")
    assert page.locator(f"#{focused}").get_attribute("aria-label") == "D, column 7"
    assert page.locator("[aria-selected=true]").count() == 1


def test_the_pointer_reads_cells_too(show):
    page = show([a_view()])
    page.get_by_role("gridcell", name="C, column 3").hover()
    assert said(page) == "C (decode), row 2, column 3: padding, computed and thrown away."
    page.get_by_role("gridcell", name="B, column 7").click()
    assert said(page) == 'B (decode), row 1, column 7: token "t" (id 116) at position 14.'


def test_the_batch_collapses_into_the_strip_and_shows_its_mask(show):
    page = show([a_view()], reduced_motion="reduce")
    chip = page.locator(".sn-chip")
    assert chip.text_content() == "11 useful of 32 computed"
    tops = "all => new Set(all.map((each) => Math.round(each.getBoundingClientRect().y))).size"
    assert page.locator(".sn-bv-picture .sn-bv-real .sn-bv-box").evaluate_all(tops) == 4
    assert page.locator(".sn-bv-mask").is_hidden()
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert chip.text_content() == "11 useful of 11 computed"
    assert live(page).startswith("The packed strip: the same 11 tokens in one row")
    assert page.locator(".sn-bv-picture .sn-bv-real .sn-bv-box").evaluate_all(tops) == 1
    lefts = page.locator(".sn-bv-picture .sn-bv-real .sn-bv-box").evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect().x)"
    )
    assert lefts == sorted(lefts) and len(lefts) == 11
    assert page.locator(".sn-bv-numbers").text_content() == "cu_q = [0, 1, 2, 3, 11]"
    press(page, "ArrowRight")
    assert page.locator(".sn-bv-mask").is_visible()
    assert page.locator(".sn-bv-picture .sn-bv-real .sn-bv-box").evaluate_all(tops) == 1
    assert page.locator(".sn-bv-numbers code").last.text_content() == "cu_k = [0, 22, 37, 46, 54]"
    assert page.locator(".sn-bv-mask .sn-mk-seen").count() == 22 + 15 + 9 + 36
    assert page.locator(".sn-bv-mask .sn-mk-wrong").count() == 0
    press(page, "Home")
    assert chip.text_content() == "11 useful of 32 computed"


def test_in_the_strip_the_keys_go_from_query_to_query(show):
    page = show([a_view()], reduced_motion="reduce")
    page.get_by_role("grid").focus()
    press(page, "Home")
    focus_toolbar(page)
    press(page, "End")
    assert said(page) == (
        'A (decode), query 0: token "t" (id 116) at position 21. It sees its own keys 0 to 21.'
    )
    page.get_by_role("grid").focus()
    press(page, "ArrowDown", 4)
    assert said(page) == (
        'D (prefill), query 4: token "o" (id 111) at position 1. It sees its own keys 46 and 47.'
    )
    page.locator(".sn-bv-query").nth(2).hover()
    assert said(page).startswith("C (decode), query 2: ")


def test_a_wrong_batch_is_drawn_as_given_and_marked(show):
    page = show([a_wrong_view()], reduced_motion="reduce")
    assert page.locator(".sn-bv-picture .sn-bv-differs").count() == 6
    assert page.locator(".sn-bv-stray").count() == 3
    assert "padding, and yet it holds token 116 at position 0. The reference holds" in said(page)
    focus_toolbar(page)
    press(page, "End")
    assert "the reference: [0, 22, 37, 46, 54]" in page.locator(".sn-bv-numbers").text_content()
    page.locator(".sn-bv-query").nth(1).hover()
    assert "keys 0 to 20 of another request, A" in said(page)
    assert page.locator(".sn-bv-mask .sn-mk-wrong").count() > 21


def test_without_a_strip_there_is_nothing_to_step_through(show):
    page = show([a_view(packed=None)])
    assert page.get_by_role("toolbar").count() == 0
    assert live(page).startswith("The padded batch: 4 rows of 8 cells, 11 of them real tokens.")


def test_cells_glide_unless_motion_is_reduced(show):
    moving = "getComputedStyle(document.querySelector('.sn-bv-cell')).transitionDuration"
    assert show([a_view()]).evaluate(moving) == "0.52s, 0.24s"
    assert show([a_view()], reduced_motion="reduce").evaluate(moving) == "0s"


def test_on_a_narrow_page_the_chosen_query_s_keys_are_scrolled_into_view(show):
    page = show([a_view()], width=390, reduced_motion="reduce")
    focus_toolbar(page)
    press(page, "End")
    page.get_by_role("grid").focus()
    press(page, "End")
    own = page.locator(".sn-bv-query").last.locator("circle").bounding_box()
    assert 0 < own["x"] < 390


# ---- the mask in steps ---------------------------------------------------------------------------


def test_the_steps_say_what_they_hide(show):
    page = show([a_build()])
    assert live(page) == "All true. What happens."
    focus_toolbar(page)
    press(page, "ArrowRight")
    assert live(page) == "Pasted. What happens. 3 cells are hidden by this step."
    assert page.locator(".sn-mb-row .sn-mk-changed").count() == 3
    press(page, "End")
    assert live(page) == "AND. What happens. 9 cells are hidden by this step."
    assert page.get_by_role("option").count() == 6
    assert page.locator(".sn-mb-row .sn-mk-wrong").count() == 0
    assert page.locator(".sn-mb-thrown").count() == 1


def test_up_and_down_choose_a_query_while_left_and_right_step(show):
    page = show([a_build()])
    focus_toolbar(page)
    press(page, "End")
    page.get_by_role("listbox").focus()
    press(page, "ArrowDown")
    assert said(page) == (
        "A, query 1 at position 3. It sees positions 0 to 3 (2 of 2 past, 2 of 3 new)."
    )
    press(page, "ArrowDown", 2)
    assert said(page) == (
        "B, query 0, a padding row whose output is thrown away. It sees past columns 0 to 3."
    )
    chosen = page.locator("[role=option][aria-selected=true]")
    assert chosen.get_attribute("aria-label") == said(page).split(". ")[0]
    listbox = page.get_by_role("listbox")
    assert listbox.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    press(page, "ArrowLeft")
    assert live(page).startswith("The padding.")
    assert said(page) == "B, laid over every query. It hides new column 0."


def test_the_pointer_chooses_a_query(show):
    page = show([a_build()])
    page.get_by_role("option").nth(2).hover()
    assert said(page) == ("Every row, query 2. It sees past columns 0 to 3 and new columns 0 to 2.")


def test_a_wrong_mask_stands_beside_the_right_one_and_begins_at_the_difference(show):
    page = show([a_comparison()])
    assert page.get_by_role("toolbar").count() == 0
    assert live(page) == "Beside. 2 cells differ."
    assert page.locator(".sn-mb-row .sn-mk-differs").count() == 4
    assert page.locator(".sn-mb-row .sn-mk-wrong").count() == 2
    assert said(page) == (
        "B, query 1 at position 4. It sees positions 0 to 4 (4 of 4 past, 1 of 2 new), and it "
        "should not see padding: new column 0. Against the right, theirs also shows new column 0."
    )
    boxes = [each.bounding_box() for each in page.locator(".sn-mb-matrix").all()]
    assert boxes[0]["x"] < boxes[1]["x"]
    assert page.locator(".sn-mk-cursor[visibility=visible]").count() == 2
