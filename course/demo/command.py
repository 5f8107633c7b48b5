"""`learn.py demo l03`: write a lesson's slides to one file, or serve them on this machine."""

import socket
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from course.demo.collecting import collect
from course.demo.notes import notes_of
from course.demo.page import page
from course.demo.slides import slides
from course.files import write_atomically
from course.lesson_map import Lesson

_KEYS = (
    "Right and left turn slides, down and up move a tall picture, S opens your notes in a second "
    "window.\nTab goes into a picture, whose keys are then its own; Escape leaves it. "
)


def made(lesson: Lesson) -> str:
    """The lesson's slides with their notes, as one HTML page. Raises: NotesError."""
    notes = notes_of(lesson)  # first: the lesson takes seconds
    return page(lesson, slides(collect(lesson)), notes)


def export_slides(lesson: Lesson, path: Path) -> int:
    """Write the page to a file. Raises: OSError."""
    write_atomically(path, made(lesson).encode())
    _say(f"{path}: one file, which opens in any browser and needs no network.")
    return 0


def serve_slides(lesson: Lesson, port: int, *, browser: bool) -> int:
    """Serve the page to this machine until Ctrl-C."""
    listening = _listen(port)
    _say(f"Lesson {lesson.number} is run once, for its pictures: some seconds.")
    html = made(lesson)

    def shown(_: Request) -> HTMLResponse:
        return HTMLResponse(html)

    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    config = uvicorn.Config(
        Starlette(routes=[Route("/", shown)]), log_level="warning", server_header=False
    )
    _say(f"\n  {address}\n\n{_KEYS}Stop with Ctrl-C.")
    if browser:
        webbrowser.open(address)  # waits for the answer: the socket listens already
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listening])
    return 0


def _listen(port: int) -> socket.socket:
    """The wanted port of this machine alone, or else a free one."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return socket.create_server(("127.0.0.1", 0))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
