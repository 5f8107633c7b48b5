"""The live demo in Chromium: a projector and three phones, served by the real command."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from driving import JS, assert_accessible_and_not_too_wide, at_rest, expect, violations
from launching import started
from serving import watch
from support import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 844}
PROJECTOR = {"width": 1920, "height": 1080}


@dataclass(frozen=True, slots=True)
class Hall:
    """A demo with its projector and three phones, and the address that the phones go to."""

    screen: Page
    phones: tuple[Page, ...]
    address: str


@pytest.fixture(scope="module")
def hall(chromium: Browser, complaints: list[str]) -> Iterator[Hall]:
    """The real command, open on all four."""
    command = [sys.executable, "-m", "course", "demo", "live", "--no-browser", "--port", "0"]
    with started(command, ROOT, "--host") as (process, said), contextlib.ExitStack() as stack:
        screens, phones = re.findall(r"http://\S+", said)[:2]
        code = re.search(r"Room code: +(\w+)", said)[1]

        def opened(size: dict[str, int], address: str) -> Page:
            context = chromium.new_context(viewport=size, color_scheme="light")
            stack.callback(context.close)
            page = context.new_page()
            watch(page, urlsplit(phones).netloc, complaints)
            page.goto(address)
            return page

        screen = opened(PROJECTOR, screens)
        expect(screen.get_by_role("dialog", name="Come in")).to_contain_text(code)
        screen.keyboard.press("Escape")
        expect(screen.get_by_role("dialog")).to_have_count(0)
        scanned = [opened(PHONE, f"{phones}#{code}") for _ in range(2)]
        typed = opened(PHONE, phones)
        typed.get_by_label("Room code").fill(code.lower())
        typed.keyboard.press("Enter")
        expect(screen.locator("#standing")).to_contain_text("3 here")
        assert screen.url == screens.partition("#")[0]  # without its token
        yield Hall(screen, (*scanned, typed), phones)
        stack.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def ask(phone: Page, text: str) -> Locator:
    """Send a prompt by keyboard; its card."""
    box = phone.get_by_label("Your prompt")
    box.fill(text)
    while box.input_value():  # until its rate allows one more
        box.press("Tab")
        phone.keyboard.press("Enter")
        with contextlib.suppress(AssertionError):
            expect(box).to_have_value("", timeout=1000)
    card = phone.locator("#mine article").first
    expect(card.locator(".prompt")).to_have_text(text)
    return card


def press(hall: Hall, name: str) -> None:
    hall.screen.get_by_role("button", name=name, exact=True).click()


def pace(hall: Hall, ms: int) -> None:
    """Move the slider, as an arrow key or a finger would."""
    press(hall, "Settings")
    slider = hall.screen.get_by_label("Step every, ms")
    slider.fill(str(ms))
    slider.dispatch_event("change")
    press(hall, "Settings")


def said(hall: Hall) -> Locator:
    return hall.screen.locator("#event")


def empty(hall: Hall) -> None:
    """Wait until nothing is left to serve."""
    expect(hall.screen.locator("#standing")).to_contain_text("0 run, 0 wait")


def test_prompts_stream_to_their_phones_and_the_screen_shows_the_schedule(hall: Hall):
    assert [phone.url for phone in hall.phones] == [hall.address] * 3  # without the code
    pace(hall, 50)
    cards = [ask(phone, f"{name}:\n") for phone, name in zip(hall.phones, "ABC", strict=True)]
    for card in cards:
        expect(card.locator(".badge")).to_have_text("done")
        expect(card).to_contain_text("Done: 32 tokens, the first after")
        assert len(card.locator(".text").inner_text()) >= 32
    screen = hall.screen
    expect(screen.locator("#connection")).to_have_text("connected")
    expect(screen.locator("#kv .curve")).to_be_visible()
    expect(screen.locator("#kv")).to_contain_text("of 640 KV tokens")
    expect(screen.locator("#ttft")).to_contain_text(", of 3")
    expect(hall.phones[0].locator("#others article")).to_have_count(2)
    empty(hall)


@pytest.mark.nightly
def test_what_cannot_be_served_gets_a_sentence_and_is_shown_as_text(hall: Hall):
    phone = hall.phones[0]
    phone.get_by_label("Your prompt").fill("<img src=x onerror=alert(1)>")
    phone.get_by_role("button", name="Send").click()
    expect(phone.get_by_role("alert")).to_contain_text("The model has never seen “<”")
    assert phone.locator("img").count() == 0
    expect(phone.locator("#left")).to_contain_text("28 of 120 characters")


@pytest.mark.nightly
def test_one_click_each_shows_what_an_engine_lives_through(hall: Hall):
    pace(hall, 50)
    for phone in hall.phones:
        ask(phone, "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name")
    for _ in range(2):
        press(hall, "A long prompt arrives")
        expect(said(hall)).to_contain_text("A prompt of 252 tokens arrives: request")
    press(hall, "The KV budget halves")
    expect(said(hall)).to_contain_text("The KV budget is now 320.")
    press(hall, "The KV budget halves")
    expect(said(hall)).to_have_text("The KV budget is 320, its least: less holds no long prompt.")
    expect(hall.screen.locator("#queue")).to_contain_text("Waiting, the first to start first: #")
    press(hall, "An urgent request")
    expect(said(hall)).to_contain_text("An urgent request arrives: request")
    press(hall, "Kill the engine")
    expect(said(hall)).to_contain_text("The engine is gone with all K/V; the texts of requests")
    expect(hall.screen.locator("#timeline .again").first).to_be_attached()
    for phone in hall.phones:
        expect(phone.locator("#mine .badge").first).to_have_text("done")
    empty(hall)


@pytest.mark.nightly
def test_the_instructor_pauses_and_steps_by_keyboard_and_hears_each_step(hall: Hall):
    screen = hall.screen
    screen.get_by_role("button", name="Pause", exact=True).focus()
    screen.keyboard.press("Enter")
    expect(screen.locator("#standing")).to_contain_text("paused")
    ask(hall.phones[0], "To be, or not to be")
    screen.keyboard.press("ArrowRight")
    expect(screen.get_by_role("button", name="One step")).to_be_focused()
    words = screen.locator("#step")
    expect(words).to_have_attribute("aria-live", "polite")
    screen.keyboard.press("Enter")
    expect(words).to_contain_text("prefills 19 tokens")
    screen.keyboard.press("Enter")
    expect(words).to_contain_text("decodes 1 token")
    screen.keyboard.press("ArrowLeft")
    screen.keyboard.press("Enter")
    empty(hall)


@pytest.mark.nightly
def test_hidden_texts_are_hidden_from_others_alone_and_a_reload_finds_them(hall: Hall):
    press(hall, "Hide texts")
    ask(hall.phones[0], "Fie on thee")
    seen = hall.phones[1].locator("#others article").first
    expect(seen.locator(".text")).to_have_text("hidden")
    expect(hall.screen.locator("#newest .text").first).to_have_text("hidden")
    hall.phones[0].reload()
    expect(hall.phones[0].locator("#mine article .prompt").first).to_have_text("Fie on thee")
    press(hall, "Show texts")
    expect(seen.locator(".prompt")).to_have_text("Fie on thee")
    empty(hall)


def test_both_pages_are_accessible_and_the_screen_is_for_the_back_row(hall: Hall):
    press(hall, "A long prompt arrives")
    ask(hall.phones[0], "To be, or not to be")
    expect(hall.screen.locator("#timeline .decode").first).to_be_visible()
    for scheme in ("light", "dark"):
        hall.screen.emulate_media(color_scheme=scheme)
        hall.phones[0].emulate_media(color_scheme=scheme)
        assert_accessible_and_not_too_wide(hall.phones[0])
        for _ in range(2):  # with the settings open, and without
            press(hall, "Settings")
            assert violations(hall.screen) == []
            assert at_rest(hall.screen).evaluate(JS["SMALL_TEXTS"]) == []
    wide = at_rest(hall.screen).evaluate("[scrollX, document.documentElement.scrollWidth]")
    assert wide == [0, 1920]
    empty(hall)
