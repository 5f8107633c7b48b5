"""Chromium, and the real course opened by the real learn.py in a copy of the repository.

The copy lies in the repository's own `.browser-test/`: marimo saves nothing below /tmp.
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

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from support import CHROMIUM, ROOT, copy_course, find_program, lend_python


@dataclass(frozen=True, slots=True)
class CourseServer:
    """A running course: its folder, and the address of its first page with the token in it."""

    root: Path
    address: str

    @property
    def work(self) -> Path:
        """The learner's folder of this course."""
        return self.root / "work"

    def url(self, name: str) -> str:
        """Return the address of a notebook in work/ ("l01_chunked_prefill.py")."""
        origin, _, query = self.address.partition("/?")
        return f"{origin}/?file={name}&{query.rpartition('&')[2]}"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    program = find_program(*CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def course_server(chromium: Browser) -> Iterator[CourseServer]:
    """A course of this module's own, opened as a newcomer opens it; stopped by its process id."""
    (ROOT / ".browser-test").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=ROOT / ".browser-test"))
    copy_course(folder)
    lend_python(folder, sys.executable)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "learn.py", "--no-browser", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "SERVING_NANOGPT_WORK"},
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


@pytest.fixture
def new_page(chromium: Browser, console_errors: list[str]) -> Iterator[Callable[..., Page]]:
    """A function that opens a page in a fresh profile: new_page(color_scheme="dark", ...)."""
    contexts = []

    def open_page(**options: object) -> Page:
        context = chromium.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: console_errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: console_errors.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    """A page of a laptop's size."""
    return new_page(viewport={"width": 1280, "height": 900})


@pytest.fixture
def console_errors() -> list[str]:
    """The errors that the test's pages reported."""
    return []
