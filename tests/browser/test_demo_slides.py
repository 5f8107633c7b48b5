"""Slides in a real browser, by keyboard: a room's 1920 x 1080, the speaker's window, no network."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import LIMIT_MS, live, press, violations
from notebooks import STEMS, Notebooks
from playwright.sync_api import Browser, Page, expect
from support import ROOT

from course.demo.notes import notes_of
from course.demo.page import page as slides_page
from course.lesson_map import find_lesson

pytestmark = pytest.mark.browser
ROOM = {"width": 1920, "height": 1080}
# What of the slide shown leaves it, and every piece of its text that is smaller than 24 px. What a
# tall picture keeps below its frame is reached by scrolling the frame, which `unreached` watches.
MEASURE = """() => {
    const slide = deck.getCurrentSlide(), outside = [], small = [], unreached = [];
    const frame = slide.querySelector(".sd-picture");
    const room = slide.getBoundingClientRect();
    for (const each of slide.querySelectorAll("*")) {
        if (each.closest(".notes") || !each.checkVisibility({visibilityProperty: true})) continue;
        const at = each.getBoundingClientRect();
        if (at.width === 0 || (each.closest(".sn-scroll, svg") && each.tagName !== "svg")) continue;
        if (frame && frame !== each && frame.contains(each)) continue;
        if (at.right > room.right - 30 || at.bottom > room.bottom || at.left < room.left)
            outside.push(each.className || each.tagName);
        if (each.scrollWidth > each.clientWidth + 1 && !["visible", "clip"].includes(
            getComputedStyle(each).overflowX)) outside.push(`wide ${each.className}`);
    }
    const words = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
        const at = words.currentNode.parentElement, said = words.currentNode.textContent.trim();
        if (!said || at.closest(".notes")) continue;
        if (!at.checkVisibility({visibilityProperty: true})) continue;
        const svg = at.closest("svg"), drawn = svg?.viewBox.baseVal.width;
        const scale = drawn ? svg.getBoundingClientRect().width / drawn : at.currentCSSZoom;
        const px = parseFloat(getComputedStyle(at).fontSize) * scale;
        if (px < 23.9) small.push(`${said.slice(0, 30)}: ${px}`);
    }
    if (frame) {
        const rest = frame.scrollHeight - frame.clientHeight;
        const hint = slide.querySelector(".sd-more");
        if (hint.hidden !== rest < 4) unreached.push("the hint");
        if (frame.scrollWidth > frame.clientWidth) unreached.push("to the right");
    }
    return {outside, small, unreached};
}"""

# Resolves when the slide shown has been drawn, and drawn again at its size.
DRAWN = """() => new Promise((drawn) => {
    let frames = 4;
    const next = () => (--frames ? requestAnimationFrame(next) : setTimeout(drawn));
    next();
})"""


def open_slides(chromium: Browser, address: str, **options: object) -> tuple[Page, list[str]]:
    """A page of slides in a room, and what it complains of or asks for."""
    said: list[str] = []
    page = chromium.new_page(viewport=ROOM, **options)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    page.goto(address)
    page.wait_for_selector("html[data-ready]", timeout=LIMIT_MS)
    page.wait_for_function("deck.isReady()")
    return page, [each for each in said if not each.startswith(("data:", "blob:"))]


def go_to(page: Page, key: str) -> None:
    """Turn to the slide of this key."""
    page.evaluate(
        "(key) => deck.slide(deck.getSlides().findIndex((each) => each.dataset.key === key))", key
    )
    expect(page.locator("section.present")).to_have_attribute("data-key", key)


def number(page: Page) -> int:
    return page.evaluate("deck.getIndices().h")


def write_page(stem: str, notebooks: Notebooks, folder: Path) -> str:
    """The address of a lesson's slides as a file."""
    lesson = find_lesson(stem)
    file = folder / f"{stem}.html"
    file.write_text(slides_page(lesson, notebooks.solved(stem).slides, notes_of(lesson)))
    return file.as_uri()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("slides")


@pytest.fixture(scope="module")
def room(chromium: Browser, notebooks: Notebooks, folder: Path) -> Iterator[Page]:
    """The slides of lesson 3, opened from a file by a system that prefers dark."""
    address = write_page("l03_interleaving", notebooks, folder)
    page, said = open_slides(chromium, address, color_scheme="dark", offline=True)
    yield page
    page.close()
    assert [each for each in said if each != address] == []


@pytest.fixture
def slides(room: Page) -> Page:
    """The same, at its first slide, with nothing in focus."""
    room.evaluate("document.activeElement.blur(); deck.slide(0)")
    return room


def test_arrow_keys_turn_slides(slides: Page):
    expect(slides.locator("section.present h1")).to_have_text("3 · Interleaving")
    press(slides, "ArrowRight", 2)
    assert number(slides) == 2
    press(slides, "ArrowLeft")
    assert number(slides) == 1


