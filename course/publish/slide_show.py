"""`learn.py demo l03`: a lesson's slides as one HTML page, written to a file or served.

The page asks for nothing. In it are the pictures and reveal.js 6.0.2 with its notes plugin, as the
npm package has them, under the MIT licence (static/reveal/LICENSE).
"""

import re
import socket
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn
from markupsafe import Markup
from pygments.formatters import HtmlFormatter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from course.files import write_atomically
from course.lesson_map import Lesson
from course.publish.notebook_blocks import pristine_workspace, slide_blocks
from course.publish.page_templates import render
from course.publish.slide_notes import Note, notes_of
from course.publish.slides import Slide, slides
from widgets import standalone

_KEYS = (
    "Right and left turn slides, down and up move a tall picture, S opens your notes in a second "
    "window.\nTab goes into a picture, whose keys are then its own; Escape leaves it. "
)
_SMALL = re.compile(r"(font(?:-size)?: ?[^;}]*?)\b(?:9|10|11)(?:\.\d+)?px")


def slides_page(lesson: Lesson, shown: Sequence[Slide], notes: Mapping[str, Note]) -> str:
    """The whole page as text."""
    drawings = [slide.drawing for slide in shown if slide.drawing]
    # Labels of pictures below 12 px become 12 px: a slide shows pictures at twice their size.
    styles = _SMALL.sub(r"\g<1>12px", standalone.styles(drawings))
    return render(
        "deck.html",
        lesson=lesson,
        slides=shown,
        notes=notes,
        place_of=lambda slide: next(n for n, each in enumerate(drawings) if each is slide.drawing),
        styles=Markup(styles),
        scripts=Markup(standalone.scripts(drawings)),
        listings=Markup(HtmlFormatter(style="friendly").get_style_defs(".codehilite")),
    )


def _made(lesson: Lesson) -> str:
    notes = notes_of(lesson)  # first: the lesson takes seconds
    with pristine_workspace():
        return slides_page(lesson, slides(slide_blocks(lesson.stem)), notes)


def export_slides(lesson: Lesson, path: Path) -> int:
    """Write the page to a file. Raises: OSError, Failure."""
    write_atomically(path, _made(lesson).encode())
    _say(f"{path}: one file, which opens in any browser and needs no network.")
    return 0


def serve_slides(lesson: Lesson, port: int, *, browser: bool) -> int:
    """Serve the page to this machine until Ctrl-C. Raises: Failure."""
    listening = _listen(port)
    _say(f"Lesson {lesson.number} is run once, for its pictures: some seconds.")
    html = _made(lesson)

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
    """This port of 127.0.0.1, or a free one if it is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return socket.create_server(("127.0.0.1", 0))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
