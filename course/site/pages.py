"""Makes pages of blocks, through the templates beside this module."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from course.lesson_map import LESSONS, Lesson, entries
from course.site.blocks import Block, Code, Drawing, Prose
from course.site.reading import Section, read

DESCRIPTION = (
    "Build the inside of an LLM serving engine, one idea per lesson, on a nanoGPT small enough for "
    "a laptop's CPU, and watch it run."
)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_IN_COURSE = re.compile(r'href="/\?file=(\w+)\.py[^"]*"')
_CORNER = re.compile(r"<th[^>]*></th>")


@dataclass(slots=True)
class Page:
    """A notebook's page; `styles` are what its cards brought along, for the site's one file."""

    stem: str
    title: str
    blocks: list[Block]
    styles: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Take styles and the notebook server's addresses out of the HTML; no id comes twice."""
        taken: set[str] = set()
        for at, block in enumerate(self.blocks):
            if isinstance(block, Prose):  # a corner of a table is no heading
                self.styles += _STYLE.findall(block.html)
                html = _IN_COURSE.sub(r'href="\1.html"', _STYLE.sub("", block.html))
                html = _CORNER.sub("<td></td>", html)
                html = html.replace('href="index.html"', 'href="index.html#lessons"')
                self.blocks[at] = Prose(_with_own_ids(html, taken), block.withheld)

    @property
    def drawings(self) -> list[Drawing]:
        """The widgets in order."""
        return [block for block in self.blocks if isinstance(block, Drawing)]

    @property
    def steppers(self) -> list[Drawing]:
        """Those with a page of their own."""
        return [each for each in self.drawings if each.is_stepper]

    def sections(self) -> list[Section]:
        """What may be searched, by heading: nothing that a prediction is to be made before."""
        found = [Section()]
        for block in self.blocks:
            if isinstance(block, Prose) and not block.withheld:
                first, *more = read(block.html).sections
                found[-1].text += f" {first.text}"
                found += more
        return [each for each in found if each.heading]

    def with_question(self, drawing: Drawing) -> list[Drawing]:
        """A picture, after the prediction that it waits for."""
        asked = [
            each
            for each in self.drawings
            if drawing.after and each.state.get("key") == drawing.after
        ]
        return [*asked, drawing]


def _with_own_ids(html: str, taken: set[str]) -> str:
    """`html` in which no id is taken already. Each picture in it has names of its own."""
    return "".join(_renamed(piece, taken) for piece in re.split(r"(?s)(<svg\b.*?</svg>)", html))


def _renamed(html: str, taken: set[str]) -> str:
    """New names for the ids that are taken, and for what refers to them."""
    for name in dict.fromkeys(re.findall(r'\bid="([^"]+)"', html)):
        own, number = name, 2
        while own in taken:
            own, number = f"{name}-{number}", number + 1
        taken.add(own)
        if own != name:
            place = rf'(\bid="|"#|\(#){re.escape(name)}(?=["\)])'
            html = re.sub(place, rf"\g<1>{own}", html)
    return html


def lesson_page(page: Page) -> str:
    """A lesson, or the list of words, as HTML."""
    stems = [each.stem for each in LESSONS]
    at = stems.index(page.stem) if page.stem in stems else None
    return render(
        "lesson.html",
        title=page.title,
        stem=page.stem,
        is_lesson=at is not None,
        lesson=page.stem.partition("_")[0],
        blocks=page.blocks,
        drawings=page.drawings,
        headings=[each for each in page.sections() if each.level == 2 and each.id],
        before=LESSONS[at - 1] if at else None,
        following=LESSONS[at + 1] if at is not None and at + 1 < len(LESSONS) else None,
    )


def stepper_page(lesson: Lesson, page: Page, drawing: Drawing) -> str:
    """One picture alone, in the folder steppers/."""
    drawings = page.with_question(drawing)
    title = drawing.title
    return render(
        "stepper.html", root="../", title=title, lesson=lesson, drawing=drawing, drawings=drawings
    )


def steppers_page(by_lesson: Sequence[tuple[Lesson, Sequence[Drawing]]]) -> str:
    """The list of all pictures."""
    return render("steppers.html", title="Pictures", by_lesson=by_lesson)


def home_page(page: Page, answer: str, replay: str) -> str:
    """The first page: `answer` is the wrong one that its card is about, `replay` the SVG."""
    asked, watched, card = page.blocks
    return render(
        "home.html",
        title=page.title,
        drawings=page.drawings,
        asked=asked,
        watched=watched,
        card=card,
        answer=answer,
        replay=Markup(replay),
        minutes=sum(each.minutes for each in LESSONS),
        exercises=sum(len(entries(each)) for each in LESSONS),
    )


def render(template: str, **values: Any) -> str:
    """A page; what every page shows need not be given."""
    shared = {"root": "", "description": DESCRIPTION, "drawings": [], "lessons": LESSONS}
    return _templates().get_template(template).render(shared | values)


def highlighted(source: str) -> Markup:
    """Python as HTML with pygments' classes, as marimo's Markdown has them."""
    return Markup(highlight(source, PythonLexer(), HtmlFormatter(cssclass="codehilite")))


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["highlighted"] = highlighted
    for kind in (Prose, Code, Drawing):
        found.tests[kind.__name__.lower()] = partial(_is, kind)
    return found


def _is(kind: type[Any], value: Any) -> bool:
    return isinstance(value, kind)
