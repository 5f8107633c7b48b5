"""The site's pages, made of blocks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from course.lesson_map import LESSONS, Lesson
from course.publish.html_reading import HtmlReader, Section
from course.publish.notebook_blocks import Block, Drawing, Exercise, Prose
from course.publish.page_templates import render
from course.tab.site_part import with_editors

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_IN_COURSE = re.compile(r'href="/\?file=(\w+)\.py[^"]*"')
_CORNER = re.compile(r"<th[^>]*></th>")


@dataclass(slots=True)
class Page:
    """A notebook's page. `styles` are those of its cards, which the site has in one file."""

    stem: str
    title: str
    blocks: list[Block]
    styles: list[str] = field(default_factory=list[str])
    has_editors: bool = False

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

    def add_editors(self) -> None:
        """Let the reader write and check the exercises on the page."""
        self.has_editors = True
        if self.stem.startswith("l"):
            self.blocks = with_editors(self.blocks)

    @property
    def drawings(self) -> list[Drawing]:
        """The widgets in order."""
        return [block for block in self.blocks if isinstance(block, Drawing)]

    @property
    def editors(self) -> list[str]:
        """The ids of the exercises that can be checked on the page."""
        return [each.id for each in self.blocks if isinstance(each, Exercise) and each.stub]

    @property
    def steppers(self) -> list[Drawing]:
        """The widgets with a page of their own."""
        return [each for each in self.drawings if each.is_stepper]

    def sections(self) -> list[Section]:
        """The search index, by heading; nothing that waits for a prediction."""
        found = [Section()]
        for block in self.blocks:
            if isinstance(block, Prose) and not block.withheld:
                first, *more = HtmlReader(block.html).sections
                found[-1].text += f" {first.text}"
                found += more
        return [each for each in found if each.heading]


def _with_own_ids(html: str, taken: set[str]) -> str:
    """Rename the ids that are `taken`; each picture in the HTML has names of its own."""
    return "".join(_renamed(piece, taken) for piece in re.split(r"(?s)(<svg\b.*?</svg>)", html))


def _renamed(html: str, taken: set[str]) -> str:
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
    """A lesson, or the glossary."""
    stems = [each.stem for each in LESSONS]
    at = stems.index(page.stem) if page.stem in stems else None
    return render(
        "lesson.html",
        title=page.title,
        stem=page.stem,
        is_lesson=at is not None,
        lesson=page.stem.partition("_")[0],
        blocks=page.blocks,
        has_editors=page.has_editors,
        drawings=page.drawings,
        headings=[each for each in page.sections() if each.level == 2 and each.id],
        before=LESSONS[at - 1] if at else None,
        following=LESSONS[at + 1] if at is not None and at + 1 < len(LESSONS) else None,
    )


def stepper_page(lesson: Lesson, page: Page, drawing: Drawing) -> str:
    """One picture in the folder steppers/, below the prediction that it waits for."""
    asked = [each for each in page.drawings if each.state.get("key") == drawing.after != ""]
    drawings = [*asked, drawing]
    return render("stepper.html", root="../", lesson=lesson, drawing=drawing, drawings=drawings)


def steppers_page(by_lesson: Sequence[tuple[Lesson, Sequence[Drawing]]]) -> str:
    """The list of all pictures."""
    return render("steppers.html", title="Pictures", by_lesson=by_lesson)


def home_page(page: Page, answer: str, replay: str, lessons: Sequence[Page]) -> str:
    """The first page. `answer` is the wrong one that its card is about, `replay` an SVG."""
    asked, watched, card = page.blocks
    values: dict[str, Any] = {"asked": asked, "watched": watched, "card": card, "answer": answer}
    values["has_editors"] = page.has_editors
    values["editors"] = {each.stem: each.editors for each in lessons}
    return render(
        "home.html", title=page.title, drawings=page.drawings, replay=Markup(replay), **values
    )
