"""Chromium, and a course of a module's own; the walk through the lessons shares one."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driving import Lesson
from playwright.sync_api import Browser, Page, expect, sync_playwright
from serving import CourseServer, first_page, serve
from support import CHROMIUM, ROOT, find_program

from widgets.standalone import page as html_page

expect.set_options(timeout=60_000)
# No name but this machine's can be looked up, so that nothing of a test leaves it.
ALONE = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, "
    "EXCLUDE *.localhost"
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window. Its asyncio loop is the only one in this thread."""
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


@pytest.fixture(scope="session", autouse=True)
def site_on_its_way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[str], Path] | None]:
    """The course as a site, written beside the other tests if one of the session's asks for it."""
    if not any("site" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    out = tmp_path_factory.mktemp("site") / "out"
    command = ["nice", sys.executable, "-m", "course", "site", str(out)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as writing:
        yield writing, out
        writing.kill()


@pytest.fixture(scope="session")
def site(site_on_its_way: tuple[subprocess.Popen[str], Path]) -> Path:
    """The folder of the finished site."""
    writing, out = site_on_its_way
    said, _ = writing.communicate(timeout=600)
    assert writing.returncode == 0, said
    return out


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
