"""The live page of a server in Chromium, while clients stream from it."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from driving import assert_accessible_and_not_too_wide
from http_serving import LIMIT_S, Running, completion, engine, long_model, serving
from playwright.sync_api import Browser, Page, expect
from systems.test_server_load import read_all

pytestmark = pytest.mark.browser

Opened = Callable[..., AbstractContextManager[Page]]
WIDTHS = {"wide": 1100, "narrow": 390}


@pytest.fixture
def opened(chromium: Browser, complaints: list[str]) -> Opened:
    """Opens the page of a server; what it says as an error, or asks of others, is a complaint."""

    @contextmanager
    def page_of(running: Running, width: int = 1100, scheme: str = "light") -> Iterator[Page]:
        viewport = {"width": width, "height": 900}
        context = chromium.new_context(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()

        def saw(url: str) -> None:
            if not url.startswith((running.url, "data:")):
                complaints.append(f"asked for {url}")

        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: saw(request.url))
        page.goto(f"{running.url}/live")
        yield page
        context.close()  # before its server

    return page_of


@contextmanager
def load(running: Running, number: int = 8, tokens: int = 1500) -> Iterator[None]:
    """Clients that stream long texts meanwhile."""
    bodies = [completion(max_tokens=tokens, stream=True, seed=n) for n in range(number)]
    reading = threading.Thread(target=lambda: asyncio.run(read_all(running, bodies)))
    reading.start()
    yield
    reading.join(4 * LIMIT_S)
    assert not reading.is_alive()


def only(complaints: list[str], status: str) -> None:
    """Chromium itself notes each answer that is an error; there was nothing else."""
    assert complaints and all(f"status of {status}" in each for each in complaints)
    complaints.clear()


def test_a_load_is_seen_on_every_picture(opened: Opened):
    with serving(engine(long_model(), max_batch_size=6)) as running, opened(running) as page:
        expect(page.get_by_role("status")).to_have_text("connected")
        expect(page.locator("#timeline")).to_contain_text("No request is in flight.")
        with load(running):
            expect(page.locator("#words")).to_have_text(
                re.compile(r"^6 running, 2 waiting, [1-9]\d+ tokens/s, KV [1-9]\d? % full$")
            )
            timeline = page.locator("#timeline")
            expect(timeline).to_contain_text("waits")
            expect(timeline.locator("rect.decode").nth(100)).to_be_attached()
            expect(timeline.get_by_role("img")).to_have_attribute(
                "aria-label", re.compile(r"^8 requests over \d+ steps: #\d+ \d+/1500")
            )
            expect(page.locator("#kv .curve")).to_be_visible()
            expect(page.locator("#kv")).to_contain_text(" of 24576 KV tokens after step ")
            expect(page.locator("#rate")).to_contain_text(" now, at most ")
        running.wait_until_idle()
        expect(page.locator("#words")).to_have_text("0 running, 0 waiting, 0 tokens/s, KV 0 % full")
        expect(page.locator("#ttft")).to_contain_text(", of 8")
        expect(page.locator("#itl")).to_contain_text(f", of {8 * 1499}")
        page.get_by_role("button", name="Count anew").click()
        for kind in ("ttft", "itl"):
            expect(page.locator(f"#{kind}")).to_have_text("Nothing yet.")


def test_the_page_can_be_stopped_by_keyboard_and_a_lost_server_is_said(
    opened: Opened, complaints: list[str]
):
    with serving() as running, opened(running) as page:
        expect(page.get_by_role("status")).to_have_text("connected")
        page.keyboard.press("Tab")
        pause = page.get_by_role("button", name="Pause")
        expect(pause).to_be_focused()
        page.keyboard.press("Space")
        expect(page.get_by_role("status")).to_have_text("paused")
        expect(pause).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("Space")
        expect(page.get_by_role("status")).to_have_text("connected")
        page.route("**/live/state*", lambda route: route.fulfill(status=503))
        expect(page.get_by_role("status")).to_have_text("the server does not answer; asking again")
        page.unroute("**/live/state*")
        expect(page.get_by_role("status")).to_have_text("connected")
        only(complaints, "503")


def test_a_server_with_a_key_asks_for_it(opened: Opened, complaints: list[str]):
    with serving(api_key="open sesame") as running, opened(running) as page:
        box = page.get_by_label("API key of this server")
        expect(box).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("that is not this server's key")
        assert_accessible_and_not_too_wide(page)
        box.fill("open sesame")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("connected")
        expect(box).to_be_hidden()
        assert "sesame" not in page.content()
    only(complaints, "401")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_the_page_is_accessible_and_fits(opened: Opened, size: str, scheme: str):
    made = engine(long_model(), max_batch_size=6, block_size=16, share_prefixes=True)
    with (
        serving(made) as running,
        opened(running, WIDTHS[size], scheme) as page,
        load(running, 7, 800),
    ):
        expect(page.locator("#timeline rect.decode").nth(30)).to_be_attached()
        expect(page.locator("#kv")).to_contain_text("blocks in use")
        page.get_by_role("button", name="Pause").click()
        assert_accessible_and_not_too_wide(page)
