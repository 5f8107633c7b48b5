"""`learn.py site OUT`: runs every lesson once and writes the site."""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from course.lesson_map import LESSONS
from course.newcomer import newcomer
from course.site import pages, showcase
from course.site.assets import write_assets
from course.site.blocks import Drawing
from course.site.links import faults
from course.site.pages import Page
from course.site.replay_svg import FILE as REPLAY
from course.site.visiting import visit
from widgets.standalone import state

_OURS = Path("assets") / "search-index.js"


class SiteError(Exception):
    """One sentence about why there is no site."""


def write_site(out: Path, *, solutions: bool = False) -> int:
    """Write the site to `out`, whole or not at all; returns the exit status.

    A folder that holds something else is left alone. With `solutions`, every exercise's worked
    answer is on its page.
    Raises: SiteError; what a lesson raises.
    """
    if out.exists() and not (out / _OURS).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise SiteError(f"{out} is there already and is no site: name another folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        made = Path(folder) / "site"
        made.mkdir()
        _write(made, _read_lessons(solutions=solutions))
        if found := faults(made):
            raise SiteError("; ".join(found))
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    _say(f"The site is in {out}: open {out / 'index.html'}")
    return 0


def _read_lessons(*, solutions: bool) -> list[Page]:
    titles = {each.stem: f"{each.number} · {each.title}" for each in LESSONS} | {
        "glossary": "Words"
    }
    found: list[Page] = []
    with newcomer():
        for stem, title in titles.items():
            _say(f"Running {title}")
            found.append(Page(stem, title, visit(stem, solutions=solutions)))
        found.append(_home())
    return found


def _home() -> Page:
    asked, watched = showcase.prediction(), showcase.timeline()
    drawings = [
        Drawing("home-1-prediction", "prediction", state(asked)),
        Drawing("home-2-timeline", "timeline", state(watched)),
    ]
    card = pages.Prose(showcase.report()._repr_html_())  # pyright: ignore[reportPrivateUsage]
    return Page("index", "Serving NanoGPT", [*drawings, card])


def _write(folder: Path, found: Sequence[Page]) -> None:
    write_assets(folder, found)
    *notebooks, home = found
    lessons = {each.stem: each for each in LESSONS}
    by_lesson = [(lessons[page.stem], page) for page in notebooks if page.stem in lessons]
    (folder / "steppers").mkdir()
    files = {f"{page.stem}.html": pages.lesson_page(page) for page in notebooks}
    files |= {
        f"steppers/{drawing.id}.html": pages.stepper_page(lesson, page, drawing)
        for lesson, page in by_lesson
        for drawing in page.steppers
    }
    files["steppers.html"] = pages.steppers_page([(one, page.steppers) for one, page in by_lesson])
    files["index.html"] = pages.home_page(home, showcase.FORGETFUL, REPLAY.read_text("utf-8"))
    for name, html in files.items():
        (folder / name).write_text(html, encoding="utf-8")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
