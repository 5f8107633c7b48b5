"""Chromium, and the real course opened by the real learn.py in a copy of the repository.

The copy lies in the repository's own `.browser-test/`, or in the home folder's cache when the
repository itself is in a temporary folder: marimo saves nothing there.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from driving import LIMIT_MS, Lesson
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support import CHROMIUM, ROOT, copy_course, find_program, lend_python

from course.launcher.doctor import is_temporary
from widgets.standalone import page as html_page

SAVED = (
    Path.home() / ".cache" / "serving-nanogpt-tests"
    if is_temporary(ROOT)
    else ROOT / ".browser-test"
)
expect.set_options(timeout=30_000)
# No name but this machine's can be looked up, so that nothing of a test leaves it.
ALONE = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, "
    "EXCLUDE *.localhost"
)


@dataclass(frozen=True, slots=True)
class CourseServer:
    """A running course: its folder, and the address of its first page with the token in it."""

    root: Path
    address: str

    @property
    def work(self) -> Path:
        """The learner's folder of this course."""
        return self.root / "work"

    @property
    def host(self) -> str:
        """The name under which the course was opened."""
        return urlsplit(self.address).hostname or ""

    def address_of(self, file: str) -> str:
        """Where a lesson's file opens, with the token."""
        return re.sub(r"file=index\.py(&view-as=present)?", f"file={file}", self.address)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window.

    Started for each module: while it runs, no other asyncio loop can run in this thread.
    """
    program = find_program(*CHROMIUM)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", ALONE]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open widgets in a page of their own; afterwards, no error and no request was seen."""
    contexts, noise, requests = [], [], []

    def opened(widgets: list, width: int = 1000, scheme: str = "light", **options: object) -> Page:
        viewport = {"width": width, "height": 900}
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        file = tmp_path / "widgets.html"
        file.write_text(html_page(widgets, "Widgets"), encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert noise == []
    assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []


@pytest.fixture(scope="module")
def mode() -> str:
    """How the course is opened: to be worked in. A module that only looks at it says "run"."""
    return "open"


@pytest.fixture(scope="module")
def course_server(chromium: Browser, mode: str) -> Iterator[CourseServer]:
    """A course of this module's own, opened as a newcomer opens it; stopped by its process id."""
    SAVED.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SAVED))
    copy_course(folder)
    lend_python(folder, sys.executable)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if k != "SERVING_NANOGPT_WORK"}
    process = subprocess.Popen(
        [sys.executable, "learn.py", mode, "--no-browser", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    try:
        yield CourseServer(folder, _address(process))
    finally:
        process.terminate()
        process.communicate(timeout=30)
        shutil.rmtree(folder)


def _address(process: subprocess.Popen[str]) -> str:
    said: list[str] = []
    assert process.stdout
    for line in process.stdout:
        said.append(line)
        found = re.search(r"http://\S+", line)
        if found:
            return found[0]
    pytest.fail(f"the course did not open: {''.join(said)}")


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What pages said on their console as errors, and the addresses of other machines asked."""
    return []


@pytest.fixture(autouse=True)
def nothing_complained(complaints: list[str]) -> Iterator[None]:
    """In no test does the console show an error or the page ask another machine for anything."""
    yield
    seen = complaints.copy()
    complaints.clear()
    assert seen == []


@pytest.fixture(scope="module")
def page(chromium: Browser, course_server: CourseServer, complaints: list[str]) -> Page:
    """A page of a laptop's size on the first page of the course, shared by the module's tests."""

    def saw(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("blob", "data") and parts.hostname != course_server.host:
            complaints.append(f"asked for {url}")

    page = chromium.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: saw(request.url))
    page.on("websocket", lambda socket: saw(socket.url))
    page.goto(course_server.address)
    expect(page.locator(".sng-map")).to_be_visible(timeout=LIMIT_MS)
    return page


@pytest.fixture(scope="module")
def open_lesson(page: Page) -> Callable[[str, int], Lesson]:
    """Opens a lesson by its link on the first page: `open_lesson("l01", 5)`, 5 cards of checks."""

    def follow(number: str, num_reports: int) -> Lesson:
        page.locator(f"h2 a[href*='file={number}_']").click()
        page.wait_for_url(f"**/?file={number}_*")
        opened = Lesson(page, number, num_reports)
        opened.wait_until_open()
        return opened

    return follow


@pytest.fixture(scope="module")
def lesson(open_lesson: Callable[[str, int], Lesson]) -> Lesson:
    """Lesson 1; a module of another lesson has a fixture of its own by this name."""
    return open_lesson("l01", 5)
