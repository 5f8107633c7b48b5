"""Every word of every picture can be read, in both themes, wherever its player stands."""

import pytest
from driving import stand_at
from galleries import GALLERIES
from painted import words_of

import widgets

pytestmark = [pytest.mark.browser, pytest.mark.process]

WIDTH = 1000
LEAST_CONTRAST = 4.5  # of text of ordinary size: WCAG 2.2, 1.4.3
# Takes away what no player moves: it looks the same wherever players stand.
LEAVE_WHAT_MOVES = """(all) => all
    .filter((each) => !each.querySelector(".sn-toolbar .sn-travel .sn-scrubber"))
    .forEach((each) => each.closest(".widget").remove())"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("gallery", GALLERIES)
def test_the_words_of_pictures_stand_out_from_what_is_painted_behind_them(show, gallery, scheme):
    page = show(GALLERIES[gallery](), width=WIDTH, scheme=scheme, reduced_motion="reduce")
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": WIDTH, "height": height + 200})
    seen, faint = 0, set()
    for part in (None, 0, 0.2, 0.5, 0.8, 1):  # None: as it opens
        if part is not None:
            stand_at(page, part)
        found = words_of(page)
        if part is None:
            page.locator(".sn").evaluate_all(LEAVE_WHAT_MOVES)
        seen += len(found)
        faint |= {
            (word.where, word.words, part, round(word.contrast, 2))
            for word in found
            if word.contrast < LEAST_CONTRAST
        }
    assert seen > 0
    assert faint == set()


def test_no_picture_is_left_out():
    shown = {type(each).__name__ for every_widget in GALLERIES.values() for each in every_widget()}
    assert shown == {each for each in widgets.__all__ if isinstance(getattr(widgets, each), type)}
