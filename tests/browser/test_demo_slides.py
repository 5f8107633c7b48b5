"""Slides in a real browser, by keyboard: a room's 1920 x 1080, the speaker's window, no network."""

import re
import signal
import sys

import pytest
from driving import JS, at_rest, expect, live, press, violations
from launching import started
from notebooks import STEMS
from support import ROOT

from course.lesson_map import find_lesson

pytestmark = pytest.mark.browser


@pytest.fixture
def present(visit):
    """Opens a page of slides in a room."""

    def opened(address, **options):
        own = re.sub("^http://", "", address)
        page = visit(address, own, viewport={"width": 1920, "height": 1080}, **options)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_function("deck.isReady()")
        return page

    return opened


def go_to(page, key):
    """Turn to the slide of this key; return it."""
    page.evaluate(
        "(key) => deck.slide(deck.getSlides().findIndex((each) => each.dataset.key === key))", key
    )
    shown = page.locator("section.present")
    expect(shown).to_have_attribute("data-key", key)
    return shown


def number(page):
    return page.evaluate("deck.getIndices().h")


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served():
    """The address of lesson 2b's slides, from the real command."""
    command = [sys.executable, "-m", "course", "demo", "l02b", "--no-browser", "--port", "0"]
    with started(command, ROOT) as (process, said):
        yield re.findall(r"http://\S+", said)[0]
        process.send_signal(signal.SIGINT)  # Ctrl-C
        assert process.wait(30) == 0


def test_keys_turn_the_slides_which_break_no_rule_and_are_light_everywhere(present, served):
    page = present(served, color_scheme="dark")
    expect(page.locator("section.present h1")).to_have_text("2b · Waiting")
    press(page, "ArrowRight", 2)
    assert number(page) == 2
    press(page, "ArrowLeft")
    assert number(page) == 1
    body = "getComputedStyle(document.body).backgroundColor"
    assert at_rest(page).evaluate(body) == "rgb(255, 255, 255)"
    assert page.locator(".sn").first.get_attribute("data-theme") == "light"
    kinds = page.evaluate("[...new Set(deck.getSlides().map((each) => each.dataset.kind))]")
    assert {"answer", "picture", "prose", "question", "task", "title"} <= set(kinds)
    for kind in kinds:
        page.evaluate(
            "(kind) => deck.slide(deck.getSlides().findIndex((at) => at.dataset.kind === kind))",
            kind,
        )
        assert violations(page, {"include": [["section.present"]]}) == [], kind


def test_the_speakers_window_shows_notes_and_follows(present, served):
    """It opens over http alone, where windows may talk."""
    page = present(served)
    go_to(page, "l02.priority")
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    expect(notes).to_contain_text("They will say:")
    expect(notes).to_contain_text("2 min")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(notes).to_be_hidden()


# ---- from a file ---------------------------------------------------------------------------------


@pytest.fixture
def written(present, notebooks, tmp_path):
    """Opens the slides of a solved lesson from a file."""

    def opened(stem):
        from course.publish.slide_show import notes_of, slides_page

        lesson, file = find_lesson(stem), tmp_path / "slides.html"
        file.write_text(slides_page(lesson, notebooks.solved(stem).slides, notes_of(lesson)))
        return present(file.as_uri(), offline=True)

    return opened


@pytest.mark.nightly
def test_a_show_of_hands_is_counted_and_then_revealed(written):
    slides = written("l03_interleaving")
    shown, at = go_to(slides, "l03.fused_cost"), number(slides)
    expect(shown.locator(".sd-mark")).to_be_hidden()
    hands = shown.get_by_label(re.compile("Hands for"))
    expect(hands).to_have_count(4)
    slides.keyboard.press("Tab")
    for count in ("6", "12", "2", "0"):
        slides.keyboard.type(count)
        slides.keyboard.press("Tab")
    widths = shown.locator(".sd-bar").evaluate_all(
        "(all) => all.map((bar) => bar.style.getPropertyValue('--part'))"
    )
    assert widths == ["21.0", "42.0", "7.0", "0.0"]
    hands.first.focus()
    press(slides, "ArrowRight")  # belongs to the field
    expect(shown.locator(".sd-mark")).to_be_hidden()
    press(slides, "Escape")
    press(slides, "ArrowRight")
    assert number(slides) == at
    expect(shown.locator(".sd-mark")).to_be_visible()
    expect(shown.locator(".sd-right .sd-words")).to_contain_text("slower on the CPU")
    press(slides, "ArrowRight")
    assert number(slides) == at + 1
    expect(slides.locator("section.present")).to_have_attribute("data-kind", "answer")


@pytest.mark.nightly
def test_a_picture_in_focus_keeps_its_keys_and_the_pointer_points_where_it_is(written):
    """Pictures are shown at twice their size."""
    slides = written("l03_interleaving")
    shown = go_to(slides, "The post's example: two chunks of 3 tokens")
    at = number(slides)
    slides.keyboard.press("Tab")
    before = live(shown)
    press(slides, "ArrowRight")
    assert live(shown) != before
    press(slides, "Home")
    assert live(shown) == before
    press(slides, "Escape")
    press(slides, "ArrowRight")
    assert number(slides) == at + 1
    shown = go_to(slides, "The post's example, with a decode in row A")
    expect(shown.locator(".sd-more")).to_be_visible()  # it is taller than its slide
    at = number(slides)
    press(slides, "ArrowDown", 4)
    expect(shown.locator(".sd-more")).to_be_hidden()
    press(slides, "ArrowUp", 4)
    expect(shown.locator(".sd-more")).to_be_visible()
    assert number(slides) == at
    shown = go_to(slides, "One tensor for all rows: token above, position below")
    cell = shown.locator(".sn-scroll svg text", has_text=re.compile("^14$"))
    cell = at_rest(cell).bounding_box()
    slides.mouse.click(cell["x"] + cell["width"] / 2, cell["y"] + cell["height"] / 2)
    expect(shown.locator(".sn-bv-said")).to_contain_text("B (decode), row 1, column 7")


@pytest.mark.nightly
@pytest.mark.parametrize("stem", STEMS)
def test_slides_of_a_solved_lesson_can_be_read_from_the_back_row(stem, written):
    page = written(stem)
    found = {}
    for at in range(page.evaluate("deck.getTotalSlides()")):
        page.evaluate("(at) => deck.slide(at, 0, 9)", at)
        page.evaluate(JS["SLIDE_IS_DRAWN"])
        measured = at_rest(page).evaluate(JS["SLIDE_FAULTS"])
        if any(measured.values()):
            title = page.locator("section.present h1, section.present h2").inner_text()
            found[f"{at}: {title}"] = measured
    assert found == {}
