"""The templates of the site's pages, the slides and the moving picture."""

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from course.lesson_map import LESSONS, entries
from course.style import prose

_HERE = Path(__file__).parent


def render(template: str, **values: Any) -> str:
    """The text of a template; all values but Markup are escaped."""
    return _TEMPLATES.get_template(template).render(values)


def asset(name: str) -> str:
    """The text of a file in static/."""
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def highlighted(source: str) -> Markup:
    """Python as HTML with pygments' classes, as marimo's Markdown has them."""
    return Markup(highlight(source, PythonLexer(), HtmlFormatter(cssclass="codehilite")))


def _rich(text: str) -> Markup:
    html = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", prose(text))
    return Markup(html.replace("\n", "<br>"))


def _heading(html: str) -> Markup:
    """A heading that is HTML already, or a picture's or a prediction's text."""
    return Markup(html) if re.search(r"</(code|em|strong)>", html) else _rich(html)


def _inlined(name: str) -> Markup:
    return Markup(asset(name).replace("</script", "<\\/script"))


_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {"highlighted": highlighted, "rich": _rich, "heading": _heading}
_GLOBALS: dict[str, Any] = {
    "inlined": _inlined,
    "lessons": LESSONS,
    "num_exercises": sum(len(entries(each)) for each in LESSONS),
    "root": "",
    "drawings": [],
    "has_editors": False,
}
_TEMPLATES.globals.update(_GLOBALS)
