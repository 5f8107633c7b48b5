"""The live page of a server in Chromium, while clients stream from it."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from driving import assert_accessible_and_not_too_wide, expect

pytestmark = pytest.mark.browser


@contextmanager
def served(**settings):
    """A server of an engine with six places, or with these settings of its own."""
    from http_serving import engine, long_model, serving

    sizes = {"max_batch_size": 6, "block_size": 16, "share_prefixes": True}
    with serving(engine(long_model(), **sizes), **settings) as running:
        yield running


@contextmanager
def load(running, number=8, tokens=1500):
    """Clients that stream long texts meanwhile."""
    from http_serving import completion

    bodies = [completion(max_tokens=tokens, stream=True, seed=n) for n in range(number)]
    with ThreadPoolExecutor(number) as clients:
        texts = [clients.submit(running.post, "/v1/completions", body) for body in bodies]
        yield
        assert all("[DONE]" in each.result().text for each in texts)


def only(complaints, status):
    """Chromium itself notes each answer that is an error; there was nothing else."""
    assert complaints and all(f"status of {status}" in each for each in complaints)
    complaints.clear()


def test_a_load_is_seen_on_every_picture_by_everyone(visit):
    with served() as running:
        page = visit(f"{running.url}/live", running.url.removeprefix("http://"))
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
            expect(page.locator("#kv")).to_contain_text("blocks in use")
            expect(page.locator("#rate")).to_contain_text(" now, at most ")
            assert_accessible_and_not_too_wide(page)
            page.set_viewport_size({"width": 390, "height": 900})
            page.emulate_media(color_scheme="dark")
            assert_accessible_and_not_too_wide(page)
        running.wait_until_idle()
        expect(page.locator("#words")).to_have_text(re.compile("^0 running, 0 waiting, 0 tokens/s"))
        expect(page.locator("#ttft")).to_contain_text(", of 8")
        expect(page.locator("#itl")).to_contain_text(f", of {8 * 1499}")
        page.get_by_role("button", name="Count anew").click()
        for kind in ("ttft", "itl"):
            expect(page.locator(f"#{kind}")).to_have_text("Nothing yet.")
        page.context.close()  # before its server


@pytest.mark.nightly
def test_the_page_can_be_stopped_by_keyboard_and_a_lost_server_is_said(visit, complaints):
    with served() as running:
        page = visit(f"{running.url}/live", running.url.removeprefix("http://"))
        status = page.get_by_role("status")
        expect(status).to_have_text("connected")
        page.keyboard.press("Tab")
        pause = page.get_by_role("button", name="Pause")
        expect(pause).to_be_focused()
        page.keyboard.press("Space")
        expect(status).to_have_text("paused")
        expect(pause).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("Space")
        page.route("**/live/state*", lambda route: route.fulfill(status=503))
        expect(status).to_have_text("the server does not answer; asking again")
        page.unroute("**/live/state*")
        expect(status).to_have_text("connected")
        only(complaints, "503")
        page.context.close()


@pytest.mark.nightly
def test_a_server_with_a_key_asks_for_it(visit, complaints):
    with served(api_key="open sesame") as running:
        page = visit(f"{running.url}/live", running.url.removeprefix("http://"))
        box, status = page.get_by_label("API key of this server"), page.get_by_role("status")
        expect(box).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(status).to_have_text("that is not this server's key")
        box.fill("open sesame")
        page.keyboard.press("Enter")
        expect(status).to_have_text("connected")
        expect(box).to_be_hidden()
        assert "sesame" not in page.content()
        page.context.close()
    only(complaints, "401")
