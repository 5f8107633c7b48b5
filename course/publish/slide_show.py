"""`learn.py demo l03`: a lesson's slides as one HTML page, written to a file or served.

The page asks for nothing. In it are the pictures and reveal.js 6.0.2 with its notes plugin, as the
npm package has them, under the MIT licence (static/reveal/LICENSE).

The speaker's notes say for each slide that asks what to ask, what will be answered, and minutes. A
lesson's notes are one file, notes/STEM.toml. A table there is filed under the slide's key: a
prediction's key, a picture's title, a section's heading or an exercise's id.
"""

import re
import socket
import tomllib
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import uvicorn
from markupsafe import Markup
from pygments.formatters import HtmlFormatter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from course.exercise import Exercise
from course.files import write_atomically
from course.launcher.failure import Failure
from course.lesson_map import Lesson
from course.publish.notebook_blocks import pristine_workspace, slide_blocks
from course.publish.page_templates import render
from course.publish.slides import Slide, slides
from course.registry import lesson_exercises
from widgets import standalone

_KEYS = (
    "Right and left turn slides, down and up move what is taller than its slide, S opens your "
    "notes in a second window.\nTab goes into a picture, whose keys are then its own; Escape "
    "leaves it. "
)
_SMALL = re.compile(r"(font(?:-size)?: ?[^;}]*?)\b(?:9|10|11)(?:\.\d+)?px")

FOLDER = Path(__file__).parent / "notes"
_MOST_BELIEFS = 4


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Notes: what to `ask`, which answers to `expect`, what to do `then`; any may be empty.

    `minutes` are for the slide, with those that follow without a note.
    """

    minutes: Annotated[int, msgspec.Meta(ge=0)]
    ask: str = ""
    expect: tuple[str, ...] = ()
    then: str = ""


def notes_of(lesson: Lesson) -> dict[str, Note]:
    """The lesson's notes by the keys of their slides; every exercise has one. Raises: Failure."""
    path = FOLDER / f"{lesson.stem}.toml"
    key = "the file"
    found: dict[str, Note] = {}
    try:
        for key, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found[key] = msgspec.convert(table, Note)
    except (OSError, ValueError) as error:
        raise Failure(f"{path.name}: {key!r} cannot be read: {error}") from None
    for item in lesson_exercises(lesson.stem):
        found[item.id] = _exercise_note(item, found.get(item.id, Note(0)))
    return found


def _exercise_note(item: Exercise, own: Note) -> Note:
    """A note with the exercise's minutes, its first beliefs and its first hint."""
    beliefs = tuple(each.belief for each in item.misconceptions[:_MOST_BELIEFS])
    return Note(
        minutes=item.minutes,
        ask=own.ask or "Read the contract aloud and work the example by hand; then let them write.",
        expect=own.expect or beliefs,
        then=own.then or f"When they are stuck: {item.hints[0]}",
    )


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
    print(f"{path}: one file, which opens in any browser and needs no network.", flush=True)
    return 0


def serve_slides(lesson: Lesson, port: int, *, browser: bool) -> int:
    """Serve the page to this machine until Ctrl-C. Raises: Failure."""
    listening = _listen(port)
    print(f"Lesson {lesson.number} is run once, for its pictures: some seconds.", flush=True)
    html = _made(lesson)

    def shown(_: Request) -> HTMLResponse:
        return HTMLResponse(html)

    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    config = uvicorn.Config(
        Starlette(routes=[Route("/", shown)]), log_level="warning", server_header=False
    )
    print(f"\n  {address}\n\n{_KEYS}Stop with Ctrl-C.", flush=True)
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
