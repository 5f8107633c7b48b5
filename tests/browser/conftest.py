"""Chromium, and a course of a module's own; what opens lessons shares one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serving import CourseServer, first_page, open_lesson, serve, watch
from support import CHROMIUM, find_program

if TYPE_CHECKING:
    from driving import Lesson
    from playwright.sync_api import Browser, Page

# No name but this machine's can be looked up, so that nothing of a test leaves it.
ALONE = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, "
    "EXCLUDE *.localhost"
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window. Its asyncio loop is the only one in this thread."""
    from playwright.sync_api import sync_playwright

    program = find_program(*CHROMIUM)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", ALONE]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser, complaints: list[str]) -> Iterator[Callable[..., Page]]:
    """Opens an address in a page of its own, which is watched.

    `own` is what the addresses that it may ask for begin with, without "http://".
    """
    contexts = []

    def opened(address: str, own: str = "file:", width: int = 1000, **options: object) -> Page:
        options = {"viewport": {"width": width, "height": 900}, "color_scheme": "light", **options}
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        watch(page, own, complaints)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def show(visit: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """Opens widgets in a page of their own: the list of them, and options of `visit`."""
    from widgets.standalone import page as html_page

    def opened(widgets: list, **options: object) -> Page:
        file = tmp_path / "widgets.html"
        file.write_text(html_page(widgets, "Widgets"), encoding="utf-8")
        page = visit(file.as_uri(), **options)
        page.wait_for_selector("html[data-ready]")
        return page

    return opened


@pytest.fixture(scope="module")
def mode() -> str:
    """How the course is opened: to be worked in. A module that only looks at it says "run"."""
    return "open"


@pytest.fixture(scope="module")
def course_server(chromium: Browser, mode: str) -> Iterator[CourseServer]:
    """A course of this module's own."""
    with serve(mode) as course:
        yield course


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What pages said on their console as errors, and the addresses of other machines asked."""
    return []


@pytest.fixture(autouse=True)
def nothing_complained(request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[None]:
    """In no test does the console show an error or the page ask another machine for anything."""
    yield
    seen = complaints.copy()
    complaints.clear()
    log = ""
    if seen and "course_server" in request.fixturenames:
        file = request.getfixturevalue("course_server").work / "server.log"
        log = file.read_text(encoding="utf-8", errors="replace")[-5000:]
    assert seen == [], f"{seen}\n{log}"


@pytest.fixture(scope="module")
def page(chromium: Browser, course_server: CourseServer, complaints: list[str]) -> Iterator[Page]:
    """The first page of the course, shared by the module's tests."""
    with first_page(chromium, course_server, complaints) as page:
        yield page


@pytest.fixture(scope="module")
def lesson(page: Page) -> Lesson:
    """Lesson 1, reached by its link on the first page."""
    return open_lesson(page, "l01_chunked_prefill")