def test_a_picture_in_focus_keeps_its_keys_and_escape_gives_them_back(slides: Page):
    go_to(slides, "The post's example: two chunks of 3 tokens")
    at = number(slides)
    slides.keyboard.press("Tab")
    before = live(slides.locator("section.present"))
    press(slides, "ArrowRight")
    assert live(slides.locator("section.present")) != before
    press(slides, "Home")
    assert live(slides.locator("section.present")) == before
    assert number(slides) == at
    press(slides, "Escape")
    press(slides, "ArrowRight")
    assert number(slides) == at + 1


def test_a_show_of_hands_is_counted_and_then_revealed(slides: Page):
    go_to(slides, "l03.fused_cost")
    at, shown = number(slides), slides.locator("section.present")
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


def test_the_arrows_down_and_up_move_a_picture_that_is_taller_than_its_slide(slides: Page):
    go_to(slides, "The post's example, with a decode in row A")
    shown = slides.locator("section.present")
    expect(shown.locator(".sd-more")).to_be_visible()
    at = number(slides)
    press(slides, "ArrowDown", 4)
    expect(shown.locator(".sd-more")).to_be_hidden()
    press(slides, "ArrowUp", 4)
    expect(shown.locator(".sd-more")).to_be_visible()
    assert number(slides) == at


def test_a_click_into_a_picture_points_where_it_was_made(slides: Page):
    """Pictures are shown at twice their size."""
    go_to(slides, "One tensor for all rows: token above, position below")
    shown = slides.locator("section.present")
    cell = shown.locator(".sn-scroll svg text", has_text=re.compile("^14$")).bounding_box()
    slides.mouse.click(cell["x"] + cell["width"] / 2, cell["y"] + cell["height"] / 2)
    expect(shown.locator(".sn-bv-said")).to_contain_text("B (decode), row 1, column 7")


def test_a_click_into_a_timeline_goes_to_the_step_under_it(slides: Page):
    go_to(slides, "Six requests, one forward per step")
    shown = slides.locator("section.present")
    number_of = shown.locator(".sn-tl-stage svg text", has_text=re.compile("^7$")).first
    at, stage = number_of.bounding_box(), shown.locator(".sn-tl-stage").bounding_box()
    slides.mouse.click(at["x"] + at["width"] / 2, stage["y"] + 160)
    expect(shown.locator(".sn-where")).to_contain_text("step 7")


def test_slides_are_light_whatever_the_system_prefers(slides: Page):
    go_to(slides, "One tensor for all rows: token above, position below")
    assert (
        slides.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert slides.locator("section.present .sn").get_attribute("data-theme") == "light"


def test_our_own_elements_break_no_rule_of_accessibility(slides: Page):
    kinds = slides.evaluate("[...new Set(deck.getSlides().map((each) => each.dataset.kind))]")
    assert sorted(kinds) == ["answer", "picture", "prose", "question", "task", "title"]
    for kind in kinds:
        slides.evaluate(
            "(kind) => deck.slide(deck.getSlides().findIndex((at) => at.dataset.kind === kind))",
            kind,
        )
        assert violations(slides, {"include": [["section.present"]]}) == [], kind


@pytest.mark.process
@pytest.mark.parametrize("stem", STEMS)
def test_slides_of_a_solved_lesson_can_be_read_from_the_back_row(
    stem: str, chromium: Browser, notebooks: Notebooks, folder: Path
):
    page, said = open_slides(chromium, write_page(stem, notebooks, folder))
    found = {}
    for at in range(page.evaluate("deck.getTotalSlides()")):
        page.evaluate("(at) => deck.slide(at, 0, 9)", at)
        page.evaluate(DRAWN)
        measured = page.evaluate(MEASURE)
        if any(measured.values()):
            found[
                f"{at}: {page.locator('section.present h1, section.present h2').inner_text()}"
            ] = measured
    page.close()
    assert found == {}
    assert said[1:] == []


def test_the_speakers_window_shows_notes_and_follows(chromium: Browser):
    """The real command; its window opens over http alone, where windows may talk."""
    command = [sys.executable, "-m", "course", "demo", "l02b", "--no-browser", "--port", "0"]
    served = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        address = next(found[0] for line in served.stdout if (found := re.search(r"http\S+", line)))
        page, _ = open_slides(chromium, address)
        go_to(page, "l02.tie")
        with page.expect_popup() as opened:
            page.keyboard.press("s")
        speaker = opened.value
        notes = speaker.locator(".speaker-controls-notes .value")
        expect(notes).to_contain_text("They will say:", timeout=LIMIT_MS)
        expect(notes).to_contain_text("2 min")
        expect(notes).to_contain_text("the long one goes from 47 to 135")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(notes).to_be_hidden()
        speaker.close()
        page.close()
        served.send_signal(signal.SIGINT)  # Ctrl-C
        served.communicate(timeout=30)
        assert served.returncode == 0
    finally:
        served.kill()
        served.communicate()
