"""A lesson's outputs cut into slides: one idea, one picture, one question or one task on each.

What a learner has of their own stays out: cards of checks, hints, and runs beside the reference.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from course.attempt import Attempt
from course.controls import Beside, is_control
from course.demo.blocks import Block, blocks, inside, split, text_of
from course.figure import Figure
from course.prediction import Withheld
from course.report import Report
from course.task import TaskCard
from widgets import Hints, Prediction
from widgets.comparing import REFERENCE, YOURS
from widgets.picture import Picture
from widgets.standalone import Drawing, drawing

BUDGET = 10  # lines of text that are one idea
MOST = 14  # what fits under a heading
ROOMY = 7  # what may be set larger
DENSE = 1_300  # characters of a task
_COMPARED = [YOURS, REFERENCE]


@dataclass(frozen=True, slots=True)
class Question:
    """What the room is asked: options without an answer are a number to call out.

    `right` is the index of the right option; `answer` says what is right, "" where nothing is.
    """

    options: tuple[str, ...]
    right: int | None
    answer: str


@dataclass(frozen=True, slots=True)
class Slide:
    """One slide. `key` is what the speaker's note for it is filed under, or "".

    `kind` is "title", "prose", "picture", "figure", "question", "answer", "task" or "verdict";
    `section` is
    the lesson's heading that it stands under, `heading` its own, `html` the rest, which may be
    set larger where it is `roomy`.
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
    """The slides so far, the headings that hold, and the blocks of the slide in the making."""

    slides: list[Slide] = field(default_factory=list[Slide])
    section: str = ""
    heading: str = ""
    key: str = ""
    pending: list[Block] = field(default_factory=list[Block])

    def add(self, slide: Slide) -> None:
        """End the slide in the making, and add this one after it."""
        self.flush()
        self.slides.append(replace(slide, section=self.section or self.heading))

    def flush(self) -> None:
        """End the slide in the making, if it holds anything."""
        if self.pending:
            kind = "prose" if self.slides else "title"
            html = "\n".join(block.html for block in self.pending)
            roomy = sum(block.lines for block in self.pending) <= ROOMY
            slide = Slide(kind, self.section, self.heading, self.key, html, roomy=roomy)
            self.slides.append(slide)
            self.key = ""
            self.pending = []

    def take(self, block: Block) -> None:
        """Put a block on the slide in the making, or on a new one where that is full."""
        if block.tag in ("h1", "h2", "h3"):
            self.flush()
            self.heading = inside(block.html)
            self.key = text_of(self.heading)
            self.section = self.section if block.tag == "h3" else self.heading
            return
        for piece in split(block, MOST):
            used = sum(each.lines for each in self.pending)
            room = MOST if self.pending and self.pending[-1].leads_on else BUDGET
            if self.pending and used + piece.lines > room:
                led = (
                    [self.pending.pop()]
                    if len(self.pending) > 1 and self.pending[-1].leads_on
                    else []
                )
                self.flush()
                self.pending = led
            self.pending.append(piece)


def slides(outputs: Iterable[Any]) -> tuple[Slide, ...]:
    """The slides of a lesson, of what its cells show (`course.demo.collecting.collect`)."""
    cut = _Cut()
    for output in outputs:
        shown = output.content if isinstance(output, Beside) else output
        shown = shown.content if isinstance(shown, Withheld) else shown
        if isinstance(shown, Prediction):
            for slide in _asked(shown):
                cut.add(slide)
        elif isinstance(shown, Picture):
            cut.add(_picture(shown))
        elif isinstance(shown, Figure):
            cut.add(_figure(shown))
        elif isinstance(shown, TaskCard):
            cut.add(_task(shown))
        elif isinstance(shown, Report):
            cut.add(Slide("verdict", "", "What its check says", html=_html(shown)))
        elif not (isinstance(shown, Attempt | Hints | None) or is_control(shown)):
            for block in blocks(_html(shown)):
                cut.take(block)
    cut.flush()
    return tuple(cut.slides)


def _html(shown: Any) -> str:
    """What a cell shows, without sections: reveal.js would take each for a slide."""
    return re.sub(r"(</?)section\b", r"\1div", shown._repr_html_())


def _asked(shown: Prediction) -> list[Slide]:
    """A show of hands, and after its reveal the slide that says why."""
    right = None if shown.answer is None or not shown.options else int(shown.answer)
    answer = ""
    if right is not None:
        answer = shown.options[right]
    elif shown.answer is not None:
        answer = f"{shown.answer:,g}"
    question = Question(tuple(shown.options), right, answer)
    asked = Slide("question", "", shown.question, shown.key, question=question)
    if not shown.reveal:
        return [asked]
    return [asked, Slide("answer", "", answer or "What it is", html=shown.reveal)]


def _picture(shown: Picture) -> Slide:
    """The picture's question is the slide's heading. It waits for nothing: its turn has come."""
    drawn = drawing(shown)
    kept = drawn.state | {"question": "", "after": ""}
    title = kept.get("title", "")
    heading = shown.question or title
    if kept.get("names", _COMPARED) == _COMPARED:
        kept = _alone(kept)
        if "differ" in heading:  # from itself it does not
            heading, kept = title, kept | {"title": ""}
    return Slide("picture", "", heading, title, drawing=replace(drawn, state=kept))


def _alone(state: dict[str, Any]) -> dict[str, Any]:
    """A picture of the reference in the learner's place, without the reference beside it."""
    alone: dict[str, Any] = {"names": [], "reference": None, "other": None}
    kept = state | {name: value for name, value in alone.items() if name in state}
    if any("compare" in step for step in state.get("steps", ())):
        kept["steps"] = [step | {"compare": None} for step in state["steps"]]
    return kept


def _figure(shown: Figure) -> Slide:
    """A measured curve, drawn with the reference; its question is the slide's heading."""
    chart = shown.chart
    if isinstance(chart, str):
        return Slide("figure", "", shown.question, html=_html(shown))
    title, source = (said.replace(YOURS, REFERENCE) for said in (chart.title, chart.source))
    drawn = Figure(replace(chart, title=title, source=source))
    return Slide("figure", "", shown.question or title, title, _html(drawn))


def _task(shown: TaskCard) -> Slide:
    item = shown.exercise
    heading = f"Exercise {shown.number} · {item.title}"
    return Slide("task", "", heading, item.id, _html(shown))
