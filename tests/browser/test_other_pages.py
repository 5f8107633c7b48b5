"""What a page of another local server can reach with the learner's cookie: nothing."""

import contextlib
import functools
import http.server
import threading
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.browser

# Whether a websocket says anything: "message", or "closed" without a word.
ASK = """([address, words]) => new Promise((answer) => {
    const socket = new WebSocket(address);
    socket.onopen = () => words && socket.send(words);
    socket.onmessage = () => { answer("message"); socket.close(); };
    socket.onclose = () => answer("closed");
})"""
SOCKETS = {
    "/terminal/ws": "echo hello\r",
    "/ws?file=index.py&session_id=s_other1": "",
}
HOSTS = ["127.0.0.1", "localhost", "the course's own"]


@pytest.fixture(scope="module")
def other_port(tmp_path_factory):
    """The port of another local server, with an empty page."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "index.html").write_text("<title>other</title>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def opened(chromium, course_server):
    """A browser in which the course was opened by each of its hosts, its own name last."""
    with contextlib.closing(chromium.new_context()) as context:
        page = context.new_page()
        for host in HOSTS:
            page.goto(course_server.address.replace(course_server.host, named(host, course_server)))
            page.wait_for_load_state("networkidle")
        yield page


def named(host, course_server):
    return course_server.host if host == HOSTS[-1] else host


def ask(page, host, course_server):
    """What each of the course's websockets says to the page, asked for under a host's name."""
    port = urlsplit(course_server.address).port
    asked = [[f"ws://{host}:{port}{path}", words] for path, words in SOCKETS.items()]
    return [page.evaluate(ASK, each) for each in asked]


def test_the_courses_own_page_reaches_its_server(opened, course_server):
    assert ask(opened, course_server.host, course_server) == ["message", "message"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_page_of_another_port_reaches_nothing(opened, course_server, other_port, host):
    """Not even where the learner opened the course by that very host, so that the cookie goes."""
    other = opened.context.new_page()
    other.goto(f"http://{named(host, course_server)}:{other_port}/")
    assert other.title() == "other"
    for target in ("127.0.0.1", "localhost", course_server.host):
        assert ask(other, target, course_server) == ["closed", "closed"]
    other.close()
