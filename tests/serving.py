"""The real course, opened by the real learn.py in a copy of the repository, and its first page.

The copy lies in the repository's own `.browser-test/`, or in the home folder's cache when the
repository itself is in a temporary folder: marimo saves nothing there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from driving import Lesson, expect
from launching import free_port, started
from support import ROOT, copy_course, lend_python

from course.launcher.doctor import is_temporary

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

SAVED = (
    Path.home() / ".cache" / "serving-nanogpt-tests"
    if is_temporary(ROOT)
    else ROOT / ".browser-test"
)


A_PART = """
import pathlib, sys
from course.publish import site_files
pyodide, stems, out = sys.argv[1:]
site_files.LESSONS = [each for each in site_files.LESSONS if each.stem in stems.split()]
site_files.faults = lambda site: []  # the other lessons' pages are missing
site_files.write_site(pathlib.Path(out), pyodide=pathlib.Path(pyodide) if pyodide else None)
"""  # a site of some lessons


@contextlib.contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """A server of a folder's files; its address."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


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


@contextlib.contextmanager
def serve(mode: str) -> Iterator[CourseServer]:
    """A course opened as a newcomer opens it: mode "open" or "run"; stopped by its process id."""
    SAVED.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SAVED))
    copy_course(folder)
    lend_python(folder, sys.executable)
    command = [sys.executable, "learn.py", mode, "--no-browser", "--port", str(free_port())]
    environment = {k: v for k, v in os.environ.items() if k != "SERVING_NANOGPT_WORK"}
    try:
        with started(command, folder, env=environment) as (_, said):
            yield CourseServer(folder, re.findall(r"http://\S+", said)[0])
    finally:
        shutil.rmtree(folder)


def watch(page: Page, own: str, complaints: list[str]) -> None:
    """Note what the page logs as an error, and what it asks for of any machine but `own`.

    `own` is what its addresses begin with, without the scheme of one that is asked over a network.
    """

    def told(message: ConsoleMessage) -> None:
        where = message.location["url"] if message.text.startswith("Failed to load") else ""
        if message.type == "error":
            complaints.append(f"{message.text} {where}".rstrip())

    def asked(url: str) -> None:
        place = re.sub("^(https?|wss?)://", "", url)
        if not place.startswith((own, "blob:", "data:")):
            complaints.append(f"asked for {url}")

    def alerted(dialog: Dialog) -> None:
        if dialog.type != "beforeunload":
            complaints.append(dialog.message)
        dialog.accept()

    page.on("console", told)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", alerted)
    page.on("request", lambda request: asked(request.url))
    page.on("websocket", lambda socket: asked(socket.url))


@contextlib.contextmanager
def first_page(chromium: Browser, course: CourseServer, complaints: list[str]) -> Iterator[Page]:
    """A page of a laptop's size, which is watched, on the first page of the course."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    watch(page, course.host, complaints)
    page.goto(course.address)
    expect(page.locator(".sng-map")).to_be_visible()
    yield page
    page.close()


def open_lesson(page: Page, stem: str) -> Lesson:
    """A lesson, reached by its link on the first page, which is open."""
    page.locator(f"h2 a[href*='file={stem}']").click()
    page.wait_for_url(f"**/?file={stem}*")
    opened = Lesson(page, stem)
    opened.wait_until_open()
    return opened
