"""`learn.py site OUT`: runs every lesson once and writes the site."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pygments.formatters import HtmlFormatter

from course.launcher.failure import Failure
from course.lesson_map import LESSONS
from course.publish import showcase, site_pages
from course.publish.html_reading import faults
from course.publish.notebook_blocks import Reader, pristine_workspace, site_blocks
from course.publish.page_templates import asset
from course.publish.replay_svg import FILE as REPLAY
from course.publish.site_pages import Page
from course.style import themed
from course.tab import site_part
from widgets import assets
from widgets.standalone import KERNEL

_OURS = Path("assets") / "search-index.js"


def write_site(out: Path, *, solutions: bool = False, pyodide: Path | None = None) -> int:
    """Write the site to `out`, whole or not at all; returns the exit status.

    A folder that holds something else is left alone. With `solutions`, every exercise's worked
    answer is on its page. With `pyodide`, the folder of that npm package, exercises have editors.
    Raises: Failure; what a lesson raises.
    """
    if out.exists() and not (out / _OURS).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise Failure(f"{out} is there already and is no site: name another folder.")
    if pyodide:
        site_part.check_package(pyodide)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        made = Path(folder) / "site"
        made.mkdir()
        with pristine_workspace():
            pages, home = _read_lessons(solutions=solutions), _home()
        if pyodide:
            site_part.write(made, pyodide)
            for page in [*pages, home]:
                page.add_editors()
        _write_pages(made, pages, home)
        _write_assets(made, [*pages, home])
        if found := faults(made):
            raise Failure("; ".join(found))
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    print(f"The site is in {out}: open {out / 'index.html'}", flush=True)
    return 0


def _read_lessons(*, solutions: bool) -> list[Page]:
    titles = {each.stem: f"{each.number} · {each.title}" for each in LESSONS}
    found: list[Page] = []
    for stem, title in {**titles, "glossary": "Glossary"}.items():
        print(f"Running {title}", flush=True)
        found.append(Page(stem, title, site_blocks(stem, solutions=solutions)))
    return found


def _home() -> Page:
    reader = Reader("home")
    for shown in (showcase.prediction(), showcase.timeline(), showcase.report(showcase.WRONG)):
        reader.output(shown)
    return Page("index", "Serving NanoGPT", reader.blocks)


def _write_pages(folder: Path, pages: Sequence[Page], home: Page) -> None:
    lessons = {each.stem: each for each in LESSONS}
    by_lesson = [(lessons[page.stem], page) for page in pages if page.stem in lessons]
    (folder / "steppers").mkdir()
    files = {f"{page.stem}.html": site_pages.lesson_page(page) for page in pages}
    files |= {
        f"steppers/{drawing.id}.html": site_pages.stepper_page(lesson, page, drawing)
        for lesson, page in by_lesson
        for drawing in page.steppers
    }
    listed = [(lesson, page.steppers) for lesson, page in by_lesson]
    files["steppers.html"] = site_pages.steppers_page(listed)
    replay = REPLAY.read_text("utf-8")
    files["index.html"] = site_pages.home_page(home, showcase.WRONG, replay, pages)
    for name, html in files.items():
        (folder / name).write_text(html, encoding="utf-8")


def _write_assets(folder: Path, pages: Sequence[Page]) -> None:
    """Write what pages share, each once: scripts, styles, widgets' states, the search's index."""
    (folder / "assets").mkdir()
    (folder / "data").mkdir()
    modules = {each.stem: each.read_text("utf-8") for each in assets.scripts()}
    sections = [
        {
            "page": page.title,
            "heading": each.heading,
            "address": f"{page.stem}.html" + (f"#{each.id}" if each.id else ""),
            "text": each.text,
        }
        for page in pages
        for each in page.sections()
    ]
    files = {
        "assets/site.js": f"{KERNEL}\n{asset('site.js')}",
        "assets/widgets.js": f"course.modules = {_script_json(modules)};\n",
        "assets/search-index.js": f"course.sections = {_script_json(sections)};\n",
        "assets/site.css": f"{themed('site')}\n{asset('site.css')}\n{_highlighting()}",
        "assets/widgets.css": assets.every_style(),
        "assets/cards.css": "\n".join(dict.fromkeys(css for page in pages for css in page.styles)),
        "assets/icon.svg": asset("icon.svg"),
    }
    for drawing in [each for page in pages for each in page.drawings]:
        state = f"course.states[{json.dumps(drawing.id)}] = {_script_json(drawing.state)};\n"
        files[f"data/{drawing.id}.js"] = state
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _script_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _highlighting() -> str:
    """Pygments' colours for both themes, under the names that the pages' classes have."""
    light = HtmlFormatter(style="default").get_style_defs(".codehilite")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".dark .codehilite")
    by_system = HtmlFormatter(style="github-dark").get_style_defs(":root:not(.light) .codehilite")
    comments = ".codehilite :is(.c, .c1, .ch, .cm) { color: var(--sng-soft); }"
    return f"{light}\n{comments}\n{dark}\n@media (prefers-color-scheme: dark) {{\n{by_system}\n}}\n"
