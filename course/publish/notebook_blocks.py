"""Runs a pristine notebook once and lists what its cells show, as blocks.

The site shows the notebook as a newcomer's browser would; slides show it with every exercise
answered, and with each control at its start.
"""

import contextlib
import importlib
import inspect
import os
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from marimo import Html
from markupsafe import Markup

from course.attempt import Attempt
from course.controls import Beside, is_control
from course.figure import Figure
from course.marimo_internals import MarimoConvert
from course.prediction import Withheld
from course.publish.page_templates import render
from course.registry import exercise, lesson_exercises
from course.report import Report
from course.tab.lesson_cells import cells_of
from course.task import TaskCard
from widgets import standalone
from widgets.picture import Widget

_EXHIBIT = 'data-yours="exhibit"'


@dataclass(frozen=True, slots=True)
class Prose:
    """HTML of words, tables and cards, `withheld` until a prediction is made.

    `card` is the figure, the task or the report that it shows, None for others.
    """

    html: str
    withheld: bool = False
    card: Figure | TaskCard | Report | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """The source of a cell that shows it; `label` stands above it."""

    source: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Drawing(standalone.Drawing):
    """A widget. `id` names it in the whole site: "l01-3-timeline" is the third of lesson 1."""

    id: str

    @property
    def title(self) -> str:
        """Its title or question, else its kind."""
        said = self.state.get("title") or self.state.get("question")
        return str(said or self.kind.replace("_", " ").capitalize())

    @property
    def after(self) -> str:
        """The key of the prediction that it waits for, or ""."""
        return str(self.state.get("after", ""))

    @property
    def is_stepper(self) -> bool:
        """Whether it is a picture, with a page of its own."""
        return self.kind not in ("prediction", "hints")


@dataclass(frozen=True, slots=True)
class Exercise:
    """An answer that the notebook checks; `worked` is the source of a right one, or "".

    Where the page has an editor for it, `stub` is the text to begin with; `needs_tensors` says why
    there is none.
    """

    id: str
    worked: str = ""
    stub: str = ""
    needs_tensors: bool = False

    @property
    def name(self) -> str:
        """Its function's name."""
        return self.id.rpartition(".")[2]


Block: TypeAlias = Prose | Code | Drawing | Exercise | Markup  # a frame's, around what replays


def site_blocks(stem: str, *, solutions: bool) -> list[Block]:
    """The blocks of the untouched notebook; with `solutions`, of each exercise a worked answer.

    Raises: what a cell raises; ValueError for an output that a page without a kernel cannot show.
    """
    lesson = importlib.import_module(f"lessons.{stem}")
    outputs, _ = lesson.app.run()
    _setup, *cells = MarimoConvert.from_py(inspect.getsource(lesson)).to_ir().cells
    reader = Reader(stem, solutions=solutions)
    data = cells_of(inspect.getsource(lesson))["cells"]
    for place, (cell, output) in enumerate(zip(cells, outputs, strict=True)):
        if not cell.options.get("hide_code"):
            reader.code(cell.code)
        framed = place in data and data[place]["framed"]
        reader.blocks += [Markup(f'<div data-cell="{place}">')] * framed
        reader.output(output)
        reader.blocks += [Markup("</div>")] * framed
    return reader.blocks


def slide_blocks(stem: str, outputs: Iterable[Any] | None = None) -> list[Block]:
    """The blocks of the solved notebook, or of what its cells showed when it was run before."""
    shown = outputs
    if shown is None:
        answers = {item.name: item.right[0] for item in lesson_exercises(stem)}
        shown, _ = importlib.import_module(f"lessons.{stem}").app.run(defs=answers)
    reader = Reader(stem, at_start=True)
    for output in shown:
        reader.output(output)
    return reader.blocks


@contextlib.contextmanager
def pristine_workspace() -> Generator[None]:
    """An empty work folder, so that no learner's progress is read or written."""
    before, folder = dict(os.environ), os.getcwd()
    with tempfile.TemporaryDirectory() as empty:
        os.environ |= {"SERVING_NANOGPT_WORK": empty, "OMP_NUM_THREADS": "1"}
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)


class Reader:
    """Turns what cells show into blocks. Mutable: the blocks so far.

    With `at_start`, controls show their start only, and nothing waits for a prediction.
    """

    def __init__(self, stem: str, *, solutions: bool = False, at_start: bool = False) -> None:
        self.blocks: list[Block] = []
        self._prefix = stem.partition("_")[0]
        self._solutions = solutions
        self._at_start = at_start
        self._label = ""
        self._num_drawn = self._num_choices = 0

    def code(self, source: str) -> None:
        """Add a cell's source; one below a task or an exhibit's heading is labelled."""
        self.blocks.append(Code(source.strip(), self._label))
        self._label = ""

    def output(self, value: Any) -> None:
        """Add what a cell shows."""
        self.blocks += self._blocks(value)
        if isinstance(value, TaskCard):
            self._label = "Your code goes here"
        elif self.blocks and isinstance(last := self.blocks[-1], Prose) and _EXHIBIT in last.html:
            self._label = "The exhibit"

    def _blocks(self, value: Any) -> Iterator[Block]:
        if isinstance(value, Beside):
            value = value.content if self._at_start else self._choice(value)
        if self._at_start and isinstance(value, Withheld):
            value = value.content
        if value is None or is_control(value):
            return
        if isinstance(value, Widget):
            drawn = standalone.drawing(value)
            self._num_drawn += 1
            name = f"{self._prefix}-{self._num_drawn}-{drawn.kind}"
            yield Drawing(drawn.kind, drawn.module, drawn.style, drawn.state, name)
        elif isinstance(value, Attempt):
            name = value.report.exercise
            worked = inspect.getsource(exercise(name).right[0]) if self._solutions else ""
            yield Exercise(name, worked.strip())
        else:
            card = value if isinstance(value, Figure | TaskCard | Report) else None
            yield Prose(_html(value), isinstance(value, Withheld), card)

    def _choice(self, shown: Beside) -> Html | Withheld:
        """Radio buttons and the drawings of all values, of which CSS shows the chosen one.

        All are withheld where one is.
        """
        self._num_choices += 1
        label, values = shown.control.declared
        drawings = [shown.draw(value) for value in values]
        html = Html(
            render(
                "choice.html",
                name=f"{self._prefix}-choice-{self._num_choices}",
                label=label,
                values=values,
                start=values.index(shown.control.value),
                drawings=[_html(each) for each in drawings],
            )
        )
        keys = [each.key for each in drawings if isinstance(each, Withheld)]
        return Withheld(keys[0], html) if keys else html


def _html(value: Any) -> str:
    """The HTML of a card, a figure or Markdown. Raises: ValueError where it needs a kernel."""
    html = str(value.text if isinstance(value, Html) else value._repr_html_())
    if found := re.search(r"<(marimo-[\w-]+)", html):
        raise ValueError(f"a page without a kernel cannot show a {found[1]}")
    return html
