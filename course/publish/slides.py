"""A lesson's blocks cut into slides: one idea, one picture, one question or one task on each.

A learner's own things are left out: checks, hints, and runs beside the reference.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from course.figure import Figure
from course.publish.notebook_blocks import Block, Drawing, Prose
from course.publish.slide_prose import Element, elements, inside, split, text_of
from course.report import Report
from course.task import TaskCard
from nanogpt.figures.drawing import set_title
from widgets.comparing import REFERENCE, YOURS

BUDGET = 10  # lines of text that are one idea
MOST = 14  # what fits under a heading
ROOMY = 7  # what may be set larger
DENSE = 1_300  # characters of a task
_COMPARED = [YOURS, REFERENCE]


@dataclass(frozen=True, slots=True)
class Question:
    """The question to the room: options, or without them a number.

    `right` is the index of the right option; `answer` says what is right, or "".
    """

    options: tuple[str, ...]
    right: int | None
    answer: str


@dataclass(frozen=True, slots=True)
class Slide:
    """One slide, of kind title, prose, picture, figure, question, answer, task or verdict.

    `section` is the lesson's heading above it, `heading` its own, `key` what its note is filed
    under, or "". `html` is the rest, which is set larger where it is `roomy`.
    """

    kind: str
    section: str
    heading: str
    key: str = ""
    html: str = ""
    drawing: Drawing | None = None
    question: Question | None = None
    roomy: bool = False

    @property
    def dense(self) -> bool:
        """Whether it is a task of so many words that its example stands beside its rules."""
        return self.kind == "task" and len(text_of(self.html)) > DENSE

    @property
    def asks(self) -> bool:
        """Whether the room is to say something."""
        return self.kind in ("question", "picture", "figure", "task")


@dataclass(slots=True)
class _Cut:
    """The slides so far, and the elements of the slide being made."""

    slides: list[Slide] = field(default_factory=list[Slide])
    section: str = ""
    heading: str = ""
    key: str = ""
    pending: list[Element] = field(default_factory=list[Element])

    def add(self, slide: Slide) -> None:
        """End the slide in the making, and add this one after it."""
        self.flush()
        self.slides.append(replace(slide, section=self.section or self.heading))

    def flush(self) -> None:
        """End the slide in the making, if it holds anything."""
        if self.pending:
            kind = "prose" if self.slides else "title"
            html = "\n".join(each.html for each in self.pending)
            roomy = sum(each.lines for each in self.pending) <= ROOMY
            slide = Slide(kind, self.section, self.heading, self.key, html, roomy=roomy)
            self.slides.append(slide)
            self.key = ""
            self.pending = []

    def take(self, element: Element) -> None:
        """Put an element on the slide in the making, or on a new one where that is full."""
        if element.tag in ("h1", "h2", "h3"):
            self.flush()
            self.heading = inside(element.html)
            self.key = text_of(self.heading)
            self.section = self.section if element.tag == "h3" else self.heading
            return
        for piece in split(element, MOST):
            used = sum(each.lines for each in self.pending)
            room = MOST if self.pending and self.pending[-1].leads_on else BUDGET
            if self.pending and used + piece.lines > room:
                last = self.pending[-1:] if len(self.pending) > 1 else []
                led = [each for each in last if each.leads_on]
                del self.pending[len(self.pending) - len(led) :]
                self.flush()
                self.pending = led
            self.pending.append(piece)


def slides(blocks: Iterable[Block]) -> tuple[Slide, ...]:
    """The slides of a lesson's blocks (`course.publish.notebook_blocks.slide_blocks`)."""
    cut = _Cut()
    for block in blocks:
        if isinstance(block, Drawing):
            for slide in _drawn(block):
                cut.add(slide)
        elif isinstance(block, Prose) and block.card is not None:
            cut.add(_card(block.card, _without_sections(block.html)))
        elif isinstance(block, Prose):
            for element in elements(_without_sections(block.html)):
                cut.take(element)
    cut.flush()
    return tuple(cut.slides)


def _without_sections(html: str) -> str:
    """Turn <section> into <div>: reveal.js would take each for a slide."""
    return re.sub(r"(</?)section\b", r"\1div", html)


def _drawn(block: Drawing) -> list[Slide]:
    if block.kind == "prediction":
        return _asked(block.state)
    return [_picture(block)] if block.is_stepper else []


def _asked(state: dict[str, Any]) -> list[Slide]:
    """A show of hands, and after its reveal the slide that says why."""
    options, right, answer = tuple(state["options"]), None, ""
    if state["answer"] is not None and options:
        right = int(state["answer"])
        answer = options[right]
    elif state["answer"] is not None:
        answer = f"{state['answer']:,g}"
    question = Question(options, right, answer)
    asked = Slide("question", "", state["question"], state["key"], question=question)
    if not state["reveal"]:
        return [asked]
    return [asked, Slide("answer", "", answer or "What it is", html=state["reveal"])]


def _picture(drawn: Drawing) -> Slide:
    """A picture below its question or title, alone and waiting for nothing."""
    kept: dict[str, Any] = drawn.state | {"question": "", "after": ""}
    title = kept.get("title", "")
    heading = drawn.state["question"] or title
    if kept.get("names", _COMPARED) == _COMPARED:  # the reference stands in the learner's place
        alone: dict[str, Any] = {"names": [], "reference": None, "other": None}
        kept |= {name: value for name, value in alone.items() if name in kept}
        if any("compare" in step for step in kept.get("steps", ())):
            kept["steps"] = [step | {"compare": None} for step in kept["steps"]]
        if "differ" in heading:  # it does not differ from itself
            heading, kept = title, kept | {"title": ""}
    return Slide("picture", "", heading, title, drawing=replace(drawn, state=kept))


def _card(card: Figure | TaskCard | Report, html: str) -> Slide:
    """A check's report, a task, or a measured curve below its question."""
    if isinstance(card, Report):
        return Slide("verdict", "", "What its check says", html=html)
    if isinstance(card, TaskCard):
        item = card.exercise
        return Slide("task", "", f"Exercise {card.number} · {item.title}", item.id, html)
    if isinstance(card.drawing, str):
        return Slide("figure", "", card.question, html=html)
    title, *source = card.drawing.get_suptitle().replace(YOURS, REFERENCE).split("\n")
    set_title(card.drawing, title, *source)
    drawn = Figure(card.drawing)
    return Slide("figure", "", card.question or title, title, drawn._repr_html_())  # pyright: ignore[reportPrivateUsage]
