"""Slides and notes as one HTML page that asks for nothing: reveal.js, pictures, styles are in it.

reveal.js 6.0.2 and its notes plugin lie beside this, as the npm package has them, under the MIT
licence (reveal/LICENSE).
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pygments.formatters import HtmlFormatter

from course.demo.notes import Note
from course.demo.slides import Slide
from course.lesson_map import Lesson
from course.style import prose
from widgets import standalone

_HERE = Path(__file__).parent
_SMALL = re.compile(r"(font(?:-size)?: ?[^;}]*?)\b(?:9|10|11)(?:\.\d+)?px")


def page(lesson: Lesson, slides: Sequence[Slide], notes: Mapping[str, Note]) -> str:
    """The whole page as text."""
    drawings = [slide.drawing for slide in slides if slide.drawing]
    places = {id(drawing): index for index, drawing in enumerate(drawings)}
    return (
        _templates()
        .get_template("deck.html")
        .render(
            lesson=lesson,
            slides=slides,
            notes=notes,
            place_of=lambda slide: places[id(slide.drawing)],
            styles=Markup(_readable(standalone.styles(drawings))),
            scripts=Markup(standalone.scripts(drawings)),
            listings=Markup(HtmlFormatter(style="friendly").get_style_defs(".codehilite")),
        )
    )


def _readable(styles: str) -> str:
    """Labels of pictures below 12 px become 12 px: a slide shows pictures at twice their size."""
    return _SMALL.sub(r"\g<1>12px", styles)


def _rich(text: str) -> Markup:
    """Words of a prediction: `code`, **bold** and line breaks."""
    html = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", prose(text))
    return Markup(html.replace("\n", "<br>"))


def _plain(html: str) -> Markup:
    """A heading of the lesson's own HTML as it is; one of a picture's or prediction's words."""
    return Markup(html) if re.search(r"</(code|em|strong)>", html) else _rich(html)


def _asset(name: str) -> Markup:
    """A script or a style that is the page's own; no script of ours holds "</script"."""
    return Markup((_HERE / name).read_text(encoding="utf-8").replace("</script", "<\\/script"))


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"rich": _rich, "heading": _plain, "html": Markup}
    values: dict[str, Any] = {"asset": _asset}
    found.globals.update(values)
    return found
