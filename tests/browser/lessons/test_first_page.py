"""The first page of the course, and what a page of another local server can reach: nothing."""

import contextlib
import re
from urllib.parse import urlsplit

import pytest
from driving import JS, expect, violations
from notebooks import STEMS
from serving import first_page, serve_folder

pytestmark = pytest.mark.browser

SOCKETS = {"/terminal/ws": "echo hello\r", "/ws?file=index.py&session_id=s_other1": ""}


def test_the_first_page_is_a_map_of_the_lessons_without_code(chromium, course_server, complaints):
    with first_page(chromium, course_server, complaints) as page:
        assert "access_token" not in page.url
        expect(page.get_by_role("heading", level=1)).to_have_text("Serving NanoGPT")
        expect(page.locator(".cm-editor:visible")).to_have_count(0)
        progress = re.compile(r"\d of \d+ exercises passed|done")
        assert page.locator(".sng-map li").count() == len(STEMS)
        for card in page.locator(".sng-map li").all():
            expect(card).to_contain_text(progress)
        expect(page.locator(".sng-next")).to_contain_text(progress)
        assert violations(page, ".sng-map") == []


@pytest.fixture
def other_port(tmp_path):
    """The port of another local server, with an empty page."""
    (tmp_path / "index.html").write_text("<title>other</title>")
    with serve_folder(tmp_path) as address:
        yield urlsplit(address).port


def test_a_page_of_another_port_reaches_nothing(chromium, course_server, other_port):
    """Not even where the learner opened the course by that very host, so that the cookie goes."""
    hosts = ("127.0.0.1", "localhost", course_server.host)
    port = urlsplit(course_server.address).port

    def ask(page, host):
        """What each of the course's websockets says to the page, asked for under a host's name."""
        asked = [[f"ws://{host}:{port}{path}", words] for path, words in SOCKETS.items()]
        return [page.evaluate(JS["SOCKET_SAYS"], each) for each in asked]

    with contextlib.closing(chromium.new_context()) as context:
        own = context.new_page()
        for host in hosts:
            own.goto(course_server.address.replace(course_server.host, host))
            own.wait_for_load_state("networkidle")
        assert ask(own, course_server.host) == ["message", "message"]
        for host in hosts:
            other = context.new_page()
            other.goto(f"http://{host}:{other_port}/")
            assert other.title() == "other"
            for target in hosts:
                assert ask(other, target) == ["closed", "closed"]
