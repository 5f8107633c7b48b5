"""The files that all pages share, each once: scripts, styles, data, and the search's index."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pygments.formatters import HtmlFormatter

from course.site.blocks import Drawing
from course.site.pages import Page
from course.style import themed
from widgets import assets
from widgets.standalone import KERNEL

_STATIC = Path(__file__).parent / "static"


def write_assets(folder: Path, pages: Iterable[Page]) -> None:
    """Everything under `folder`/assets/ and `folder`/data/."""
    shared, data = folder / "assets", folder / "data"
    shared.mkdir()
    data.mkdir()
    pages = list(pages)
    sections = [each for page in pages for each in _searched(page)]
    files = {
        "site.js": f"{KERNEL}\n{_read('site.js')}",
        "widgets.js": _leave(
            "modules", {each.stem: each.read_text("utf-8") for each in assets.scripts()}
        ),
        "search-index.js": _leave("sections", sections),
        "site.css": f"{themed('site')}\n{_read('site.css')}\n{_highlighting()}",
        "widgets.css": assets.every_style(),
        "cards.css": "\n".join(dict.fromkeys(css for page in pages for css in page.styles)),
        "icon.svg": _read("icon.svg"),
    }
    for name, text in files.items():
        (shared / name).write_text(text, encoding="utf-8")
    for drawing in [each for page in pages for each in page.drawings]:
        write_state(data, drawing)


def write_state(data: Path, drawing: Drawing) -> None:
    """What a widget draws, for all pages that show it."""
    text = f"course.states[{json.dumps(drawing.id)}] = {_script_json(drawing.state)};\n"
    (data / f"{drawing.id}.js").write_text(text, encoding="utf-8")


def _leave(name: str, value: Any) -> str:
    """A script that leaves a value where site.js looks for it."""
    return f"course.{name} = {_script_json(value)};\n"


def _script_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _searched(page: Page) -> list[dict[str, str]]:
    return [
        {
            "page": page.title,
            "heading": each.heading,
            "address": f"{page.stem}.html" + (f"#{each.id}" if each.id else ""),
            "text": each.text,
        }
        for each in page.sections()
    ]


def _highlighting() -> str:
    """Pygments' colours for both themes, under the names that the pages' classes have."""
    light = HtmlFormatter(style="default").get_style_defs(".codehilite")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".dark .codehilite")
    by_system = HtmlFormatter(style="github-dark").get_style_defs(":root:not(.light) .codehilite")
    comments = ".codehilite :is(.c, .c1, .ch, .cm) { color: var(--sng-soft); }"
    return f"{light}\n{comments}\n{dark}\n@media (prefers-color-scheme: dark) {{\n{by_system}\n}}\n"


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
